/* Checking a spec: first its numbers, then the contents of its arrays. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "attention/attention_plan.h"
#include "base/checked.h"
#include "base/error.h"

#define REFUSE(status, field, ...) return ommai_fail_field(error, OMMA_ERROR_##status, field, field ": " __VA_ARGS__)

static enum omma_status check_type(const struct omma_attention_spec *spec, struct ommai_attention_problem *problem,
                                   struct omma_error *error) {
  if (spec->mode < OMMA_ATTENTION_ENCODER || spec->mode > OMMA_ATTENTION_DECODE) {
    REFUSE(ARGUMENT, "mode", "expected an enum omma_attention_mode, found %d", (int)spec->mode);
  }
  if (spec->dtype < OMMA_F32 || spec->dtype > OMMA_F16) {
    REFUSE(ARGUMENT, "dtype", "expected an enum omma_dtype, found %d", (int)spec->dtype);
  }
  if (spec->mode != OMMA_ATTENTION_ENCODER && spec->dtype == OMMA_F16) {
    REFUSE(UNSUPPORTED, "dtype", "f16 is served in the encoder mode only; the causal and decode modes take f32 and bf16");
  }
  if (spec->index_type != OMMA_INDEX_INT32 && spec->index_type != OMMA_INDEX_INT64) {
    REFUSE(ARGUMENT, "index_type", "expected an enum omma_index_type, found %d", (int)spec->index_type);
  }
  if (spec->bf16_kv && spec->mode == OMMA_ATTENTION_ENCODER) {
    REFUSE(UNSUPPORTED, "bf16_kv", "the encoder mode takes keys and values of its queries' type");
  }
  if (spec->int8_kv && spec->mode == OMMA_ATTENTION_ENCODER) {
    REFUSE(UNSUPPORTED, "int8_kv", "the encoder mode takes keys and values of its queries' type");
  }
  if (spec->int8_kv && spec->bf16_kv) REFUSE(ARGUMENT, "int8_kv", "given together with bf16_kv");
  enum omma_dtype kv = spec->int8_kv ? OMMA_INT8 : spec->bf16_kv ? OMMA_BF16 : spec->dtype;
  problem->mode = spec->mode;
  problem->types = (struct ommai_attention_types){spec->dtype, kv};
  return OMMA_OK;
}

static enum omma_status check_shape(const struct omma_attention_spec *spec, struct ommai_attention_problem *problem,
                                    struct omma_error *error) {
  int32_t n_kv_heads = spec->n_kv_heads ? spec->n_kv_heads : spec->n_heads;
  int32_t v_head_dim = spec->v_head_dim ? spec->v_head_dim : spec->head_dim;
  if (spec->n_heads < 1) REFUSE(ARGUMENT, "n_heads", "expected at least 1, found %d", spec->n_heads);
  if (spec->n_heads > OMMA_ATTENTION_MAX_HEADS) {
    REFUSE(LIMIT, "n_heads", "expected at most %d, found %d", OMMA_ATTENTION_MAX_HEADS, spec->n_heads);
  }
  if (n_kv_heads < 1 || spec->n_heads % n_kv_heads != 0) {
    REFUSE(ARGUMENT, "n_kv_heads", "expected a divisor of n_heads = %d, found %d", spec->n_heads, n_kv_heads);
  }
  if (spec->head_dim < 1) REFUSE(ARGUMENT, "head_dim", "expected at least 1, found %d", spec->head_dim);
  if (v_head_dim < 1) REFUSE(ARGUMENT, "v_head_dim", "expected at least 1, found %d", v_head_dim);
  int32_t max_head_dim = spec->mode == OMMA_ATTENTION_DECODE ? OMMA_ATTENTION_MAX_DECODE_HEAD_DIM : OMMA_ATTENTION_MAX_HEAD_DIM;
  if (spec->head_dim > max_head_dim)
    REFUSE(UNSUPPORTED, "head_dim", "expected at most %d, found %d", max_head_dim, spec->head_dim);
  if (v_head_dim > max_head_dim) REFUSE(UNSUPPORTED, "v_head_dim", "expected at most %d, found %d", max_head_dim, v_head_dim);
  if (!isfinite(spec->scale)) REFUSE(ARGUMENT, "scale", "expected a finite number, found %g", (double)spec->scale);
  problem->n_heads = spec->n_heads;
  problem->n_kv_heads = n_kv_heads;
  problem->group = spec->n_heads / n_kv_heads;
  problem->head_dim = spec->head_dim;
  problem->v_head_dim = v_head_dim;
  problem->scale = spec->scale != 0.0f ? spec->scale : (float)(1.0 / sqrt(spec->head_dim));
  return OMMA_OK;
}

static enum omma_status check_count(const char *field, int64_t value, int64_t limit, struct omma_error *error) {
  if (value < 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, field, "%s: expected at least 0, found %" PRId64, field, value);
  }
  if (value > limit) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, field, "%s: expected at most %" PRId64 ", found %" PRId64, field, limit,
                            value);
  }
  return OMMA_OK;
}

static enum omma_status check_counts(const struct omma_attention_spec *spec, struct ommai_attention_problem *problem,
                                     struct omma_error *error) {
  OMMAI_TRY(check_count("n_tokens", spec->n_tokens, OMMA_ATTENTION_MAX_TOKENS, error));
  OMMAI_TRY(check_count("n_kv_tokens", spec->n_kv_tokens, OMMA_ATTENTION_MAX_TOKENS, error));
  OMMAI_TRY(check_count("n_segments", spec->n_segments, OMMA_ATTENTION_MAX_SEGMENTS, error));
  OMMAI_TRY(check_count("batch", spec->batch, OMMA_ATTENTION_MAX_SEGMENTS, error));
  bool encoder = spec->mode == OMMA_ATTENTION_ENCODER;
  if (encoder && spec->paged) REFUSE(ARGUMENT, "paged", "the encoder mode reads no pages");
  OMMAI_TRY(check_count("window", spec->window, INT64_MAX, error));
  if (encoder && spec->window) {
    REFUSE(ARGUMENT, "window", "the encoder mode has no sliding window; expected 0, found %" PRId64, spec->window);
  }
  if (encoder && spec->q_offsets) REFUSE(ARGUMENT, "q_offsets", "the encoder mode has no positions; expected NULL");
  if (!spec->cu_seqlens && spec->cu_seqlens_k) {
    REFUSE(ARGUMENT, "cu_seqlens_k", "given without cu_seqlens");
  }
  problem->paged = spec->paged;
  problem->window_keys = spec->window ? ommai_min_i64(spec->window, OMMA_ATTENTION_MAX_TOKENS) : OMMA_ATTENTION_MAX_TOKENS;
  problem->n_tokens = spec->n_tokens;
  problem->n_kv_tokens = spec->n_kv_tokens ? spec->n_kv_tokens : spec->n_tokens;
  problem->n_segments = spec->n_segments;
  return OMMA_OK;
}

/* Kernels, and the sizes that follow from them. A worker's scratch holds the kernel's own and a
 * small unit's shared part. */
static void choose_kernel(const struct omma_attention_context *context, bool int8_scores,
                          struct ommai_attention_problem *problem) {
  size_t scratch;
  int types = ommai_attention_types_index(problem->types);
  if (problem->mode == OMMA_ATTENTION_DECODE) {
    problem->decode = context->decode[types];
    int64_t floats = OMMAI_ATTENTION_STATE_OUT + ommai_round_up(problem->v_head_dim, 16);
    problem->state_bytes = (size_t)floats * sizeof(float);
    scratch = problem->state_bytes * (size_t)problem->group * (size_t)ommai_attention_pair_heads(problem->n_kv_heads);
  } else {
    problem->int8 = int8_scores && problem->mode == OMMA_ATTENTION_ENCODER && context->int8[types];
    problem->tile = problem->int8 ? context->int8[types] : context->tile[types];
    problem->block_bytes =
        (size_t)ommai_round_up((int64_t)problem->tile->block_bytes(problem->head_dim, problem->v_head_dim), 64);
    problem->window = problem->mode == OMMA_ATTENTION_ENCODER ? context->window[types] : NULL;
    scratch = problem->tile->scratch_bytes(problem->head_dim, problem->v_head_dim);
    size_t window = problem->window ? problem->window->scratch_bytes(problem->head_dim, problem->v_head_dim) : 0;
    scratch = (size_t)ommai_round_up((int64_t)(window > scratch ? window : scratch), 64);
    scratch += OMMAI_ATTENTION_SMALL_KEYS / OMMAI_ATTENTION_BLOCK * problem->block_bytes;
  }
  problem->scratch_bytes = (size_t)ommai_round_up((int64_t)scratch, 64);
}

enum omma_status ommai_attention_check_spec(const struct omma_attention_context *context,
                                            const struct omma_attention_spec *spec, struct ommai_attention_problem *problem,
                                            struct omma_error *error) {
  if (!context) REFUSE(ARGUMENT, "context", "expected a context, found NULL");
  if (!spec) REFUSE(ARGUMENT, "spec", "expected a spec, found NULL");
  memset(problem, 0, sizeof *problem);
  OMMAI_TRY(check_type(spec, problem, error));
  OMMAI_TRY(check_shape(spec, problem, error));
  OMMAI_TRY(check_counts(spec, problem, error));
  if (!spec->cu_seqlens) {
    int64_t batch = spec->batch ? spec->batch : 1;
    problem->batch_rows = problem->n_tokens / batch;
    problem->batch_kv_rows = problem->n_kv_tokens / batch;
    problem->n_segments = ommai_max_i64(spec->n_segments, batch);
  }
  choose_kernel(context, spec->int8_scores, problem);
  return OMMA_OK;
}

/* Entry `index` of a border array of either type; the copy is for arrays that are not aligned. */
static int64_t border(const void *array, enum omma_index_type type, int64_t index) {
  if (type == OMMA_INDEX_INT32) {
    int32_t value;
    memcpy(&value, (const unsigned char *)array + index * 4, sizeof value);
    return value;
  }
  int64_t value;
  memcpy(&value, (const unsigned char *)array + index * 8, sizeof value);
  return value;
}

/* Borders over the n_tokens rows of `tensor`. */
static enum omma_status check_borders(const char *field, const void *array, const struct omma_attention_spec *spec,
                                      const char *tensor, int64_t n_tokens, struct omma_error *error) {
  int64_t before = 0;
  for (int64_t i = 0; i <= spec->n_segments; i++) {
    int64_t value = border(array, spec->index_type, i);
    if (i == 0 && value != 0) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, field, "%s[0]: expected 0, found %" PRId64, field, value);
    }
    if (value < before) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, field,
                              "%s[%" PRId64 "]: expected at least the entry before, %" PRId64 ", found %" PRId64, field, i,
                              before, value);
    }
    if (value > n_tokens) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, field,
                              "%s[%" PRId64 "]: expected at most the %" PRId64 " rows of %s, found %" PRId64, field, i,
                              n_tokens, tensor, value);
    }
    before = value;
  }
  return OMMA_OK;
}

static enum omma_status check_batch(const struct ommai_attention_problem *problem, const struct omma_attention_spec *spec,
                                    struct omma_error *error) {
  int64_t batch = spec->batch ? spec->batch : 1;
  if (spec->n_segments && spec->n_segments != batch) {
    REFUSE(ARGUMENT, "n_segments", "%" PRId64 " segments without cu_seqlens; expected 0 or the batch of %" PRId64,
           spec->n_segments, batch);
  }
  if (problem->n_tokens % batch) {
    REFUSE(ARGUMENT, "n_tokens", "%" PRId64 " rows do not divide into a batch of %" PRId64, problem->n_tokens, batch);
  }
  if (!problem->paged && problem->n_kv_tokens % batch) {
    REFUSE(ARGUMENT, "n_kv_tokens", "%" PRId64 " rows do not divide into a batch of %" PRId64, problem->n_kv_tokens, batch);
  }
  return OMMA_OK;
}

/* Positions, and that the keys they ask for are there. */
static enum omma_status check_positions(const struct ommai_attention_problem *problem, const struct omma_attention_spec *spec,
                                        struct omma_error *error) {
  for (int64_t i = 0; i < problem->n_segments; i++) {
    int64_t offset = spec->q_offsets ? spec->q_offsets[i] : 0;
    if (offset < 0 || offset > OMMA_ATTENTION_MAX_TOKENS) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "q_offsets",
                              "q_offsets[%" PRId64 "]: expected 0 to %" PRId64 ", found %" PRId64, i, OMMA_ATTENTION_MAX_TOKENS,
                              offset);
    }
    struct ommai_attention_segment segment = ommai_attention_segment_at(problem, spec, i);
    if (segment.n_rows > 0 && segment.n_keys > OMMA_ATTENTION_MAX_TOKENS) {
      return ommai_fail_field(error, OMMA_ERROR_LIMIT, "q_offsets",
                              "q_offsets[%" PRId64 "]: %" PRId64 " positions and %" PRId64 " rows are more than %" PRId64
                              " keys",
                              i, offset, segment.n_rows, OMMA_ATTENTION_MAX_TOKENS);
    }
    if (segment.n_rows > 0 && !problem->paged && segment.n_keys > segment.key_room) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "q_offsets",
                              "q_offsets[%" PRId64 "]: segment %" PRId64 " has %" PRId64 " positions before its %" PRId64
                              " query rows, but only %" PRId64 " rows of keys",
                              i, i, offset, segment.n_rows, segment.key_room);
    }
  }
  return OMMA_OK;
}

enum omma_status ommai_attention_check_segments(const struct ommai_attention_problem *problem,
                                                const struct omma_attention_spec *spec, struct omma_error *error) {
  if (spec->cu_seqlens) {
    OMMAI_TRY(check_borders("cu_seqlens", spec->cu_seqlens, spec, "q", problem->n_tokens, error));
    if (spec->cu_seqlens_k && !problem->paged) {
      OMMAI_TRY(check_borders("cu_seqlens_k", spec->cu_seqlens_k, spec, "k", problem->n_kv_tokens, error));
    } else if (!problem->paged) {
      OMMAI_TRY(check_borders("cu_seqlens", spec->cu_seqlens, spec, "k", problem->n_kv_tokens, error));
    }
  } else {
    OMMAI_TRY(check_batch(problem, spec, error));
  }
  return problem->mode == OMMA_ATTENTION_ENCODER ? OMMA_OK : check_positions(problem, spec, error);
}

struct ommai_attention_segment ommai_attention_segment_at(const struct ommai_attention_problem *problem,
                                                          const struct omma_attention_spec *spec, int64_t index) {
  struct ommai_attention_segment segment = {0};
  if (spec->cu_seqlens) {
    const void *keys = spec->cu_seqlens_k ? spec->cu_seqlens_k : spec->cu_seqlens;
    segment.first_row = border(spec->cu_seqlens, spec->index_type, index);
    segment.n_rows = border(spec->cu_seqlens, spec->index_type, index + 1) - segment.first_row;
    if (!problem->paged) {
      segment.first_key = border(keys, spec->index_type, index);
      segment.key_room = border(keys, spec->index_type, index + 1) - segment.first_key;
    }
  } else {
    segment.first_row = index * problem->batch_rows;
    segment.n_rows = problem->batch_rows;
    segment.first_key = problem->paged ? 0 : index * problem->batch_kv_rows;
    segment.key_room = problem->batch_kv_rows;
  }
  if (problem->mode == OMMA_ATTENTION_ENCODER) {
    segment.n_keys = segment.key_room;
  } else {
    segment.offset = spec->q_offsets ? spec->q_offsets[index] : 0;
    segment.n_keys = segment.offset + segment.n_rows;
  }
  return segment;
}
