/* Numbers in sentences. */
#pragma once

#include <stdint.h>

/* What makes a noun with `count` before it a plural or not: "s" or nothing, for "%d thread%s". */
static inline const char *ommai_plural(int64_t count) { return count == 1 ? "" : "s"; }
