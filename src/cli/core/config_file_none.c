#include "base/error.h"
#include "cli/core/config_file.h"

enum omma_status ommai_config_file_load(const char *path, json_t **settings, struct omma_error *error) {
  (void)settings;
  return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "%s: this build cannot read YAML: it needs libyaml", path);
}
