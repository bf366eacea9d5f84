#include "cli/option_hints.h"

#define DOWNLOAD "nothing is downloaded: get the model first (hf download) and give its directory or GGUF file to --model"
#define NO_GPU "models are computed by the CPU alone"
#define LOADING "weights are always packed into memory when the model is opened"

static const struct ommai_option_hint hints[] = {
    /* llama.cpp: models and machines */
    {"-mm", "mmproj", NULL},
    {"-hf", NULL, DOWNLOAD},
    {"-hfr", NULL, DOWNLOAD},
    {"--hf-repo", NULL, DOWNLOAD},
    {"--hf-file", NULL, DOWNLOAD},
    {"-mu", NULL, DOWNLOAD},
    {"--model-url", NULL, DOWNLOAD},
    {"--mmproj-url", NULL, DOWNLOAD},
    {"-ngl", NULL, NO_GPU},
    {"--gpu-layers", NULL, NO_GPU},
    {"--n-gpu-layers", NULL, NO_GPU},
    {"-ot", NULL, NO_GPU},
    {"--no-mmproj-offload", NULL, NO_GPU},
    {"-dev", NULL, NO_GPU},
    {"--device", NULL, NO_GPU},
    {"--no-mmproj", NULL, "the vision tower is part of the model"},
    {"-tb", "threads", NULL},
    {"--threads-batch", "threads", NULL},
    {"--mlock", NULL, LOADING},
    {"--mmap", NULL, LOADING},
    {"--no-mmap", NULL, LOADING},
    {"-fa", NULL, "attention is always computed in tiles, without a matrix of scores"},
    {"--flash-attn", NULL, "attention is always computed in tiles, without a matrix of scores"},
    {"--jinja", NULL, "chat templates are always rendered as Jinja"},
    /* llama.cpp: sizes */
    {"--ctx-size", "max-model-len", NULL},
    {"-b", "max-num-batched-tokens", NULL},
    {"--batch-size", "max-num-batched-tokens", NULL},
    {"-ub", "max-num-batched-tokens", NULL},
    {"--ubatch-size", "max-num-batched-tokens", NULL},
    {"-np", "max-num-seqs", NULL},
    {"--parallel", "max-num-seqs", NULL},
    {"-ctk", "kv-cache-dtype", NULL},
    {"--cache-type-k", "kv-cache-dtype", NULL},
    {"-ctv", "kv-cache-dtype", NULL},
    {"--cache-type-v", "kv-cache-dtype", NULL},
    {"--image-min-tokens", "min-pixels", NULL},
    {"--image-max-tokens", "max-pixels", NULL},
    /* llama.cpp: questions and answers */
    {"--predict", "max-tokens", NULL},
    {"--n-predict", "max-tokens", NULL},
    {"-s", "seed", NULL},
    {"--temp", "temperature", NULL},
    {"--repeat-penalty", "repetition-penalty", NULL},
    {"-sys", "system", NULL},
    {"--system-prompt", "system", NULL},
    {"-r", "stop", NULL},
    {"--reverse-prompt", "stop", NULL},
    {"-j", "json-schema", NULL},
    {"-cb", NULL, "requests are always batched continuously"},
    {"--cont-batching", NULL, "requests are always batched continuously"},
    {"--metrics", NULL, "/metrics is always there"},
    {"-md", NULL, "drafts come from the text itself: --speculative-config"},
    {"--model-draft", NULL, "drafts come from the text itself: --speculative-config"},
    {"--draft-max", "speculative-config", NULL},
    {"-cnv", NULL, "without a question a conversation begins"},
    {"-a", "served-model-name", NULL},
    {"--alias", "served-model-name", NULL},
    {"--num-predict", "max-tokens", NULL}, /* ollama's */
    /* vLLM, where a command has no list of its flags; transformers */
    {"--kv-dtype", "kv-cache-dtype", NULL},
    {"--load-in-4bit", NULL, "--quantization int4 does this"},
    {"--load-in-8bit", NULL, "--quantization int8 does this"},
    {"--max-new-tokens", "max-tokens", NULL},
    {"--gpu-memory-utilization", "kv-cache-bytes", NULL},
    {"--limit-mm-per-prompt", NULL, "images of one question are not limited here"},
    {"--tensor-parallel-size", "threads", NULL},
    {"-tp", "threads", NULL},
    {0}};

const struct ommai_option_hint *ommai_option_hint_next(const struct ommai_option_hint *hint) {
  hint = hint ? hint + 1 : hints;
  return hint->word ? hint : NULL;
}
