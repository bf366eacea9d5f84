/* Pages of a TIFF file: directories that follow each other (TIFF 6.0, sections 2 and 8). Previews
 * and masks, which are directories too, are no pages. Decoding gives the first page of a file; so a
 * later one is decoded from a copy whose header points to it.
 *
 * Any bytes are allowed. Thread-safe, no allocation. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Pages; 1 where the bytes are no TIFF file, or its directories go round in a circle. */
int64_t ommai_tiff_count_pages(const uint8_t *bytes, size_t size);

/* Makes the page, from 1 up to their number, the file's first. Nothing changes for page 1. */
void ommai_tiff_begin_at_page(uint8_t *bytes, size_t size, int64_t page);
