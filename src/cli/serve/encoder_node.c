#include "cli/serve/encoder_node.h"

#include <string.h>

#include "base/json.h"
#include "cli/core/diagnostics.h"
#include "cli/core/json_words.h"

static const char FLAG[] = "--ec-transfer-config";

static int wrong_json(const char *command, const struct omma_error *error) {
  return ommai_usage_error("%s: %s", command, error->message);
}

/* vLLM's, with those that mean nothing here. */
static const char *const known_keys[] = {"ec_connector",
                                         "ec_role",
                                         "engine_id",
                                         "ec_buffer_device",
                                         "ec_buffer_size",
                                         "ec_ip",
                                         "ec_port",
                                         "ec_connector_extra_config",
                                         "ec_connector_module_path",
                                         NULL};

static int read_config(const char *command, const json_t *root, struct omma_server_options *options) {
  const char *connector = NULL, *role = NULL;
  json_t *extra = NULL;
  struct omma_error error;
  int code = ommai_json_check_keys(command, root, FLAG, known_keys);
  if (code != OMMAI_EXIT_DONE) return code;
  if (ommai_json_string(root, FLAG, "ec_connector", true, &connector, &error) != OMMA_OK ||
      ommai_json_string(root, FLAG, "ec_role", true, &role, &error) != OMMA_OK ||
      ommai_json_object(root, FLAG, "ec_connector_extra_config", false, &extra, &error) != OMMA_OK) {
    return wrong_json(command, &error);
  }
  if (strcmp(role, "ec_producer") != 0) {
    return ommai_usage_error(
        "%s: %s: ec_role: expected \"ec_producer\": this server encodes for others, and takes no embeddings", command, FLAG);
  }
  if (strcmp(connector, "ECExampleConnector") != 0) {
    return ommai_usage_error(
        "%s: %s: ec_connector: expected \"ECExampleConnector\", which are files in a directory; over HTTP embeddings are "
        "published without this option",
        command, FLAG);
  }
  if (ommai_json_string(extra, FLAG, "shared_storage_path", false, &options->encoding_directory, &error) != OMMA_OK) {
    return wrong_json(command, &error);
  }
  if (options->encoding_directory && options->encoding_directory[0]) return OMMAI_EXIT_DONE;
  return ommai_usage_error("%s: %s: ec_connector_extra_config: expected {\"shared_storage_path\": DIRECTORY}", command, FLAG);
}

int ommai_encoder_node_read(const char *command, const struct ommai_encoder_node_values *values, struct ommai_common *common,
                            struct omma_server_options *options, json_t **config) {
  const char *text = values->ec_transfer_config;
  struct omma_error error;
  common->encoder_only = values->mm_encoder_only || text;
  options->no_page |= common->encoder_only; /* it asks questions */
  if (!text) return OMMAI_EXIT_DONE;
  if (ommai_json_load(FLAG, text, strlen(text), config, &error) != OMMA_OK) return wrong_json(command, &error);
  return read_config(command, *config, options);
}
