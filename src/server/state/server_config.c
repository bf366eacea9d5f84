#include "server/state/server_config.h"

#include <string.h>

const char *ommai_server_model_name(const struct ommai_server_config *config, const char *name) {
  for (size_t i = 0; i < config->n_model_names; i++) {
    if (!strcmp(config->model_names[i], name)) return config->model_names[i];
  }
  bool is_path = config->answers_to_path && config->info.directory && !strcmp(config->info.directory, name);
  return is_path ? config->info.directory : NULL;
}

bool ommai_server_fail(const struct ommai_server_config *config, const char *what, const struct omma_error *cause,
                       struct ommai_api_error *error) {
  struct ommai_log_line line;
  ommai_api_fail_from(error, cause);
  if (error->status != 500 || !config->log.put) return false;
  ommai_log_line_begin(&line, config->allocator, config->log.json, "error", "failure");
  ommai_log_line_string(&line, "while", what);
  ommai_log_line_string(&line, "message", cause->message);
  ommai_log_line_send(&line, &config->log);
  return false;
}
