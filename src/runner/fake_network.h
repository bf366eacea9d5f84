/* What a fake runner (fake_runner.h) runs instead of a model. */
#pragma once

#include "runner/runner.h"

/* Nanoseconds. A pass takes pass + n_patches * patch, and likewise chunks, steps and draws. */
struct ommai_fake_costs {
  int64_t pass, patch;
  int64_t chunk, prompt_row;
  int64_t step, step_row;
  int64_t draw;
  int64_t round; /* passes and chunks pause between pieces of this length; at least 1 */
};

enum ommai_fake_call {
  OMMAI_FAKE_ENCODE_BEGIN,
  OMMAI_FAKE_ENCODE_ADVANCE,
  OMMAI_FAKE_SLOT_BEGIN,
  OMMAI_FAKE_PROMPT_BEGIN,
  OMMAI_FAKE_PROMPT_ADVANCE,
  OMMAI_FAKE_DECODE,
  OMMAI_FAKE_DRAW,
  OMMAI_FAKE_DRAFT,
  OMMAI_FAKE_READ,
  OMMAI_FAKE_CALLS
};

/* Immutable while it has a runner, but for what `fails` does. */
struct ommai_fake_network {
  struct ommai_runner_facts facts;
  struct ommai_fake_costs costs;
  struct omma_allocator allocator;
  /* Of 100 tokens, how many follow from the one before alone: answers then repeat themselves, and
   * drafts by what was said before are often right. */
  int repeated_percent;
  /* Whether a call fails: a DRAW with logits that are not finite, SLOT_BEGIN for want of memory,
   * others with INTERNAL. NULL: none does. */
  bool (*fails)(void *context, enum ommai_fake_call call);
  void *context;
};
