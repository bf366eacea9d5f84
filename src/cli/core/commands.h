/* All commands; each is defined in its own file. That of omma-bench is in src/bench. */
#pragma once

#include "cli/core/options.h"

extern const struct ommai_command ommai_command_chat;
extern const struct ommai_command ommai_command_run;
extern const struct ommai_command ommai_command_serve;
extern const struct ommai_command ommai_command_batch;
extern const struct ommai_command ommai_command_read;
extern const struct ommai_command ommai_command_embed;
extern const struct ommai_command ommai_command_rerank;
extern const struct ommai_command ommai_command_encode;
extern const struct ommai_command ommai_command_preprocess;
extern const struct ommai_command ommai_command_plan;
extern const struct ommai_command ommai_command_tokenize;
extern const struct ommai_command ommai_command_detokenize;
extern const struct ommai_command ommai_command_info;
extern const struct ommai_command ommai_command_verify;
extern const struct ommai_command ommai_command_bench_attention;
extern const struct ommai_command ommai_command_bench_encoder;
extern const struct ommai_command ommai_command_bench_decode;
extern const struct ommai_command ommai_command_bench_read;
extern const struct ommai_command ommai_command_bench_scale;
extern const struct ommai_command ommai_command_bench_serve;

/* The summary in the list of commands, where omma has no more of it. */
#define OMMAI_BENCH_SERVE_SUMMARY "speed of a server under load, as its clients see it"
