/* A load for an engine over the fake runner: its limits, requests and what fails, all as numbers,
 * so that a case can be made of a seed, written as a script, read again, and shrunk. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runner/fake_runner.h"

enum { SIM_MAX_REQUESTS = 300, SIM_MAX_FAILURES = 8, SIM_N_IMAGES = 6, SIM_N_DOCUMENTS = 4, SIM_VOCAB = 64, SIM_STOP = 7 };

/* X(name, simplest): a value is printed where it is not the simplest, and shrinking goes there. */
#define SIM_ENGINE_FIELDS(X)                                                                         \
  X(slots, 1)                                                                                        \
  X(pages, 12)                                                                                       \
  X(context, 640)   /* positions of a sequence; at most what the pages hold */                       \
  X(chunk, 1024)    /* tokens of a prompt at a time */                                               \
  X(patches, 1024)  /* of a pass */                                                                  \
  X(cache, -1)      /* bytes of the encoder cache; -1: none */                                       \
  X(queue, 256)     /* requests that may wait */                                                     \
  X(reserve, -1)    /* tokens of an answer that admission finds room for; -1: none */                \
  X(slice_ms, 1000) /* the longest slice */                                                          \
  X(percent, 50)    /* of the time for slices while answers are written */                           \
  X(drafts, 0)      /* drafts in a step */                                                           \
  X(lookup, 1)      /* tokens that drafts are looked up by, at most */                               \
  X(head, 0)        /* a draft head drafts instead */                                                \
  X(prefix_cache, 0)                                                                                 \
  X(by_priority, 0)                                                                                  \
  X(scheduling, 0)     /* as enum omma_scheduling */                                                 \
  X(max_wait_ms, 2000) /* of a whole answer, in all */                                               \
  X(window, 0)         /* layers see this many positions, next to others that see all; 0: none do */ \
  X(snapshots, 0)      /* other layers keep snapshots */                                             \
  X(repeated, 0)       /* per cent of tokens that follow from the one before */                      \
  X(round_us, 1000000) /* after this a pass or chunk pauses */                                       \
  X(naps, 0)           /* it sleeps in every such turn in which it is idle; 0: never */              \
  X(end, -1)           /* it is destroyed before this turn; -1: when all is done */                  \
  X(pass_us, 2000)     /* what work costs: a pass, and each patch of it */                           \
  X(patch_us, 100)                                                                                   \
  X(chunk_us, 1000) /* a chunk, and each of its tokens */                                            \
  X(token_us, 50)                                                                                    \
  X(step_us, 5000) /* a step, and each of its rows */                                                \
  X(row_us, 200)                                                                                     \
  X(draw_us, 20)

#define SIM_REQUEST_FIELDS(X)                                             \
  X(at, 0)       /* the turn before which it is submitted */              \
  X(encode, 0)   /* 1: its images alone are wanted */                     \
  X(read, 0)     /* 1: a vector, 2: a score, 3: vectors of tokens */      \
  X(document, 0) /* its prompt begins with `shared` tokens of this one */ \
  X(shared, 0)                                                            \
  X(images, 0) /* after them, and which ones: image, image + 1, .. */     \
  X(image, 0)                                                             \
  X(own, 1)    /* tokens after them, and of which text */                 \
  X(text, 0)   /* it is its seed too */                                   \
  X(answer, 1) /* tokens at most */                                       \
  X(min_answer, 0)                                                        \
  X(priority, 0)                                                          \
  X(whole, 0)      /* it is read when it is complete */                   \
  X(stops, 0)      /* how many tokens end it, besides the model's own */  \
  X(ignore_eos, 1) /* */                                                  \
  X(sampled, 0)    /* 1: by its seed, 2: with penalties too */            \
  X(scores, 0)     /* log-probabilities of the prompt are wanted */       \
  X(top, 0)        /* likely tokens with each one */                      \
  X(cancel, -1)    /* the turn before which it is cancelled */            \
  X(refuse, -1)    /* the client leaves with this token */

#define SIM_DECLARE(name, simplest) int64_t name;
struct sim_engine {
  SIM_ENGINE_FIELDS(SIM_DECLARE)
};
struct sim_request {
  SIM_REQUEST_FIELDS(SIM_DECLARE)
};
#undef SIM_DECLARE

/* The `nth` call of a kind fails, from 0; OMMAI_FAKE_CALLS stands for allocations once the engine
 * is there. */
struct sim_failure {
  int64_t call, nth;
};

struct sim_case {
  struct sim_engine engine;
  int64_t n_requests, n_failures;
  struct sim_request requests[SIM_MAX_REQUESTS];
  struct sim_failure failures[SIM_MAX_FAILURES];
};

/* The fields of an engine or a request, which are nothing but int64_t. */
struct sim_field {
  const char *name;
  int64_t simplest;
};
extern const struct sim_field sim_engine_fields[], sim_request_fields[];
extern const int sim_n_engine_fields, sim_n_request_fields;

/* The case of a seed: all of it follows from the number. */
void sim_case_make(struct sim_case *made, uint64_t seed);

/* As lines "engine slots=3 ..", "request at=5 ..", "fail call=5 nth=3". */
void sim_case_print(const struct sim_case *printed, FILE *file);
/* Reads these lines; empty ones and those that begin with # are skipped. False with a message for a
 * line that is none. */
bool sim_case_read(struct sim_case *read, FILE *file);

/* Tokens of the request's prompt. */
int64_t sim_prompt_size(const struct sim_request *request);
/* Tokens and patches of image `index`. */
int64_t sim_image_tokens(int64_t index);
int64_t sim_image_patches(int64_t index);
