/* The engine's memory, computed before anything runs. */
#ifndef OMMAI_ENGINE_MEMORY_ESTIMATE_H
#define OMMAI_ENGINE_MEMORY_ESTIMATE_H

#include <omma/omma.h>

#include "engine/engine_sizes.h"
#include "model/model.h"

/* Works sizes out. Errors: ARGUMENT (an option out of range, with its name), LIMIT (the KV budget
 * holds no page). */
enum omma_status ommai_engine_sizes(const struct omma_model *model, const struct omma_engine_options *options,
                                    struct ommai_engine_sizes *sizes, struct omma_error *error);

#endif
