/* `omma serve` as an encoder node: what --mm-encoder-only and --ec-transfer-config set. */
#pragma once

#include <jansson.h>

#include "cli/model/model_options.h"
#include "server/server.h"

struct ommai_encoder_node_values {
  bool mm_encoder_only;
  const char *ec_transfer_config; /* vLLM's JSON object; NULL: none */
};

/* Sets in `common` whether the tower alone is opened, and in `options` where embeddings are
 * published. *config is what the options point into, to be given back with json_decref. Returns an
 * exit code; the error has been printed, in the name of `command`. */
int ommai_encoder_node_read(const char *command, const struct ommai_encoder_node_values *values, struct ommai_common *common,
                            struct omma_server_options *options, json_t **config);
