#include "image/image_pages.h"

#include "image/tiff_number.h"

enum { ENTRY = OMMAI_TIFF_ENTRY_BYTES, TAG_SUBFILE_TYPE = 254, PREVIEW = 1, MASK = 4 };

struct file {
  const uint8_t *bytes;
  size_t size;
  bool little;
};

static uint32_t read_number(const struct file *file, size_t at, int n_bytes) {
  return ommai_tiff_number(file->bytes + at, n_bytes, file->little);
}

static bool open_file(const uint8_t *bytes, size_t size, struct file *file) {
  *file = (struct file){bytes, size, size && bytes[0] == 'I'};
  return ommai_tiff_begins(bytes, size);
}

/* A directory with all its entries and the address of the next one. */
struct directory {
  size_t at, next; /* 0: there is none */
  bool is_page;
};

/* The directory at an address; false where it is not within the file. */
static bool read_directory(const struct file *file, size_t at, struct directory *directory) {
  if (at < OMMAI_TIFF_HEADER_BYTES || at > file->size - 2) return false;
  size_t n = read_number(file, at, 2), entries = at + 2;
  if ((file->size - entries) / ENTRY < n || file->size - entries - n * ENTRY < 4) return false;
  *directory = (struct directory){.at = at, .next = read_number(file, entries + n * ENTRY, 4), .is_page = true};
  for (size_t entry = entries; entry < entries + n * ENTRY; entry += ENTRY) {
    if (read_number(file, entry, 2) == TAG_SUBFILE_TYPE)
      directory->is_page = !(read_number(file, entry + 8, 4) & (PREVIEW | MASK));
  }
  return true;
}

/* The address of a page's directory, and how many pages come up to it or the end. The first
 * directory counts in any case. *n is 1 where directories go round: one is met again that the walk
 * has kept, the last whose number was a power of two (Brent's algorithm). */
static size_t walk(const struct file *file, int64_t page, int64_t *n) {
  struct directory directory;
  size_t at = read_number(file, 4, 4), kept = 0;
  *n = 0;
  for (int64_t i = 1; at != kept && read_directory(file, at, &directory); i++) {
    *n += i == 1 || directory.is_page;
    if (*n == page) return at;
    if ((i & (i - 1)) == 0) kept = at;
    at = directory.next;
  }
  if (*n == 0 || (at && at == kept)) *n = 1;
  return 0;
}

int64_t ommai_tiff_count_pages(const uint8_t *bytes, size_t size) {
  struct file file;
  int64_t n = 1;
  if (open_file(bytes, size, &file)) walk(&file, INT64_MAX, &n);
  return n;
}

void ommai_tiff_begin_at_page(uint8_t *bytes, size_t size, int64_t page) {
  struct file file;
  int64_t n;
  size_t at = page > 1 && open_file(bytes, size, &file) ? walk(&file, page, &n) : 0;
  for (size_t i = 0; at && i < 4; i++) bytes[4 + i] = (uint8_t)(at >> 8 * (file.little ? i : 3 - i));
}
