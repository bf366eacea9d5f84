/* Option structs of callers that may have been compiled against other headers: their first member
 * is struct_size (omma/omma.h states its rules). */
#pragma once

#include <omma/status.h>
#include <stddef.h>

/* Copies the struct `name` at `given` (NULL: zeros) into `taken`, which has `size` bytes here: what
 * the caller's lacks is 0. Errors: ARGUMENT, field "struct_size" (smaller than itself; larger than
 * here with a member set that is unknown here). */
enum omma_status ommai_take_struct(const void *given, const char *name, void *taken, size_t size, struct omma_error *error);

/* Puts a copy of the options at `pointer`, of `struct type`, in their place. Leaves the function
 * with a failure. Once in a function. */
#define OMMAI_TAKE_OPTIONS(type, pointer, error)                                                       \
  struct type taken_options;                                                                           \
  OMMAI_TRY(ommai_take_struct(pointer, "struct " #type, &taken_options, sizeof taken_options, error)); \
  (pointer) = &taken_options
