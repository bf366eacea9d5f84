/* Runs a case: an engine over the fake runner, turn by turn on this thread, and after every turn
 * what must always hold. The rules, by the names that a failure is reported with:
 *
 *   pages      every page is free, kept, or held by live sequences as often as the pool says; a
 *              page that is written has one holder; positions that are computed have pages
 *   order      requests are admitted and stand by priority, then by age; so do those whose images
 *              are there get slots; the first one that has pages keeps them
 *   slots      who waits for images has no slot, unless it was preempted
 *   images     those that wait or are computed fit in their memory; the tower works for somebody
 *              who waits
 *   ends       each accepted request ends once, and nothing is heard of it afterwards
 *   events     progress goes on within its total; tokens are numbered in order, after progress;
 *              scores come before tokens; counts in the result are those of the events
 *   answer     tokens, log-probabilities, text, scores and embeddings are those of the request
 *              alone (in an engine of one slot, without caches, drafts and chunks), to the last
 *              bit; what a cancelled or failed one has got is the beginning of that
 *   cancel     a cancelled request ends within the turn, and no other ends as cancelled
 *   error      a request fails only in a turn in which a call or an allocation was made to fail
 *   waits      a request ends within a bound of the work that was before it in order (sim_waits.h)
 *   gaps       so do two tokens of a stream follow each other
 *   counters   waiting, running and ended requests are all there are; events of kept pages add up
 *   sleeps     an idle engine that is to sleep does, and then nothing is kept
 *   clean      in the end no page, slot, image or allocation is held
 *   runner     the runner has nothing to complain about (fake_runner.h) */
#pragma once

#include "engine/sim_case.h"

struct sim_outcome {
  char rule[16]; /* the first that was broken; empty: none */
  char details[300];
  int64_t n_turns, n_ended, n_cancelled, n_failed, n_tokens, n_preemptions, n_cached_tokens, n_drafts_right;
  int64_t n_chunks, n_pieces; /* of prompts */
  int64_t n_passes;           /* of images */
  /* simulated: of all work, between two tokens of any answer, and until the end of all requests */
  int64_t total_ns, longest_gap_ns, completion_ns;
  int64_t stream_gap_ns;        /* the longest of an answer that is read as it comes */
  double worst_wait, worst_gap; /* over their bounds */
};

/* Once in a process, before cases are run. */
void sim_set_up(void);
void sim_tear_down(void);

/* Where the engines' lines go; else nowhere. */
void sim_set_log(const struct omma_log *log);

void sim_run(const struct sim_case *run, struct sim_outcome *outcome);
