/* Engines over runners of any kind, for omma_engine_create and for tests. */
#pragma once

#include "engine/engine.h"

/* An engine over runners from `source`, without a thread: its work is done by ommai_engine_turn, of
 * whoever made it. Errors: as omma_engine_create. */
enum omma_status ommai_engine_create(struct omma_model *model, const struct ommai_runner_source *source,
                                     const struct omma_engine_options *options, struct omma_engine **out,
                                     struct omma_error *error);

/* Starts its thread, or those of all engines that callers see as this one. Errors: INTERNAL. */
enum omma_status ommai_engine_start(struct omma_engine *engine, struct omma_error *error);
