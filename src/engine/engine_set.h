/* Several engines over one model that callers see as one (omma_model_options.n_engines).
 *
 * Each has a thread, threads that compute, pages and caches of its own; what is here sends requests
 * to them (engine/engine_route.h) and watches over them. Locks: an attempt's before the set's;
 * callbacks are called under an attempt's alone.
 *
 * An engine whose turn takes longer than the limit is out: it gets no more requests, and nobody
 * waits for it. Its requests begin again at the others. All engines give the same tokens, so what a
 * request's callbacks have had already is left out, and its client sees a pause. An engine that
 * goes on after all is in again. */
#pragma once

#include "engine/engine.h"

struct ommai_engine_set;

/* Takes the engines over, n of them, which do not run yet; they learn of the set. Starts the thread
 * that watches over them. options: those of all. Errors: MEMORY, INTERNAL; then the engines are the
 * caller's. */
enum omma_status ommai_engine_set_create(struct omma_engine *const *engines, int n, const struct omma_engine_options *options,
                                         struct ommai_engine_set **set, struct omma_error *error);
/* Ends all requests, then the engines. An engine that is out cannot be ended: it and all that it
 * uses, the model included, are left allocated. Returns whether there is one. */
bool ommai_engine_set_destroy(struct ommai_engine_set *set);

int ommai_engine_set_size(const struct ommai_engine_set *set);
struct omma_engine *ommai_engine_set_at(const struct ommai_engine_set *set, int index);
bool ommai_engine_set_is_out(struct ommai_engine_set *set, int index);

/* As omma_engine_submit and omma_engine_cancel; ids are the set's. */
enum omma_status ommai_engine_set_submit(struct ommai_engine_set *set, const struct omma_request *request,
                                         const struct omma_callbacks *callbacks, uint64_t *id, struct omma_error *error);
void ommai_engine_set_cancel(struct ommai_engine_set *set, uint64_t id);

/* The engine for an encode call of so much work, until it ends. NULL: all are out. */
struct omma_engine *ommai_engine_set_begin_encode(struct ommai_engine_set *set, int64_t work);
void ommai_engine_set_end_encode(struct ommai_engine_set *set, const struct omma_engine *engine, int64_t work);

/* No engine knows any image or prefix any more. */
void ommai_engine_set_forget(struct ommai_engine_set *set);

/* Looks at every engine once: what the set's thread does again and again. */
void ommai_engine_set_watch(struct ommai_engine_set *set);
