#include "server/state/server_config.h"

#include <string.h>

bool ommai_server_has_model(const struct ommai_server_config *config, const char *name) {
  for (size_t i = 0; i < config->n_model_names; i++) {
    if (!strcmp(config->model_names[i], name)) return true;
  }
  return config->answers_to_path && config->info.directory && !strcmp(config->info.directory, name);
}

void ommai_server_log(const struct ommai_server_config *config, const char *what, const struct omma_error *error) {
  if (!config->log.put) return;
  struct ommai_log_line line;
  ommai_log_line_begin(&line, config->allocator, config->log.json, "error", "failure");
  ommai_log_line_string(&line, "while", what);
  ommai_log_line_string(&line, "message", error->message);
  ommai_log_line_send(&line, &config->log);
}
