/* Which of several engines gets a request: the one that has least to do once it has the request
 * too. What it knows of the request (images that it has encoded, the beginning of the prompt) it
 * need not compute, so a request goes to the engine that knows it, unless that engine has more
 * other work than this saves. */
#pragma once

#include <omma/kv_events.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu_share.h"

/* Work is counted in tokens of prompts; a patch of an image counts as one, an answer as this many:
 * how long it gets is not known. */
#define OMMAI_ENGINE_ROUTE_ANSWER_WORK 256

struct ommai_route_engine {
  bool out;        /* it gets nothing */
  int64_t load;    /* work of its requests that have not ended */
  int64_t missing; /* work of this request there */
  int64_t n_sent;  /* requests that it got so far */
};

/* The engine with the least load and missing work together; of equals, who has got fewer requests,
 * then the first. -1: all are out. */
int ommai_engine_route_choose(const struct ommai_route_engine *engines, int n);

/* ---- who knows what ---- */

/* Keys of pages and images (32 bytes, hashes) that engines have got lately. An estimate: the engine
 * may have evicted them since. A key takes the place of another one with the same place. */
enum { OMMAI_ENGINE_ROUTE_PLACES = 1 << 15 };

struct ommai_route_known {
  struct {
    uint64_t key;     /* the first bytes of the key; */
    uint64_t engines; /* bits, 0: nobody */
  } places[OMMAI_ENGINE_ROUTE_PLACES];
};

/* Bits of the engines that know the key. */
uint64_t ommai_engine_route_find(const struct ommai_route_known *known, const uint8_t key[32]);
void ommai_engine_route_note(struct ommai_route_known *known, const uint8_t key[32], int engine);
/* An engine knows nothing any more. */
void ommai_engine_route_forget(struct ommai_route_known *known, int engine);
