/* Settings of `omma serve` that are more than a value: its API keys, what it is as an encoder node,
 * how many connections there is room for. */
#pragma once

#include <jansson.h>

#include "cli/core/options.h"
#include "cli/model/model_options.h"
#include "server/server.h"

/* Raises the process's limit to what a server of *max_connections needs, as far as the system
 * allows; where that is less, warns and lowers *max_connections to what there is room for. Without
 * that, connections would use up all open files, and then not even health checks would get in.
 * Returns an exit code; the error has been printed, in the name of `command`. */
int ommai_open_files_make_room(const char *command, int *max_connections);

/* What --mm-encoder-only and --ec-transfer-config set. */
struct ommai_encoder_node_values {
  bool mm_encoder_only;
  const char *ec_transfer_config; /* vLLM's JSON object; NULL: none */
};

/* Sets in `common` whether the tower alone is opened, and in `options` where embeddings are
 * published. *config is what the options point into, to be given back with json_decref. Returns an
 * exit code; the error has been printed, in the name of `command`. */
int ommai_encoder_node_read(const char *command, const struct ommai_encoder_node_values *values, struct ommai_common *common,
                            struct omma_server_options *options, json_t **config);

/* API keys from the command line, a file, or the environment. Zero-initialised: nothing to
 * release. */
struct ommai_serve_keys {
  struct ommai_strings keys;
  size_t n_owned; /* of the keys: copies */
  char *file;     /* the content of the file, in which the others lie */
  size_t file_size;
};

/* Where keys are taken from when neither option is given; ends in NULL. */
extern const char *const ommai_serve_key_variables[];

/* Collects the keys given as words of the command line, which are wiped there so that the list of
 * processes does not show them, and those of the file (may be NULL), one a line. Where neither is
 * given, OMMA_API_KEY and VLLM_API_KEY of the environment count. A file without keys and a variable
 * that is set to nothing are refused, and an empty key is by ommai_server_check: none of them may
 * mean an open server. Returns OMMAI_EXIT_DONE, or another exit code after saying what is wrong,
 * which never shows a key. Release in every case. */
int ommai_serve_keys_collect(const struct ommai_strings *given, const char *file, struct ommai_serve_keys *keys);

/* Wipes the keys from memory and frees it. */
void ommai_serve_keys_release(struct ommai_serve_keys *keys);
