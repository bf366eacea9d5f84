#include "text/nfc.h"

#include <string.h>
#include <utf8proc.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* UAX #15, section 9: a code point decomposes into at most 4, and form C has at most 3 times as
 * many bytes. What has only one byte does not decompose, so 2 code points per byte are enough. */
enum { MAX_DECOMPOSITION = 4, MAX_GROWTH = 3, POINTS_PER_BYTE = 2 };

struct range {
  uint32_t first, last;
};

/* Code points that are in form C, begin a new combining sequence and never combine with what is
 * before them. One that is followed by another one is final as it is. The list is not complete and
 * need not be: what is not in it takes the long way. U+11A7 has to be in it: utf8proc 2.8 takes it
 * for the first trailing consonant, and loses it after a Hangul syllable. */
static const struct range settled[] = {
    {0x0000, 0x02FF}, {0x0400, 0x0482},   {0x048A, 0x052F},   {0x0620, 0x064A},   {0x11A7, 0x11A7},   {0x2010, 0x2027},
    {0x3000, 0x3029}, {0x3041, 0x3096},   {0x30A0, 0x30FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xAC00, 0xD7A3},
    {0xFF01, 0xFFEE}, {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x2A6DF},
};

static bool is_settled(uint32_t c) {
  if (c <= settled[0].last) return true;
  for (size_t i = 1; i < sizeof settled / sizeof settled[0] && c >= settled[i].first; i++) {
    if (c <= settled[i].last) return true;
  }
  return false;
}

enum kind { SETTLED, INERT, UNSETTLED };

/* Inert is a settled one with which nothing after it combines either, other than utf8proc may
 * think. */
static enum kind kind_of(uint32_t c) {
  if (is_settled(c)) return SETTLED;
  return ommai_unicode_is_inert(c) ? INERT : UNSETTLED;
}

/* Finds the next span [*first, *last) from `from` on that may change: it begins with the settled
 * character before the unsettled ones, with which they may combine. False when there is none. */
static bool next_unsettled(const char *text, size_t size, size_t from, size_t *first, size_t *last) {
  size_t at = from, before = from, length;
  while (at < size) {
    enum kind kind = kind_of(ommai_utf8_decode(text + at, &length));
    if (kind == UNSETTLED) break;
    before = kind == INERT ? at + length : at;
    at += length;
  }
  if (at == size) return false;
  *first = before;
  while (at < size && kind_of(ommai_utf8_decode(text + at, &length)) == UNSETTLED) at += length;
  *last = at;
  return true;
}

static int combining_class(int32_t c) { return utf8proc_get_property(c)->combining_class; }

/* Sorts marks by combining class, stably: a counting sort for long runs, insertion for the usual
 * two or three. */
static void sort_marks(int32_t *marks, size_t n, int32_t *scratch) {
  enum { FEW = 16 };
  if (n <= FEW) {
    for (size_t i = 1; i < n; i++) {
      int32_t mark = marks[i];
      size_t j = i;
      for (; j > 0 && combining_class(marks[j - 1]) > combining_class(mark); j--) marks[j] = marks[j - 1];
      marks[j] = mark;
    }
    return;
  }
  size_t starts[257] = {0};
  for (size_t i = 0; i < n; i++) starts[(combining_class(marks[i]) & 0xFF) + 1]++;
  for (size_t i = 1; i < 257; i++) starts[i] += starts[i - 1];
  for (size_t i = 0; i < n; i++) scratch[starts[combining_class(marks[i]) & 0xFF]++] = marks[i];
  memcpy(marks, scratch, n * sizeof *marks);
}

static void order_canonically(int32_t *points, size_t n, int32_t *scratch) {
  for (size_t at = 0; at < n;) {
    if (combining_class(points[at]) == 0) {
      at++;
      continue;
    }
    size_t end = at;
    while (end < n && combining_class(points[end]) != 0) end++;
    sort_marks(points + at, end - at, scratch);
    at = end;
  }
}

/* Form C of one span into `out`; returns its bytes, or a negative utf8proc error. points and
 * scratch hold POINTS_PER_BYTE code points per byte of the longest span. */
static utf8proc_ssize_t compose(const char *text, size_t size, int32_t *points, int32_t *scratch, char *out) {
  size_t n = 0, length;
  for (size_t at = 0; at < size; at += length) {
    int32_t c = (int32_t)ommai_utf8_decode(text + at, &length);
    utf8proc_ssize_t added =
        utf8proc_decompose_char(c, points + n, MAX_DECOMPOSITION, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, NULL);
    if (added < 0 || added > MAX_DECOMPOSITION) return added < 0 ? added : UTF8PROC_ERROR_OVERFLOW;
    n += (size_t)added;
  }
  order_canonically(points, n, scratch);
  utf8proc_ssize_t composed = utf8proc_normalize_utf32(points, (utf8proc_ssize_t)n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  if (composed < 0) return composed;
  size_t written = 0;
  for (utf8proc_ssize_t i = 0; i < composed; i++) written += ommai_utf8_encode((uint32_t)points[i], out + written);
  return (utf8proc_ssize_t)written;
}

/* The longest span that may change, in bytes; 0: the text is in form C. */
static size_t longest_unsettled(const char *text, size_t size) {
  size_t longest = 0, first, last;
  for (size_t at = 0; next_unsettled(text, size, at, &first, &last); at = last) {
    if (last - first > longest) longest = last - first;
  }
  return longest;
}

/* Writes form C of the whole text to out->memory. */
static enum omma_status rewrite(const char *text, size_t size, int32_t *points, int32_t *scratch, struct ommai_nfc_text *out,
                                struct omma_error *error) {
  size_t at = 0, first, last;
  while (next_unsettled(text, size, at, &first, &last)) {
    memcpy(out->memory + out->size, text + at, first - at);
    out->size += first - at;
    utf8proc_ssize_t n = compose(text + first, last - first, points, scratch, out->memory + out->size);
    if (n < 0) return ommai_fail(error, OMMA_ERROR_INTERNAL, "text: normalisation failed: %s", utf8proc_errmsg(n));
    out->size += (size_t)n;
    at = last;
  }
  memcpy(out->memory + out->size, text + at, size - at);
  out->size += size - at;
  return OMMA_OK;
}

enum omma_status ommai_nfc(const char *text, size_t size, const struct omma_allocator *allocator, struct ommai_nfc_text *out,
                           struct omma_error *error) {
  *out = (struct ommai_nfc_text){.text = text, .size = size};
  size_t longest = longest_unsettled(text, size);
  if (longest == 0) return OMMA_OK;
  size_t n_points, capacity;
  if (!ommai_mul_size(longest, 2 * POINTS_PER_BYTE, &n_points) || !ommai_mul_size(size, MAX_GROWTH, &capacity)) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "text: %zu bytes are too many to normalise", size);
  }
  enum omma_status status = OMMA_OK;
  *out = (struct ommai_nfc_text){.capacity = capacity, .memory = ommai_allocate(allocator, capacity, 1)};
  int32_t *points = ommai_allocate(allocator, n_points, sizeof *points);
  if (out->memory && points) {
    out->text = out->memory;
    status = rewrite(text, size, points, points + n_points / 2, out, error);
  } else {
    status = ommai_fail_memory(error, "text normalisation", capacity + n_points * sizeof *points);
  }
  ommai_release(allocator, points, n_points, sizeof *points);
  if (status != OMMA_OK) ommai_nfc_release(out, allocator);
  return status;
}

void ommai_nfc_release(struct ommai_nfc_text *text, const struct omma_allocator *allocator) {
  ommai_release(allocator, text->memory, text->capacity, 1);
  *text = (struct ommai_nfc_text){0};
}
