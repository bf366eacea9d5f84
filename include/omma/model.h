/* Models and machines: opening a model, facts about it, and the kernels and speed of this machine.
 * Part of omma/omma.h, whose rules for all calls apply here. */
#ifndef OMMA_MODEL_H
#define OMMA_MODEL_H

#include <omma/host.h>
#include <omma/log.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct omma_model;

/* The type in which weights are packed and linear layers compute. AUTO: bf16 where the CPU level
 * has a fast path for it, else f32. INT8: for the vision tower only, with one scale for each output
 * of a layer and one for each row of its input; the patch embedding stays as with AUTO, and so does
 * attention but on CPUs with AVX512-BF16 and VNNI, where it multiplies in 8 bits (int8_scores in
 * attention.h). For the language model INT8 is refused (UNSUPPORTED). */
enum omma_weight_type { OMMA_WEIGHTS_AUTO = 0, OMMA_WEIGHTS_F32 = 1, OMMA_WEIGHTS_BF16 = 2, OMMA_WEIGHTS_INT8 = 3 };

/* Inputs that share a scale in a model opened with quantization "int4". */
#define OMMA_INT4_GROUP 64

/* The type of keys and values in the KV cache. AUTO: f32 if `weights` is F32, else bf16, even where
 * layers compute in f32. F32 is accepted only if layers compute in f32. INT8: integers with a scale
 * for each token and head, one for its key and one for its value; UNSUPPORTED for models that keep
 * compressed rows instead (MLA). */
enum omma_kv_cache_type { OMMA_KV_CACHE_AUTO = 0, OMMA_KV_CACHE_F32 = 1, OMMA_KV_CACHE_BF16 = 2, OMMA_KV_CACHE_INT8 = 3 };

/* Progress of long work: `done` of `total` units. Called by the thread that does the work; it must
 * be quick. */
typedef void (*omma_progress)(void *context, int64_t done, int64_t total);

/* What happens if a checkpoint has no chat template, or one that cannot be rendered.
 * OWN: opening it fails (UNSUPPORTED, field "chat_template"); with config_only, preparing a chat
 * fails.
 * FAMILY: chats use the form of the model's family in its place.
 * UNUSED: it can be opened, and chats are refused. */
enum omma_chat_template_use { OMMA_CHAT_TEMPLATE_OWN = 0, OMMA_CHAT_TEMPLATE_FAMILY = 1, OMMA_CHAT_TEMPLATE_UNUSED = 2 };

/* A word for omma_model_options.quantization. */
struct omma_quantization_method {
  const char *name;
  /* What weights become that are quantized as they are loaded, as in omma_model_info.kept_weights;
   * NULL: nothing ("none"), or the word states what a checkpoint is already. */
  const char *format;
  /* With a format: bytes of a bf16 checkpoint that are packed in a second, in those that the same
   * threads read from memory. An estimate. */
  double packing_share;
};

/* The index-th word, from 0 on, in the order in which help lists them. A format's usual word comes
 * first, and is the format's name. False after the last. */
OMMA_API bool omma_quantization_method(int index, struct omma_quantization_method *method);

/* What a model is for. AUTO: what its files say: EMBED or SCORE for models that were trained for
 * vectors of inputs or scores of documents (docs/embeddings.md), else GENERATE. POOLING: the same,
 * but EMBED instead of GENERATE. Any other value overrules them; UNSUPPORTED (field "task") where
 * the family has no form of prompts for it. */
enum omma_model_task {
  OMMA_TASK_AUTO = 0,
  OMMA_TASK_GENERATE = 1,
  OMMA_TASK_EMBED = 2,
  OMMA_TASK_SCORE = 3,
  OMMA_TASK_POOLING = 4
};

struct omma_model_options {
  size_t struct_size;                   /* sizeof this struct, or 0: see omma.h */
  enum omma_weight_type weights;        /* of the language model; not INT8 */
  enum omma_weight_type vision_weights; /* of the vision tower; AUTO: as `weights` */
  enum omma_kv_cache_type kv_cache;     /* of the language model */
  /* The format in which the language model's matrices are packed; vLLM's --quantization: a word of
   * omma_quantization_method. NULL or "none": as the checkpoint has them. "int8": 8 bits with a
   * scale for each output. "int4": 4 bits with a scale for each group of inputs (OMMA_INT4_GROUP).
   * "int4-g32", "int4-g64", "int4-g128": groups of 32, 64, 128.
   *
   * Inputs are quantized to 8 bits row by row and sums are integers; activations and the KV cache
   * stay as `weights` requires. The output layer and the heads of MLA have 8 bits with "int4" too.
   * Routers, norms and the vision tower are not quantized.
   *
   * The checkpoint's own format ("compressed-tensors", "fp8", "awq", "gptq", "gguf") may be named,
   * which changes nothing; any other name is refused. Layers that the checkpoint stores as integers
   * are kept as integers unless `weights` is F32. */
  const char *quantization;
  const char *isa; /* CPU level, see attention.h; NULL: OMMA_ISA, or the best */
  int n_threads;   /* of an engine; 0: omma_team_cpu_count(), shared out among n_engines */
  bool no_pinning; /* let the operating system place the threads; else each is bound to a CPU */
  /* Read everything but the weights: enough for sizes and estimates, and for tokens if there is a
   * tokenizer. */
  bool config_only;
  /* Load the vision tower alone: no weights of the language model, and no keys and values in the
   * engine. The engine then encodes the images of requests (omma_callbacks.on_embeddings) and
   * generates nothing. */
  bool encoder_only;
  int64_t max_model_len; /* context limit in tokens; 0: the checkpoint's */
  /* Maximum bytes of the resized images of all requests together; beyond it calls fail with MEMORY.
   * 0: no limit. */
  int64_t max_resized_bytes;
  /* Bytes of resized images kept for omma_image_recall. 0: 64 MiB, below 0: none. */
  int64_t known_image_bytes;
  enum omma_chat_template_use chat_template;
  const char *chat_template_file; /* a template in place of the checkpoint's; NULL: none */
  /* Whose generation_config.json gives the recommended values of omma_model_info. NULL or "auto":
   * the checkpoint's. "vllm": none; the checkpoint's stop tokens are still used. Else a directory
   * with that file: its stop tokens are used as well, if it has some, and its max_new_tokens is
   * max_tokens_limit. */
  const char *generation_config;
  /* A JSON object whose keys replace those of that file, such as {"temperature": 0.5}. null as a
   * value: as if the file did not have the key. A max_new_tokens here is max_tokens_limit as well.
   * NULL: none. */
  const char *override_generation_config;
  /* For a model in GGUF files: the file with the vision tower. NULL: it is in the same
   * directory. */
  const char *mmproj;
  const struct omma_allocator *allocator;
  /* Copied; its context must outlive the model. Receives a line for each step of loading, and of
   * the model's engines and requests. NULL: no trace. */
  const struct omma_log *log;
  omma_progress progress; /* bytes of weights packed so far; may be NULL */
  void *progress_context;
  /* Called once when everything but the weights has been read and checked, which takes little time
   * and memory. May be NULL. During this call, and not later, the model can be used like one opened
   * with config_only. Any result but OK makes omma_model_open fail with it; the callee must then
   * fill *error. */
  enum omma_status (*before_weights)(void *context, const struct omma_model *model, struct omma_error *error);
  void *before_weights_context;
  enum omma_model_task task;
  /* Load the head that drafts tokens (MTP), for engines with OMMA_DRAFTS_HEAD. A model without one
   * is refused (UNSUPPORTED, field "draft_head"). */
  bool draft_head;
  /* The checkpoint directory of a second, smaller model that drafts tokens, for engines with
   * OMMA_DRAFTS_MODEL: its language model is loaded next to this one, in the types of its files.
   * Its tokenizer must have this model's tokens, and its layers must all see the whole context;
   * else it is refused (UNSUPPORTED, field "draft_model"). NULL: none. */
  const char *draft_model;
  /* How many engines the model's engine is inside, 1 to OMMA_MAX_ENGINES; 0: one;
   * OMMA_ENGINES_AUTO: one for each memory node (NUMA). Each has CPUs, threads, keys and values and
   * caches of its own; those on one node share the weights there. Requests go to the one that knows
   * their images or the beginning of their prompt, or to the least loaded. No answer changes. */
  int n_engines;
};

#define OMMA_ENGINES_AUTO (-1)
#define OMMA_MAX_ENGINES 64

/* Opens a model. `directory` is one of these:
 * - a GGUF file (MODEL.gguf, or the first of its parts, MODEL-00001-of-0000N.gguf), with
 *   options->mmproj;
 * - a directory that holds one such model and its mmproj;
 * - a Hugging Face checkpoint directory: config.json, preprocessor_config.json,
 *   generation_config.json, tokenizer.json, the chat template, model.safetensors (or the index and
 *   its shards).
 *
 * Every key and every tensor's shape is checked before weights are packed. Weights are packed once,
 * and the pages of their files are released. With config_only every file but config.json may be
 * missing: the family's published values then replace preprocessor_config.json (see
 * omma_model_info), and the model can only give sizes and estimates. The caller closes the model.
 * Errors: IO, FORMAT, UNSUPPORTED, MEMORY; the message names file and key or tensor. */
OMMA_API enum omma_status omma_model_open(const char *directory, const struct omma_model_options *options,
                                          struct omma_model **model, struct omma_error *error);
/* No engine or request of the model may be in use. NULL is allowed. */
OMMA_API void omma_model_close(struct omma_model *model);

/* The unit of the corners x1, y1, x2, y2 of a box in an answer that locates something. NONE: not
 * known, the family has no such format. THOUSANDTHS: of the image's width and height.
 * RESIZED_PIXELS: pixels of the resized image (omma_image_sizes). */
enum omma_box_unit { OMMA_BOX_UNIT_NONE = 0, OMMA_BOX_UNIT_THOUSANDTHS = 1, OMMA_BOX_UNIT_RESIZED_PIXELS = 2 };

/* Facts about an open model. Strings live as long as the model. */
struct omma_model_info {
  const char *directory;
  const char *model_type; /* as in config.json */
  const char *isa;
  const char *weights;        /* what the language model computes in: "f32" or "bf16" */
  const char *vision_weights; /* what the tower computes in: "f32", "bf16" or "int8" */
  /* The format of the language model's matrices in memory: "bf16", or "f32" if the checkpoint has
   * other types; "int8" or "int4" with quantization. */
  const char *kept_weights;
  int64_t kept_group;       /* with "int4": inputs that share a scale; else 0 */
  const char *quantization; /* the checkpoint's: "gguf: 120 Q4_K, 29 Q6_K"; NULL: none */
  const char *kv_cache;     /* type of keys and values: "f32", "bf16" or "int8" */
  const char *linear;       /* library and layout of the linear layers */
  int n_threads;            /* of each engine */
  int n_engines;            /* that omma_engine_create makes one of */
  int n_copies;             /* of the weights: nodes that engines are on */
  bool encoder_only;        /* opened with encoder_only; n_parameters is then the tower's */
  /* Embeddings for other programs are bf16, because the checkpoint is and f32 was not requested. */
  bool bf16_embeddings;
  /* A hash of the checkpoint's tensors: 64 hexadecimal digits, see docs/encoder-node.md. Empty
   * without weights. */
  const char *fingerprint;
  int64_t n_parameters, n_vision_parameters;
  int64_t weight_bytes; /* packed, in memory, of one copy; with config_only an estimate */
  int64_t max_model_len;
  int64_t vocab_size, hidden_size, n_layers, n_heads, n_kv_heads, head_dim;
  int64_t vision_hidden_size, vision_depth, vision_n_heads, vision_head_dim;
  int64_t patch_size, merge_size, patch_dim, n_deepstack;
  int64_t min_pixels, max_pixels;
  /* The values that replace a missing preprocessor_config.json, as "X's published values"; else
   * NULL. */
  const char *published_values;
  /* The chat template that renders prompts: "its own", or whose form stands in for it. */
  const char *chat_template;
  /* Why the checkpoint's own template is not used: one line with file and line number. NULL: it is
   * used. */
  const char *chat_template_difference;
  bool chat_template_has_tools; /* omma_request_options.tools may be given */
  /* Unit of the boxes in objects {"bbox_2d": [x1, y1, x2, y2], "label": ...} of answers. */
  enum omma_box_unit box_unit;
  /* The values of generation_config.json, for callers that use them as defaults of requests;
   * do_sample is ignored. A missing value is 0, a missing temperature -1. The library itself uses
   * only struct omma_sampling. */
  double recommended_temperature, recommended_top_p, recommended_min_p;
  double recommended_repetition_penalty, recommended_presence_penalty, recommended_frequency_penalty;
  int64_t recommended_top_k, recommended_max_tokens;
  /* Maximum tokens of any answer (omma_model_options.generation_config). 0: no limit. */
  int64_t max_tokens_limit;
  enum omma_model_task task; /* neither AUTO nor POOLING */
  /* The largest prompt of a vector or score, which longer ones are cut to. 0: another task. */
  int64_t max_input_tokens;
  /* Late interaction: the width of the vector that each token of an input has; then
   * omma_request_create_embed works with any task but SCORE. 0: there are none. */
  int64_t token_vector_width;
};
OMMA_API void omma_model_get_info(const struct omma_model *model, struct omma_model_info *info);

/* One finding of a check: whether it is `ok`, what was checked, and details. Strings live during
 * the call. */
typedef void (*omma_report)(void *context, bool ok, const char *what, const char *details);

/* Reads all weights of an open model, also of one opened with config_only. Reports each tensor that
 * is missing, has a wrong shape or type, is unused, or holds NaN or infinity, and the files whose
 * absence config_only allowed. Reports one line per file when nothing is wrong. OK when nothing is
 * wrong, else FORMAT. */
OMMA_API enum omma_status omma_model_verify(const struct omma_model *model, omma_report report, void *context,
                                            struct omma_error *error);

/* Compares the kernels of a CPU level (NULL: as omma_model_options.isa) with the scalar reference
 * on this machine and reports each one. OK, or INTERNAL when a result is wrong. */
OMMA_API enum omma_status omma_self_test(const char *isa, omma_report report, void *context, struct omma_error *error);

/* Reports the CPU level and why it was chosen, then, for each operation, type and head dimensions,
 * the kernel that is used (what = operation, details = kernel). */
OMMA_API enum omma_status omma_describe_kernels(const char *isa, omma_report report, void *context, struct omma_error *error);

/* The peak of this machine at a CPU level with n_threads threads: multiply-adds per second of a
 * loop that uses only registers, times two. The call measures it in some hundredths of a second. */
struct omma_machine {
  int n_threads;
  double f32_gflops;
  double bf16_gflops; /* 0 where the level has no bf16 dot product */
};
OMMA_API enum omma_status omma_measure_machine(const char *isa, int n_threads, struct omma_machine *machine,
                                               struct omma_error *error);
/* What to tell the users of a program that starts with `isa` (as omma_model_options.isa): that the
 * kernels of its CPU level have not yet run on such hardware, or that a level which the CPU has is
 * left out, and why. NULL: nothing. Fills and returns `out`; 200 bytes are enough. */
OMMA_API const char *omma_cpu_note(const char *isa, char *out, size_t size);
/* The rate, in 10^9 bytes a second, at which n_threads threads (0: all) read memory in a plain
 * loop. It covers 256 MiB, or twice the last-level cache where that is more, in huge pages where
 * the system gives them. Takes about a tenth of a second. Errors: ARGUMENT, MEMORY. */
OMMA_API enum omma_status omma_measure_read(int n_threads, double *gbps, struct omma_error *error);

#ifdef __cplusplus
}
#endif

#endif
