/* A runner without a model, for tests of what decides and keeps books: schedulers, caches, page
 * pools. Its arithmetic is a hash of everything that a real one would have looked at, so that an
 * answer changes when anything that led to it was wrong:
 *
 *   a page       remembers what was written into each position, and up to where
 *   a prompt row hashes its token, position and image row, and all positions before it
 *   a step row   the same, by another hash: generated tokens that went through a prompt's chunk
 *                differ, as bits do on real machines
 *   a reading    follows from its row's hash
 *   a draw       follows from its row's hash, the slot's tokens where penalties look at them, seed
 *                and step
 *   a draft      is right where tokens follow from the one before alone
 *
 * What no correct engine asks for is noted as a complaint: reading positions that nobody wrote,
 * slots that nobody began, limits that are passed, rows that the draft head is not shown.
 *
 * Time is a number that calls add their costs to. Nothing here is part of the library. */
#pragma once

#include "runner/fake_network.h"

/* Runners of the network, which must outlive them. */
struct ommai_runner_source ommai_fake_runner_source(const struct ommai_fake_network *network);

/* Lets time pass in which nothing is computed. */
void ommai_fake_runner_wait(struct ommai_runner *runner, int64_t ns);

/* The first thing that no correct engine asks for, as one line; empty: there was none. Lives as
 * long as the runner. */
const char *ommai_fake_runner_complaint(const struct ommai_runner *runner);

/* How many calls of a kind there were. */
int64_t ommai_fake_runner_calls(const struct ommai_runner *runner, enum ommai_fake_call call);
