/* Memory between two pages that cannot be touched, for tests: what reads or writes outside of it
 * ends the program. */
#pragma once

#include <omma/host.h>

#include "support/test.h"

struct guarded {
  unsigned char *data;
  size_t size;
  unsigned char *map; /* page without access, room, page without access */
  size_t map_size;
};

/* `size` bytes that end at the page after, or else begin at the page before; all filled with ones:
 * NaN in every float type. */
struct guarded guarded_new(size_t size, bool at_end);

/* Pages of which no byte can be read or written; data is aligned to a page. */
struct guarded guarded_untouchable(size_t size);

/* Fails the test where the room next to the bytes is not full of ones any more. */
void guarded_check(const struct guarded *memory, const char *name);

void guarded_free(struct guarded *memory);

/* Gives each allocation pages of its own, filled with ones: it ends at the page after, but for what
 * makes its size a multiple of 64, or else begins at the page before. Releasing one fails the test
 * where the room next to it was written. */
struct omma_allocator guarded_allocator(bool at_end);
