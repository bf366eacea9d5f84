/* What is asked of the server next to the measured requests. */
#pragma once

#include <jansson.h>

#include "bench_client/http_client.h"

/* GET BASE/v1/models: *model is the first entry, an object of the caller's with "id" and perhaps
 * "root". Errors: IO (no reply, or another status than 200), FORMAT. */
enum omma_status ommai_query_first_model(struct ommai_http *http, const char *base_url, const char *const *headers,
                                         const struct omma_allocator *allocator, json_t **model, struct omma_error *error);
