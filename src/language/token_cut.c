#include "language/token_cut.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"

/* BLOCK: values that stay in the first level of cache together with their weights. FEW: tokens that
 * are sorted. SAMPLE: the first values of each part, from which thresholds are guessed where the
 * vocabulary has at least MIN_GUESS_PARTS parts. */
enum {
  N_THRESHOLDS = OMMAI_ROW_MAX_THRESHOLDS,
  BLOCK = 2048,
  FEW = 64,
  SAMPLE = OMMAI_TOKEN_PART / 8,
  MIN_GUESS_PARTS = 4,
  GUESSES = 2
};

struct ommai_token_cut ommai_token_cut_place(struct ommai_arena *arena, int64_t vocab_size, const struct ommai_row_ops *ops) {
  struct ommai_token_cut cut = {.ops = ops, .vocab_size = vocab_size};
  cut.parts = ommai_arena_take(arena, (size_t)ommai_div_up(vocab_size, OMMAI_TOKEN_PART), sizeof *cut.parts);
  cut.listed_tokens = ommai_arena_take(arena, OMMAI_TOKEN_CUT_LISTED, sizeof *cut.listed_tokens);
  cut.listed_values = ommai_arena_take(arena, OMMAI_TOKEN_CUT_LISTED, sizeof *cut.listed_values);
  cut.listed_weights = ommai_arena_take(arena, OMMAI_TOKEN_CUT_LISTED, sizeof *cut.listed_weights);
  return cut;
}

/* Floats as integers in the same order. */
static int64_t key_of(float value) {
  int32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits >= 0 ? bits : (int64_t)INT32_MIN - bits - 1;
}

static float value_of(int64_t key) {
  int32_t bits = (int32_t)(key >= 0 ? key : INT32_MIN - key - 1);
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static bool is_one_value(const struct ommai_token_cut *cut) { return key_of(cut->high) - key_of(cut->low) == 1; }

/* Evenly between low and high by value, which suits logits, and by key in every second round from
 * the fourth on, which ends with any values. The first is always low. */
static void set_thresholds(struct ommai_token_cut *cut) {
  int64_t low = key_of(cut->low), high = key_of(cut->high);
  bool by_key = cut->n_rounds >= 3 && cut->n_rounds % 2;
  cut->thresholds[0] = cut->low;
  for (int t = 1; t < N_THRESHOLDS; t++) {
    double value = cut->low + ((double)cut->high - cut->low) * t / N_THRESHOLDS;
    cut->thresholds[t] = by_key ? value_of(low + (high - low) * t / N_THRESHOLDS) : (float)value;
  }
  cut->n_rounds++;
}

/* The whole range, and closer where the guessed bounds lie, to either side of them too. */
static void set_thresholds_near_guess(struct ommai_token_cut *cut, float floor, float top) {
  double width = (double)cut->high - cut->low;
  double low = fmax(cut->low - width, floor), high = fmin(fmin(cut->high + width, top), FLT_MAX);
  cut->thresholds[0] = floor;
  for (int t = 1; t < N_THRESHOLDS; t++) {
    cut->thresholds[t] = (float)(low + (high - low) * (t - 1) / (N_THRESHOLDS - 2));
  }
}

static int64_t n_parts(const struct ommai_token_cut *cut) { return ommai_div_up(cut->vocab_size, OMMAI_TOKEN_PART); }

static void begin_stage(struct ommai_token_cut *cut, enum ommai_token_cut_stage stage) {
  cut->stage = stage;
  cut->n_rounds = 0;
  cut->listing = false;
  cut->low = cut->floor;
  cut->high = nextafterf(cut->settings.highest, INFINITY);
  cut->above = 0;
  for (int64_t i = 0; i < n_parts(cut); i++) cut->parts[i].n_above = 0;
  set_thresholds(cut);
  cut->n_guesses =
      stage == OMMAI_TOP_P && cut->settings.top_p < 1 && cut->settings.top_k == 0 && n_parts(cut) >= MIN_GUESS_PARTS ? GUESSES
                                                                                                                     : 0;
}

static void end_stage(struct ommai_token_cut *cut) {
  cut->open = cut->stage == OMMAI_TOP_K && cut->settings.top_p < 1;
  if (cut->open) begin_stage(cut, OMMAI_TOP_P);
}

void ommai_token_cut_begin(struct ommai_token_cut *cut, const float *values, const struct ommai_token_cut_settings *settings) {
  cut->values = values;
  cut->settings = *settings;
  cut->floor = settings->floor;
  cut->last = INT32_MAX;
  cut->open = true;
  for (int64_t i = 0; i < n_parts(cut); i++) cut->parts[i].n_excluded = 0;
  begin_stage(cut, settings->top_k > 0 ? OMMAI_TOP_K : OMMAI_TOP_P);
}

/* ---- a look ---- */

static void weigh(const struct ommai_token_cut *cut, const float *values, int64_t n, uint32_t *weights) {
  cut->ops->weigh(values, cut->settings.highest, cut->settings.scale, n, weights);
}

/* Tokens of the floor's value that an earlier stage cut off do not count. */
static void leave_out_excluded(const struct ommai_token_cut *cut, struct ommai_token_cut_part *part) {
  uint32_t weight;
  if (!part->n_excluded) return;
  weigh(cut, &cut->floor, 1, &weight);
  for (int t = 0; t < N_THRESHOLDS; t++) {
    if (cut->thresholds[t] > cut->floor) continue;
    part->shares[t].count -= part->n_excluded;
    part->shares[t].weight -= (uint64_t)part->n_excluded * weight;
  }
}

static void count_part(const struct ommai_token_cut *cut, struct ommai_token_cut_part *part, int64_t first, int64_t end) {
  uint32_t weights[BLOCK];
  memset(part->shares, 0, sizeof part->shares);
  for (int64_t i = first; i < end; i += BLOCK) {
    int64_t n = ommai_min_i64(BLOCK, end - i);
    weigh(cut, cut->values + i, n, weights);
    cut->ops->add_shares(cut->values + i, weights, n, cut->thresholds, N_THRESHOLDS, part->shares);
  }
  leave_out_excluded(cut, part);
}

static void list_part(const struct ommai_token_cut *cut, struct ommai_token_cut_part *part, int64_t first, int64_t end) {
  int32_t tokens[BLOCK];
  int64_t from = part->listed;
  for (int64_t i = first; i < end; i += BLOCK) {
    int64_t n = 0;
    cut->ops->list_between(cut->values + i, cut->low, cut->high, ommai_min_i64(BLOCK, end - i), (int32_t)i, tokens, &n);
    for (int64_t j = 0; j < n; j++) {
      if (!ommai_token_cut_leaves(cut, tokens[j])) continue;
      cut->listed_tokens[part->listed] = tokens[j];
      cut->listed_values[part->listed++] = cut->values[tokens[j]];
    }
  }
  weigh(cut, cut->listed_values + from, part->listed - from, cut->listed_weights + from);
}

void ommai_token_cut_look(struct ommai_token_cut *cut, int64_t part) {
  int64_t first = part * OMMAI_TOKEN_PART, length = cut->n_guesses ? SAMPLE : OMMAI_TOKEN_PART;
  int64_t end = ommai_min_i64(first + length, cut->vocab_size);
  if (cut->listing) {
    list_part(cut, &cut->parts[part], first, end);
  } else {
    count_part(cut, &cut->parts[part], first, end);
  }
}

/* ---- narrowing ---- */

static uint64_t measure(const struct ommai_token_cut *cut, int64_t count, uint64_t weight) {
  return cut->stage == OMMAI_TOP_K ? (uint64_t)count : weight;
}

/* Puts low and high around the last threshold from which on the shares, with `base` next to them,
 * measure what is wanted; returns its number. thresholds[0], which is low, is one. */
static int narrow_to(struct ommai_token_cut *cut, const struct ommai_row_share *shares, uint64_t base) {
  int t = N_THRESHOLDS - 1;
  while (t > 0 && base + measure(cut, shares[t].count, shares[t].weight) < cut->wanted) t--;
  if (t + 1 < N_THRESHOLDS) {
    cut->high = cut->thresholds[t + 1];
    cut->above = base + measure(cut, shares[t + 1].count, shares[t + 1].weight);
  }
  cut->low = cut->thresholds[t];
  return t;
}

/* From threshold t on is what is left of the parts at most; between it and the next, tokens that
 * are listed. Returns how many. */
static int64_t take_shares(struct ommai_token_cut *cut, int t) {
  int64_t n = 0;
  for (int64_t i = 0; i < n_parts(cut); i++) {
    struct ommai_token_cut_part *part = &cut->parts[i];
    if (t + 1 < N_THRESHOLDS) part->n_above = part->shares[t + 1].count;
    part->weight = part->shares[t].weight;
    part->listed = n;
    n += part->shares[t].count - part->n_above;
  }
  return n;
}

/* What is wanted of all that are left; false where that is all of them. */
static bool set_wanted(struct ommai_token_cut *cut, const struct ommai_row_share *all) {
  uint64_t share = (uint64_t)ceil(cut->settings.top_p * (double)all->weight);
  cut->wanted = cut->stage == OMMAI_TOP_K ? (uint64_t)cut->settings.top_k : share > 0 ? share : 1;
  return cut->wanted < measure(cut, all->count, all->weight);
}

/* ---- the end of a stage ---- */

/* The part of a token in the list. */
static struct ommai_token_cut_part *part_of(const struct ommai_token_cut *cut, int64_t index) {
  return &cut->parts[cut->listed_tokens[index] / OMMAI_TOKEN_PART];
}

/* Keeps those between low and high, in their order; those below low are not left. No branches: they
 * could not be known before. */
static void shorten_list(struct ommai_token_cut *cut) {
  int64_t n = 0;
  for (int64_t i = 0; i < cut->n_listed; i++) {
    float value = cut->listed_values[i];
    uint32_t weight = cut->listed_weights[i], below = 0u - (uint32_t)(value < cut->low);
    part_of(cut, i)->weight -= weight & below;
    cut->listed_tokens[n] = cut->listed_tokens[i];
    cut->listed_values[n] = value;
    cut->listed_weights[n] = weight;
    n += (value >= cut->low) & (value < cut->high);
  }
  cut->n_listed = n;
}

/* Falling by value; a stable order. */
static void sort_list(struct ommai_token_cut *cut) {
  for (int64_t i = 1; i < cut->n_listed; i++) {
    int32_t token = cut->listed_tokens[i];
    float value = cut->listed_values[i];
    uint32_t weight = cut->listed_weights[i];
    int64_t at = i;
    for (; at > 0 && cut->listed_values[at - 1] < value; at--) {
      cut->listed_tokens[at] = cut->listed_tokens[at - 1];
      cut->listed_values[at] = cut->listed_values[at - 1];
      cut->listed_weights[at] = cut->listed_weights[at - 1];
    }
    cut->listed_tokens[at] = token;
    cut->listed_values[at] = value;
    cut->listed_weights[at] = weight;
  }
}

/* Goes on with the listed tokens alone, to the one at which the sum passes what is wanted. */
static void cut_list(struct ommai_token_cut *cut) {
  uint64_t sum;
  int64_t n = 0;
  while (cut->n_listed > FEW && !is_one_value(cut)) {
    struct ommai_row_share shares[N_THRESHOLDS] = {{0}};
    set_thresholds(cut);
    cut->ops->add_shares(cut->listed_values, cut->listed_weights, cut->n_listed, cut->thresholds, N_THRESHOLDS, shares);
    narrow_to(cut, shares, cut->above);
    shorten_list(cut);
  }
  if (!is_one_value(cut)) sort_list(cut);
  for (sum = cut->above; sum < cut->wanted; n++) sum += measure(cut, 1, cut->listed_weights[n]);
  cut->floor = cut->listed_values[n - 1];
  cut->last = cut->listed_tokens[n - 1];
  for (; n < cut->n_listed; n++) {
    part_of(cut, n)->n_excluded += cut->listed_values[n] == cut->floor;
    part_of(cut, n)->weight -= cut->listed_weights[n];
  }
}

/* More tokens of one value than are listed: their order is that of their ids. */
static void cut_equal(struct ommai_token_cut *cut) {
  uint64_t sum = cut->above;
  uint32_t weight;
  int32_t last = -1;
  weigh(cut, &cut->low, 1, &weight);
  for (int32_t token = 0; token < cut->vocab_size; token++) {
    struct ommai_token_cut_part *part = &cut->parts[token / OMMAI_TOKEN_PART];
    if (cut->values[token] != cut->low || !ommai_token_cut_leaves(cut, token)) continue;
    if (sum < cut->wanted) {
      sum += measure(cut, 1, weight);
      last = token;
    } else {
      part->n_excluded++;
      part->weight -= weight;
    }
  }
  cut->floor = cut->low;
  cut->last = last;
}

static void add_parts(const struct ommai_token_cut *cut, struct ommai_row_share *shares) {
  for (int64_t i = 0; i < n_parts(cut); i++) {
    for (int t = 0; t < N_THRESHOLDS; t++) {
      shares[t].count += cut->parts[i].shares[t].count;
      shares[t].weight += cut->parts[i].shares[t].weight;
    }
  }
}

/* Goes from the sample's shares to closer thresholds, at last to those of a look at everything,
 * which holds whatever the guess is worth. */
static void narrow_guess(struct ommai_token_cut *cut, const struct ommai_row_share *shares) {
  if (cut->n_guesses == GUESSES) set_wanted(cut, &shares[0]);
  narrow_to(cut, shares, 0);
  set_thresholds(cut);
  if (--cut->n_guesses) return;
  float top = nextafterf(cut->settings.highest, INFINITY);
  set_thresholds_near_guess(cut, cut->floor, top);
  cut->low = cut->floor;
  cut->high = top;
  cut->above = 0;
  cut->n_rounds = 1;
}

void ommai_token_cut_narrow(struct ommai_token_cut *cut) {
  struct ommai_row_share shares[N_THRESHOLDS] = {{0}};
  if (cut->listing) {
    cut_list(cut);
    end_stage(cut);
    return;
  }
  add_parts(cut, shares);
  if (cut->n_guesses) {
    narrow_guess(cut, shares);
    return;
  }
  if (cut->n_rounds == 1 && !set_wanted(cut, &shares[0])) {
    take_shares(cut, 0);
    end_stage(cut);
    return;
  }
  cut->n_listed = take_shares(cut, narrow_to(cut, shares, 0));
  cut->listing = cut->n_listed <= OMMAI_TOKEN_CUT_LISTED;
  if (cut->listing) return;
  if (is_one_value(cut)) {
    cut_equal(cut);
    end_stage(cut);
  } else {
    set_thresholds(cut);
  }
}
