/* Status codes and the error object that every public call of Ommatidia uses.
 *
 * A call returns OMMA_OK (0) or the reason why it failed. Where the caller passes a `struct
 * omma_error`, a failing call also writes one line that states what failed, where (file, tensor,
 * field, index), what was expected and what was found. The library never prints, exits or aborts on
 * bad input. */
#ifndef OMMA_STATUS_H
#define OMMA_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && !defined(_WIN32)
#define OMMA_API __attribute__((visibility("default")))
#else
#define OMMA_API
#endif

/* Why a call failed. Values are stable: new ones are added at the end. */
enum omma_status {
  OMMA_OK = 0,
  /* A value from the caller is wrong. `field` names it where it has a name. */
  OMMA_ERROR_ARGUMENT,
  OMMA_ERROR_MEMORY, /* an allocation failed, or a stated budget is too small */
  OMMA_ERROR_IO,     /* a file cannot be opened, read or written */
  /* Bytes from outside (file, image, JSON) are broken or contradict each other. */
  OMMA_ERROR_FORMAT,
  OMMA_ERROR_UNSUPPORTED, /* well-formed, but this build, machine or model cannot do it */
  OMMA_ERROR_LIMIT,       /* a named limit is exceeded (context length, image size, ...) */
  OMMA_ERROR_BUSY,        /* a bounded queue is full; the same call may succeed later */
  OMMA_ERROR_CANCELLED,   /* stopped on request */
  OMMA_ERROR_INTERNAL     /* a bug of Ommatidia, or of a library that it uses */
};

#define OMMA_ERROR_MESSAGE_SIZE 512
#define OMMA_ERROR_FIELD_SIZE 48

/* Filled by a failing call, untouched by a succeeding one. Owned by the caller, one per thread and
 * call. `field` names the argument, request field or config key at fault, or is empty. Both strings
 * end in NUL. */
struct omma_error {
  enum omma_status status;
  char field[OMMA_ERROR_FIELD_SIZE];
  char message[OMMA_ERROR_MESSAGE_SIZE];
};

/* The name of a status in words ("out of memory"): a constant string. "unknown status" for other
 * values. */
OMMA_API const char *omma_status_name(enum omma_status status);

#ifdef __cplusplus
}
#endif

#endif
