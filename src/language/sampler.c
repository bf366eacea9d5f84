/* Passes over the rows, each shared by the pool:
 *   scan  (row, part): penalties and bans; is every logit finite; the largest; the likeliest tokens
 *   weigh (row, part): the sums that draws from all tokens and log-probabilities need
 *   look  (row, part), narrow (row): where top-k, top-p and min-p cut the distribution
 *         (token_cut.h), some rounds
 *   draw  (row):       the token */
#include "language/sampler.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/team.h"
#include "language/token_cut.h"

enum { PART = OMMAI_TOKEN_PART, BLOCK = 256, LANES = 16 };

/* Below e^-21 of the largest a weight is 0. */
#define WEIGHT_RANGE 21.0

struct part {
  struct ommai_row_range logits, values; /* the values are the adjusted logits */
  double logit_sum;                      /* of exp(logit - the row's highest logit) */
  uint64_t weight;                       /* of all its tokens; counted where none is cut off */
  int32_t top[OMMA_MAX_TOP_LOGPROBS];
  int n_top;
  int64_t n_at_least; /* tokens with the given one's logit or a larger one */
};

/* What a row needs while it is drawn. */
struct scratch {
  struct part *parts; /* [n_parts] */
  float *adjusted;    /* [vocab] */
  struct ommai_token_cut cut;
  const struct ommai_sampler_input *input;
  const float *values; /* the logits, or `adjusted` where anything changes them */
  float highest, highest_logit;
  bool draws; /* more than the greedy token is wanted */
};

struct ommai_sampler {
  const struct ommai_row_ops *ops;
  int64_t vocab_size, n_parts;
  struct scratch *scratch; /* [max_rows] */
  struct ommai_draw *rows;
};

static struct ommai_sampler *place(struct ommai_arena *arena, int64_t vocab_size, int64_t max_rows,
                                   const struct ommai_row_ops *ops) {
  struct ommai_sampler *sampler = ommai_arena_take(arena, 1, sizeof *sampler);
  size_t vocab = (size_t)vocab_size, n_parts = (size_t)ommai_div_up(vocab_size, PART);
  struct ommai_sampler placed = {.ops = ops, .vocab_size = vocab_size, .n_parts = (int64_t)n_parts};
  placed.scratch = ommai_arena_take(arena, (size_t)max_rows, sizeof *placed.scratch);
  for (int64_t row = 0; row < max_rows; row++) {
    struct scratch one = {.parts = ommai_arena_take(arena, n_parts, sizeof *one.parts),
                          .adjusted = ommai_arena_take(arena, vocab, sizeof(float))};
    one.cut = ommai_token_cut_place(arena, vocab_size, ops);
    if (sampler) placed.scratch[row] = one;
  }
  if (sampler) *sampler = placed;
  return sampler;
}

size_t ommai_sampler_size(int64_t vocab_size, int64_t max_rows) {
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  place(&arena, vocab_size, max_rows, NULL);
  return arena.failed ? 0 : arena.used;
}

struct ommai_sampler *ommai_sampler_place(void *memory, int64_t vocab_size, int64_t max_rows, const struct ommai_row_ops *ops) {
  struct ommai_arena arena;
  ommai_arena_init(&arena, memory, ommai_sampler_size(vocab_size, max_rows));
  struct ommai_sampler *sampler = place(&arena, vocab_size, max_rows, ops);
  return sampler;
}

/* SplitMix64 of (seed, step): a uniform number in [0, 1). */
static double uniform(uint64_t seed, int64_t step) {
  uint64_t z = seed + (uint64_t)(step + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static bool is_greedy(const struct ommai_sampler_settings *settings) {
  return settings->temperature < OMMAI_SAMPLER_MIN_TEMPERATURE;
}

/* Whether some tokens are cut off by their rank or weight. */
static bool is_cut(const struct ommai_sampler_settings *settings) {
  return settings->top_k > 0 || settings->top_p < 1 || settings->min_p > 0;
}

/* ---- scan ---- */

static void apply_penalties(const struct ommai_sampler_settings *settings, const struct ommai_token_counts *counts,
                            int64_t first, int64_t n, float *values) {
  for (int64_t i = first; i < first + n; i++) {
    double value = values[i];
    if (counts->answer[i] > 0 || counts->prompt[i]) {
      value = value > 0 ? value / settings->repetition_penalty : value * settings->repetition_penalty;
    }
    if (counts->answer[i] > 0) {
      value -= settings->frequency_penalty * counts->answer[i] + settings->presence_penalty;
    }
    values[i] = (float)fmin(fmax(value, -FLT_MAX), FLT_MAX); /* infinite are banned tokens alone */
  }
}

static void apply_biases(const struct ommai_draw *row, int64_t first, int64_t n, float *values) {
  size_t low = 0, high = row->n_biases;
  while (low < high) { /* the first bias of a token from `first` on */
    size_t middle = low + (high - low) / 2;
    if (row->biases[middle].token < first) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < row->n_biases && row->biases[low].token < first + n; low++) {
    float *value = &values[row->biases[low].token];
    *value = fminf(fmaxf(*value + row->biases[low].bias, -FLT_MAX), FLT_MAX);
  }
}

/* Tokens from `first`, a multiple of 32, to before `end` that the mask has not. */
static void forbid_others(const uint32_t *allowed, int64_t first, int64_t end, float *values) {
  for (int64_t at = first; at < end; at += 32) {
    uint32_t missing = ~allowed[at / 32];
    if (end - at < 32) missing &= (UINT32_C(1) << (end - at)) - 1;
    for (; missing; missing &= missing - 1) values[at + __builtin_ctz(missing)] = -INFINITY;
  }
}

/* The row's values of a part; they are the logits where nothing changes them. */
static void adjust(const struct ommai_draw *row, const struct scratch *scratch, int64_t first, int64_t n) {
  float *adjusted = scratch->adjusted;
  memcpy(adjusted + first, scratch->input->logits + first, (size_t)n * sizeof *adjusted);
  apply_biases(row, first, n, adjusted);
  if (ommai_sampler_has_penalties(row->settings)) apply_penalties(row->settings, &scratch->input->counts, first, n, adjusted);
  for (size_t i = 0; i < row->n_banned; i++) {
    if (row->banned[i] >= first && row->banned[i] < first + n) adjusted[row->banned[i]] = -INFINITY;
  }
  if (row->allowed) forbid_others(row->allowed, first, first + n, adjusted);
}

/* Keeps top[*n] in falling order of value, equal ones in rising order of id; ids come in rising
 * order. */
static void keep_top(const float *values, int32_t id, int32_t *top, int *n, int limit) {
  if (*n == limit && !(values[id] > values[top[*n - 1]])) return;
  int at = *n < limit ? (*n)++ : *n - 1;
  for (; at > 0 && values[id] > values[top[at - 1]]; at--) top[at] = top[at - 1];
  top[at] = id;
}

static void scan_task(void *context, int64_t task, int worker) {
  (void)worker;
  struct ommai_sampler *sampler = context;
  struct ommai_draw *row = &sampler->rows[task / sampler->n_parts];
  struct scratch *scratch = &sampler->scratch[task / sampler->n_parts];
  struct part *part = &scratch->parts[task % sampler->n_parts];
  int64_t first = task % sampler->n_parts * PART, n = ommai_min_i64(PART, sampler->vocab_size - first);
  sampler->ops->find_range(scratch->input->logits + first, n, &part->logits);
  part->values = part->logits;
  if (!part->logits.finite) return;
  if (scratch->values != scratch->input->logits) {
    adjust(row, scratch, first, n);
    sampler->ops->find_range(scratch->adjusted + first, n, &part->values);
  }
  part->n_top = 0;
  for (int64_t i = first; i < first + n && row->n_top; i++) {
    keep_top(scratch->input->logits, (int32_t)i, part->top, &part->n_top, row->n_top);
  }
}

/* What the parts of a row found, together; the greedy token. */
static void join_scans(const struct ommai_sampler *sampler, struct ommai_draw *row, struct scratch *scratch) {
  const struct part *parts = scratch->parts;
  row->finite = true;
  scratch->draws = false;
  for (int64_t i = 0; i < sampler->n_parts; i++) row->finite = row->finite && parts[i].logits.finite;
  if (!row->finite) return;
  int64_t best = 0;
  scratch->highest_logit = parts[0].logits.high;
  for (int64_t i = 1; i < sampler->n_parts; i++) {
    if (parts[i].values.high > parts[best].values.high) best = i;
    if (parts[i].logits.high > scratch->highest_logit) scratch->highest_logit = parts[i].logits.high;
  }
  scratch->highest = parts[best].values.high;
  if (row->is_given) return;
  row->token = -1;
  if (scratch->highest == -INFINITY) return;
  row->token = (int32_t)(best * PART);
  while (scratch->values[row->token] != scratch->highest) row->token++;
  scratch->draws = !is_greedy(row->settings);
}

/* ---- weigh ---- */

/* The sum of exp(x - shift). */
static double sum_exponentials(const struct ommai_sampler *sampler, const float *x, float shift, int64_t n) {
  float block[BLOCK];
  double sum = 0;
  for (int64_t first = 0; first < n; first += BLOCK) {
    int64_t count = ommai_min_i64(BLOCK, n - first), i = 0;
    float lanes[LANES] = {0};
    sampler->ops->exp_scaled(x + first, shift, 1, count, block, OMMA_F32);
    for (; i + LANES <= count; i += LANES) {
      for (int lane = 0; lane < LANES; lane++) lanes[lane] += block[i + lane];
    }
    for (; i < count; i++) sum += block[i];
    for (int lane = 0; lane < LANES; lane++) sum += lanes[lane];
  }
  return sum;
}

static float scale_of(const struct ommai_draw *row) {
  /* never 0, which makes a NaN of infinity */
  return fmaxf((float)(1 / row->settings->temperature), FLT_MIN);
}

static uint64_t sum_weights(const struct ommai_sampler *sampler, const struct scratch *scratch, float scale,
                            const float *values, int64_t n) {
  static const float all = -INFINITY;
  uint32_t block[BLOCK];
  struct ommai_row_share share = {0};
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t count = ommai_min_i64(BLOCK, n - i);
    sampler->ops->weigh(values + i, scratch->highest, scale, count, block);
    sampler->ops->add_shares(values + i, block, count, &all, 1, &share);
  }
  return share.weight;
}

static int64_t count_at_least(const float *x, float threshold, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += x[i] >= threshold;
  return count;
}

static void weigh_task(void *context, int64_t task, int worker) {
  (void)worker;
  struct ommai_sampler *sampler = context;
  const struct ommai_draw *row = &sampler->rows[task / sampler->n_parts];
  struct scratch *scratch = &sampler->scratch[task / sampler->n_parts];
  int64_t index = task % sampler->n_parts, first = index * PART, n = ommai_min_i64(PART, sampler->vocab_size - first);
  if (row->finite && row->is_given) {
    scratch->parts[index].n_at_least = count_at_least(scratch->input->logits + first, scratch->input->logits[row->token], n);
  }
  if (row->finite && row->wants_logprob) {
    scratch->parts[index].logit_sum = sum_exponentials(sampler, scratch->input->logits + first, scratch->highest_logit, n);
  }
  if (scratch->draws && !is_cut(row->settings)) {
    scratch->parts[index].weight = sum_weights(sampler, scratch, scale_of(row), scratch->values + first, n);
  }
}

/* ---- cut ---- */

/* The smallest float that is not below `value`; finite. */
static float float_from(double value) {
  float nearest = (float)fmin(fmax(value, -FLT_MAX), FLT_MAX);
  return (double)nearest < value ? nextafterf(nearest, INFINITY) : nearest;
}

/* The values that have any weight, and of those min-p's. */
static void begin_cut(const struct ommai_sampler *sampler, const struct ommai_draw *row, struct scratch *scratch) {
  const struct ommai_sampler_settings *settings = row->settings;
  float lowest = scratch->parts[0].values.low;
  for (int64_t i = 1; i < sampler->n_parts; i++) lowest = fminf(lowest, scratch->parts[i].values.low);
  double floor = fmax(lowest, scratch->highest - WEIGHT_RANGE * settings->temperature);
  if (settings->min_p > 0) floor = fmax(floor, scratch->highest + settings->temperature * log(settings->min_p));
  const struct ommai_token_cut_settings cut = {.highest = scratch->highest,
                                               .floor = float_from(floor),
                                               .scale = scale_of(row),
                                               .top_k = settings->top_k,
                                               .top_p = settings->top_p};
  ommai_token_cut_begin(&scratch->cut, scratch->values, &cut);
}

static void look_task(void *context, int64_t task, int worker) {
  (void)worker;
  struct ommai_sampler *sampler = context;
  struct ommai_token_cut *cut = &sampler->scratch[task / sampler->n_parts].cut;
  if (cut->open) ommai_token_cut_look(cut, task % sampler->n_parts);
}

static void narrow_task(void *context, int64_t task, int worker) {
  (void)worker;
  struct ommai_sampler *sampler = context;
  struct ommai_token_cut *cut = &sampler->scratch[task].cut;
  if (cut->open) ommai_token_cut_narrow(cut);
}

/* Cuts off what the settings of the rows do not leave. */
static void cut_rows(struct ommai_sampler *sampler, int64_t n_rows, const struct omma_team *team) {
  bool open = false;
  for (int64_t i = 0; i < n_rows; i++) {
    struct scratch *scratch = &sampler->scratch[i];
    scratch->cut.open = false;
    if (scratch->draws && is_cut(sampler->rows[i].settings)) begin_cut(sampler, &sampler->rows[i], scratch);
    open = open || scratch->cut.open;
  }
  while (open) {
    ommai_team_run(team, n_rows * sampler->n_parts, look_task, sampler);
    ommai_team_run(team, n_rows, narrow_task, sampler);
    open = false;
    for (int64_t i = 0; i < n_rows; i++) open = open || sampler->scratch[i].cut.open;
  }
}

/* ---- draw ---- */

static uint64_t weight_of(const struct scratch *scratch, bool cut, int64_t part) {
  return cut ? scratch->cut.parts[part].weight : scratch->parts[part].weight;
}

/* The first token, in rising order of ids, at which the weights that are left pass `random` of
 * their sum. */
static int32_t draw(const struct ommai_sampler *sampler, const struct ommai_draw *row, const struct scratch *scratch,
                    double random) {
  bool cut = is_cut(row->settings);
  uint32_t block[BLOCK];
  uint64_t total = 0, sum = 0;
  for (int64_t i = 0; i < sampler->n_parts; i++) total += weight_of(scratch, cut, i);
  uint64_t target = (uint64_t)(random * (double)total); /* below total, which is below 2^53 */
  int64_t part = 0;
  while (sum + weight_of(scratch, cut, part) <= target) sum += weight_of(scratch, cut, part++);
  for (int64_t first = part * PART;; first += BLOCK) {
    int64_t n = ommai_min_i64(BLOCK, sampler->vocab_size - first);
    sampler->ops->weigh(scratch->values + first, scratch->highest, scale_of(row), n, block);
    for (int64_t i = 0; i < n; i++) {
      int32_t token = (int32_t)(first + i);
      sum += !cut || ommai_token_cut_leaves(&scratch->cut, token) ? block[i] : 0;
      if (sum > target) return token;
    }
  }
}

static void set_logprobs(const struct ommai_sampler *sampler, struct ommai_draw *row, const struct scratch *scratch) {
  double sum = 0;
  int32_t top[OMMA_MAX_TOP_LOGPROBS];
  int n_top = 0;
  row->rank = 0;
  for (int64_t i = 0; i < sampler->n_parts; i++) {
    sum += scratch->parts[i].logit_sum;
    if (row->is_given) row->rank += scratch->parts[i].n_at_least;
    for (int j = 0; j < scratch->parts[i].n_top; j++) {
      keep_top(scratch->input->logits, scratch->parts[i].top[j], top, &n_top, row->n_top);
    }
  }
  double norm = scratch->highest_logit + log(sum);
  row->logprob = (float)(scratch->input->logits[row->token] - norm);
  for (int i = 0; i < n_top; i++)
    row->top[i] = (struct omma_top_logprob){top[i], (float)(scratch->input->logits[top[i]] - norm)};
}

static void draw_task(void *context, int64_t task, int worker) {
  (void)worker;
  struct ommai_sampler *sampler = context;
  struct ommai_draw *row = &sampler->rows[task];
  struct scratch *scratch = &sampler->scratch[task];
  if (!row->finite || row->token < 0) return;
  if (scratch->draws) row->token = draw(sampler, row, scratch, uniform(row->settings->seed, row->step));
  if (row->wants_logprob) set_logprobs(sampler, row, scratch);
}

void ommai_sampler_run(struct ommai_sampler *sampler, struct ommai_draw *rows, const struct ommai_sampler_input *inputs,
                       int64_t n_rows, const struct omma_team *team) {
  bool more = false;
  sampler->rows = rows;
  for (int64_t i = 0; i < n_rows; i++) {
    bool adjusted = ommai_sampler_has_penalties(rows[i].settings) || rows[i].n_banned || rows[i].allowed || rows[i].n_biases;
    sampler->scratch[i].input = &inputs[i];
    sampler->scratch[i].values = adjusted ? sampler->scratch[i].adjusted : inputs[i].logits;
    more = more || rows[i].wants_logprob || !is_greedy(rows[i].settings);
  }
  ommai_team_run(team, n_rows * sampler->n_parts, scan_task, sampler);
  for (int64_t i = 0; i < n_rows; i++) join_scans(sampler, &rows[i], &sampler->scratch[i]);
  if (!more) return;
  ommai_team_run(team, n_rows * sampler->n_parts, weigh_task, sampler);
  cut_rows(sampler, n_rows, team);
  ommai_team_run(team, n_rows, draw_task, sampler);
}
