/* The sizes and offsets that this build of the library has for the structs of its headers, and the
 * values of their constants. For callers whose declarations are not made by a C compiler from these
 * headers: they compare theirs when they load the library, before the first call. */
#ifndef OMMA_LAYOUT_H
#define OMMA_LAYOUT_H

#include <omma/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One of: a struct (`member` NULL, `offset` 0, `size` of the whole), a member of the struct in the
 * rows before it, or a constant (`structure` NULL, `member` its name, `offset` its value, `size`
 * 0). This struct itself never changes. */
struct omma_layout_row {
  const char *structure;
  const char *member;
  int64_t offset, size;
};

/* The rows of status.h, host.h, team.h, attention.h and layout.h, in the order of the headers. Each
 * struct's row is followed by those of all its members. Constant; any thread may read them. */
OMMA_API const struct omma_layout_row *omma_attention_layout(size_t *n_rows);

/* The same for the other headers. In libomma only. */
OMMA_API const struct omma_layout_row *omma_layout(size_t *n_rows);

#ifdef __cplusplus
}
#endif

#endif
