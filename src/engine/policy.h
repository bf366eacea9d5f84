/* What the engine does next. A pure function of its load, so that it is tested without a model.
 *
 * - While no sequence decodes: long slices of images or prompts; short ones in turn where both
 * wait,
 *   so that neither waits for the other's end.
 * - While a sequence decodes: a step of every decoding sequence, then one slice that lasts at most
 *   `percent` of the time of both. */
#ifndef OMMAI_ENGINE_POLICY_H
#define OMMAI_ENGINE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#define OMMAI_DEFAULT_SLICE_PERCENT 50
#define OMMAI_MAX_SLICE_PERCENT 90
/* A slice while both images and prompts wait and nobody decodes. */
#define OMMAI_SHARED_SLICE_NS ((int64_t)100000000)
/* The shortest slice that is begun. */
#define OMMAI_MIN_SLICE_NS ((int64_t)1000000)

enum ommai_work { OMMAI_WORK_NONE, OMMAI_WORK_DECODE, OMMAI_WORK_PREFILL, OMMAI_WORK_ENCODE };

struct ommai_load {
  int64_t n_decoding;    /* sequences that wait for their next token */
  bool prefill, encode;  /* prompts, images wait */
  bool encoded_last;     /* the last slice was of images */
  int64_t step_ns;       /* the last decode step took; 0: there was none yet */
  int64_t since_step_ns; /* slices since then took */
  int64_t slice_ns;      /* longest slice */
  int64_t percent;       /* slices' share of the time while sequences decode */
};

struct ommai_choice {
  enum ommai_work work;
  int64_t ns; /* of a slice */
};

struct ommai_choice ommai_choose_work(const struct ommai_load *load);

#endif
