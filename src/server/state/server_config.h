/* The server's configuration, for what needs nothing else of it. */
#pragma once

#include <omma/omma.h>
#include <stdbool.h>

#include "server/access/cross_origin.h"
#include "server/core/api_error.h"
#include "server/core/log_line.h"
#include "server/core/server_options.h"
#include "server/media/media_fetch.h"
#include "server/media/media_root.h"
#include "server/state/reasoning.h"

#define OMMAI_MAX_MODEL_NAMES 16
#define OMMAI_MAX_MEDIA_HOSTS 256

/* What a server was made with: set at its creation, read by every thread. */
struct ommai_server_config {
  const struct omma_allocator *allocator;
  struct ommai_server_settings settings; /* limits that were not given, or 0 for none, replaced */
  const struct omma_model *model;
  struct omma_model_info info;
  char *model_names[OMMAI_MAX_MODEL_NAMES];
  size_t n_model_names;
  /* no name was given, so that the path as given, vLLM's default, is a name too */
  bool answers_to_path;
  int64_t created; /* seconds of the calendar */

  /* Who may ask, and from where. */
  struct ommai_cross_origin cross_origin;
  char *root_path; /* of the public addresses; NULL: none */

  /* What requests may hold. */
  struct ommai_media_root media_root;
  char *media_hosts[OMMAI_MAX_MEDIA_HOSTS];
  struct ommai_fetch_rules fetch_rules;
  bool fetch_started;
  bool reads_pdf; /* poppler's programs were there when the server started */

  /* How answers are made, where a request does not set it. */
  struct ommai_reasoning reasoning;
  /* how models write the calls that they choose themselves; NONE: requests may not ask for it */
  enum ommai_tool_format auto_tools;

  size_t max_body_bytes, max_total_body_bytes, max_pending_bytes, max_total_pending_bytes;

  struct ommai_log log;
  char *unlogged_paths; /* with commas between, or NULL */
};

/* The served name that `name` is, which lives as long as the server, or NULL. */
const char *ommai_server_model_name(const struct ommai_server_config *config, const char *name);

/* As ommai_api_fail_from; one that clients see as status 500 is logged, as what came of doing
 * `what`. */
bool ommai_server_fail(const struct ommai_server_config *config, const char *what, const struct omma_error *cause,
                       struct ommai_api_error *error);
