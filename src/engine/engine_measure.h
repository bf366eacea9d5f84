/* Works out how large the parts of an engine are. */
#pragma once

#include "engine/engine_sizes.h"

/* Works sizes out for a model whose runners come from `source`. Errors: ARGUMENT (an option out of
 * range, with its name), LIMIT (the KV budget holds no page, or a size does not fit into this
 * machine's addresses). */
enum omma_status ommai_engine_sizes(const struct omma_model *model, const struct ommai_runner_source *source,
                                    const struct omma_engine_options *options, struct ommai_engine_sizes *sizes,
                                    struct omma_error *error);

/* Bytes for keys and values: `needed` (those of all sequences that run at once, at their longest),
 * but at most what is left of `room` bytes (as ommai_memory_room; -1: not known) after `taken`,
 * what everything else will still take, and a reserve for decoded images, bodies and the system.
 * An eighth of the room in any case, so that a small machine still answers short questions: pages
 * that are not used take no memory. */
int64_t ommai_kv_budget(int64_t needed, int64_t room, int64_t taken);
