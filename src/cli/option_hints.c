#include "cli/option_hints.h"

#include "cli/foreign_options.h"

#define DOWNLOAD "nothing is downloaded: get the model first (hf download) and give its directory or GGUF file to --model"
#define NO_GPU "models are computed by the CPU alone"
#define LOADING "weights are always packed into memory when the model is opened"

static const struct hint {
  const char *word, *instead;
} hints[] = {
    /* llama.cpp: models and machines */
    {"-hf", DOWNLOAD},
    {"-hfr", DOWNLOAD},
    {"--hf-repo", DOWNLOAD},
    {"--hf-file", DOWNLOAD},
    {"-mu", DOWNLOAD},
    {"--model-url", DOWNLOAD},
    {"--mmproj-url", DOWNLOAD},
    {"-ngl", NO_GPU},
    {"--gpu-layers", NO_GPU},
    {"--n-gpu-layers", NO_GPU},
    {"-ot", NO_GPU},
    {"--no-mmproj-offload", NO_GPU},
    {"-dev", NO_GPU},
    {"--device", NO_GPU},
    {"--no-mmproj", "the vision tower is part of the model"},
    {"--mlock", LOADING},
    {"--mmap", LOADING},
    {"--no-mmap", LOADING},
    {"-fa", "attention is always computed in tiles, without a matrix of scores"},
    {"--flash-attn", "attention is always computed in tiles, without a matrix of scores"},
    {"--jinja", "chat templates are always rendered as Jinja"},
    /* llama.cpp: questions and answers */
    {"-cb", "requests are always batched continuously"},
    {"--cont-batching", "requests are always batched continuously"},
    {"--metrics", "/metrics is always there"},
    {"-md", "drafts come from the text itself: --speculative-config"},
    {"--model-draft", "drafts come from the text itself: --speculative-config"},
    {"-cnv", "without a question a conversation begins"},
    /* vLLM, where a command has no list of its flags; transformers */
    {"--load-in-4bit", "--quantization int4 does this"},
    {"--load-in-8bit", "--quantization int8 does this"},
    {"--limit-mm-per-prompt", "images of one question are not limited here"},
    {0}};

const char *ommai_option_hint(const char *word, size_t size) {
  const struct hint *hint = hints;
  while (hint->word && !ommai_option_spelled(word, size, hint->word)) hint++;
  return hint->instead;
}
