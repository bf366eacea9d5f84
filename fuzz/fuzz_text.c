/* Any text through a tokenizer: normalised once it stays so, pieces and tokens are all of it,
 * counts keep their limits, and what is put together token by token is what is put together at
 * once. */
#include <string.h>

#include "base/allocator.h"
#include "fuzz_input.h"
#include "text/detokenizer.h"
#include "text/nfc.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

enum { MAX_TEXT = 1 << 14 };

static struct ommai_tokenizer *tokenizers[3];

static void release_tokenizers(void) {
  for (int i = 0; i < 3; i++) ommai_tokenizer_destroy(tokenizers[i]);
}

static const struct ommai_tokenizer *tokenizer_at(int index) {
  static const char *const folders[] = {OMMA_FUZZ_DATA "/text/digits", OMMA_FUZZ_DATA "/text/plain",
                                        OMMA_FUZZ_DATA "/text/ranks"};
  if (!tokenizers[0]) {
    for (int i = 0; i < 3; i++) {
      FUZZ_CHECK(ommai_tokenizer_load(folders[i], &ommai_default_allocator, &tokenizers[i], NULL) == OMMA_OK);
    }
    atexit(release_tokenizers);
  }
  return tokenizers[index];
}

static void check_nfc(const char *text, size_t size) {
  struct ommai_nfc_text once, twice;
  FUZZ_CHECK(ommai_nfc(text, size, &ommai_default_allocator, &once, NULL) == OMMA_OK);
  FUZZ_CHECK(once.size <= 3 * size && once.size >= size / OMMAI_NFC_MAX_SHRINKING);
  FUZZ_CHECK(ommai_nfc(once.text, once.size, &ommai_default_allocator, &twice, NULL) == OMMA_OK);
  FUZZ_CHECK(twice.size == once.size && memcmp(twice.text, once.text, once.size) == 0);
  ommai_nfc_release(&twice, &ommai_default_allocator);
  ommai_nfc_release(&once, &ommai_default_allocator);
}

static void check_ids(const struct ommai_tokenizer *tokenizer, const int32_t *ids, size_t count) {
  static char at_once[1 << 20], one_by_one[3 << 20], replaced[3 << 20];
  struct ommai_detokenizer detokenizer = {.n_pending = 0};
  size_t size, n = 0;
  FUZZ_CHECK(ommai_tokenizer_decode(tokenizer, ids, count, false, at_once, sizeof at_once, &size, NULL) == OMMA_OK);
  for (size_t i = 0; i < count; i++) n += ommai_detokenizer_push(&detokenizer, tokenizer, ids[i], false, one_by_one + n);
  n += ommai_detokenizer_flush(&detokenizer, one_by_one + n);
  FUZZ_CHECK(n == ommai_utf8_replace(at_once, size, replaced, sizeof replaced) && memcmp(one_by_one, replaced, n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static char text[3 * MAX_TEXT];
  static int32_t ids[9 * MAX_TEXT];
  if (size < 2 || size > MAX_TEXT) return 0;
  const struct ommai_tokenizer *tokenizer = tokenizer_at(bytes[0] % 3);
  size_t limit = 1 + bytes[1], n = ommai_utf8_replace((const char *)bytes + 2, size - 2, text, sizeof text), count, counted,
         offset;
  FUZZ_CHECK(ommai_utf8_valid(text, n, &offset));
  check_nfc(text, n);
  if (ommai_tokenizer_encode(tokenizer, text, n, true, ids, 3 * n, &count, NULL) != OMMA_OK) return 0;
  check_ids(tokenizer, ids, count);
  FUZZ_CHECK(ommai_tokenizer_count(tokenizer, text, n, limit, &counted, NULL) == OMMA_OK);
  FUZZ_CHECK(count < limit ? counted == count : counted >= limit && counted <= count);
  /* And ids that no text has: the bytes again. */
  for (size_t i = 0; i < size; i++) ids[i] = (int32_t)(bytes[i] * 3u);
  check_ids(tokenizer, ids, size);
  return 0;
}
