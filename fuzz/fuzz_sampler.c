/* Any logits (infinite ones and no numbers too) and settings within their limits: a row that is
 * finite gets a token of the vocabulary that is not banned, with falling log-probabilities next to
 * it, and the same again. */
#include <math.h>
#include <string.h>

#include "fuzz_input.h"
#include "kernels/row_ops.h"
#include "language/sampler.h"

enum { MAX_VOCAB = 64, MEMORY = 1 << 22 };

static float read_logit(struct fuzz_input *input) {
  static const float odd[] = {0.0f, -0.0f, 3.4e38f, -3.4e38f, 1e-45f, INFINITY, -INFINITY, NAN};
  int64_t kind = fuzz_pick(input, 0, 255);
  if (kind < 8) return odd[kind];
  return (float)(int16_t)fuzz_number(input, 2) / 256.0f;
}

static double fraction(struct fuzz_input *input, double low, double high) {
  return low + (high - low) * (double)fuzz_number(input, 2) / 65535.0;
}

static struct ommai_sampler_settings read_settings(struct fuzz_input *input) {
  return (struct ommai_sampler_settings){.temperature = fuzz_pick(input, 0, 1) ? fraction(input, 0, 2) : 0,
                                         .top_p = fraction(input, 1e-6, 1),
                                         .min_p = fraction(input, 0, 1),
                                         .top_k = fuzz_pick(input, 0, 80),
                                         .seed = fuzz_number(input, 8),
                                         .repetition_penalty = fraction(input, 0.01, 2),
                                         .presence_penalty = fraction(input, -2, 2),
                                         .frequency_penalty = fraction(input, -2, 2)};
}

static void check_row(const struct ommai_draw *row, const float *logits, int64_t vocab) {
  bool finite = true;
  for (int64_t i = 0; i < vocab; i++) finite = finite && isfinite(logits[i]);
  FUZZ_CHECK(row->finite == finite);
  if (!finite) return;
  FUZZ_CHECK(row->token >= 0 && row->token < vocab);
  for (size_t i = 0; i < row->n_banned; i++) FUZZ_CHECK(row->token != row->banned[i]);
  for (int i = 0; row->wants_logprob && i < row->n_top; i++) {
    FUZZ_CHECK(row->top[i].token >= 0 && row->top[i].token < vocab && row->top[i].logprob <= 1e-3f);
    FUZZ_CHECK(i == 0 || row->top[i - 1].logprob >= row->top[i].logprob);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  struct fuzz_input input = {bytes, size};
  static void *memory;
  if (!memory) memory = aligned_alloc(64, MEMORY);
  float logits[MAX_VOCAB];
  int32_t answer[MAX_VOCAB], banned[2];
  bool prompt[MAX_VOCAB];
  int64_t vocab = fuzz_pick(&input, 25, MAX_VOCAB);
  size_t needed = ommai_sampler_size(vocab, 2);
  FUZZ_CHECK(memory && needed > 0 && needed <= MEMORY);
  struct ommai_sampler *sampler = ommai_sampler_place(memory, vocab, 2, &ommai_row_ops_scalar);
  struct ommai_sampler_settings settings = read_settings(&input);
  for (int64_t i = 0; i < vocab; i++) {
    logits[i] = read_logit(&input);
    answer[i] = (int32_t)fuzz_pick(&input, 0, 3);
    prompt[i] = fuzz_pick(&input, 0, 1);
  }
  for (int i = 0; i < 2; i++) banned[i] = (int32_t)fuzz_pick(&input, 0, vocab - 1);
  const struct ommai_sampler_input row_input = {logits, {answer, prompt}}, inputs[2] = {row_input, row_input};
  const struct ommai_draw row = {.settings = &settings,
                                 .step = 5,
                                 .banned = banned,
                                 .n_banned = (size_t)fuzz_pick(&input, 0, 2),
                                 .wants_logprob = fuzz_pick(&input, 0, 1),
                                 .n_top = (int)fuzz_pick(&input, 0, 20)};
  struct ommai_draw rows[2] = {row, row};
  ommai_sampler_run(sampler, rows, inputs, 2, NULL);
  check_row(&rows[0], logits, vocab);
  FUZZ_CHECK(rows[0].finite == rows[1].finite && (!rows[0].finite || rows[0].token == rows[1].token));
  return 0;
}
