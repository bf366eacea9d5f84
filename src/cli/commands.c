/* The commands of omma. */
#include "cli/core/commands.h"

#include "cli/core/command_list.h"

static const struct ommai_command bench_serve = {
    .name = "bench serve", .summary = OMMAI_BENCH_SERVE_SUMMARY, .program = "omma-bench"};

const struct ommai_command *const ommai_commands[] = {
    &ommai_command_chat,
    &ommai_command_run,
    &ommai_command_serve,
    &ommai_command_batch,
    &ommai_command_embed,
    &ommai_command_rerank,
    &ommai_command_read,
    &ommai_command_encode,
    &ommai_command_preprocess,
    &ommai_command_tokenize,
    &ommai_command_detokenize,
    &ommai_command_plan,
    &ommai_command_info,
    &ommai_command_verify,
    &ommai_command_bench_attention,
    &ommai_command_bench_encoder,
    &ommai_command_bench_decode,
    &ommai_command_bench_read,
    &bench_serve,
    &ommai_command_bench_scale,
};
const size_t ommai_n_commands = sizeof ommai_commands / sizeof *ommai_commands;
