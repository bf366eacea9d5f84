/* Any logits (infinite ones and no numbers too) and settings within their limits: the token is one of the vocabulary, none that is banned, and
 * the same again. */
#include <math.h>
#include <string.h>

#include "fuzz_input.h"
#include "language/sampler.h"

enum { MAX_VOCAB = 64 };

static float read_logit(struct fuzz_input *input) {
  static const float odd[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 3.4e38f, -3.4e38f, 1e-45f};
  int64_t kind = fuzz_pick(input, 0, 31);
  if (kind < 8) return odd[kind];
  return (float)(int16_t)fuzz_number(input, 2) / 256.0f;
}

static double fraction(struct fuzz_input *input, double low, double high) {
  return low + (high - low) * (double)fuzz_number(input, 2) / 65535.0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  struct fuzz_input input = {bytes, size};
  _Alignas(64) static unsigned char memory[1 << 14];
  float logits[MAX_VOCAB];
  int32_t answer[MAX_VOCAB], banned[2], top[MAX_VOCAB];
  bool prompt[MAX_VOCAB];
  int64_t vocab = fuzz_pick(&input, 3, MAX_VOCAB);
  FUZZ_CHECK(ommai_sampler_scratch_size(vocab) <= sizeof memory);
  struct ommai_sampler_scratch scratch = ommai_sampler_scratch_place(memory, vocab);
  struct ommai_sampler_settings settings = {.temperature = fuzz_pick(&input, 0, 1) ? fraction(&input, 0, 2) : 0,
                                            .top_p = fraction(&input, 1e-6, 1),
                                            .min_p = fraction(&input, 0, 1),
                                            .top_k = fuzz_pick(&input, 0, 80),
                                            .seed = fuzz_number(&input, 8),
                                            .repetition_penalty = fraction(&input, 0.01, 2),
                                            .presence_penalty = fraction(&input, -2, 2),
                                            .frequency_penalty = fraction(&input, -2, 2)};
  for (int64_t i = 0; i < vocab; i++) {
    logits[i] = read_logit(&input);
    answer[i] = (int32_t)fuzz_pick(&input, 0, 3);
    prompt[i] = fuzz_pick(&input, 0, 1);
  }
  for (int i = 0; i < 2; i++) banned[i] = (int32_t)fuzz_pick(&input, 0, vocab - 1);
  size_t n_banned = (size_t)fuzz_pick(&input, 0, 2);
  struct ommai_token_counts counts = {answer, prompt};
  int32_t first = ommai_sample(&settings, logits, vocab, 5, &counts, banned, n_banned, &scratch);
  FUZZ_CHECK(first >= 0 && first < vocab);
  bool numbers = true;
  for (int64_t i = 0; i < vocab; i++) numbers = numbers && isfinite(logits[i]) && fabsf(logits[i]) < 1e30f;
  for (size_t i = 0; numbers && i < n_banned; i++) FUZZ_CHECK(first != banned[i]);
  FUZZ_CHECK(ommai_sample(&settings, logits, vocab, 5, &counts, banned, n_banned, &scratch) == first);
  int64_t n_top = fuzz_pick(&input, 1, 20) % vocab + 1;
  if (numbers) {
    ommai_top_tokens(logits, vocab, top, n_top, &scratch);
    for (int64_t i = 0; i < n_top; i++)
      FUZZ_CHECK(top[i] >= 0 && top[i] < vocab && (i == 0 || logits[top[i - 1]] >= logits[top[i]]));
    FUZZ_CHECK(ommai_log_sum_exp(logits, vocab) >= logits[top[0]]);
  }
  return 0;
}
