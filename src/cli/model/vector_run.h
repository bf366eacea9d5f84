/* Requests for vectors and scores on their way through an engine: several at once, handed on in
 * their order. */
#pragma once

#include <omma/vectors.h>

/* Requests that are under way: enough for the tower's passes and for full chunks. */
#define OMMAI_VECTOR_RUN_ROOM 64

/* Gets the vectors of a request, or its error (vectors NULL); they live during the call. Returns an
 * exit code. */
typedef int (*ommai_vector_taker)(void *context, const struct omma_vectors *vectors, const struct omma_error *error);

struct ommai_vector_run;

/* NULL: out of memory. */
struct ommai_vector_run *ommai_vector_run_create(struct omma_engine *engine, ommai_vector_taker take, void *context);

/* Takes a request over, or, where it is NULL, an error in its place; waits for the oldest one where
 * there is no room. Returns an exit code, of the taker or after an interrupt. */
int ommai_vector_run_add(struct ommai_vector_run *run, struct omma_request *request, const struct omma_error *error);
/* Waits for all. */
int ommai_vector_run_finish(struct ommai_vector_run *run);

/* Cancels those that are left. NULL is allowed. */
void ommai_vector_run_destroy(struct ommai_vector_run *run);
