/* A model's directory without weights: config.json, preprocessor_config.json,
 * generation_config.json and model.safetensors.index.json, with NUL bytes between. What is
 * accepted has possible sizes. */
#include <string.h>

#include "base/allocator.h"
#include "families/model_config.h"
#include "families/model_config_read.h"
#include "fuzz_folder.h"
#include "fuzz_input.h"
#include "weights/checkpoint.h"

static void check_failure(enum omma_status status, const struct omma_error *error) {
  FUZZ_CHECK(error->status == status && error->message[0] && memchr(error->message, 0, sizeof error->message));
}

static void read_config(bool may_assume) {
  static struct ommai_model_config config;
  const struct ommai_family *family = NULL;
  struct omma_error error = {.status = OMMA_OK};
  memset(&config, 0, sizeof config);
  enum omma_status status = ommai_model_config_read(&(struct ommai_documents){.directory = fuzz_folder()}, may_assume,
                                                    &ommai_default_allocator, &family, &config, &error);
  if (status != OMMA_OK) {
    check_failure(status, &error);
    return;
  }
  FUZZ_CHECK(family && memchr(config.model_type, 0, sizeof config.model_type));
  FUZZ_CHECK(config.text.vocab_size > 0 && config.image_token >= 0 && config.image_token < config.text.vocab_size);
  FUZZ_CHECK(config.image.max_pixels > 0 && config.image.min_pixels >= 0);
  FUZZ_CHECK(config.generation.n_stop_tokens <= OMMAI_MAX_STOP_TOKENS);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const char *const files[] = {"config.json", "preprocessor_config.json", "generation_config.json",
                                      "model.safetensors.index.json"};
  fuzz_folder_fill(files, sizeof files / sizeof *files, bytes, size);
  read_config(false);
  read_config(true);
  struct ommai_checkpoint *checkpoint = NULL;
  struct omma_error error = {.status = OMMA_OK};
  enum omma_status status = ommai_checkpoint_open(fuzz_folder(), &ommai_default_allocator, &checkpoint, &error);
  if (status != OMMA_OK) check_failure(status, &error);
  ommai_checkpoint_close(checkpoint);
  return 0;
}
