/* A tokenizer.json: whatever is accepted encodes and decodes any text within its stated sizes. */
#include <string.h>
#include <unistd.h>

#include "base/allocator.h"
#include "fuzz_input.h"
#include "text/tokenizer.h"

static void use(const struct ommai_tokenizer *tokenizer) {
  static const char text[] = "Hello, w\xc3\xb6rld 123\n\n  <|im_end|> \xe2\x80\xa6 e\xcc\x81 \xf0\x9f\x98\x80'll";
  int32_t ids[3 * sizeof text];
  size_t count = 0, size = 0;
  for (int added = 0; added < 2; added++) {
    if (ommai_tokenizer_encode(tokenizer, text, sizeof text - 1, added, ids, 3 * sizeof text, &count, NULL) != OMMA_OK)
      continue;
    FUZZ_CHECK(count <= 3 * (sizeof text - 1));
    FUZZ_CHECK(ommai_tokenizer_decode(tokenizer, ids, count, false, NULL, 0, &size, NULL) != OMMA_OK || size < 1 << 24);
    for (size_t i = 0; i < count; i++) FUZZ_CHECK(ids[i] >= 0 && ids[i] < ommai_tokenizer_vocab_size(tokenizer));
  }
}

/* A folder that lives as long as the program: a tokenizer is loaded from one. */
static char folder[] = "/tmp/omma-fuzz-XXXXXX";

static void remove_folder(void) {
  char path[64];
  snprintf(path, sizeof path, "%s/tokenizer.json", folder);
  unlink(path);
  rmdir(folder);
}

static void make_folder(void) {
  static int made;
  if (made) return;
  FUZZ_CHECK(mkdtemp(folder));
  made = 1;
  atexit(remove_folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  char path[64];
  make_folder();
  snprintf(path, sizeof path, "%s/tokenizer.json", folder);
  FILE *file = fopen(path, "wb");
  FUZZ_CHECK(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
  struct ommai_tokenizer *tokenizer = NULL;
  struct omma_error error = {.status = OMMA_OK};
  enum omma_status status = ommai_tokenizer_load(folder, &ommai_default_allocator, &tokenizer, &error);
  if (status == OMMA_OK) {
    use(tokenizer);
  } else {
    FUZZ_CHECK(!tokenizer && error.status == status && error.message[0] && memchr(error.message, 0, sizeof error.message));
  }
  ommai_tokenizer_destroy(tokenizer);
  return 0;
}
