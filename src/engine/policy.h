/* What the engine does next. A pure function of its load, so that it is tested without a model.
 *
 * Answers are read as they come (streams), or whole. A stream is promised a gap between its tokens;
 * a whole answer is promised its end, so that its decode steps may wait for more rows: a step
 * of eight rows costs little more than a step of one.
 *
 * - While no sequence decodes: long slices of images or prompts. Where somebody waits for a first
 *   token, short ones in turn, so that neither waits for the other's end; else all images first, so
 *   that their prompts share chunks.
 * - While streams decode: a step of all of them, and other work for at most `percent` of the time
 *   of both: rows of whole answers that the step carries along, and a slice. While images or
 *   prompts wait, rows get half of it.
 * - While fewer than OMMAI_FULL_STEP_ROWS whole answers alone decode: images and prompts first, as
 *   long as these lead to more rows. From that number on they go on as streams do: the rows of a
 *   step are enough, and those that have them do not wait for all others. So does one that has
 *   waited for its bound. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OMMAI_DEFAULT_SLICE_PERCENT 50
#define OMMAI_MAX_SLICE_PERCENT 90
/* A slice while both images and prompts wait and nobody decodes. */
#define OMMAI_SHARED_SLICE_NS ((int64_t)100000000)
/* Rows of a step that share most of its reading of weights and fill the tiles of its products: more
 * of them save little. (Zen 5 with AVX512-BF16, 2B in bf16: 99 tokens a second at 8 rows, 181 at
 * 16, 250 at 32. Sixty answers after as many images, all that may wait: 124 s with 16 here, 121
 * with 32, 115 with 64; int8 73, 74, 70.) */
#define OMMAI_FULL_STEP_ROWS 64
/* A row of a whole answer counts at least as this part of a step of the streams, so that the first
 * step that has some is not a long one. */
#define OMMAI_FREE_ROWS 16
/* The measured time of a step of streams rises by at most this share per step, so that one slow
 * step does not lengthen the slices after it. */
#define OMMAI_OWN_STEP_RISE 32
/* The shortest slice that is begun. */
#define OMMAI_MIN_SLICE_NS ((int64_t)1000000)

enum ommai_work { OMMAI_WORK_NONE, OMMAI_WORK_DECODE, OMMAI_WORK_PREFILL, OMMAI_WORK_ENCODE };

struct ommai_load {
  /* sequences that wait for their next token: streams, and whole answers that may wait longer */
  int64_t n_streams, n_patient;
  bool prefill, encode;  /* prompts, images wait */
  bool hurry;            /* somebody waits there for a first token */
  bool more_rows;        /* these prompts and images lead to rows of the next steps */
  bool encoded_last;     /* the last slice was of images */
  int64_t step_ns;       /* the last decode step took; 0: there was none yet */
  int64_t own_step_ns;   /* a step of the streams alone took; 0: there was none yet */
  bool measure_own;      /* the next step is to show that again */
  int64_t row_ns;        /* a whole answer's row in a step of streams takes; 0: it is not known */
  int64_t since_step_ns; /* slices since then took */
  int64_t slice_ns;      /* longest slice */
  int64_t percent;       /* slices' share of the time while sequences decode */
};

struct ommai_choice {
  enum ommai_work work;
  int64_t ns; /* of a slice */
};

struct ommai_choice ommai_choose_work(const struct ommai_load *load);

/* The number of rows of whole answers in the next decode step: all when no stream decodes; none
 * when the step is to measure the time of the streams alone. */
int64_t ommai_choose_carried(const struct ommai_load *load);

/* What a step of the streams alone takes, after one more of the same streams has taken step_ns. */
int64_t ommai_learn_own_step(int64_t own_step_ns, int64_t step_ns);
