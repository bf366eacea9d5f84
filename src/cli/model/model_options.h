/* Options that many commands share, and opening the model that they name. */
#pragma once

#include <omma/omma.h>

#include "cli/core/debug_log.h"
#include "cli/core/options.h"

/* The first member of every command's struct of values. */
struct ommai_common {
  int64_t threads;
  struct ommai_optional_integer isa; /* index into the levels */
  bool verbose;
  int log_level; /* index into ommai_log_levels */
  bool json;
  const char *config; /* a file, which has been read */
  const char *model, *mmproj;
  int dtype, vision_dtype, kv_cache_dtype, quantization;
  int64_t max_model_len;
  int64_t kv_cache_bytes;
  int64_t min_pixels, max_pixels;
  /* of all requests together, not an option; 0: no limit */
  int64_t max_resized_bytes;
  /* as in omma_model_options, not an option */
  int64_t known_image_bytes;
  const char *generation_config, *override_generation_config; /* NULL: as omma_model_options */
  bool trust_family_chat_template;
  const char *chat_template; /* a file; NULL: the checkpoint's */
  bool no_chat;              /* not an option: any prompt form will do */
  bool encoder_only;         /* not an option: as in omma_model_options; likewise: */
  bool draft_head;
  char *draft_model;
  int n_engines; /* 0: one */
  int task;      /* enum omma_model_task */
  /* where the trace goes, not an option; lives longer than the model. NULL: to stderr as text */
  struct ommai_debug_log *debug_log;
};

extern const struct ommai_option_group ommai_machine_options; /* threads, isa, verbose, log_level */
extern const struct ommai_option_group ommai_config_options;  /* config */
extern const struct ommai_option_group ommai_output_options;  /* json */
extern const struct ommai_option_group ommai_model_options;   /* model, mmproj */
/* dtype, vision_dtype, kv_cache_dtype, quantization */
extern const struct ommai_option_group ommai_weight_options;
extern const struct ommai_option_group ommai_engine_options; /* max_model_len, kv_cache_bytes */
extern const struct ommai_option_group ommai_image_options;  /* min_pixels, max_pixels */
/* chat_template, trust_family_chat_template */
extern const struct ommai_option_group ommai_template_options;

/* --mmproj in a table of options. */
#define OMMAI_MMPROJ_OPTION(field)                                                              \
  OMMAI_STRING("mmproj", field, "FILE.gguf", "GGUF file with the vision tower of a GGUF model", \
               .otherwise = "the one next to the model, where --model is a directory", .elsewhere = "-mm")

/* Says that the demo model answers, where no model is named. */
void ommai_common_note_demo(const char *command, const struct ommai_common *common);

/* Names of the CPU levels, ends in NULL. */
extern const char *const ommai_isa_names[];

/* The chosen level's name, or NULL for the best. */
const char *ommai_common_isa(const struct ommai_common *common);

/* A line about that level, where omma_cpu_note has one. */
void ommai_common_note_cpu(const struct ommai_common *common);

/* The value of --dtype by its name, which must be one. */
int ommai_common_dtype(const char *name);

/* Whether --kv-cache-dtype names int8, which goes with every --dtype. */
bool ommai_common_int8_kv_cache(const struct ommai_common *common);

/* The limits of resized images. */
struct omma_image_options ommai_common_image_options(const struct ommai_common *common);

/* Whether a model can keep to them: they would otherwise be refused with each image. */
enum omma_status ommai_check_image_options(const struct omma_model *model, const struct omma_image_options *options,
                                           struct omma_error *error);

/* How many threads a command uses that does not open a model. */
int ommai_common_threads(const struct ommai_common *common);

/* The engines that --data-parallel-size asks for. text: NULL where a command lacks the option.
 * Returns an exit code; the error has been printed. */
int ommai_common_read_engines(const char *command, const char *text, int *n_engines);

/* Whether `path` names a model in GGUF files: such a file, or a directory that has some, *.gguf,
 * and no config.json. */
bool ommai_is_gguf(const char *path);

/* The same, or a file that is there and called *.gguf: one that is broken is no image. */
bool ommai_is_meant_as_gguf(const char *path);

/* Reports what is wrong with the path of --model where it cannot be a model: nothing is there, or a
 * file that is not GGUF. Returns an exit code. */
int ommai_check_model_path(const struct ommai_common *common);

/* Takes the first word, where there is one, as the model: `omma serve DIR` for `omma serve --model
 * DIR`. Both are a usage error. Returns an exit code. */
int ommai_common_take_model(const char *command, const struct ommai_strings *arguments, struct ommai_common *common);

/* The same for commands with further words, which may be texts: takes the first one where it is a
 * model, and where they cannot be directories, any directory; where they may be folders of images,
 * any directory without an image, unless --model has named one. `words` is left with the others. */
enum ommai_further_words { OMMAI_FURTHER_TEXTS, OMMAI_FURTHER_FILES, OMMAI_FURTHER_FOLDERS };
int ommai_common_take_model_of(const char *command, enum ommai_further_words further, struct ommai_strings *words,
                               struct ommai_common *common);

/* Opens the model that --model names, else the demo model. With a line of progress, and a warning
 * where its chat template is not the one that prompts are rendered by. Returns an exit code; the
 * error has been printed. */
int ommai_open_model(const struct ommai_common *common, bool config_only, struct omma_model **model);

/* What is known of it before weights are read; quiet, but for an error. Returns an exit code. */
int ommai_read_model_info(const struct ommai_common *common, struct omma_model_info *info);

/* The same with a check that runs when all but the weights is read (see
 * omma_model_options.before_weights). Anything but OK ends the opening; what it put into *error is
 * reported then. */
struct ommai_check {
  enum omma_status (*run)(void *context, const struct omma_model *model, struct omma_error *error);
  void *context;
  omma_progress progress; /* also gets how much of the weights is loaded; NULL: none */
  void *progress_context;
};
int ommai_open_model_checked(const struct ommai_common *common, bool config_only, struct ommai_check *check,
                             struct omma_model **model);
