#include "cli/model/model_options.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/plural.h"
#include "base/team.h"
#include "cli/core/diagnostics.h"
#include "cli/core/folder_files.h"
#include "cli/core/format.h"
#include "cli/core/pasted_paths.h"
#include "cli/core/paths.h"
#include "cli/core/progress.h"
#include "cli/model/room.h"

#define OMMAI_VALUES struct ommai_common
#define MAX_THREADS 1024

const char *const ommai_isa_names[] = {"scalar", "avx2", "avx2_vnni",    "avx512",    "avx512_bf16",
                                       "amx",    "neon", "neon_dotprod", "neon_bf16", NULL};

static const char *const dtype_names[] = {"auto", "f32", "float32", "bf16", "bfloat16", NULL};
static const char *const vision_dtype_names[] = {"auto", "f32", "float32", "bf16", "bfloat16", "int8", NULL};
static const enum omma_weight_type dtype_values[] = {OMMA_WEIGHTS_AUTO, OMMA_WEIGHTS_F32,  OMMA_WEIGHTS_F32,
                                                     OMMA_WEIGHTS_BF16, OMMA_WEIGHTS_BF16, OMMA_WEIGHTS_INT8};

static const char *quantization_name(int index) {
  struct omma_quantization_method method;
  return omma_quantization_method(index, &method) ? method.name : NULL;
}

/* The last is vLLM's name for int8. */
static const char *const kv_cache_names[] = {"auto", "f32", "float32", "bf16", "bfloat16", "int8", "int8_per_token_head", NULL};
static const enum omma_kv_cache_type kv_cache_values[] = {OMMA_KV_CACHE_AUTO, OMMA_KV_CACHE_F32,  OMMA_KV_CACHE_F32,
                                                          OMMA_KV_CACHE_BF16, OMMA_KV_CACHE_BF16, OMMA_KV_CACHE_INT8,
                                                          OMMA_KV_CACHE_INT8};

static const char *const isa_variables[] = {"OMMA_ISA", NULL};

static const struct ommai_option machine_table[] = {
    OMMAI_INTEGER("threads", threads, "N", 1, MAX_THREADS, "number of CPU threads", .letter = 't',
                  .otherwise = "the least of this process's CPUs, their cores and its quota", .elsewhere = "-tb --threads-batch --tensor-parallel-size -tp"),
    OMMAI_CHOICE("isa", isa, "LEVEL", ommai_isa_names, "CPU level to use; an error where the machine lacks it",
                 .otherwise = "the best of this machine", .environment = isa_variables),
    OMMAI_FLAG("verbose", verbose, "print to stderr which types and which CPU level are used, and times", .letter = 'v'),
    OMMAI_CHOICE("log-level", log_level, "LEVEL", ommai_log_levels,
                 "debug or trace: also print to stderr a line for each step of loading, prompts, scheduler and caches, "
                 "without any text of prompts or answers; the other levels print none",
                 .initial = "info"),
};

static const struct ommai_option config_table[] = {
    OMMAI_STRING("config", config, "FILE.yaml",
                 "YAML file with options by their names, such as max-model-len: 8192; lists and mappings stand for several "
                 "values and for JSON; the command line wins"),
};

static const struct ommai_option output_table[] = {
    OMMAI_FLAG("json", json, "print one JSON object"),
};

static const struct ommai_option model_table[] = {
    OMMAI_STRING("model", model, "DIR",
                 "model: a Hugging Face directory (config.json, tokenizer.json, *.safetensors) or a GGUF file", .letter = 'm',
                 .otherwise = "the demo model"),
    OMMAI_MMPROJ_OPTION(mmproj),
};

static const struct ommai_option weight_table[] = {
    OMMAI_CHOICE("dtype", dtype, "TYPE", dtype_names,
                 "data type in which the language model computes; auto: bf16 where the CPU has bf16 instructions, else f32; "
                 "the weights of a bf16 checkpoint stay bf16 either way",
                 .initial = "auto"),
    OMMAI_CHOICE("vision-dtype", vision_dtype, "TYPE", vision_dtype_names,
                 "data type in which the vision tower computes; auto: as --dtype", .initial = "auto"),
    OMMAI_LISTED_CHOICE(
        "quantization", quantization, "METHOD", quantization_name,
        "quantize the language model's weights while loading, with a scale per output channel or for each group "
        "of inputs (-gN: of N); a quantized checkpoint needs no option, and naming another method than its own "
        "is an error: docs/quantization.md",
        .letter = 'q', .initial = "none"),
    OMMAI_CHOICE("kv-cache-dtype", kv_cache_dtype, "TYPE", kv_cache_names,
                 "data type of the KV cache; auto: bf16, or f32 with --dtype f32; int8: keys and values as 8-bit integers "
                 "with a scale for each token and head, about half of bf16's memory; not for models with compressed rows "
                 "(MLA): docs/quantization.md",
                 .initial = "auto", .elsewhere = "-ctk --cache-type-k -ctv --cache-type-v --kv-dtype", .errors = "kv_cache"),
};

static const char *const checkpoint_length[] = {"auto", "-1", NULL};

static const struct ommai_option engine_table[] = {
    OMMAI_SIZE("max-model-len", max_model_len, "SIZE", 1, INT64_MAX,
               "context length in tokens, prompt and answer together; auto or -1: the default", .letter = 'c',
               .otherwise = "the checkpoint's, or what fits into memory", .unset_words = checkpoint_length,
               .elsewhere = "--ctx-size"),
    OMMAI_SIZE("kv-cache-bytes", kv_cache_bytes, "SIZE", 1, INT64_MAX,
               "size of the KV cache, such as 2G; memory is taken as it is used",
               .otherwise = "enough for the context length, within the memory that the weights leave free",
               .elsewhere = "--gpu-memory-utilization"),
    OMMAI_SIZE("kv-cache-memory-bytes", kv_cache_bytes, "SIZE", 1, INT64_MAX, "the same as --kv-cache-bytes, by vLLM's name"),
};

static const struct ommai_option image_table[] = {
    OMMAI_SIZE("min-pixels", min_pixels, "SIZE", 1, INT64_MAX, "minimum number of pixels of a resized image",
               .otherwise = "the model's", .elsewhere = "--image-min-tokens"),
    OMMAI_SIZE("max-pixels", max_pixels, "SIZE", 1, INT64_MAX,
               "maximum number of pixels of a resized image; fewer are faster and show less detail", .otherwise = "the model's",
               .elsewhere = "--image-max-tokens"),
};

static const struct ommai_option template_table[] = {
    OMMAI_STRING("chat-template", chat_template, "FILE", "Jinja chat template to use instead of the checkpoint's",
                 .otherwise = "the checkpoint's"),
    OMMAI_FLAG("trust-family-chat-template", trust_family_chat_template,
               "where the checkpoint has no chat template, or one that cannot be rendered, write prompts in the usual form of "
               "the model's family, with a warning; without this flag that is an error"),
};

const struct ommai_option_group ommai_machine_options = OMMAI_OPTION_GROUP("Machine", machine_table);
const struct ommai_option_group ommai_config_options = OMMAI_OPTION_GROUP("Configuration", config_table);
const struct ommai_option_group ommai_output_options = OMMAI_OPTION_GROUP("Output", output_table);
const struct ommai_option_group ommai_model_options = OMMAI_OPTION_GROUP("Model", model_table);
const struct ommai_option_group ommai_weight_options = OMMAI_OPTION_GROUP("Weights", weight_table);
const struct ommai_option_group ommai_engine_options = OMMAI_OPTION_GROUP("Memory", engine_table);
const struct ommai_option_group ommai_image_options = OMMAI_OPTION_GROUP("Image size", image_table);
const struct ommai_option_group ommai_template_options = OMMAI_OPTION_GROUP("Chat template", template_table);

const char *ommai_common_isa(const struct ommai_common *common) {
  return common->isa.given ? ommai_isa_names[common->isa.value] : NULL;
}

void ommai_common_note_cpu(const struct ommai_common *common) {
  char text[200];
  const char *note = omma_cpu_note(ommai_common_isa(common), text, sizeof text);
  if (note) ommai_note("%s", note);
}

void ommai_common_note_demo(const char *command, const struct ommai_common *common) {
  if (common->model) return;
  ommai_note(
      "%s: no model is named: the demo model answers, a toy that knows little but drawings of shapes (omma %s DIR takes "
      "another one)",
      command, command);
}

static int index_of(const char *const *names, const char *name) {
  int index = 0;
  while (strcmp(names[index], name) != 0) index++;
  return index;
}

int ommai_common_dtype(const char *name) { return index_of(dtype_names, name); }

bool ommai_common_int8_kv_cache(const struct ommai_common *common) {
  return kv_cache_values[common->kv_cache_dtype] == OMMA_KV_CACHE_INT8;
}

struct omma_image_options ommai_common_image_options(const struct ommai_common *common) {
  return (struct omma_image_options){.min_pixels = common->min_pixels, .max_pixels = common->max_pixels};
}

enum omma_status ommai_check_image_options(const struct omma_model *model, const struct omma_image_options *options,
                                           struct omma_error *error) {
  struct omma_model_info info;
  struct omma_image_sizes ignored;
  omma_model_get_info(model, &info);
  int32_t side = info.patch_size * info.merge_size;
  return omma_model_image_sizes(model, side, side, options, &ignored, error);
}

int ommai_common_read_engines(const char *command, const char *text, int *n_engines) {
  int64_t number;
  *n_engines = text ? OMMA_ENGINES_AUTO : 1;
  if (!text) return OMMAI_EXIT_DONE;
  bool known = strcmp(text, "auto") == 0;
  if (!known && ommai_parse_integer(text, false, &number) && number >= 1 && number <= OMMA_MAX_ENGINES) {
    known = true;
    *n_engines = (int)number;
  }
  if (known) return OMMAI_EXIT_DONE;
  return ommai_usage_error("%s: --data-parallel-size: expected 1 to %d or auto, found %.40s", command, OMMA_MAX_ENGINES, text);
}

int ommai_common_threads(const struct ommai_common *common) {
  return common->threads ? (int)common->threads : ommai_team_cpu_count();
}

/* Reports why `path` is not a model. `found` is NULL where nothing is there. */
static int refuse_model(const char *path, const struct stat *found) {
  static const char wanted[] =
      "a model is a Hugging Face directory with config.json, tokenizer.json and *.safetensors, or a GGUF file with its "
      "--mmproj";
  char pattern[OMMAI_MAX_PATH];
  if (!found) return ommai_failed("model: %s: no such file or directory: %s; nothing is downloaded", path, wanted);
  if (S_ISDIR(found->st_mode)) {
    return ommai_failed("model: %s: a directory without config.json: %s (the images of a directory are given as %s*)", path,
                        wanted, ommai_directory_pattern(path, pattern, sizeof pattern));
  }
  if (ommai_path_ends_with(path, ".json")) {
    return ommai_failed(
        "model: %s: a file: a model's configuration must be called config.json and stand in a directory, which is the model",
        path);
  }
  return ommai_failed("model: %s: neither a directory nor a GGUF file: %s", path, wanted);
}

/* Whether it has what a model's directory begins with. */
static bool may_hold_model(const char *directory) {
  char config[OMMAI_MAX_PATH];
  return (ommai_path_join(config, sizeof config, directory, "config.json") && ommai_file_exists(config)) ||
         ommai_is_gguf(directory);
}

static bool begins_as_gguf(const char *path) {
  char magic[4] = "";
  FILE *file = fopen(path, "rb");
  bool read = file && fread(magic, sizeof magic, 1, file) == 1;
  if (file) fclose(file);
  return read && memcmp(magic, "GGUF", sizeof magic) == 0;
}

static bool holds_gguf(const char *directory) {
  char path[OMMAI_MAX_PATH];
  if (!ommai_path_join(path, sizeof path, directory, "config.json") || ommai_file_exists(path)) return false;
  return ommai_directory_has(directory, ".gguf");
}

bool ommai_is_gguf(const char *path) {
  struct stat found;
  if (stat(path, &found) != 0) return false;
  if (S_ISDIR(found.st_mode)) return holds_gguf(path);
  return S_ISREG(found.st_mode) && begins_as_gguf(path);
}

bool ommai_is_meant_as_gguf(const char *path) {
  return ommai_is_gguf(path) || (ommai_path_ends_with(path, ".gguf") && ommai_file_exists(path));
}

int ommai_check_model_path(const struct ommai_common *common) {
  struct stat found;
  if (!common->model) return OMMAI_EXIT_DONE;
  bool there = stat(common->model, &found) == 0;
  if (there && (S_ISDIR(found.st_mode) ? may_hold_model(common->model) : ommai_is_gguf(common->model))) return OMMAI_EXIT_DONE;
  return refuse_model(common->model, there ? &found : NULL);
}

/* The directory to open; NULL when there is none, which has been reported then. `demo` holds the
 * demo model's path. */
static const char *model_directory(const struct ommai_common *common, char *demo, size_t size) {
  if (!common->model) {
    if (ommai_find_demo_model(demo, size)) return demo;
    ommai_failed(
        "model: none given and the demo model is not there (looked at %s): give a Hugging Face directory with --model DIR",
        demo);
    return NULL;
  }
  return ommai_check_model_path(common) == OMMAI_EXIT_DONE ? common->model : NULL;
}

static int refused(const struct ommai_common *common, const struct omma_error *error) {
  bool unknown = error->status == OMMA_ERROR_UNSUPPORTED && strcmp(error->field, "chat_template") == 0;
  if (!unknown) return ommai_room_failed(error, NULL);
  return ommai_failed("%s; %s--trust-family-chat-template uses the form of its family instead", error->message,
                      common->chat_template ? "" : "--chat-template FILE gives another one, ");
}

/* What the opened model is, where it matters to whoever asked for it. */
static void report_model(const struct ommai_common *common, const struct omma_model *model, bool config_only, double seconds) {
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  if (info.chat_template_difference && !config_only && !common->no_chat) {
    ommai_warn("%s; prompts are rendered in the form of %s", info.chat_template_difference, info.chat_template);
  }
  if (!common->verbose) return;
  ommai_note("%s: %s, in %s over %s weights, KV cache in %s, vision %s, %s, %d thread%s, opened in %.2f s", info.directory,
             info.model_type, info.weights, info.kept_weights, info.kv_cache, info.vision_weights, info.isa, info.n_threads,
             ommai_plural(info.n_threads), seconds);
  if (!config_only && !info.chat_template_difference) ommai_note("chat template: %s", info.chat_template);
}

static enum omma_status before_weights(void *context, const struct omma_model *model, struct omma_error *error) {
  const struct ommai_check *check = context;
  OMMAI_TRY(ommai_room_check_weights(model, error));
  return check->run ? check->run(check->context, model, error) : OMMA_OK;
}

/* Where the loading is reported. */
struct listeners {
  struct ommai_progress line;
  const struct ommai_check *check;
};

static void update(void *context, int64_t done, int64_t total) {
  struct listeners *listeners = context;
  ommai_progress_update(&listeners->line, done, total);
  if (listeners->check->progress) listeners->check->progress(listeners->check->progress_context, done, total);
}

int ommai_common_take_model(const char *command, const struct ommai_strings *arguments, struct ommai_common *common) {
  if (!arguments->count) return OMMAI_EXIT_DONE;
  if (common->model) return ommai_usage_error("%s: %s: the model is given by --model already", command, arguments->items[0]);
  common->model = arguments->items[0];
  return OMMAI_EXIT_DONE;
}

static int stop_at_file(void *context, const char *path) {
  (void)context;
  (void)path;
  return OMMAI_EXIT_FAILED;
}

static bool holds_images(const char *folder) {
  int code;
  return ommai_each_file_of(folder, ommai_ends_as_image, stop_at_file, NULL, &code) > 0;
}

/* Whether a word is meant as a model, where --model has `named` one or not: no image is a
 * directory, a GGUF file or called config.json, but a text may be the name of a directory. */
static bool is_model(const char *word, enum ommai_further_words further, bool named) {
  struct stat found;
  if (stat(word, &found) != 0) return false;
  if (S_ISDIR(found.st_mode)) {
    bool of_images = further == OMMAI_FURTHER_FOLDERS && (named || holds_images(word));
    return may_hold_model(word) || (further != OMMAI_FURTHER_TEXTS && !of_images);
  }
  return ommai_is_meant_as_gguf(word) || (further != OMMAI_FURTHER_TEXTS && ommai_path_ends_with(word, ".json"));
}

int ommai_common_take_model_of(const char *command, enum ommai_further_words further, struct ommai_strings *words,
                               struct ommai_common *common) {
  if (!words->count || !is_model(words->items[0], further, common->model != NULL)) return OMMAI_EXIT_DONE;
  int code = ommai_common_take_model(command, words, common);
  bool checked = ommai_directory_has(words->items[0], "") || ommai_path_ends_with(words->items[0], ".gguf");
  words->items++;
  words->count--;
  return code == OMMAI_EXIT_DONE && checked ? ommai_check_model_path(common) : code;
}

int ommai_open_model(const struct ommai_common *common, bool config_only, struct omma_model **model) {
  struct ommai_check none = {0};
  return ommai_open_model_checked(common, config_only, &none, model);
}

int ommai_read_model_info(const struct ommai_common *common, struct omma_model_info *info) {
  struct ommai_common quiet = *common;
  struct omma_model *model;
  quiet.verbose = false;
  OMMAI_TRY_CODE(ommai_open_model(&quiet, true, &model));
  omma_model_get_info(model, info);
  omma_model_close(model);
  return OMMAI_EXIT_DONE;
}

int ommai_open_model_checked(const struct ommai_common *common, bool config_only, struct ommai_check *check,
                             struct omma_model **model) {
  char demo[2 * OMMAI_MAX_PATH];
  const char *directory = model_directory(common, demo, sizeof demo);
  if (!directory) return OMMAI_EXIT_FAILED;
  static struct ommai_debug_log to_stderr;
  const struct omma_log log = {common->debug_log ? common->debug_log : &to_stderr, ommai_debug_log_line};
  struct listeners listeners = {.check = check};
  struct omma_error error;
  struct omma_model_options options = {.weights = dtype_values[common->dtype],
                                       .vision_weights = dtype_values[common->vision_dtype],
                                       .quantization = quantization_name(common->quantization),
                                       .mmproj = common->mmproj,
                                       .kv_cache = kv_cache_values[common->kv_cache_dtype],
                                       .isa = ommai_common_isa(common),
                                       .n_threads = (int)common->threads,
                                       .config_only = config_only,
                                       .encoder_only = common->encoder_only,
                                       .draft_head = common->draft_head,
                                       .draft_model = common->draft_model,
                                       .n_engines = common->n_engines,
                                       .task = (enum omma_model_task)common->task,
                                       .max_model_len = common->max_model_len,
                                       .max_resized_bytes = common->max_resized_bytes,
                                       .known_image_bytes = common->known_image_bytes,
                                       .chat_template = common->trust_family_chat_template || common->no_chat
                                                            ? OMMA_CHAT_TEMPLATE_FAMILY
                                                            : OMMA_CHAT_TEMPLATE_OWN,
                                       .chat_template_file = common->chat_template,
                                       .generation_config = common->generation_config,
                                       .override_generation_config = common->override_generation_config,
                                       .log = ommai_log_level_traces(common->log_level) ? &log : NULL,
                                       .progress = update,
                                       .progress_context = &listeners,
                                       .before_weights = config_only ? NULL : before_weights,
                                       .before_weights_context = check};
  double start = ommai_clock_seconds();
  ommai_progress_begin_long(&listeners.line, "loading the model");
  enum omma_status status = omma_model_open(directory, &options, model, &error);
  ommai_progress_end(&listeners.line);
  if (status != OMMA_OK) return refused(common, &error);
  report_model(common, *model, config_only, ommai_clock_seconds() - start);
  return OMMAI_EXIT_DONE;
}
