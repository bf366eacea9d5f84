#include "bench_client/event_stream.h"

#include <string.h>

#include "base/error.h"
#include "base/growing.h"

void ommai_event_stream_init(struct ommai_event_stream *stream, const struct omma_allocator *allocator) {
  *stream = (struct ommai_event_stream){.allocator = allocator};
}

void ommai_event_stream_release(struct ommai_event_stream *stream) {
  ommai_release(stream->allocator, stream->line, stream->line_capacity, 1);
  ommai_release(stream->allocator, stream->data, stream->data_capacity, 1);
  ommai_event_stream_init(stream, stream->allocator);
}

/* Appends bytes and keeps room for a NUL after them. */
static enum omma_status append(const struct ommai_event_stream *stream, char **text, size_t *text_size, size_t *capacity,
                               const char *bytes, size_t size) {
  if (*text_size + size > OMMAI_EVENT_MAX_BYTES) return OMMA_ERROR_LIMIT;
  if (!ommai_grow((void **)text, capacity, *text_size, size + 1, 1, stream->allocator)) return OMMA_ERROR_MEMORY;
  memcpy(*text + *text_size, bytes, size);
  *text_size += size;
  return OMMA_OK;
}

static enum omma_status dispatch(struct ommai_event_stream *stream, ommai_event_fn on_event, void *context) {
  size_t size = stream->data_size;
  stream->data_size = 0;
  stream->has_data = false;
  if (size == 0) return OMMA_OK;
  stream->data[size] = '\0';
  return on_event(context, stream->data, size);
}

/* One line without its end. Fields other than data (event, id, retry) and comments hold nothing
 * that is wanted here. */
static enum omma_status take_line(struct ommai_event_stream *stream, const char *line, size_t size, ommai_event_fn on_event,
                                  void *context) {
  static const char name[] = "data";
  const size_t name_size = sizeof name - 1;
  if (size == 0) return dispatch(stream, on_event, context);
  if (size < name_size || memcmp(line, name, name_size) != 0 || (size > name_size && line[name_size] != ':')) return OMMA_OK;
  size_t start = size > name_size ? name_size + 1 : size;
  if (start < size && line[start] == ' ') start++;
  if (stream->has_data) {
    OMMAI_TRY(append(stream, &stream->data, &stream->data_size, &stream->data_capacity, "\n", 1));
  }
  stream->has_data = true;
  return append(stream, &stream->data, &stream->data_size, &stream->data_capacity, line + start, size - start);
}

/* The number of bytes before the first line end. */
static size_t find_line_end(const char *bytes, size_t size) {
  const char *feed = memchr(bytes, '\n', size);
  size_t length = feed ? (size_t)(feed - bytes) : size;
  const char *carriage = memchr(bytes, '\r', length);
  return carriage ? (size_t)(carriage - bytes) : length;
}

enum omma_status ommai_event_stream_feed(struct ommai_event_stream *stream, const char *bytes, size_t size,
                                         ommai_event_fn on_event, void *context) {
  for (size_t at = 0; at < size;) {
    if (stream->after_return && bytes[at] == '\n') at++;
    stream->after_return = false;
    size_t length = find_line_end(bytes + at, size - at);
    bool complete = at + length < size;
    const char *line = bytes + at;
    size_t line_size = length;
    if (!complete || stream->line_size) {
      OMMAI_TRY(append(stream, &stream->line, &stream->line_size, &stream->line_capacity, line, length));
      line = stream->line;
      line_size = stream->line_size;
    }
    at += length;
    if (!complete) break;
    stream->after_return = bytes[at++] == '\r';
    stream->line_size = 0;
    OMMAI_TRY(take_line(stream, line, line_size, on_event, context));
  }
  return OMMA_OK;
}

enum omma_status ommai_event_stream_end(struct ommai_event_stream *stream, ommai_event_fn on_event, void *context) {
  size_t size = stream->line_size;
  stream->line_size = 0;
  if (size) OMMAI_TRY(take_line(stream, stream->line, size, on_event, context));
  return dispatch(stream, on_event, context);
}
