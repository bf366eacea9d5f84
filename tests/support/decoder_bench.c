#include "support/decoder_bench.h"

#include <stdlib.h>

#include "base/allocator.h"
#include "support/test.h"

struct decoder_bench decoder_bench_make(const struct ommai_decoder *decoder, const struct decoder_bench_sizes *sizes,
                                        int n_threads) {
  struct decoder_bench bench = {.decoder = decoder};
  struct omma_error error;
  assert_ok(
      ommai_kv_cache_create(&decoder->config, decoder->dtype, sizes->n_pages, &ommai_default_allocator, &bench.cache, &error),
      &error);
  assert_ok(ommai_team_create(n_threads, false, &ommai_default_allocator, &bench.team, &error), &error);
  bench.interface = ommai_team_interface(bench.team);
  size_t prefill = ommai_prefill_workspace_size(decoder, sizes->prompt_rows, sizes->context, n_threads);
  size_t decode = ommai_decode_workspace_size(decoder, sizes->decode_rows, sizes->context, n_threads);
  assert_true(prefill > 0 && decode > 0);
  bench.size = prefill > decode ? prefill : decode;
  bench.workspace = aligned_alloc(64, (bench.size + 63) / 64 * 64);
  memset(bench.workspace, 0xff, bench.size);
  memset(bench.cache->keys, 0xff, bench.cache->bytes);
  if (bench.cache->values) memset(bench.cache->values, 0xff, bench.cache->bytes);
  return bench;
}

void decoder_bench_free(struct decoder_bench *bench) {
  ommai_kv_cache_destroy(bench->cache);
  ommai_team_destroy(bench->team);
  free(bench->workspace);
}

void decoder_bench_prefill(struct decoder_bench *bench, const int32_t *pages, const int32_t *tokens, int64_t n, int64_t chunk,
                           int64_t max_tasks, float *last) {
  struct ommai_prompt_row *rows = calloc((size_t)n, sizeof *rows);
  struct omma_error error;
  struct ommai_prefill *run = NULL;
  for (int32_t i = 0; i < n; i++) rows[i] = (struct ommai_prompt_row){.token = tokens[i], .position = {i, i, i}};
  for (int64_t first = 0; first < n; first += chunk) {
    int64_t count = n - first < chunk ? n - first : chunk;
    assert_ok(ommai_prefill_start(bench->decoder, bench->cache, pages, first, rows + first, count, bench->workspace,
                                  bench->size, bench->interface, &run, &error),
              &error);
    while (!ommai_prefill_done(run)) assert_ok(ommai_prefill_advance(run, max_tasks, &error), &error);
    memcpy(last, ommai_prefill_residual(run, count - 1), (size_t)bench->decoder->config.hidden_size * sizeof(float));
  }
  free(rows);
}

struct ommai_decode_row decoder_bench_row(int32_t token, int32_t index, const int32_t *pages) {
  return (struct ommai_decode_row){token, {index, index, index}, index, pages};
}

void decoder_bench_decode(struct decoder_bench *bench, const struct ommai_decode_row *rows, int64_t n, float *logits) {
  struct omma_error error;
  assert_ok(
      ommai_decode_run(bench->decoder, bench->cache, rows, n, bench->workspace, bench->size, bench->interface, logits, &error),
      &error);
}
