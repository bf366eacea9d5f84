/* Three passes over the rows, each shared by the pool:
 *   scan  (row, part): penalties and bans; is every logit finite; the largest; the likeliest tokens
 *   weigh (row, part): sums of exponentials; the part's candidates as a heap, where top-k, top-p or min-p cut the distribution
 *   draw  (row):       the token */
#include "language/sampler.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/team.h"

enum { PART = 8192, BLOCK = 256, LANES = 16 };

/* A candidate's weight is at least e^-20 of the largest; the others are looked at only where these do not suffice. */
#define CANDIDATE_RANGE 20.0

struct part {
  bool finite;
  float highest;         /* of the adjusted values */
  float highest_logit;   /* of the logits themselves */
  int32_t first_highest; /* the lowest id that has it */
  double sum, logit_sum; /* of exp((value - the row's highest) / temperature), and of exp(logit - the row's highest logit) */
  int64_t n_left;        /* in the heap */
  bool holds_all;        /* the heap was made of all tokens that were not candidates */
  int32_t top[OMMAI_SAMPLER_MAX_TOP];
  int n_top;
};

/* What a row needs while it is drawn. */
struct scratch {
  struct part *parts;  /* [n_parts] */
  float *adjusted;     /* [vocab] */
  int32_t *order;      /* [vocab]; each part's heap lies at the part's place */
  const float *values; /* the logits, or `adjusted` where anything changes them */
  float highest, highest_logit, floor;
};

struct ommai_sampler {
  const struct ommai_row_ops *ops;
  int64_t vocab_size, n_parts;
  struct scratch *scratch; /* [max_rows] */
  int32_t **popped;        /* [n_workers][vocab] */
  struct ommai_sampler_row *rows;
};

static struct ommai_sampler *place(struct ommai_arena *arena, int64_t vocab_size, int64_t max_rows, int n_workers) {
  struct ommai_sampler *sampler = ommai_arena_take(arena, 1, sizeof *sampler);
  int64_t n_parts = ommai_div_up(vocab_size, PART);
  size_t vocab = (size_t)vocab_size;
  struct ommai_sampler placed = {.vocab_size = vocab_size, .n_parts = n_parts};
  placed.scratch = ommai_arena_take(arena, (size_t)max_rows, sizeof *placed.scratch);
  placed.popped = ommai_arena_take(arena, (size_t)n_workers, sizeof *placed.popped);
  for (int64_t row = 0; row < max_rows; row++) {
    struct scratch one = {.parts = ommai_arena_take(arena, (size_t)n_parts, sizeof *one.parts),
                          .adjusted = ommai_arena_take(arena, vocab, sizeof(float)),
                          .order = ommai_arena_take(arena, vocab, sizeof(int32_t))};
    if (sampler) placed.scratch[row] = one;
  }
  for (int worker = 0; worker < n_workers; worker++) {
    int32_t *popped = ommai_arena_take(arena, vocab, sizeof(int32_t));
    if (sampler) placed.popped[worker] = popped;
  }
  if (sampler) *sampler = placed;
  return sampler;
}

size_t ommai_sampler_size(int64_t vocab_size, int64_t max_rows, int n_workers) {
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  place(&arena, vocab_size, max_rows, n_workers);
  return arena.failed ? 0 : arena.used;
}

struct ommai_sampler *ommai_sampler_place(void *memory, int64_t vocab_size, int64_t max_rows, int n_workers,
                                          const struct ommai_row_ops *ops) {
  struct ommai_arena arena;
  ommai_arena_init(&arena, memory, ommai_sampler_size(vocab_size, max_rows, n_workers));
  struct ommai_sampler *sampler = place(&arena, vocab_size, max_rows, n_workers);
  sampler->ops = ops;
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

static bool has_penalties(const struct ommai_sampler_settings *settings) {
  return settings->repetition_penalty != 1 || settings->presence_penalty != 0 || settings->frequency_penalty != 0;
}

/* Whether some tokens are cut off by their rank or weight. */
static bool is_cut(const struct ommai_sampler_settings *settings) {
  return settings->top_k > 0 || settings->top_p < 1 || settings->min_p > 0;
}

/* ---- scan ---- */

static float highest_of(const float *values, int64_t n) {
  float lanes[LANES], highest;
  int64_t i = 0;
  for (int lane = 0; lane < LANES; lane++) lanes[lane] = values[0];
  for (; i + LANES <= n; i += LANES) {
    for (int lane = 0; lane < LANES; lane++) lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
  }
  highest = lanes[0];
  for (int lane = 1; lane < LANES; lane++) highest = lanes[lane] > highest ? lanes[lane] : highest;
  for (; i < n; i++) highest = values[i] > highest ? values[i] : highest;
  return highest;
}

/* x - x is 0 for every number and NaN for NaN and infinity. */
static bool all_finite(const float *values, int64_t n) {
  float lanes[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (int lane = 0; lane < LANES; lane++) lanes[lane] += values[i + lane] - values[i + lane];
  }
  for (; i < n; i++) lanes[0] += values[i] - values[i];
  for (int lane = 0; lane < LANES; lane++) sum += lanes[lane];
  return sum == 0;
}

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

/* The row's values of a part; they are the logits where nothing changes them. */
static void adjust(const struct ommai_sampler_row *row, int64_t first, int64_t n, float *adjusted) {
  memcpy(adjusted + first, row->logits + first, (size_t)n * sizeof *adjusted);
  if (has_penalties(row->settings)) apply_penalties(row->settings, &row->counts, first, n, adjusted);
  for (size_t i = 0; i < row->n_banned; i++) {
    if (row->banned[i] >= first && row->banned[i] < first + n) adjusted[row->banned[i]] = -INFINITY;
  }
  for (int64_t i = first; i < first + n && row->allowed; i++) {
    if (!(row->allowed[i / 32] >> i % 32 & 1)) adjusted[i] = -INFINITY;
  }
}

/* Keeps top[*n] in falling order of value, equal ones in rising order of id; ids come in rising order. */
static void keep_top(const float *values, int32_t id, int32_t *top, int *n, int most) {
  if (*n == most && !(values[id] > values[top[*n - 1]])) return;
  int at = *n < most ? (*n)++ : *n - 1;
  for (; at > 0 && values[id] > values[top[at - 1]]; at--) top[at] = top[at - 1];
  top[at] = id;
}

static void scan_task(void *context, int64_t task, int worker) {
  (void)worker;
  struct ommai_sampler *sampler = context;
  struct ommai_sampler_row *row = &sampler->rows[task / sampler->n_parts];
  struct scratch *scratch = &sampler->scratch[task / sampler->n_parts];
  struct part *part = &scratch->parts[task % sampler->n_parts];
  int64_t first = task % sampler->n_parts * PART, n = ommai_min_i64(PART, sampler->vocab_size - first);
  const float *values = scratch->values;
  part->finite = all_finite(row->logits + first, n);
  if (!part->finite) return;
  part->highest = part->highest_logit = highest_of(row->logits + first, n);
  if (values != row->logits) {
    adjust(row, first, n, scratch->adjusted);
    part->highest = highest_of(values + first, n);
  }
  part->first_highest = (int32_t)first;
  while (values[part->first_highest] != part->highest) part->first_highest++;
  part->n_top = 0;
  for (int64_t i = first; i < first + n && row->n_top; i++) {
    keep_top(row->logits, (int32_t)i, part->top, &part->n_top, row->n_top);
  }
}

/* What the parts of a row found, together; the greedy token. */
static void join_scans(const struct ommai_sampler *sampler, struct ommai_sampler_row *row, struct scratch *scratch) {
  const struct part *parts = scratch->parts;
  row->finite = true;
  for (int64_t i = 0; i < sampler->n_parts; i++) row->finite = row->finite && parts[i].finite;
  if (!row->finite) return;
  int64_t best = 0;
  scratch->highest_logit = parts[0].highest_logit;
  for (int64_t i = 1; i < sampler->n_parts; i++) {
    if (parts[i].highest > parts[best].highest) best = i;
    if (parts[i].highest_logit > scratch->highest_logit) scratch->highest_logit = parts[i].highest_logit;
  }
  row->token = parts[best].first_highest;
  scratch->highest = parts[best].highest;
  scratch->floor = (float)(scratch->highest - CANDIDATE_RANGE * row->settings->temperature);
}

/* ---- weigh ---- */

/* A max-heap of token ids by value: the largest come out one by one, without sorting the rest. */
static bool before(const float *values, int32_t a, int32_t b) {
  return values[a] > values[b] || (values[a] == values[b] && a < b);
}

static void sift_down(const float *values, int32_t *heap, int64_t n, int64_t at) {
  for (;;) {
    int64_t best = at, left = 2 * at + 1;
    if (left < n && before(values, heap[left], heap[best])) best = left;
    if (left + 1 < n && before(values, heap[left + 1], heap[best])) best = left + 1;
    if (best == at) return;
    int32_t moved = heap[at];
    heap[at] = heap[best];
    heap[best] = moved;
    at = best;
  }
}

/* The part's tokens at or above the row's floor, or those below it, as a heap. */
static void make_heap(const struct ommai_sampler *sampler, struct scratch *scratch, int64_t index, bool below) {
  int64_t first = index * PART, end = ommai_min_i64(first + PART, sampler->vocab_size), n = 0;
  int32_t *heap = scratch->order + first;
  for (int64_t i = first; i < end; i++) {
    heap[n] = (int32_t)i;
    n += (scratch->values[i] < scratch->floor) == below;
  }
  for (int64_t i = n / 2 - 1; i >= 0; i--) sift_down(scratch->values, heap, n, i);
  scratch->parts[index].n_left = n;
  scratch->parts[index].holds_all = below;
}

/* exp((x - shift) * scale) of up to BLOCK values into `out`; returns their sum. */
static double sum_block(const struct ommai_sampler *sampler, const float *x, float shift, float scale, int64_t n, float *out) {
  float lanes[LANES] = {0};
  double sum = 0;
  int64_t i = 0;
  sampler->ops->exp_scaled(x, shift, scale, n, out, OMMA_F32);
  for (; i + LANES <= n; i += LANES) {
    for (int lane = 0; lane < LANES; lane++) lanes[lane] += out[i + lane];
  }
  for (; i < n; i++) sum += out[i];
  for (int lane = 0; lane < LANES; lane++) sum += lanes[lane];
  return sum;
}

static double sum_part(const struct ommai_sampler *sampler, const float *x, float shift, float scale, int64_t n) {
  float block[BLOCK];
  double sum = 0;
  for (int64_t i = 0; i < n; i += BLOCK) {
    sum += sum_block(sampler, x + i, shift, scale, ommai_min_i64(BLOCK, n - i), block);
  }
  return sum;
}

static void weigh_task(void *context, int64_t task, int worker) {
  (void)worker;
  struct ommai_sampler *sampler = context;
  const struct ommai_sampler_row *row = &sampler->rows[task / sampler->n_parts];
  struct scratch *scratch = &sampler->scratch[task / sampler->n_parts];
  int64_t index = task % sampler->n_parts, first = index * PART, n = ommai_min_i64(PART, sampler->vocab_size - first);
  if (!row->finite) return;
  if (row->wants_logprob) {
    scratch->parts[index].logit_sum = sum_part(sampler, row->logits + first, scratch->highest_logit, 1, n);
  }
  if (is_greedy(row->settings)) return;
  float scale = (float)(1 / row->settings->temperature);
  scratch->parts[index].sum = sum_part(sampler, scratch->values + first, scratch->highest, scale, n);
  if (is_cut(row->settings)) make_heap(sampler, scratch, index, false);
}

/* ---- draw ---- */

/* The first token at which the sum of weights, in the order of ids, passes `random` of the whole. */
static int32_t draw_from_all(const struct ommai_sampler *sampler, const struct ommai_sampler_row *row,
                             const struct scratch *scratch, double random) {
  float block[BLOCK], scale = (float)(1 / row->settings->temperature);
  double total = 0, sum = 0;
  int64_t index = 0;
  for (int64_t i = 0; i < sampler->n_parts; i++) total += scratch->parts[i].sum;
  double target = random * total;
  while (index + 1 < sampler->n_parts && sum + scratch->parts[index].sum <= target) sum += scratch->parts[index++].sum;
  int64_t end = ommai_min_i64((index + 1) * PART, sampler->vocab_size);
  for (int64_t first = index * PART; first < end; first += BLOCK) {
    int64_t n = ommai_min_i64(BLOCK, end - first);
    double weight = sum_block(sampler, scratch->values + first, scratch->highest, scale, n, block);
    if (sum + weight <= target) {
      sum += weight;
      continue;
    }
    for (int64_t i = 0; i < n; i++) {
      sum += block[i];
      if (sum > target && scratch->values[first + i] > -INFINITY) return (int32_t)(first + i);
    }
  }
  return row->token; /* rounding at the very end: the likeliest */
}

/* The part with the largest token that is left, or -1. */
static int64_t best_part(const struct ommai_sampler *sampler, const struct scratch *scratch) {
  int64_t best = -1;
  for (int64_t i = 0; i < sampler->n_parts; i++) {
    if (scratch->parts[i].n_left == 0) continue;
    if (best < 0 || before(scratch->values, scratch->order[i * PART], scratch->order[best * PART])) best = i;
  }
  return best;
}

/* The next token in falling order; -1 when there is none that may be chosen. */
static int32_t pop(const struct ommai_sampler *sampler, struct scratch *scratch) {
  int64_t best = best_part(sampler, scratch);
  if (best < 0) {
    if (scratch->parts[0].holds_all) return -1;
    for (int64_t i = 0; i < sampler->n_parts; i++) make_heap(sampler, scratch, i, true);
    best = best_part(sampler, scratch);
    if (best < 0) return -1;
  }
  int32_t *heap = scratch->order + best * PART, token = heap[0];
  if (scratch->values[token] == -INFINITY) return -1;
  heap[0] = heap[--scratch->parts[best].n_left];
  sift_down(scratch->values, heap, scratch->parts[best].n_left, 0);
  return token;
}

static double weight_of(const struct ommai_sampler_row *row, const struct scratch *scratch, int32_t token) {
  return exp(((double)scratch->values[token] - scratch->highest) / row->settings->temperature);
}

/* Takes the tokens that min-p and top-k leave into popped; returns how many. *mass: what they weigh together. */
static int64_t pop_ranked(const struct ommai_sampler *sampler, const struct ommai_sampler_row *row, struct scratch *scratch,
                          int32_t *popped, double *mass) {
  int64_t top_k = row->settings->top_k, most = top_k > 0 ? ommai_min_i64(top_k, sampler->vocab_size) : sampler->vocab_size,
          n = 0;
  *mass = 0;
  for (int32_t token; n < most && (token = pop(sampler, scratch)) >= 0; n++) {
    double weight = weight_of(row, scratch, token);
    if (weight < row->settings->min_p) break;
    popped[n] = token;
    *mass += weight;
  }
  return n;
}

/* Takes tokens into popped until they weigh their share of all; returns how many. *mass likewise. */
static int64_t pop_share(const struct ommai_sampler *sampler, const struct ommai_sampler_row *row, struct scratch *scratch,
                         int32_t *popped, double *mass) {
  double total = 0;
  int64_t n = 0;
  for (int64_t i = 0; i < sampler->n_parts; i++) total += scratch->parts[i].sum;
  *mass = 0;
  for (int32_t token; (n == 0 || *mass < row->settings->top_p * total) && (token = pop(sampler, scratch)) >= 0; n++) {
    popped[n] = token;
    *mass += weight_of(row, scratch, token);
  }
  return n;
}

/* Of n tokens in falling order, those before which there is less than top-p's share of *mass, which becomes theirs. */
static int64_t cut_share(const struct ommai_sampler_row *row, const struct scratch *scratch, const int32_t *popped, int64_t n,
                         double *mass) {
  double share = row->settings->top_p * *mass, kept = 0;
  int64_t count = 0;
  while (count < n && (count == 0 || kept < share)) kept += weight_of(row, scratch, popped[count++]);
  *mass = kept;
  return count;
}

/* Draws from the tokens that min-p, top-k and top-p leave, in falling order of probability. */
static int32_t draw_from_best(const struct ommai_sampler *sampler, const struct ommai_sampler_row *row, struct scratch *scratch,
                              double random, int32_t *popped) {
  const struct ommai_sampler_settings *settings = row->settings;
  bool ranked = settings->top_k > 0 || settings->min_p > 0;
  double mass, sum = 0;
  int64_t n = ranked ? pop_ranked(sampler, row, scratch, popped, &mass) : pop_share(sampler, row, scratch, popped, &mass);
  if (ranked && settings->top_p < 1) n = cut_share(row, scratch, popped, n, &mass);
  for (int64_t i = 0; i < n; i++) {
    sum += weight_of(row, scratch, popped[i]);
    if (sum > random * mass) return popped[i];
  }
  return row->token;
}

static void set_logprobs(const struct ommai_sampler *sampler, struct ommai_sampler_row *row, const struct scratch *scratch) {
  double sum = 0;
  int32_t top[OMMAI_SAMPLER_MAX_TOP];
  int n_top = 0;
  for (int64_t i = 0; i < sampler->n_parts; i++) {
    sum += scratch->parts[i].logit_sum;
    for (int j = 0; j < scratch->parts[i].n_top; j++) {
      keep_top(row->logits, scratch->parts[i].top[j], top, &n_top, row->n_top);
    }
  }
  double norm = scratch->highest_logit + log(sum);
  row->logprob = (float)(row->logits[row->token] - norm);
  for (int i = 0; i < n_top; i++) row->top[i] = (struct ommai_token_logprob){top[i], (float)(row->logits[top[i]] - norm)};
}

static void draw_task(void *context, int64_t task, int worker) {
  struct ommai_sampler *sampler = context;
  struct ommai_sampler_row *row = &sampler->rows[task];
  struct scratch *scratch = &sampler->scratch[task];
  if (!row->finite) return;
  if (!is_greedy(row->settings)) {
    double random = uniform(row->settings->seed, row->step);
    row->token = is_cut(row->settings) ? draw_from_best(sampler, row, scratch, random, sampler->popped[worker])
                                       : draw_from_all(sampler, row, scratch, random);
  }
  if (row->wants_logprob) set_logprobs(sampler, row, scratch);
}

void ommai_sampler_run(struct ommai_sampler *sampler, struct ommai_sampler_row *rows, int64_t n_rows,
                       const struct omma_team *team) {
  bool more = false;
  sampler->rows = rows;
  for (int64_t i = 0; i < n_rows; i++) {
    bool adjusted = has_penalties(rows[i].settings) || rows[i].n_banned || rows[i].allowed;
    sampler->scratch[i].values = adjusted ? sampler->scratch[i].adjusted : rows[i].logits;
    more = more || rows[i].wants_logprob || !is_greedy(rows[i].settings);
  }
  ommai_team_run(team, n_rows * sampler->n_parts, scan_task, sampler);
  for (int64_t i = 0; i < n_rows; i++) join_scans(sampler, &rows[i], &sampler->scratch[i]);
  if (!more) return;
  ommai_team_run(team, n_rows * sampler->n_parts, weigh_task, sampler);
  ommai_team_run(team, n_rows, draw_task, sampler);
}
