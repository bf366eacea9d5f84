/* A vision tower by itself, for host programs that have an image processor, a language model and
 * threads of their own, such as vLLM: normalised patches in, embeddings out.
 *
 *   omma_tower_open -> for each step: omma_tower_workspace_size, omma_tower_encode ->
 *   omma_tower_close
 *
 * All images and videos of a call run as one packed batch; each one's embeddings are bit-identical
 * to those that it has alone, on any team and number of workers, and to omma_encode's of the same
 * build for the same patches. */
#ifndef OMMA_TOWER_H
#define OMMA_TOWER_H

#include <omma/omma.h>

#ifdef __cplusplus
extern "C" {
#endif

struct omma_tower;

/* A tensor of a checkpoint that the host has in memory, by the name that it has in the released
 * files. Row-major, at any address. */
struct omma_tower_tensor {
  const char *name;
  enum omma_dtype type;
  int n_dims; /* 1 to 8 */
  int64_t shape[8];
  const void *data;
};

struct omma_tower_options {
  enum omma_weight_type weights; /* what linear layers are packed in and compute in */
  const char *isa;               /* as omma_model_options.isa */
  /* the most workers that a team of omma_tower_encode has; 0: the CPUs of this process */
  int n_threads;
  /* The weights, read during omma_tower_open only: a host that has them keeps no second copy.
   * Tensors that the tower has no use for are passed over. NULL: those of the directory. */
  const struct omma_tower_tensor *tensors;
  size_t n_tensors;
  /* read config.json alone: whether there is such a tower, and omma_tower_get_info's facts about
   * it */
  bool config_only;
  const struct omma_allocator *allocator;
};

/* Opens the tower of a Hugging Face checkpoint directory, of which config.json is read, and the
 * weights where options->tensors is NULL. Every key and every tensor's shape is checked before
 * weights are packed. Errors: as omma_model_open. */
OMMA_API enum omma_status omma_tower_open(const char *directory, const struct omma_tower_options *options,
                                          struct omma_tower **tower, struct omma_error *error);
/* No call with the tower may be in progress. NULL is allowed. */
OMMA_API void omma_tower_close(struct omma_tower *tower);

/* Facts about a tower. Strings live as long as the tower. */
struct omma_tower_info {
  const char *model_type; /* as in config.json */
  const char *isa;
  const char *weights; /* what linear layers compute in: "f32", "bf16" or "int8" */
  int n_threads;
  int64_t n_parameters, weight_bytes; /* packed, in memory */
  int64_t depth, hidden_size, n_heads, patch_size, temporal_patch_size, merge_size;
  int64_t patch_dim;   /* values of a patch */
  int64_t width;       /* of an embedding */
  int64_t n_deepstack; /* further embeddings of a token */
};
OMMA_API void omma_tower_get_info(const struct omma_tower *tower, struct omma_tower_info *info);

/* An image (grid_thw[0] = 1) or a video, as the official processors give it: `patches` [t * h * w,
 * patch_dim], normalised, contiguous, in the order of the family's processor; f32, or what the
 * tower computes in. `output` [1 + n_deepstack, t * h * w / merge_size^2, width]: merged tokens in
 * raster order, then the deepstack outputs in the order of their layers. */
struct omma_tower_input {
  const void *patches;
  enum omma_dtype type;
  int64_t grid_thw[3]; /* patches: time, rows, columns */
  float *output;
};

/* Bytes of workspace that omma_tower_encode needs for these inputs with n_workers. Pointers are not
 * looked at. Errors: ARGUMENT (grids that are not positive multiples of the merge size,
 * n_workers), LIMIT. */
OMMA_API enum omma_status omma_tower_workspace_size(const struct omma_tower *tower, const struct omma_tower_input *inputs,
                                                    size_t n_inputs, int n_workers, size_t *size, struct omma_error *error);

/* Encodes all inputs in one packed pass on `team` (NULL: the calling thread). `workspace` is
 * aligned to 64 bytes. Allocates nothing. One call at a time (BUSY). Errors: as
 * omma_tower_workspace_size; ARGUMENT (types, NULL, a tower without weights, a team with more
 * workers than n_threads); MEMORY (the workspace is too small). */
OMMA_API enum omma_status omma_tower_encode(struct omma_tower *tower, const struct omma_tower_input *inputs, size_t n_inputs,
                                            void *workspace, size_t workspace_size, const struct omma_team *team,
                                            struct omma_error *error);

#ifdef __cplusplus
}
#endif

#endif
