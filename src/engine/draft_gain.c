#include "engine/draft_gain.h"

/* Steps that each way is tried for at first, and after how many the slower one is tried again;
 * steps in the mean, of which the first, which touches memory for the first time, is forgotten; a
 * step that was held up counts for no more than this many times the mean. */
enum { TRIAL = 8, AGAIN = 64, STEPS = 8 };
#define MOST 2.0

static int size_of(int64_t n_sequences) {
  int size = 0;
  while (size < OMMAI_DRAFT_GAIN_SIZES - 1 && INT64_C(1) << size < n_sequences) size++;
  return size;
}

void ommai_draft_gain_record(struct ommai_draft_gain *gain, int64_t n_sequences, bool guessed, int64_t ns, int64_t n_tokens) {
  int size = size_of(n_sequences);
  struct ommai_draft_rate *rate = guessed ? &gain->sizes[size].with : &gain->sizes[size].without;
  if (n_tokens < 1) return;
  double found = (double)ns / (double)n_tokens;
  if (rate->n >= TRIAL && found > MOST * rate->ns) found = MOST * rate->ns;
  int64_t n = rate->n < 1 || gain->sizes[size].again ? 1 : rate->n < STEPS ? rate->n : STEPS;
  gain->sizes[size].again = false;
  rate->ns += (found - rate->ns) / (double)n;
  rate->n++;
}

bool ommai_draft_gain_choose(struct ommai_draft_gain *gain, int64_t n_sequences) {
  int size = size_of(n_sequences);
  const struct ommai_draft_rate *with = &gain->sizes[size].with, *without = &gain->sizes[size].without;
  if (with->n < TRIAL) return true;
  if (without->n < TRIAL) return false;
  bool pays = with->ns < without->ns;
  if (++gain->sizes[size].since < AGAIN) return pays;
  gain->sizes[size].since = 0;
  gain->sizes[size].again = true;
  return !pays;
}

double ommai_draft_gain_of(const struct ommai_draft_gain *gain, int64_t n_sequences) {
  int size = size_of(n_sequences);
  const struct ommai_draft_rate *with = &gain->sizes[size].with, *without = &gain->sizes[size].without;
  return with->n > 0 && without->n > 0 && with->ns > 0 ? without->ns / with->ns : 0;
}
