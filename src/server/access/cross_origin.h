/* Which pages of other origins a browser lets use the server (CORS). The replies are those of
 * Starlette's CORSMiddleware, which vLLM has. */
#pragma once

#include <omma/host.h>
#include <stdbool.h>

#include "base/text_buffer.h"
#include "server/core/server_options.h"

struct MHD_Connection;
struct MHD_Response;

struct ommai_cross_origin {
  bool enabled, all_origins, all_headers, credentials;
  /* as the replies list them: words with ", " between them */
  struct ommai_text origins, methods, headers;
};

/* Copies the options. No origins: nothing is ever added and no preflight is known. Errors: MEMORY.
 * The caller frees in every case, a zeroed one too. */
enum omma_status ommai_cross_origin_take(const struct omma_cross_origin_options *options,
                                         const struct omma_allocator *allocator, struct ommai_cross_origin *rules,
                                         struct omma_error *error);
void ommai_cross_origin_free(struct ommai_cross_origin *rules);

/* True for a preflight: a browser asks what it may do, before it does it. */
bool ommai_cross_origin_is_preflight(const struct ommai_cross_origin *rules, struct MHD_Connection *mhd, const char *method);

/* The reply to a preflight: appends its text and returns its status, 200 or 400. */
int ommai_cross_origin_preflight(const struct ommai_cross_origin *rules, struct MHD_Connection *mhd, struct ommai_text *text);

/* Adds the headers of a reply, to a preflight or to any other request. */
void ommai_cross_origin_add(const struct ommai_cross_origin *rules, struct MHD_Connection *mhd, bool preflight,
                            struct MHD_Response *response);
