/* The options of `omma serve` and `omma batch` whose value is a JSON object, in vLLM's form. `text`
 * is the option's value; NULL: it was not given, and nothing changes. Errors of all, which are
 * mistakes in the command line and name the option: ARGUMENT, FORMAT, MEMORY. */
#pragma once

#include "cli/model/model_options.h"
#include "server/server.h"

/* --limit-mm-per-prompt: {"image": N, "video": N}; audio is a known name, and there is none to
 * limit. */
enum omma_status ommai_serving_read_media_limits(const char *text, struct omma_server_options *options,
                                                 struct omma_error *error);

/* --mm-processor-kwargs: {"min_pixels": N, "max_pixels": N}. Both are taken from --min-pixels and
 * --max-pixels of `common` where there is no text; together they are an error. */
enum omma_status ommai_serving_read_processor(const char *text, const struct ommai_common *common,
                                              struct omma_image_options *limits, struct omma_error *error);

/* --speculative-config: one of three methods. common gets the draft head or model; the caller frees
 * common->draft_model. */
enum omma_status ommai_serving_read_speculation(const char *text, struct omma_engine_options *options,
                                                struct ommai_common *common, struct omma_error *error);

/* --structured-outputs-config; only disable_any_whitespace changes anything: there is one backend,
 * and what it cannot do is refused. reasoning_parser: that of the option; NULL: none. */
enum omma_status ommai_serving_read_structured_outputs(const char *text, const char *reasoning_parser, bool *compact_json,
                                                       struct omma_error *error);

/* --override-generation-config: warns, in the name of `command`, of keys that mean nothing here, as
 * they mean nothing in vLLM. */
enum omma_status ommai_serving_check_overrides(const char *command, const char *text, struct omma_error *error);
