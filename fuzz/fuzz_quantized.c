/* A quantised checkpoint: config.json with its quantization_config, a NUL byte, and a safetensors
 * file. Whatever is accepted can be read, as values and as integers. */
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "families/quantization.h"
#include "fuzz_folder.h"
#include "fuzz_input.h"

/* Keeps the reads. */
static volatile float sink;

static void read_integers(const struct ommai_tensor *tensor) {
  const struct ommai_stored_matrix *stored = tensor->stored;
  int64_t n_groups = tensor->shape[1] / stored->group;
  int8_t *q = malloc((size_t)stored->group);
  FUZZ_CHECK(q && stored->group > 0 && tensor->shape[1] % stored->group == 0 && (stored->bits == 4 || stored->bits == 8));
  float scale, minimum;
  for (int64_t i = 0; i < tensor->shape[0] * n_groups; i++) {
    stored->integers(stored->context, i / n_groups, i % n_groups, q, &scale, &minimum);
    FUZZ_CHECK(stored->bits == 8 || (q[0] >= 0 && q[0] < 16));
    FUZZ_CHECK(stored->has_minimums || minimum == 0 || minimum != minimum);
    sink = sink + scale;
  }
  free(q);
}

static void read_values(const struct ommai_tensor *tensor) {
  float values[64];
  for (int64_t first = 0; first < tensor->n_elements; first += 64) {
    int64_t n = tensor->n_elements - first < 64 ? tensor->n_elements - first : 64;
    FUZZ_CHECK(ommai_tensor_to_f32(tensor, first, n, values));
    sink = sink + values[0];
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const char *const files[] = {"config.json", "model.safetensors"};
  struct ommai_quantization *quantization = NULL;
  struct ommai_checkpoint *checkpoint = NULL;
  struct omma_error error = {.status = OMMA_OK};
  fuzz_folder_fill(files, sizeof files / sizeof *files, bytes, size);
  enum omma_status status = ommai_quantization_read(&(struct ommai_documents){.directory = fuzz_folder()},
                                                    &ommai_default_allocator, &quantization, &error);
  if (status == OMMA_OK && quantization) {
    FUZZ_CHECK(ommai_quantization_description(quantization)[0]);
    status = ommai_quantization_open_checkpoint(quantization, fuzz_folder(), &ommai_default_allocator, &checkpoint, &error);
  }
  if (status != OMMA_OK) {
    FUZZ_CHECK(!checkpoint && error.status == status && error.message[0] && memchr(error.message, 0, sizeof error.message));
  }
  for (int64_t i = 0; checkpoint && i < ommai_checkpoint_count(checkpoint); i++) {
    const struct ommai_tensor *tensor = ommai_checkpoint_at(checkpoint, i);
    if (tensor->type != OMMAI_TENSOR_QUANTISED) continue;
    read_values(tensor);
    if (tensor->stored->bits) read_integers(tensor);
  }
  ommai_checkpoint_close(checkpoint);
  ommai_quantization_destroy(quantization);
  return 0;
}
