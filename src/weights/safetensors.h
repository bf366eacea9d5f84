/* Reading one safetensors file: mapped, with every statement of its header checked before anything
 * is handed out.
 *
 * Format (github.com/huggingface/safetensors, README "Format"): 8 bytes header length N, N bytes of
 * JSON {name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {string: string}},
 * then the data, which the tensors cover completely and without overlap. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

#include "weights/tensor.h"

/* The longest header that is read, the limit of the official reader. */
#define OMMAI_SAFETENSORS_MAX_HEADER_BYTES 100000000

struct ommai_safetensors;

/* Maps the file and checks its header. After that only the names, shapes and places of the tensors
 * are in memory; data pages come from disk when they are read. A file that another process shortens
 * while it is open ends the process on access (SIGBUS), as with every mapped file; replacing it by
 * rename is safe. Errors: IO; FORMAT with file, tensor, what was expected and found; LIMIT for the
 * header's length; MEMORY. */
enum omma_status ommai_safetensors_open(const char *path, const struct omma_allocator *allocator,
                                        struct ommai_safetensors **file, struct omma_error *error);

/* NULL is allowed. All tensors of the file become invalid. */
void ommai_safetensors_close(struct ommai_safetensors *file);

const char *ommai_safetensors_path(const struct ommai_safetensors *file);

/* The tensors in the order of their data in the file: index in [0, count). Thread-safe, as are the
 * two calls below. */
int64_t ommai_safetensors_count(const struct ommai_safetensors *file);
const struct ommai_tensor *ommai_safetensors_at(const struct ommai_safetensors *file, int64_t index);

/* The tensor of that name, or NULL. O(log n). */
const struct ommai_tensor *ommai_safetensors_find(const struct ommai_safetensors *file, const char *name);

/* The value of a key of __metadata__ (it lives as long as the file), or NULL. */
const char *ommai_safetensors_metadata(const struct ommai_safetensors *file, const char *key);

/* Informs the kernel that the tensor's pages are not needed any more, so that they leave the
 * process's memory. The tensor can still be read (from the page cache or from disk). */
void ommai_safetensors_release(const struct ommai_tensor *tensor);
