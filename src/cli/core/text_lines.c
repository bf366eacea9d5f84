#include "cli/core/text_lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_BYTES ((size_t)1 << 16)

static bool reserve(struct ommai_text_lines *lines, size_t size) {
  if (size <= lines->capacity) return true;
  size_t capacity = size < 2 * lines->capacity ? 2 * lines->capacity : size;
  char *line = realloc(lines->line, capacity);
  if (!line) return false;
  lines->line = line;
  lines->capacity = capacity;
  return true;
}

/* Moves what the block has of the line into it, and past its end. */
static bool take_block(struct ommai_text_lines *lines) {
  const char *from = lines->block + lines->block_at;
  size_t left = lines->block_size - lines->block_at;
  const char *line_end = memchr(from, '\n', left);
  size_t size = line_end ? (size_t)(line_end - from) : left, room = lines->limit - lines->size;
  size_t taken = size < room ? size : room;
  if (!reserve(lines, lines->size + taken + 1)) return false;
  memcpy(lines->line + lines->size, from, taken);
  lines->size += taken;
  lines->line[lines->size] = '\0';
  lines->cut |= size > taken;
  lines->complete = line_end != NULL;
  lines->block_at += size + lines->complete;
  lines->end += (int64_t)(size + lines->complete);
  return true;
}

static enum ommai_text_line fill_block(struct ommai_text_lines *lines) {
  struct pollfd poller = {.fd = lines->file, .events = POLLIN};
  if (!lines->block) lines->block = malloc(BLOCK_BYTES);
  if (!lines->block) return OMMAI_TEXT_LINE_FAILED;
  int ready = poll(&poller, 1, 0);
  if (ready < 0 && errno != EINTR) return OMMAI_TEXT_LINE_FAILED;
  if (ready <= 0) return OMMAI_TEXT_LINE_LATER;
  ssize_t got = read(lines->file, lines->block, BLOCK_BYTES);
  if (got < 0) return errno == EINTR || errno == EAGAIN ? OMMAI_TEXT_LINE_LATER : OMMAI_TEXT_LINE_FAILED;
  lines->block_at = 0;
  lines->block_size = (size_t)got;
  return got ? OMMAI_TEXT_LINE_READ : OMMAI_TEXT_LINE_END;
}

enum ommai_text_line ommai_text_lines_next(struct ommai_text_lines *lines) {
  if (!lines->begun) {
    lines->size = 0;
    lines->cut = lines->complete = false;
  }
  while (!lines->complete) {
    bool empty = lines->block_at == lines->block_size;
    enum ommai_text_line filled = empty ? fill_block(lines) : OMMAI_TEXT_LINE_READ;
    if (filled == OMMAI_TEXT_LINE_END && lines->begun) break; /* a last line without an end */
    if (filled != OMMAI_TEXT_LINE_READ) return filled;
    lines->begun = true;
    if (!take_block(lines)) return OMMAI_TEXT_LINE_FAILED;
  }
  lines->begun = false;
  lines->number++;
  return OMMAI_TEXT_LINE_READ;
}

void ommai_text_lines_release(struct ommai_text_lines *lines) {
  free(lines->line);
  free(lines->block);
  lines->line = lines->block = NULL;
  lines->capacity = lines->size = lines->block_at = lines->block_size = 0;
}

bool ommai_text_is_blank(const char *text, size_t size) {
  size_t i = 0;
  while (i < size && text[i] && strchr(" \t\r\n", text[i])) i++;
  return i == size;
}
