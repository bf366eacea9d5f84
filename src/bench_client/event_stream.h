/* Server-sent events: bytes as they come from the network to the data of one event after the other.
 * Lines may end in LF, CR LF or CR, and a piece of input may end anywhere, also inside a character
 * or a line end. Source: the WHATWG HTML standard, section "Interpreting an event stream". */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>

/* An event's data and the bytes of its unfinished line may be this long. */
#define OMMAI_EVENT_MAX_BYTES ((size_t)16 << 20)

/* Takes the data of one event: its `data` lines joined by line feeds, with a NUL after them; never
 * empty. Events without data and comments are not reported. What it returns other than OMMA_OK
 * ends the reading. */
typedef enum omma_status (*ommai_event_fn)(void *context, const char *data, size_t size);

struct ommai_event_stream {
  const struct omma_allocator *allocator;
  char *line, *data;
  size_t line_size, line_capacity, data_size, data_capacity;
  bool after_return; /* the last byte was CR: an LF now belongs to it */
  bool has_data;
};

void ommai_event_stream_init(struct ommai_event_stream *stream, const struct omma_allocator *allocator);
void ommai_event_stream_release(struct ommai_event_stream *stream);

/* Reads a piece and reports the events that it completes. Errors: LIMIT, MEMORY, and what
 * `on_event` returns. */
enum omma_status ommai_event_stream_feed(struct ommai_event_stream *stream, const char *bytes, size_t size,
                                         ommai_event_fn on_event, void *context);

/* The input has ended: reports an event that lacks its empty line, which some servers forget. */
enum omma_status ommai_event_stream_end(struct ommai_event_stream *stream, ommai_event_fn on_event, void *context);
