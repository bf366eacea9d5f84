/* The event of a page that was published in the prefix cache (omma_engine_options.kv_events). */
#pragma once

#include <omma/kv_events.h>
#include <stdint.h>

struct omma_request;

/* Page `page` of the request's prompt, below request->n_page_keys. Nothing happens without
 * events->stored. */
void ommai_kept_page_report(const struct omma_kv_events *events, const struct omma_request *request, int64_t page);
