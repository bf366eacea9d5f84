/* The tensors of GGUF files under the names and in the shapes that the families ask for: those of
 * the checkpoints that the files were converted from. Source of the mapping: llama.cpp's
 * conversion scripts and the Python package `gguf`. */
#pragma once

#include "families/gguf_files.h"
#include "families/gguf_views.h"
#include "vision/vision_tower.h"

#define OMMAI_GGUF_MAX_SHOWN (1 << 20) /* tensors after the experts of a layer were distinguished */

/* What stands before `.weight` or `.bias` in the file and in the checkpoint, or whole names; shown
 * NULL: not shown. '#' is a number. */
struct ommai_gguf_name {
  const char *file, *shown;
  enum ommai_gguf_showing showing;
  const char *second;
};

/* The layers of the tower, below OMMAI_VISION_MAX_DEPTH, that have a merger of their own
 * (v.deepstack.#), in order; returns how many there are. */
int64_t ommai_gguf_merger_layers(const struct ommai_gguf *mmproj, int64_t layers[OMMAI_VISION_MAX_DEPTH]);

/* All tensors, by the two lists of names, which end in NULL; those that no list has keep their own
 * names. The parts of the patch embedding become one. Lives as long as the files. */
struct ommai_gguf_tensors;

/* Errors: FORMAT for tensors whose shapes do not go together; UNSUPPORTED for quantised vectors;
 * LIMIT; MEMORY. */
enum omma_status ommai_gguf_tensors_create(const struct ommai_gguf_files *files, const struct ommai_gguf_name *text,
                                           const struct ommai_gguf_name *tower, const struct omma_allocator *allocator,
                                           struct ommai_gguf_tensors **tensors, struct omma_error *error);
/* NULL is allowed. */
void ommai_gguf_tensors_destroy(struct ommai_gguf_tensors *tensors);

/* [*count], in no order. */
const struct ommai_tensor *ommai_gguf_tensors_list(const struct ommai_gguf_tensors *tensors, int64_t *count);
