#include "support/decoder_bench.h"

#include <stdlib.h>

#include "base/allocator.h"
#include "kernels/dtype.h"
#include "support/test.h"

enum { SEQUENCE_PAGES = 5, BATCH = 4, SHARING = 3 };

struct decoder_bench decoder_bench_make(const struct ommai_decoder *decoder, const struct decoder_bench_sizes *sizes,
                                        int n_threads) {
  struct decoder_bench bench = {.decoder = decoder,
                                .allocator = sizes->allocator ? sizes->allocator : &ommai_default_allocator};
  struct omma_error error;
  int64_t n_pages[OMMAI_MAX_STATE_GROUPS];
  for (int g = 0; g < OMMAI_MAX_STATE_GROUPS; g++) n_pages[g] = sizes->n_pages;
  assert_ok(ommai_kv_cache_create(&decoder->config, decoder->kv_type, n_pages, bench.allocator, &bench.cache, &error), &error);
  assert_ok(ommai_team_create(n_threads, false, &ommai_default_allocator, &bench.team, &error), &error);
  bench.interface = ommai_team_interface(bench.team);
  size_t prefill = ommai_prefill_workspace_size(decoder, sizes->prompt_rows, SHARING, sizes->context, n_threads);
  size_t decode = ommai_decode_workspace_size(decoder, sizes->decode_rows, sizes->context, n_threads);
  assert_true(prefill > 0 && decode > 0);
  bench.size = prefill > decode ? prefill : decode;
  bench.workspace = ommai_allocate_uninitialised(bench.allocator, bench.size, 1);
  assert_non_null(bench.workspace);
  memset(bench.workspace, 0xff, bench.size);
  for (int64_t g = 0; g < bench.cache->layout.n_groups; g++) {
    const struct ommai_kv_group *group = &bench.cache->groups[g];
    memset(group->keys, 0xff, group->bytes);
    if (group->values) memset(group->values, 0xff, group->bytes);
  }
  return bench;
}

void decoder_bench_free(struct decoder_bench *bench) {
  ommai_kv_cache_destroy(bench->cache);
  ommai_team_destroy(bench->team);
  ommai_release(bench->allocator, bench->workspace, bench->size, 1);
}

struct ommai_state_pages decoder_bench_pages(const int32_t *pages) {
  struct ommai_state_pages of;
  for (int g = 0; g < OMMAI_MAX_STATE_GROUPS; g++) of.of_group[g] = pages;
  return of;
}

/* A chunk's, at position `first`. snapshots [OMMAI_SNAPSHOT_PAGES] must outlive the result. */
static struct ommai_state_pages chunk_pages(const struct decoder_bench *bench, const int32_t *pages, int64_t first,
                                            int32_t *snapshots) {
  struct ommai_state_pages of = decoder_bench_pages(pages);
  snapshots[OMMAI_SNAPSHOT_READ] = first ? pages[0] : -1;
  snapshots[OMMAI_SNAPSHOT_WRITTEN] = pages[0];
  snapshots[OMMAI_SNAPSHOT_BORDER] = -1;
  for (int64_t g = 0; g < bench->cache->layout.n_groups; g++) {
    if (bench->cache->layout.groups[g].state.kind == OMMAI_STATE_SNAPSHOT) of.of_group[g] = snapshots;
  }
  return of;
}

static void set_row(struct ommai_prompt_row *row, int32_t token, int64_t position) {
  int32_t at = (int32_t)position;
  *row = (struct ommai_prompt_row){.token = token, .position = {at, at, at}};
}

/* last_only: the last row is the only one that is read. */
static void prefill(struct decoder_bench *bench, const int32_t *pages, const int32_t *tokens, int64_t n, int64_t chunk,
                    int64_t max_tasks, bool last_only, float *last) {
  struct ommai_prompt_row *rows = calloc((size_t)n, sizeof *rows);
  struct omma_error error;
  struct ommai_prefill *run = NULL;
  for (int64_t i = 0; i < n; i++) set_row(&rows[i], tokens[i], i);
  for (int64_t first = 0; first < n; first += chunk) {
    int64_t count = n - first < chunk ? n - first : chunk;
    int32_t snapshots[OMMAI_SNAPSHOT_PAGES];
    int64_t first_read = !last_only ? 0 : first + count < n ? count : count - 1;
    const struct ommai_prefill_piece piece = {
        first, count, chunk_pages(bench, pages, first, snapshots), {.token = -1}, first_read};
    assert_ok(ommai_prefill_start(bench->decoder, bench->cache, &piece, 1, rows + first, bench->workspace, bench->size,
                                  bench->interface, &run, &error),
              &error);
    while (!ommai_prefill_done(run)) assert_ok(ommai_prefill_advance(run, max_tasks, &error), &error);
    memcpy(last, ommai_prefill_residual(run, count - 1), (size_t)bench->decoder->config.hidden_size * sizeof(float));
  }
  free(rows);
}

void decoder_bench_prefill(struct decoder_bench *bench, const int32_t *pages, const int32_t *tokens, int64_t n, int64_t chunk,
                           int64_t max_tasks, float *last) {
  prefill(bench, pages, tokens, n, chunk, max_tasks, false, last);
}

struct ommai_decode_row decoder_bench_row(int32_t token, int32_t index, const int32_t *pages) {
  return (struct ommai_decode_row){token, {index, index, index}, index, decoder_bench_pages(pages)};
}

void decoder_bench_decode(struct decoder_bench *bench, const struct ommai_decode_row *rows, int64_t n, float *logits) {
  struct omma_error error;
  assert_ok(
      ommai_decode_run(bench->decoder, bench->cache, rows, n, bench->workspace, bench->size, bench->interface, logits, &error),
      &error);
}

struct cut {
  int64_t chunk, max_tasks;
  int n_threads;
  int32_t pages[SEQUENCE_PAGES];
  bool last_only; /* nothing is read but the prompt's last row */
};

/* The prompt's last residual, then the logits of a token after it: out[hidden size +
 * vocabulary]. */
static void run_cut(const struct ommai_decoder *decoder, const struct decoder_bench_sizes *sizes, const int32_t *prompt,
                    const struct cut *cut, float *out) {
  struct decoder_bench bench = decoder_bench_make(decoder, sizes, cut->n_threads);
  prefill(&bench, cut->pages, prompt, sizes->prompt_rows, cut->chunk, cut->max_tasks, cut->last_only, out);
  const struct ommai_decode_row row = decoder_bench_row(17, (int32_t)sizes->prompt_rows, cut->pages);
  decoder_bench_decode(&bench, &row, 1, out + decoder->config.hidden_size);
  decoder_bench_free(&bench);
}

void decoder_bench_check_cutting(const struct ommai_decoder *decoder, const struct decoder_bench_sizes *sizes,
                                 const int32_t *prompt) {
  const int64_t n = sizes->prompt_rows;
  const struct cut whole = {n, 1000, 1, {3, 4, 5, 6, 7}, false};
  const struct cut cuts[] = {{n, 1, 1, {0, 1, 2, 3, 4}, false},
                             {64, 1000, 1, {5, 6, 7, 8, 9}, false},
                             {128, 3, 2, {20, 2, 11, 12, 7}, false},
                             {64, 1, 3, {(int32_t)sizes->n_pages - 1, 1, 0, 14, 3}, false},
                             {256, 1, 3, {(int32_t)sizes->n_pages - 1, 1, 0, 14, 3}, false},
                             {n, INT64_MAX, 3, {9, 8, 7, 6, 5}, false},
                             {n, 2, 2, {1, 2, 3, 4, 5}, true},
                             {64, 1000, 3, {8, 2, 0, 5, 6}, true}};
  size_t n_values = (size_t)(decoder->config.hidden_size + decoder->config.vocab_size);
  float *reference = calloc(n_values, sizeof *reference), *found = calloc(n_values, sizeof *found);
  run_cut(decoder, sizes, prompt, &whole, reference);
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    run_cut(decoder, sizes, prompt, &cuts[i], found);
    assert_memory_equal(found, reference, n_values * sizeof *found);
  }
  free(reference);
  free(found);
}

/* The pieces of a chunk; what is before `first` is there already. */
static const struct {
  int64_t first, end;
  int32_t pages[SEQUENCE_PAGES];
} shared[SHARING] = {{64, 100, {0, 5, 9}}, {0, 1, {1, 2}}, {0, 64, {4, 6}}};

/* Each page of the sequence in every layer is `value`, or becomes that. */
static void look_at_pages(const struct decoder_bench *bench, int64_t sequence, unsigned char value, bool fill) {
  const struct ommai_kv_cache *cache = bench->cache;
  for (int64_t layer = 0; layer < bench->decoder->config.n_layers; layer++) {
    const struct ommai_layer_group *group = &cache->layout.groups[cache->layout.group[layer]];
    bool snapshot = group->state.kind == OMMAI_STATE_SNAPSHOT;
    size_t stride = (size_t)ommai_kv_page_stride(cache, layer) * ommai_dtype_size(cache->dtype);
    size_t size = (snapshot ? group->state.page_bytes : stride) / (size_t)group->n_layers;
    for (int64_t i = 0; i < (snapshot ? 1 : (shared[sequence].end + 63) / 64); i++) {
      int32_t page = shared[sequence].pages[i];
      unsigned char *memory = ommai_kv_layer_keys(cache, layer);
      memory = snapshot ? ommai_kv_snapshot(cache, layer, page) : memory + (size_t)page * stride;
      if (fill) memset(memory, value, size);
      for (size_t at = 0; at < size; at++) assert_int_equal(memory[at], value);
    }
  }
}

/* The pieces in this order, of which sequence `dropped` (-1: none) leaves after n_before slices;
 * the residuals of all last rows into last [SHARING, hidden size]. */
static void prefill_shared(struct decoder_bench *bench, const int32_t *prompt, const int64_t *order, int64_t dropped,
                           int64_t n_before, float *last) {
  struct ommai_prompt_row rows[256];
  struct ommai_prefill_piece pieces[SHARING];
  int32_t snapshots[SHARING][OMMAI_SNAPSHOT_PAGES];
  static const int64_t first_reads[SHARING] = {1, 0, 1}; /* the last row of the piece, or all */
  int64_t n_rows = 0, last_rows[SHARING];
  struct ommai_prefill *run;
  struct omma_error error;
  for (int64_t i = 0; i < SHARING; i++) {
    int64_t s = order[i], first = shared[s].first, n = shared[s].end - first;
    if (first) decoder_bench_prefill(bench, shared[s].pages, prompt + s, first, first, 100, last);
    pieces[i] = (struct ommai_prefill_piece){
        first, n, chunk_pages(bench, shared[s].pages, first, snapshots[i]), {.token = -1}, first_reads[i] * (n - 1)};
    for (int64_t j = 0; j < n; j++) set_row(&rows[n_rows++], prompt[s + first + j], first + j);
    last_rows[s] = n_rows - 1;
  }
  assert_ok(ommai_prefill_start(bench->decoder, bench->cache, pieces, SHARING, rows, bench->workspace, bench->size,
                                bench->interface, &run, &error),
            &error);
  for (int64_t slice = 0; !ommai_prefill_done(run); slice++) {
    for (int64_t i = 0; i < SHARING && slice == n_before; i++) {
      if (order[i] != dropped) continue;
      ommai_prefill_drop(run, i);
      look_at_pages(bench, dropped, 0xee, true);
    }
    assert_ok(ommai_prefill_advance(run, 3, &error), &error);
  }
  for (int64_t s = 0; s < SHARING; s++) {
    size_t hidden = (size_t)bench->decoder->config.hidden_size;
    memcpy(last + (size_t)s * hidden, ommai_prefill_residual(run, last_rows[s]), hidden * sizeof(float));
  }
}

void decoder_bench_check_sharing(const struct ommai_decoder *decoder, const struct decoder_bench_sizes *sizes,
                                 const int32_t *prompt) {
  static const struct {
    int64_t order[SHARING], dropped, n_before;
    int n_threads;
  } cases[] = {{{0, 1, 2}, -1, 0, 1}, {{2, 0, 1}, -1, 0, 3}, {{1, 0, 2}, 0, 0, 2}, {{0, 1, 2}, 2, 7, 2}, {{2, 1, 0}, 1, 19, 1}};
  size_t hidden = (size_t)decoder->config.hidden_size, vocab = (size_t)decoder->config.vocab_size;
  float *alone = calloc(SHARING * (hidden + vocab), sizeof *alone), *found = calloc(SHARING * hidden + vocab, sizeof *found);
  float *alone_logits = alone + SHARING * hidden, *logits = found + SHARING * hidden;
  struct decoder_bench bench = decoder_bench_make(decoder, sizes, 2);
  for (int64_t s = 0; s < SHARING; s++) {
    const struct ommai_decode_row row = decoder_bench_row(17, (int32_t)shared[s].end, shared[s].pages);
    decoder_bench_prefill(&bench, shared[s].pages, prompt + s, shared[s].end, 128, 100, alone + (size_t)s * hidden);
    decoder_bench_decode(&bench, &row, 1, alone_logits + (size_t)s * vocab);
  }
  decoder_bench_free(&bench);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bench = decoder_bench_make(decoder, sizes, cases[i].n_threads);
    prefill_shared(&bench, prompt, cases[i].order, cases[i].dropped, cases[i].n_before, found);
    if (cases[i].dropped >= 0) look_at_pages(&bench, cases[i].dropped, 0xee, false);
    for (int64_t s = 0; s < SHARING; s++) {
      if (s == cases[i].dropped) continue;
      const struct ommai_decode_row row = decoder_bench_row(17, (int32_t)shared[s].end, shared[s].pages);
      assert_memory_equal(found + (size_t)s * hidden, alone + (size_t)s * hidden, hidden * sizeof *found);
      decoder_bench_decode(&bench, &row, 1, logits);
      assert_memory_equal(logits, alone_logits + (size_t)s * vocab, vocab * sizeof *logits);
    }
    decoder_bench_free(&bench);
  }
  free(alone);
  free(found);
}

void decoder_bench_check_batch(const struct ommai_decoder *decoder, const struct decoder_bench_sizes *sizes,
                               const int32_t *prompt) {
  const int32_t lengths[BATCH] = {(int32_t)sizes->prompt_rows, 1, 64, 127};
  const int32_t pages[BATCH][SEQUENCE_PAGES] = {{0, 5, 9, 12, 13}, {1, 2, 3}, {4, 6, 7}, {8, 10, 11}};
  const size_t n_logits = (size_t)decoder->config.vocab_size;
  struct decoder_bench bench = decoder_bench_make(decoder, sizes, 2);
  struct ommai_decode_row rows[BATCH], back[BATCH];
  float *last = calloc((size_t)decoder->config.hidden_size, sizeof *last);
  float *alone = calloc(3 * BATCH * n_logits, sizeof *alone);
  float *together = alone + BATCH * n_logits, *turned = together + BATCH * n_logits;
  for (int i = 0; i < BATCH; i++) {
    decoder_bench_prefill(&bench, pages[i], prompt + i, lengths[i], sizes->prompt_rows + 42, 100, last);
    rows[i] = decoder_bench_row(30 + i, lengths[i], pages[i]);
    back[BATCH - 1 - i] = rows[i];
  }
  for (size_t i = 0; i < BATCH; i++) decoder_bench_decode(&bench, &rows[i], 1, alone + i * n_logits);
  decoder_bench_decode(&bench, rows, BATCH, together);
  decoder_bench_decode(&bench, back, BATCH, turned);
  assert_memory_equal(together, alone, BATCH * n_logits * sizeof *alone);
  for (size_t i = 0; i < BATCH; i++) {
    assert_memory_equal(turned + (BATCH - 1 - i) * n_logits, alone + i * n_logits, n_logits * sizeof *alone);
  }
  for (size_t i = 0; i < BATCH * n_logits; i++) assert_true(alone[i] == alone[i]);
  free(alone);
  free(last);
  decoder_bench_free(&bench);
}
