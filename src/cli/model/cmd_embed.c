/* omma embed: texts and images -> vectors. */
#include <omma/vectors.h>

#include "cli/core/commands.h"
#include "cli/core/diagnostics.h"
#include "cli/model/image_sources.h"
#include "cli/model/vector_command.h"

struct values {
  struct ommai_vector_values vectors;
  int64_t dimensions;
};

static enum omma_status make(const void *context, const struct omma_model *model, const struct ommai_vector_item *item,
                             const struct omma_request_options *options, struct omma_request **request,
                             struct omma_error *error) {
  const struct values *values = context;
  struct omma_request_options own = *options;
  const char *instruction = item->instruction ? item->instruction : values->vectors.instruction;
  own.dimensions = values->dimensions;
  return omma_request_create_embed(model, instruction, item->parts, item->n_parts, &own, request, error);
}

static int run_embed(const void *given, const struct ommai_strings *arguments) {
  const struct values *values = given;
  struct values copy = *values;
  if (!values->vectors.output) return ommai_usage_error("embed: --output is missing: OUT.npy, OUT.jsonl, or - for JSON lines");
  struct ommai_vector_job job = {.command = "embed", .values = &values->vectors, .make = make, .context = &copy};
  int code = ommai_vector_job_run(&job, arguments);
  ommai_expanded_release(&job.images);
  return code;
}

#define OMMAI_VALUES struct values

static const struct ommai_option table[] = {
    OMMAI_STRINGS("text", vectors.texts, "TEXT", "a text that becomes a vector"),
    OMMAI_STRING("input", vectors.input, "FILE",
                 "inputs as JSON lines, - for standard input: a string, or an object with text, image (a file, or a list of "
                 "files), video (a list of its frames' files), fps (of the video, 2) and instruction"),
    OMMAI_STRING("instruction", vectors.instruction, "TEXT",
                 "what the vectors are for, in a sentence, such as \"Retrieve images or text relevant to the user's query.\"",
                 .otherwise = "the model's own"),
    OMMAI_SIZE("dimensions", dimensions, "N", 1, INT32_MAX, "the first N entries of each vector, of length 1 again",
               .otherwise = "all"),
    OMMAI_STRING("output", vectors.output, "FILE",
                 "file to write: NAME.npy (f32, a row for each input; of a model with a vector for each token the rows of all "
                 "inputs, and their borders in NAME.offsets.npy), NAME.jsonl, or - for JSON lines on standard output; required",
                 .letter = 'o'),
};
static const struct ommai_option_group options = OMMAI_OPTION_GROUP("Vectors", table);

const struct ommai_command ommai_command_embed = {
    .name = "embed",
    .summary = "vectors of texts and images, to search by",
    .arguments = "[DIR] [IMAGE|FOLDER...] --output OUT.npy",
    .details =
        "Each image, text and line of --input becomes a vector of length 1, in this order, by a model that was trained "
        "for it. A folder stands for the images in it, by name, without those of folders within. Inputs are read as they "
        "are needed and written as they are done, so memory does not grow with their number. One that fails is named, has a "
        "row of NaN or an error in its place, and makes the "
        "exit code 1. DIR is the model, as with --model. docs/embeddings.md has more.",
    .examples = {"omma embed MODEL photos --output photos.npy", "omma embed MODEL --text \"a red circle\" --output -"},
    .groups = {&options, &ommai_vector_engine_options, &ommai_image_options, &ommai_model_options, &ommai_weight_options,
               &ommai_engine_options, &ommai_machine_options},
    .values_size = sizeof(struct values),
    .max_arguments = SIZE_MAX,
    .run = run_embed,
};
