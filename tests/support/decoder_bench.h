/* A decoder with the cache, the threads and the workspace that it runs on, and prompts and tokens
 * through it. */
#pragma once

#include "base/team.h"
#include "language/decode.h"
#include "language/prefill.h"

struct decoder_bench {
  const struct ommai_decoder *decoder;
  struct ommai_kv_cache *cache;
  struct ommai_team *team;
  const struct omma_team *interface;
  void *workspace;
  size_t size;
  const struct omma_allocator *allocator;
};

/* What a bench has room for. allocator: of the cache and the workspace; NULL: the library's own. */
struct decoder_bench_sizes {
  int64_t n_pages, prompt_rows, decode_rows, context;
  const struct omma_allocator *allocator;
};

/* Memory that nobody has written holds NaN. */
struct decoder_bench decoder_bench_make(const struct ommai_decoder *decoder, const struct decoder_bench_sizes *sizes,
                                        int n_threads);
void decoder_bench_free(struct decoder_bench *bench);

/* The same numbers as pages of every group. Snapshots: a chunk goes on in pages[0], a generated
 * token begins there and leaves its end in pages[1]. */
struct ommai_state_pages decoder_bench_pages(const int32_t *pages);

/* Prefills n tokens in chunks and slices; the residual of the last row into last[hidden size]. */
void decoder_bench_prefill(struct decoder_bench *bench, const int32_t *pages, const int32_t *tokens, int64_t n, int64_t chunk,
                           int64_t max_tasks, float *last);

/* A token of text at a place of the sequence that has these pages. */
struct ommai_decode_row decoder_bench_row(int32_t token, int32_t index, const int32_t *pages);

/* One decode step; logits [n][vocabulary]. */
void decoder_bench_decode(struct decoder_bench *bench, const struct ommai_decode_row *rows, int64_t n, float *logits);

/* A prompt of sizes->prompt_rows tokens (65 to 320) and a token after it: chunks, slices, threads
 * and pages do not change a bit. */
void decoder_bench_check_cutting(const struct ommai_decoder *decoder, const struct decoder_bench_sizes *sizes,
                                 const int32_t *prompt);

/* Four sequences' pieces in one chunk, in any order, and where one of them is dropped on the way:
 * not a bit of the others changes, and a dropped one's pages are not written any more. */
void decoder_bench_check_sharing(const struct ommai_decoder *decoder, const struct decoder_bench_sizes *sizes,
                                 const int32_t *prompt);

/* Four sequences of different lengths from the prompt, decoded together and alone, in any order:
 * not a bit changes. */
void decoder_bench_check_batch(const struct ommai_decoder *decoder, const struct decoder_bench_sizes *sizes,
                               const int32_t *prompt);
