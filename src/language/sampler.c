#include "language/sampler.h"

#include <math.h>

#include "base/arena.h"

static void place(struct ommai_arena *arena, int64_t vocab_size, struct ommai_sampler_scratch *scratch) {
  scratch->order = ommai_arena_take(arena, (size_t)vocab_size, sizeof *scratch->order);
  scratch->adjusted = ommai_arena_take(arena, (size_t)vocab_size, sizeof *scratch->adjusted);
}

size_t ommai_sampler_scratch_size(int64_t vocab_size) {
  struct ommai_arena arena;
  struct ommai_sampler_scratch scratch;
  ommai_arena_measure(&arena);
  place(&arena, vocab_size, &scratch);
  return arena.used;
}

struct ommai_sampler_scratch ommai_sampler_scratch_place(void *memory, int64_t vocab_size) {
  struct ommai_arena arena;
  struct ommai_sampler_scratch scratch;
  ommai_arena_init(&arena, memory, ommai_sampler_scratch_size(vocab_size));
  place(&arena, vocab_size, &scratch);
  return scratch;
}

/* SplitMix64 of (seed, step): a uniform number in [0, 1). */
static double uniform(uint64_t seed, int64_t step) {
  uint64_t z = seed + (uint64_t)(step + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static int64_t argmax(const float *values, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++) {
    if (values[i] > values[best]) best = i;
  }
  return best;
}

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

static void heap_make(const float *values, int32_t *heap, int64_t n) {
  for (int64_t i = 0; i < n; i++) heap[i] = (int32_t)i;
  for (int64_t i = n / 2 - 1; i >= 0; i--) sift_down(values, heap, n, i);
}

/* Takes the largest of heap[0 .. *n) out and puts it behind the rest, at heap[*n - 1] of before. */
static int32_t heap_pop(const float *values, int32_t *heap, int64_t *n) {
  int32_t top = heap[0];
  heap[0] = heap[*n - 1];
  heap[*n - 1] = top;
  --*n;
  sift_down(values, heap, *n, 0);
  return top;
}

double ommai_log_sum_exp(const float *logits, int64_t n) {
  double highest = logits[argmax(logits, n)], sum = 0;
  for (int64_t i = 0; i < n; i++) sum += exp((double)logits[i] - highest);
  return highest + log(sum);
}

void ommai_top_tokens(const float *logits, int64_t vocab_size, int32_t *tokens, int64_t n,
                      const struct ommai_sampler_scratch *scratch) {
  int64_t left = vocab_size;
  heap_make(logits, scratch->order, vocab_size);
  for (int64_t i = 0; i < n; i++) tokens[i] = heap_pop(logits, scratch->order, &left);
}

static bool has_penalties(const struct ommai_sampler_settings *settings) {
  return settings->repetition_penalty != 1 || settings->presence_penalty != 0 || settings->frequency_penalty != 0;
}

static void apply_penalties(const struct ommai_sampler_settings *settings, const struct ommai_token_counts *counts,
                            float *values, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double value = values[i];
    if (counts->answer[i] > 0 || counts->prompt[i]) {
      value = value > 0 ? value / settings->repetition_penalty : value * settings->repetition_penalty;
    }
    if (counts->answer[i] > 0) {
      value -= settings->frequency_penalty * counts->answer[i] + settings->presence_penalty;
    }
    values[i] = (float)value;
  }
}

/* Tokens in falling order of weight, exp((value - highest) / temperature), as far as they were asked for. */
struct ranking {
  const float *values;
  int32_t *heap; /* [n], the ranked tokens at its end, the first one last */
  int64_t n, n_ranked;
  double highest, temperature;
};

static int32_t ranked(struct ranking *ranking, int64_t rank) {
  while (ranking->n_ranked <= rank) {
    int64_t left = ranking->n - ranking->n_ranked++;
    heap_pop(ranking->values, ranking->heap, &left);
  }
  return ranking->heap[ranking->n - 1 - rank];
}

static double weight_of(const struct ranking *ranking, int32_t token) {
  return exp((ranking->values[token] - ranking->highest) / ranking->temperature);
}

/* How many tokens min-p and top-k leave, and the sum of their weights. */
static int64_t filter_weights(const struct ommai_sampler_settings *settings, struct ranking *ranking, double *total) {
  int64_t n = ranking->n, limit = settings->top_k > 0 && settings->top_k < n ? settings->top_k : n, count = 0;
  *total = 0;
  if (limit == n && settings->min_p == 0) {
    for (int64_t i = 0; i < n; i++) *total += weight_of(ranking, (int32_t)i);
    return n;
  }
  while (count < limit) {
    double weight = weight_of(ranking, ranked(ranking, count));
    if (weight < settings->min_p) break;
    *total += weight;
    count++;
  }
  return count;
}

/* How many of the first n tokens, which weigh *total, top-p leaves: those before which there is less than its share. */
static int64_t filter_share(double top_p, struct ranking *ranking, int64_t n, double *total) {
  if (top_p >= 1) return n;
  double kept = 0, share = top_p * *total;
  int64_t count = 0;
  while (count < n && (count == 0 || kept < share)) kept += weight_of(ranking, ranked(ranking, count++));
  *total = kept;
  return count;
}

/* Draws from the tokens that min-p, top-k and top-p leave. */
static int32_t draw(const struct ommai_sampler_settings *settings, const float *values, int64_t n, double random,
                    int32_t *heap) {
  struct ranking ranking = {.values = values, .heap = heap, .n = n, .temperature = settings->temperature};
  heap_make(values, heap, n);
  ranking.highest = values[heap[0]];
  double total;
  int64_t n_kept = filter_weights(settings, &ranking, &total);
  n_kept = filter_share(settings->top_p, &ranking, n_kept, &total);
  double target = random * total, sum = 0;
  for (int64_t i = 0; i < n_kept; i++) {
    sum += weight_of(&ranking, ranked(&ranking, i));
    if (sum > target) return ranked(&ranking, i);
  }
  return ranked(&ranking, 0);
}

int32_t ommai_sample(const struct ommai_sampler_settings *settings, const float *logits, int64_t vocab_size, int64_t step,
                     const struct ommai_token_counts *counts, const int32_t *banned, size_t n_banned,
                     const struct ommai_sampler_scratch *scratch) {
  if (settings->temperature == 0 && !has_penalties(settings) && n_banned == 0) return (int32_t)argmax(logits, vocab_size);
  float *values = scratch->adjusted;
  for (int64_t i = 0; i < vocab_size; i++) values[i] = logits[i];
  if (has_penalties(settings)) apply_penalties(settings, counts, values, vocab_size);
  for (size_t i = 0; i < n_banned; i++) values[banned[i]] = -INFINITY;
  if (settings->temperature == 0) return (int32_t)argmax(values, vocab_size);
  return draw(settings, values, vocab_size, uniform(settings->seed, step), scratch->order);
}
