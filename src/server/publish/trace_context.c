#include "server/publish/trace_context.h"

#include <string.h>

#include "base/text_buffer.h"

/* Places in 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01. */
enum { TRACE_ID = 3, PARENT_ID = 36, FLAGS = 53, END = 55 };

static bool read_bytes(const char *text, uint8_t *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t byte;
    if (!ommai_hex_read(text + 2 * i, 2, &byte)) return false;
    bytes[i] = (uint8_t)byte;
  }
  return strspn(text, "0123456789abcdef") >= 2 * n;
}

static bool is_zero(const uint8_t *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (bytes[i]) return false;
  }
  return true;
}

bool ommai_trace_context_parse(const char *text, struct ommai_trace_context *context) {
  uint8_t version, flags;
  size_t length = strnlen(text, END + 1);
  if (length < END || text[TRACE_ID - 1] != '-' || text[PARENT_ID - 1] != '-' || text[FLAGS - 1] != '-') return false;
  if (!read_bytes(text, &version, 1) || !read_bytes(text + FLAGS, &flags, 1)) return false;
  if (!read_bytes(text + TRACE_ID, context->trace_id, OMMAI_TRACE_ID_BYTES)) return false;
  if (!read_bytes(text + PARENT_ID, context->parent_id, OMMAI_SPAN_ID_BYTES)) return false;
  if (version == 0xff || is_zero(context->trace_id, OMMAI_TRACE_ID_BYTES)) return false;
  if (is_zero(context->parent_id, OMMAI_SPAN_ID_BYTES)) return false;
  /* what later versions add begins with a dash */
  if (length > END && (version == 0 || text[END] != '-')) return false;
  context->sampled = flags & 1;
  return true;
}
