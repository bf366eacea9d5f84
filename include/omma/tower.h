/* A vision tower alone: normalised patches in, embeddings out. For host programs that have an image
 * processor, a language model and threads of their own, such as vLLM.
 *
 *   omma_tower_open -> for each step: omma_tower_workspace_size, omma_tower_encode ->
 *   omma_tower_close
 *
 * All images and videos of a call run as one packed batch. The embeddings of each are bit-identical
 * to those of a call with this input alone, on any team and with any number of workers. They are
 * also bit-identical to omma_encode's for the same patches and the same build. */
#ifndef OMMA_TOWER_H
#define OMMA_TOWER_H

#include <omma/omma.h>

#ifdef __cplusplus
extern "C" {
#endif

struct omma_tower;

/* A tensor of a checkpoint that the host has in memory, under its name in the released files.
 * Row-major, at any address. Owned by the host. */
struct omma_tower_tensor {
  const char *name;
  enum omma_dtype type;
  int n_dims; /* 1 to 8 */
  int64_t shape[8];
  const void *data;
};

struct omma_tower_options {
  size_t struct_size;            /* sizeof this struct, or 0: see omma.h */
  enum omma_weight_type weights; /* in which linear layers are packed and compute */
  const char *isa;               /* as omma_model_options.isa */
  /* Maximum number of workers of a team of omma_tower_encode. 0: omma_team_cpu_count(). */
  int n_threads;
  /* The weights. They are read during omma_tower_open only, so the host can free them afterwards.
   * Tensors that the tower does not use are skipped. NULL: those of the directory. */
  const struct omma_tower_tensor *tensors;
  size_t n_tensors;
  /* Read config.json alone: enough to find out whether the tower is supported, and for
   * omma_tower_get_info. */
  bool config_only;
  const struct omma_allocator *allocator;
};

/* Opens the tower of a Hugging Face checkpoint directory. config.json is read from there, and the
 * weights too where options->tensors is NULL. Every key and every tensor's shape is checked before
 * weights are packed. The caller closes the tower. Errors: as omma_model_open. */
OMMA_API enum omma_status omma_tower_open(const char *directory, const struct omma_tower_options *options,
                                          struct omma_tower **tower, struct omma_error *error);
/* Must not be called while another call with the tower is in progress. NULL is allowed. */
OMMA_API void omma_tower_close(struct omma_tower *tower);

/* Facts about a tower. Strings live as long as the tower. */
struct omma_tower_info {
  const char *model_type; /* as in config.json */
  const char *isa;
  const char *weights; /* what linear layers compute in: "f32", "bf16" or "int8" */
  int n_threads;
  int64_t n_parameters, weight_bytes; /* packed, in memory */
  int64_t depth, hidden_size, n_heads, patch_size, temporal_patch_size, merge_size;
  int64_t patch_dim;   /* values in a patch */
  int64_t width;       /* values in an embedding */
  int64_t n_deepstack; /* further embeddings of each token */
};
OMMA_API void omma_tower_get_info(const struct omma_tower *tower, struct omma_tower_info *info);

/* An image (grid_thw[0] = 1) or a video, as the official processors give it. `patches` [t * h * w,
 * patch_dim]: normalised, contiguous, in the order of the family's processor, in f32 or in the type
 * that the tower computes in. `output` [1 + n_deepstack, t * h * w / merge_size^2, width]: the
 * merged tokens in raster order, then the deepstack outputs in the order of their layers. The host
 * owns both. */
struct omma_tower_input {
  const void *patches;
  enum omma_dtype type;
  int64_t grid_thw[3]; /* patches in time, rows and columns */
  float *output;
};

/* Bytes of workspace that omma_tower_encode needs for these inputs with n_workers. Does not read
 * through the inputs' pointers. Errors: ARGUMENT (a grid that is not positive multiples of the
 * merge size, n_workers), LIMIT. */
OMMA_API enum omma_status omma_tower_workspace_size(const struct omma_tower *tower, const struct omma_tower_input *inputs,
                                                    size_t n_inputs, int n_workers, size_t *size, struct omma_error *error);

/* Encodes all inputs in one packed pass on `team` (NULL: the calling thread). `workspace` is
 * aligned to 64 bytes. Allocates nothing. One call at a time for each tower; a second one gets
 * BUSY. Errors: as omma_tower_workspace_size; ARGUMENT (types, NULL, a tower without weights, a
 * team with more workers than n_threads); MEMORY (the workspace is too small). */
OMMA_API enum omma_status omma_tower_encode(struct omma_tower *tower, const struct omma_tower_input *inputs, size_t n_inputs,
                                            void *workspace, size_t workspace_size, const struct omma_team *team,
                                            struct omma_error *error);

#ifdef __cplusplus
}
#endif

#endif
