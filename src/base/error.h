/* Filling the caller's error object and passing failures up. */
#pragma once

#include <omma/status.h>
#include <stddef.h>

/* Writes `status` and the formatted message into `error` (NULL is allowed) and returns `status`, so
 * that `return ommai_fail(error, OMMA_ERROR_FORMAT, "%s: ...", path)` is the usual form. `field`
 * is cleared. */
enum omma_status ommai_fail(struct omma_error *error, enum omma_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, and names the argument or key at fault. */
enum omma_status ommai_fail_field(struct omma_error *error, enum omma_status status, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts `prefix: ` before the message that is already there (where: a file, a tensor, "image 2").
 * Returns error's status. */
void ommai_error_prefix(struct omma_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The usual message for a failed allocation of `size` bytes for `what`. */
enum omma_status ommai_fail_memory(struct omma_error *error, const char *what, size_t size);

/* Leaves the function with a failure of `expression`. For functions that own nothing yet. */
#define OMMAI_TRY(expression)                           \
  do {                                                  \
    enum omma_status ommai_status_ = (expression);      \
    if (ommai_status_ != OMMA_OK) return ommai_status_; \
  } while (0)

/* Stores the status in `status` and jumps to the function's one cleanup label on failure. */
#define OMMAI_TRY_GOTO(expression, label) \
  do {                                    \
    status = (expression);                \
    if (status != OMMA_OK) goto label;    \
  } while (0)
