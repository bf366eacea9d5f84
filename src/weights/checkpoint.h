/* The weights of a model: model.safetensors of a directory, or the shards that
 * model.safetensors.index.json lists; or tensors that something else has found and named. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>

#include "weights/stored_layers.h"

#define OMMAI_CHECKPOINT_FILE "model.safetensors"
#define OMMAI_CHECKPOINT_INDEX "model.safetensors.index.json"

/* The longest index that is read, and the maximum number of shards that are mapped. */
#define OMMAI_CHECKPOINT_MAX_INDEX_BYTES 100000000
#define OMMAI_CHECKPOINT_MAX_SHARDS 4096

struct ommai_checkpoint;

/* Opens and checks every file of the checkpoint. model.safetensors wins where the index is there
 * too, as in the official loader. Shard names are plain file names in the directory; each tensor
 * of the index must lie in the shard it is listed for, and no tensor may lie in two shards.
 * Tensors that the index does not list are found all the same.
 * Errors: IO for a missing file; FORMAT with file, tensor, expected and found; LIMIT; MEMORY. */
enum omma_status ommai_checkpoint_open(const char *directory, const struct omma_allocator *allocator,
                                       struct ommai_checkpoint **checkpoint, struct omma_error *error);

/* From now on each quantised layer is one tensor of type QUANTISED, named as a plain layer's; the
 * tensors that it is stored in, and scales of activations, are not listed any more. At most once,
 * before other threads use the checkpoint. Errors: as ommai_stored_layers_create. */
enum omma_status ommai_checkpoint_read_quantised(struct ommai_checkpoint *checkpoint, ommai_storage_lookup lookup,
                                                 void *context, struct omma_error *error);

/* Tensors from elsewhere, for example GGUF files, as a checkpoint: they are not copied and must
 * live as long. `name` stands for the directory. Errors: FORMAT for a name that is there twice;
 * MEMORY. */
enum omma_status ommai_checkpoint_gather(const char *name, const struct ommai_tensor *tensors, int64_t n_tensors,
                                         const struct omma_allocator *allocator, struct ommai_checkpoint **checkpoint,
                                         struct omma_error *error);

/* NULL is allowed. All tensors of files that this opened become invalid. */
void ommai_checkpoint_close(struct ommai_checkpoint *checkpoint);

const char *ommai_checkpoint_directory(const struct ommai_checkpoint *checkpoint);

/* All tensors in the order of their names: index in [0, count). Thread-safe, as are all calls
 * below. */
int64_t ommai_checkpoint_count(const struct ommai_checkpoint *checkpoint);
const struct ommai_tensor *ommai_checkpoint_at(const struct ommai_checkpoint *checkpoint, int64_t index);

/* The bytes of all tensors together, without the headers. */
uint64_t ommai_checkpoint_total_bytes(const struct ommai_checkpoint *checkpoint);

/* The index of the tensor of that name, or -1. O(log n). */
int64_t ommai_checkpoint_position(const struct ommai_checkpoint *checkpoint, const char *name);

/* The tensor of that name, or NULL. O(log n). */
const struct ommai_tensor *ommai_checkpoint_find(const struct ommai_checkpoint *checkpoint, const char *name);

/* The weight of that name, which must have this shape and be F32, BF16, F16 or QUANTISED. Errors:
 * FORMAT for a missing name (the message names the most similar one there is) and for another
 * shape; UNSUPPORTED for another type. */
enum omma_status ommai_checkpoint_require(const struct ommai_checkpoint *checkpoint, const char *name, int n_dims,
                                          const int64_t *shape, const struct ommai_tensor **tensor, struct omma_error *error);

/* Gives the pages of a tensor back to the kernel, after its values were copied; it can still be
 * read. */
void ommai_checkpoint_release(const struct ommai_checkpoint *checkpoint, const struct ommai_tensor *tensor);
