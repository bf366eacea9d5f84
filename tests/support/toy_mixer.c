#include "support/toy_mixer.h"

#include <string.h>

#include "base/checked.h"
#include "base/team.h"
#include "kernels/dtype.h"
#include "language/decode_attention.h"
#include "language/prefill_attention.h"

static struct ommai_mixer_shape shape(const struct ommai_decoder_config *config) {
  size_t state = (size_t)(config->n_kv_heads * config->head_dim * config->v_head_dim) * sizeof(float);
  return (struct ommai_mixer_shape){.projected = ommai_decoder_q_width(config) + 2 * ommai_decoder_kv_width(config),
                                    .mixed = ommai_decoder_attended_width(config),
                                    .snapshot_bytes = (state + 63) / 64 * 64};
}

/* Rows through one head of k and v. */
struct head {
  const struct ommai_decoder *decoder;
  const struct ommai_kv_cache *cache;
  int64_t layer, index;
};

static float *state_of(const struct head *head, int32_t page) {
  const struct ommai_decoder_config *config = &head->decoder->config;
  return (float *)ommai_kv_snapshot(head->cache, head->layer, page) + head->index * config->head_dim * config->v_head_dim;
}

static size_t state_bytes(const struct head *head) {
  const struct ommai_decoder_config *config = &head->decoder->config;
  return (size_t)(config->head_dim * config->v_head_dim) * sizeof(float);
}

static void copy_state(const struct head *head, int32_t from, int32_t to) {
  if (from == to) return;
  if (from >= 0) {
    memcpy(state_of(head, to), state_of(head, from), state_bytes(head));
  } else {
    memset(state_of(head, to), 0, state_bytes(head));
  }
}

static void run_row(const struct head *head, const float *projected, float *state, void *out) {
  const struct ommai_decoder_config *config = &head->decoder->config;
  int64_t d = config->head_dim, n_v = config->v_head_dim, share = config->n_heads / config->n_kv_heads;
  const float *k = projected + ommai_decoder_q_width(config) + head->index * d, *v = k + ommai_decoder_kv_width(config);
  float mixed[OMMA_ATTENTION_MAX_HEAD_DIM];
  for (int64_t i = 0; i < d; i++) {
    for (int64_t j = 0; j < n_v; j++) state[i * n_v + j] = TOY_DECAY * state[i * n_v + j] + k[i] * v[j];
  }
  for (int64_t h = head->index * share; h < (head->index + 1) * share; h++) {
    for (int64_t j = 0; j < n_v; j++) {
      mixed[j] = 0;
      for (int64_t i = 0; i < d; i++) mixed[j] += projected[h * d + i] * state[i * n_v + j];
      mixed[j] /= (float)d;
    }
    head->decoder->ops->convert(mixed, n_v, ommai_element(out, h * n_v, head->decoder->dtype), head->decoder->dtype);
  }
}

/* ---- decode ---- */

/* One byte stands for nothing. */
static size_t size(const struct ommai_decoder *decoder, const struct ommai_layer_group *group, int64_t max_rows,
                   int64_t max_context, int n_workers) {
  (void)decoder, (void)group, (void)max_rows, (void)max_context, (void)n_workers;
  return 1;
}

static enum omma_status place_decode(struct ommai_decode_mixing *mixing, int n_workers, struct ommai_arena *arena,
                                     struct omma_error *error) {
  (void)mixing, (void)n_workers, (void)arena, (void)error;
  return OMMA_OK;
}

struct decode_call {
  const struct ommai_decode_mixing *mixing;
  int64_t layer;
};

static void decode_head(void *context, int64_t index, int worker) {
  (void)worker;
  const struct decode_call *call = context;
  const struct ommai_decode_mixing *mixing = call->mixing;
  const struct head head = {mixing->decoder, mixing->cache, call->layer, index};
  const struct ommai_mixer_shape sizes = shape(&mixing->decoder->config);
  for (int64_t row = 0; row < mixing->n_rows; row++) {
    const int32_t *pages = mixing->rows[row].pages.of_group[mixing->group];
    copy_state(&head, pages[OMMAI_SNAPSHOT_READ], pages[OMMAI_SNAPSHOT_WRITTEN]);
    run_row(&head, mixing->projected + row * sizes.projected, state_of(&head, pages[OMMAI_SNAPSHOT_WRITTEN]),
            ommai_element(mixing->out, row * sizes.mixed, mixing->decoder->dtype));
  }
}

static enum omma_status decode(const struct ommai_decode_mixing *mixing, int64_t layer, const struct omma_team *team,
                               struct omma_error *error) {
  (void)error;
  struct decode_call call = {mixing, layer};
  ommai_team_run(team, mixing->decoder->config.n_kv_heads, decode_head, &call);
  return OMMA_OK;
}

/* ---- prefill ---- */

static size_t prefill_size(const struct ommai_decoder *decoder, const struct ommai_layer_group *group,
                           const struct ommai_prefill_limits *limits, int n_workers) {
  return size(decoder, group, limits->rows, limits->context, n_workers);
}

static enum omma_status place_prefill(struct ommai_prefill_mixing *mixing, int n_workers, struct ommai_arena *arena,
                                      struct omma_error *error) {
  (void)n_workers, (void)arena, (void)error;
  mixing->n_steps = mixing->decoder->config.n_kv_heads;
  return OMMA_OK;
}

struct prefill_call {
  const struct ommai_prefill_mixing *mixing;
  int64_t layer, first_step;
};

static void prefill_piece(const struct ommai_prefill_mixing *mixing, const struct head *head, int64_t piece) {
  const struct ommai_chunk_pieces *pieces = mixing->pieces;
  const struct ommai_mixer_shape sizes = shape(&mixing->decoder->config);
  const int32_t *pages = pieces->pages[piece].of_group[mixing->group];
  int64_t begin = pieces->borders[piece], end = ommai_chunk_piece_end(pieces, piece);
  int64_t border = end - end % OMMA_ATTENTION_PAGE_TOKENS;
  copy_state(head, pages[OMMAI_SNAPSHOT_READ], pages[OMMAI_SNAPSHOT_WRITTEN]);
  for (int64_t row = begin; row < pieces->borders[piece + 1]; row++) {
    if (pieces->firsts[piece] + row - begin == border && row > begin && pages[OMMAI_SNAPSHOT_BORDER] >= 0) {
      copy_state(head, pages[OMMAI_SNAPSHOT_WRITTEN], pages[OMMAI_SNAPSHOT_BORDER]);
    }
    run_row(head, mixing->projected + row * sizes.projected, state_of(head, pages[OMMAI_SNAPSHOT_WRITTEN]),
            ommai_element(mixing->out, row * sizes.mixed, mixing->decoder->dtype));
  }
}

static void prefill_head(void *context, int64_t task, int worker) {
  (void)worker;
  const struct prefill_call *call = context;
  const struct ommai_prefill_mixing *mixing = call->mixing;
  const struct head head = {mixing->decoder, mixing->cache, call->layer, call->first_step + task};
  for (int64_t i = 0; i < mixing->pieces->n; i++) {
    if (!mixing->pieces->dropped[i]) prefill_piece(mixing, &head, i);
  }
}

static enum omma_status prefill(const struct ommai_prefill_mixing *mixing, int64_t layer, int64_t first, int64_t *count,
                                const struct omma_team *team, struct omma_error *error) {
  (void)error;
  struct prefill_call call = {mixing, layer, first};
  *count = ommai_min_i64(*count, mixing->n_steps - first);
  ommai_team_run(team, *count, prefill_head, &call);
  return OMMA_OK;
}

const struct ommai_mixer toy_mixer = {.shape = shape,
                                      .int8_cache = true,
                                      .decode_size = size,
                                      .place_decode = place_decode,
                                      .decode = decode,
                                      .prefill_size = prefill_size,
                                      .place_prefill = place_prefill,
                                      .prefill = prefill};
