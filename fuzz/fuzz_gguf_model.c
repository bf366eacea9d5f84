/* A model in two GGUF files, the second after the first, whose size comes before: configuration,
 * tokenizer and tensors. What is accepted has possible sizes, and every value of every tensor can
 * be read. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/allocator.h"
#include "families/gguf_model.h"
#include "families/model_config.h"
#include "families/model_config_read.h"
#include "fuzz_input.h"

/* Keeps the reads. */
static volatile double sink;

static void check_failure(enum omma_status status, const struct omma_error *error) {
  FUZZ_CHECK(error->status == status && error->message[0] && memchr(error->message, 0, sizeof error->message));
}

/* A file in memory; its path into `path`. */
static int make_file(const uint8_t *bytes, size_t size, char path[64]) {
  int memory = memfd_create("fuzz", 0);
  FUZZ_CHECK(memory >= 0 && write(memory, bytes, size) == (ssize_t)size);
  snprintf(path, 64, "/proc/self/fd/%d", memory);
  return memory;
}

static void read_config(const struct ommai_gguf_model *model) {
  static struct ommai_model_config config;
  const struct ommai_family *family = NULL;
  struct omma_error error = {.status = OMMA_OK};
  memset(&config, 0, sizeof config);
  enum omma_status status =
      ommai_model_config_read(ommai_gguf_model_documents(model), false, &ommai_default_allocator, &family, &config, &error);
  if (status != OMMA_OK) {
    check_failure(status, &error);
    return;
  }
  FUZZ_CHECK(family && config.text.vocab_size > 0 && config.image_token >= 0 && config.image_token < config.text.vocab_size);
  FUZZ_CHECK(config.image.max_pixels > 0 && config.generation.n_stop_tokens <= OMMAI_MAX_STOP_TOKENS);
}

static void read_tokens(const struct ommai_gguf_model *model) {
  static const char text[] = "Some text, 12 \xc3\xa9<|im_end|>";
  struct ommai_tokenizer *tokenizer = NULL;
  struct omma_error error = {.status = OMMA_OK};
  enum omma_status status = ommai_gguf_model_tokenizer(model, &tokenizer, &error);
  int32_t ids[3 * sizeof text];
  size_t count;
  if (status != OMMA_OK) {
    check_failure(status, &error);
    return;
  }
  if (ommai_tokenizer_encode(tokenizer, text, sizeof text - 1, true, ids, sizeof ids / sizeof *ids, &count, NULL) == OMMA_OK) {
    for (size_t i = 0; i < count; i++) FUZZ_CHECK(ids[i] >= 0 && ids[i] < ommai_tokenizer_vocab_size(tokenizer));
  }
  ommai_tokenizer_destroy(tokenizer);
}

static void read_tensors(const struct ommai_gguf_model *model) {
  struct ommai_checkpoint *checkpoint = NULL;
  struct omma_error error = {.status = OMMA_OK};
  enum omma_status status = ommai_gguf_model_checkpoint(model, &checkpoint, &error);
  if (status != OMMA_OK) {
    check_failure(status, &error);
    return;
  }
  for (int64_t i = 0; i < ommai_checkpoint_count(checkpoint); i++) {
    const struct ommai_tensor *tensor = ommai_checkpoint_at(checkpoint, i);
    FUZZ_CHECK(ommai_checkpoint_find(checkpoint, tensor->name) == tensor);
    for (int64_t at = 0; at < tensor->n_elements; at++) {
      float value;
      FUZZ_CHECK(ommai_tensor_to_f32(tensor, at, 1, &value));
      sink += (double)value;
    }
    ommai_checkpoint_release(checkpoint, tensor);
  }
  ommai_checkpoint_close(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  struct fuzz_input input = {bytes, size};
  size_t first = (size_t)fuzz_number(&input, 4);
  char model_path[64], mmproj_path[64];
  if (first > input.left) first = input.left;
  int model_file = make_file(input.at, first, model_path);
  int mmproj_file = make_file(input.at + first, input.left - first, mmproj_path);
  struct ommai_gguf_model *model = NULL;
  struct omma_error error = {.status = OMMA_OK};
  enum omma_status status = ommai_gguf_model_open(model_path, mmproj_path, &ommai_default_allocator, &model, &error);
  if (status == OMMA_OK) {
    read_config(model);
    read_tokens(model);
    read_tensors(model);
  } else {
    FUZZ_CHECK(!model);
    check_failure(status, &error);
  }
  ommai_gguf_model_close(model);
  close(model_file);
  close(mmproj_file);
  return 0;
}
