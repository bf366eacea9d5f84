/* What `omma serve` prints about itself at its start, and of memory `omma batch` and `omma read`
 * too. */
#pragma once

#include <omma/omma.h>

#include "server/server.h"

/* The model's directory, and the names that requests may use for it. */
void ommai_serve_note_names(const struct omma_model *model, const struct ommai_server *server);

/* The model, and how much of it works at once. threads: as --threads says, 0: not given. */
void ommai_serve_note_model(const struct omma_model *model, const struct omma_memory_estimate *estimate, int64_t threads);

/* The memory by what it is for. */
void ommai_serve_note_memory(const struct omma_memory_estimate *estimate, bool encoder_only);

/* The model of a server that only encodes, and where it leaves embeddings. threads: as above. */
void ommai_serve_note_encoder(const struct omma_model *model, const struct omma_memory_estimate *estimate,
                              const struct omma_server_options *options, int64_t threads);

/* Who may use it, and what is fetched and read for clients. */
void ommai_serve_note_access(const struct omma_server_options *options);

/* Warns where tools are to be called, but the model's chat template has none. */
void ommai_serve_warn_of_tools(const struct omma_model *model, const struct omma_server_options *options);
