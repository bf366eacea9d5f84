#include "engine/draft_gain.h"

/* Steps that each way is tried for at first; after how many the slower one is tried again, and for
 * how many; steps that count, about; a step that was held up counts for no more than this many
 * times the mean. The first step of all, which touches memory for the first time, is forgotten. */
enum { TRIAL = 8, AGAIN = 256, RETRIAL = 4 };
#define STEPS 32.0
#define MOST 2.0

static int size_of(int64_t n_sequences) {
  int size = 0;
  while (size < OMMAI_DRAFT_GAIN_SIZES - 1 && INT64_C(1) << size < n_sequences) size++;
  return size;
}

/* Of a token; 0: not known. */
static double token_ns(const struct ommai_draft_rate *rate) { return rate->tokens > 0 ? rate->ns / rate->tokens : 0; }

void ommai_draft_gain_record(struct ommai_draft_gain *gain, int64_t n_sequences, bool drafted, int64_t ns, int64_t n_tokens) {
  int size = size_of(n_sequences);
  struct ommai_draft_rate *rate = drafted ? &gain->sizes[size].with : &gain->sizes[size].without;
  if (n_tokens < 1) return;
  double found = (double)ns;
  if (rate->n >= TRIAL && found > MOST * rate->ns / rate->steps) found = MOST * rate->ns / rate->steps;
  double kept = rate->n == 1 || rate->anew ? 0 : 1 - 1 / STEPS;
  rate->ns = kept * rate->ns + found;
  rate->tokens = kept * rate->tokens + (double)n_tokens;
  rate->steps = kept * rate->steps + 1;
  rate->anew = false;
  rate->n++;
}

bool ommai_draft_gain_choose(struct ommai_draft_gain *gain, int64_t n_sequences) {
  int size = size_of(n_sequences);
  struct ommai_draft_rate *with = &gain->sizes[size].with, *without = &gain->sizes[size].without;
  int64_t *since = &gain->sizes[size].since;
  bool pays = token_ns(with) < token_ns(without);
  if (with->n < TRIAL) return true;
  if (without->n < TRIAL) return false;
  if (++*since <= AGAIN) return pays;
  if (*since == AGAIN + 1) {
    gain->sizes[size].retries_drafts = !pays;
    (pays ? without : with)->anew = true;
  }
  if (*since == AGAIN + RETRIAL) *since = 0;
  return gain->sizes[size].retries_drafts;
}

double ommai_draft_gain_of(const struct ommai_draft_gain *gain, int64_t n_sequences) {
  int size = size_of(n_sequences);
  double with = token_ns(&gain->sizes[size].with), without = token_ns(&gain->sizes[size].without);
  return with > 0 ? without / with : 0;
}
