/* Ommatidia: vision-language models on CPUs. This header is everything that the command line and
 * the server use.
 *
 *   omma_model    a checkpoint directory, weights packed, immutable        shared by everything,
 *                 any thread
 *   omma_image    decoded 8-bit RGB pixels                                 immutable after decoding
 *   omma_request  a prompt prepared: token ids, patches, positions       made by any thread,
 *                 immutable
 *   omma_engine   the one thread that computes; bounded queue in front     submit and cancel from
 *                 any thread
 *
 * Usual order: omma_model_open -> omma_engine_create -> for each question: omma_image_decode,
 * omma_request_create (any worker thread) -> omma_engine_submit with callbacks, or omma_generate,
 * which waits -> omma_request_destroy -> ...
 *
 * Rules for all calls: structs with options may be NULL or zero-initialised, 0 and NULL being the
 * stated defaults; strings are UTF-8; a failing call fills `error` (may be NULL) and leaves its
 * outputs untouched; destroy functions take NULL. "Bit-identical" means: on one machine, one build
 * and one CPU level, whatever the batch, packing, thread count or load. */
#ifndef OMMA_OMMA_H
#define OMMA_OMMA_H

#include <omma/attention.h>
#include <omma/encoding_store.h>
#include <omma/host.h>
#include <omma/kv_events.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "0.1.0". */
OMMA_API const char *omma_version(void);

/* ---- model ----------------------------------------------------------------------------------- */

struct omma_model;

/* Type that weights are packed in and linear layers compute in. AUTO: bf16 where the CPU level has
 * a fast path for it, else f32. INT8: for the vision tower only. One scale for each output of a
 * layer and one for each row of its input; the patch embedding and the attention stay as with
 * AUTO. For the language model it is refused (UNSUPPORTED). */
enum omma_weight_type { OMMA_WEIGHTS_AUTO = 0, OMMA_WEIGHTS_F32 = 1, OMMA_WEIGHTS_BF16 = 2, OMMA_WEIGHTS_INT8 = 3 };

/* Inputs that share a scale in a model opened with quantization "int4". */
#define OMMA_INT4_GROUP 64

/* Type that keys and values are kept in. AUTO: f32 where `weights` is F32, else bf16, also where
 * layers compute in f32. F32 goes with layers that compute in f32 only. */
enum omma_kv_cache_type { OMMA_KV_CACHE_AUTO = 0, OMMA_KV_CACHE_F32 = 1, OMMA_KV_CACHE_BF16 = 2 };

/* Progress of long work: `done` of `total` units. Called from the thread that works; must be
 * quick. */
typedef void (*omma_progress)(void *context, int64_t done, int64_t total);

/* What becomes of a checkpoint that has no chat template, or one that cannot be rendered. OWN: it
 * is refused (UNSUPPORTED, field "chat_template") when it is opened, with config_only when a chat
 * is prepared. FAMILY: chats have the form of the nearest known template, also where the
 * checkpoint's own is not known but could be rendered. UNUSED: it is opened, and chats are
 * refused. */
enum omma_chat_template_use { OMMA_CHAT_TEMPLATE_OWN = 0, OMMA_CHAT_TEMPLATE_FAMILY = 1, OMMA_CHAT_TEMPLATE_UNUSED = 2 };

struct omma_model_options {
  enum omma_weight_type weights;        /* of the language model; not INT8 */
  enum omma_weight_type vision_weights; /* of the vision tower; AUTO: as `weights` */
  enum omma_kv_cache_type kv_cache;     /* of the language model */
  /* What the language model's matrices are packed as, vLLM's --quantization. NULL or "none": as the
   * checkpoint has them. "int8": 8 bits with a scale for each output. "int4": 4 bits with a scale
   * for each group of inputs (OMMA_INT4_GROUP), "int4-g32", "int4-g64", "int4-g128": of that many.
   * Inputs are brought to 8 bits row by row, sums are integers, activations and the KV cache stay
   * as `weights` says. The output layer and the heads of MLA have 8 bits with "int4" too; routers,
   * norms and the vision tower stay as they are. What a checkpoint is already
   * ("compressed-tensors", "fp8", "awq", "gptq", "gguf") may be named, which changes nothing; any
   * other is refused. Layers that it stores as integers are kept as such unless `weights` is
   * F32. */
  const char *quantization;
  const char *isa; /* CPU level, see attention.h; NULL: OMMA_ISA or the best */
  int n_threads;   /* 0: as many as the process may use CPUs */
  bool no_pinning; /* leave the threads to the scheduler instead of binding each to a CPU */
  /* read everything but the weights: enough for plans, and tokens where there is a tokenizer */
  bool config_only;
  /* Load the vision tower alone: no weights of the language model, and no keys and values in the
   * engine, which encodes the images of requests (omma_callbacks.on_embeddings) and generates
   * nothing. */
  bool encoder_only;
  int64_t max_model_len; /* context limit in tokens; 0: the checkpoint's */
  /* of resized images of all requests together, more gives MEMORY; 0: no limit */
  int64_t max_resized_bytes;
  /* of resized images kept for omma_image_recall; 0: 64 MiB, below 0: none */
  int64_t known_image_bytes;
  enum omma_chat_template_use chat_template;
  const char *chat_template_file; /* a template in place of the checkpoint's; NULL: none */
  /* Whose generation_config.json says what omma_model_info recommends. NULL or "auto": the
   * checkpoint's; "vllm": nobody's, the checkpoint's stop tokens remain; else a directory with
   * that file, whose stop tokens count as well, where it has some, and whose max_new_tokens is
   * max_tokens_limit. */
  const char *generation_config;
  /* A JSON object with keys of that file that count before it, such as {"temperature": 0.5}; null
   * as a value: as if the file did not have the key. A max_new_tokens here is max_tokens_limit as
   * well. NULL: none. */
  const char *override_generation_config;
  /* of a model in GGUF files: the file with the vision tower; NULL: it lies in the same
   * directory */
  const char *mmproj;
  const struct omma_allocator *allocator;
  omma_progress progress; /* bytes of weights packed so far; may be NULL */
  void *progress_context;
  /* Called once when all but the weights has been read and checked, which takes little time and
   * memory; may be NULL. The model can be used as one opened with config_only, during the call
   * alone. Anything but OK ends the opening with it: *error is to be filled then. */
  enum omma_status (*before_weights)(void *context, const struct omma_model *model, struct omma_error *error);
  void *before_weights_context;
};

/* Opens a model: a GGUF file (MODEL.gguf, or the first of its parts, MODEL-00001-of-0000N.gguf)
 * with options->mmproj; a directory that holds one such model and its mmproj; or a Hugging Face
 * checkpoint directory: config.json, preprocessor_config.json, generation_config.json,
 * tokenizer.json, the chat template, model.safetensors (or the index and its shards). Every key
 * and every tensor's shape is checked before weights are packed. Weights are packed once and the
 * pages of their files released. With config_only all but config.json may be missing: the family's
 * published values stand for preprocessor_config.json (omma_model_info tells), and only plans are
 * made then. Errors: IO, FORMAT, UNSUPPORTED, MEMORY; the message names file and key or tensor. */
OMMA_API enum omma_status omma_model_open(const char *directory, const struct omma_model_options *options,
                                          struct omma_model **model, struct omma_error *error);
/* No engine, request or plan of the model may be in use any more. */
OMMA_API void omma_model_close(struct omma_model *model);

/* What the corners x1, y1, x2, y2 of a box count in an answer that locates something: nothing known
 * (the family has no such form), thousandths of the image's width and height, or pixels of the
 * resized image (omma_image_plan). */
enum omma_box_unit { OMMA_BOX_UNIT_NONE = 0, OMMA_BOX_UNIT_THOUSANDTHS = 1, OMMA_BOX_UNIT_RESIZED_PIXELS = 2 };

/* Facts about an open model. Strings live as long as the model. */
struct omma_model_info {
  const char *directory;
  const char *model_type; /* as in config.json */
  const char *isa;
  const char *weights;        /* what the language model computes in, "f32" or "bf16" */
  const char *vision_weights; /* likewise of the tower, or "int8" */
  /* How the language model's matrices are kept: "bf16", or "f32" where the checkpoint has other
   * types; "int8" or "int4" by quantization. */
  const char *kept_weights;
  int64_t kept_group;       /* of "int4": inputs that share a scale; else 0 */
  const char *quantization; /* of the checkpoint: "gguf: 120 Q4_K, 29 Q6_K"; NULL: none */
  const char *kv_cache;     /* how keys and values are kept, "f32" or "bf16" */
  const char *linear;       /* which library and layout serve the linear layers */
  int n_threads;
  bool encoder_only; /* as it was opened; n_parameters are the tower's then */
  /* embeddings for others are bf16: the checkpoint is, and f32 was not asked for */
  bool bf16_embeddings;
  const char
      /* of the checkpoint's tensors: 64 hexadecimal digits, docs/encoder-node.md; empty: without
       * weights */
      *fingerprint;
  int64_t n_parameters, n_vision_parameters;
  int64_t weight_bytes; /* packed, in memory; what it would be for config_only */
  int64_t max_model_len;
  int64_t vocab_size, hidden_size, n_layers, n_heads, n_kv_heads, head_dim;
  int64_t vision_hidden_size, vision_depth, vision_n_heads, vision_head_dim;
  int64_t patch_size, merge_size, patch_dim, n_deepstack;
  int64_t min_pixels, max_pixels;
  /* what stands for a missing preprocessor_config.json, as "X's published values"; else NULL */
  const char *published_values;
  /* Whose chat template renders prompts: a known one that the checkpoint has, else "its own", else
   * the nearest known one. */
  const char *chat_template;
  /* why it is not the checkpoint's own, one line with file and line; NULL: it is */
  const char *chat_template_difference;
  bool chat_template_has_tools; /* omma_request_options.tools may be given */
  /* of objects {"bbox_2d": [x1, y1, x2, y2], "label": ...} in answers */
  enum omma_box_unit box_unit;
  /* What generation_config.json says of sampling, with do_sample or without, for requests that do
   * not say it themselves; 0 where it says nothing, but temperature -1. The library itself samples
   * as struct omma_sampling says. */
  double recommended_temperature, recommended_top_p, recommended_min_p;
  double recommended_repetition_penalty, recommended_presence_penalty, recommended_frequency_penalty;
  int64_t recommended_top_k, recommended_max_tokens;
  /* no answer should be longer (omma_model_options.generation_config); 0: none */
  int64_t max_tokens_limit;
};
OMMA_API void omma_model_get_info(const struct omma_model *model, struct omma_model_info *info);

/* One finding of a check: `ok` or not, what was checked, and details. Strings live during the
 * call. */
typedef void (*omma_report)(void *context, bool ok, const char *what, const char *details);

/* Reads all weights of an open model (also of one opened config_only) and reports each tensor that
 * is missing, of a wrong shape or type, unused, or holds NaN or infinity, and the files that
 * config_only let it lack; one line per file when all is well. OK when nothing was wrong, else
 * FORMAT. */
OMMA_API enum omma_status omma_model_verify(const struct omma_model *model, omma_report report, void *context,
                                            struct omma_error *error);

/* Compares the kernels of a CPU level (NULL: as omma_model_options.isa) with the scalar reference
 * on this machine and reports each. OK, or INTERNAL when one is off. */
OMMA_API enum omma_status omma_self_test(const char *isa, omma_report report, void *context, struct omma_error *error);

/* Lists the CPU level and why it is that one, and per operation, type and head dimensions the
 * kernel that serves them (what = operation, details = kernel). */
OMMA_API enum omma_status omma_describe_kernels(const char *isa, omma_report report, void *context, struct omma_error *error);

/* What this machine can do at a CPU level with that many threads: multiply-adds per second out of
 * registers, times two. Measured on the spot in some hundredths of a second. */
struct omma_machine {
  int n_threads;
  double f32_gflops;
  double bf16_gflops; /* 0 where the level has no bf16 dot product */
};
OMMA_API enum omma_status omma_measure_machine(const char *isa, int n_threads, struct omma_machine *machine,
                                               struct omma_error *error);
/* 10^9 bytes a second that this many threads read from memory, in a plain loop over 256 MiB, or
 * twice the last cache where that is more (in huge pages where the system gives them), in about a
 * tenth of a second. n_threads 0: all. Errors: ARGUMENT, MEMORY. */
OMMA_API enum omma_status omma_measure_read(int n_threads, double *gbps, struct omma_error *error);

/* ---- images ---------------------------------------------------------------------------------- */

struct omma_image;

/* Limits that are checked from the header before anything is decoded. 0: the default. */
struct omma_image_limits {
  int64_t max_bytes;  /* of the file; default 64 MiB */
  int64_t max_side;   /* pixels; default 65,500 */
  int64_t max_pixels; /* width * height; default 178,956,970 */
  /* processor time that decoding may take, looked at between rows; default 30,000 */
  int64_t max_cpu_ms;
};

/* What decoding an image would give, and the memory it takes at its worst moment: the pixels, and
 * what grows with them inside the codec. */
struct omma_image_header {
  int32_t width, height; /* after EXIF orientation */
  int64_t decode_bytes;
};
/* The same from the file's headers alone. Errors: as omma_image_decode, as far as the headers show
 * them. */
OMMA_API enum omma_status omma_image_probe(const void *bytes, size_t size, const struct omma_image_limits *limits,
                                           struct omma_image_header *header, struct omma_error *error);

/* Decodes an image (JPEG, PNG, WebP, BMP, the first frame of a GIF; HEIC, AVIF and TIFF where their
 * libraries are; told by content) to 8-bit RGB: EXIF orientation applied, alpha painted on white,
 * 16 bits cut to the high byte, colour profiles ignored. The bytes are not kept. Errors: FORMAT
 * (not an image, broken, truncated), UNSUPPORTED (a format this build lacks), LIMIT, MEMORY. */
OMMA_API enum omma_status omma_image_decode(const void *bytes, size_t size, const struct omma_image_limits *limits,
                                            struct omma_image **image, struct omma_error *error);
/* The same from a file; also IO. */
OMMA_API enum omma_status omma_image_load(const char *path, const struct omma_image_limits *limits, struct omma_image **image,
                                          struct omma_error *error);
/* Makes an image from 8-bit RGB rows, width * 3 bytes each, which are copied. */
OMMA_API enum omma_status omma_image_from_rgb(int32_t width, int32_t height, const uint8_t *rgb, struct omma_image **image,
                                              struct omma_error *error);
OMMA_API int32_t omma_image_width(const struct omma_image *image);
OMMA_API int32_t omma_image_height(const struct omma_image *image);
/* [height][width][3], owned by the image; NULL of one that was recalled. */
OMMA_API const uint8_t *omma_image_pixels(const struct omma_image *image);
OMMA_API void omma_image_destroy(struct omma_image *image);

/* Limits of the resized image's area, in pixels. 0: the model's. */
struct omma_image_options {
  int64_t min_pixels, max_pixels;
};

/* What an image becomes. The same plan makes patches, tokens and positions. */
struct omma_image_plan {
  int32_t width, height;                 /* of the source, after EXIF orientation */
  int32_t resized_width, resized_height; /* what the tower sees */
  int64_t grid_thw[3];                   /* patches: time, rows, columns */
  int64_t n_patches, n_tokens;
  /* spans of patches that see each other: one per image, or per temporal patch of a video */
  int64_t n_segments;
  int64_t n_windows;    /* spans in the tower's windowed layers; 0: it has none */
  double flops;         /* of the vision tower for this image alone */
  int64_t resize_bytes; /* taken besides the pixels while it, or one frame, is resized */
};
/* Errors: LIMIT (aspect ratio, size), ARGUMENT (sizes or options below 1). */
OMMA_API enum omma_status omma_model_plan_image(const struct omma_model *model, int32_t width, int32_t height,
                                                const struct omma_image_options *options, struct omma_image_plan *plan,
                                                struct omma_error *error);

/* The same for a video of n_frames frames of this size, all resized alike; grid_thw[0] counts pairs
 * of frames (an odd last one stands twice). The limits are the model's for videos: of one frame's
 * area, or of the sum over all frames. Errors: UNSUPPORTED (the model takes no videos), LIMIT
 * (more than OMMA_MAX_VIDEO_FRAMES, aspect ratio, size), ARGUMENT (too few frames, sizes or
 * options). */
#define OMMA_MAX_VIDEO_FRAMES 768
#define OMMA_MIN_VIDEO_FPS 0.01
#define OMMA_MAX_VIDEO_FPS 1000.0
OMMA_API enum omma_status omma_model_plan_video(const struct omma_model *model, int32_t width, int32_t height, size_t n_frames,
                                                const struct omma_image_options *options, struct omma_image_plan *plan,
                                                struct omma_error *error);

/* The image of a file whose bytes were decoded and resized for this model and the same sizes
 * before, as far as that was kept (omma_model_options.known_image_bytes), without doing it again:
 * it has a size but no pixels, and is for requests and calls with this model and these options,
 * which give ARGUMENT otherwise; videos do not take it. *image is NULL where the file is not known:
 * decode it, then the request that resizes it keeps it. Thread-safe. Errors: as omma_image_probe
 * and omma_model_plan_image; MEMORY. */
OMMA_API enum omma_status omma_image_recall(const struct omma_model *model, const void *bytes, size_t size,
                                            const struct omma_image_limits *limits, const struct omma_image_options *options,
                                            struct omma_image **image, struct omma_error *error);

/* Resizes, normalises and cuts into patches: pixel_values [n_patches, patch_dim] f32, `capacity` in
 * floats. Values and the order of patches are the official processor's: by the blocks that become
 * tokens, row by row inside a block, or, where the model's processor has that, row by row over the
 * image. */
OMMA_API enum omma_status omma_preprocess(const struct omma_model *model, const struct omma_image *image,
                                          const struct omma_image_options *options, float *pixel_values, size_t capacity,
                                          struct omma_error *error);

/* ---- text ------------------------------------------------------------------------------------ */

/* Token ids of a text, markers in it recognised. *n_tokens is always the number there is; at most
 * `capacity` ids are stored; tokens may be NULL when capacity is 0. Errors: FORMAT (invalid UTF-8,
 * with the byte offset), LIMIT. */
OMMA_API enum omma_status omma_tokenize(const struct omma_model *model, const char *text, size_t text_size, int32_t *tokens,
                                        size_t capacity, size_t *n_tokens, struct omma_error *error);

/* The number of tokens that omma_tokenize makes, counted no further than to `limit`: where it is so
 * large or larger, *n_tokens is at least `limit` and at most the number, and the time bounded by
 * the limit: a text that is too long for fewer is not looked at. Errors: as there. */
OMMA_API enum omma_status omma_count_tokens(const struct omma_model *model, const char *text, size_t text_size, size_t limit,
                                            size_t *n_tokens, struct omma_error *error);

/* The text of token ids, invalid UTF-8 replaced by U+FFFD; sizes as in omma_tokenize, no NUL added.
 * Errors: ARGUMENT (an id out of range, with its index). */
OMMA_API enum omma_status omma_detokenize(const struct omma_model *model, const int32_t *tokens, size_t n_tokens,
                                          bool skip_special, char *text, size_t capacity, size_t *text_size,
                                          struct omma_error *error);

/* The language model's work, by its shapes. Linear layers count with the experts that a token is
 * sent to, norms and biases do not. */
struct omma_text_plan {
  /* of a prompt: 2 per multiply-add, causal attention, the output layer for the last token alone */
  double prompt_flops;
  int64_t step_weight_bytes; /* that generating one token reads, the output layer's included */
  int64_t step_kv_bytes;     /* keys and values that it reads */
};
/* For a prompt of n_tokens, and for a step that sees n_tokens, its own included. Works for
 * config_only models. Errors: ARGUMENT (n_tokens not in 1 .. max_model_len). */
OMMA_API enum omma_status omma_model_plan_text(const struct omma_model *model, int64_t n_tokens, struct omma_text_plan *plan,
                                               struct omma_error *error);

/* ---- requests -------------------------------------------------------------------------------- */

/* TOOL: what a tool gave. */
enum omma_role { OMMA_ROLE_SYSTEM = 0, OMMA_ROLE_USER = 1, OMMA_ROLE_ASSISTANT = 2, OMMA_ROLE_TOOL = 3 };

/* A video as the frames that the model shall see, in order and all of one size. Nothing is sampled:
 * every frame counts. */
struct omma_video {
  const struct omma_image *const *frames;
  size_t n_frames; /* at most OMMA_MAX_VIDEO_FRAMES */
  /* frames a second, OMMA_MIN_VIDEO_FPS to OMMA_MAX_VIDEO_FPS: what times are told to the model. 0:
   * 2 */
  double fps;
};

/* A part of a message: an image where `image` is set, a video where `video` is, else a text. */
struct omma_part {
  const char *text;
  size_t text_size;
  const struct omma_image *image;
  /* of the image, or of the video's frames: see omma_model_plan_video */
  struct omma_image_options image_options;
  /* A name of the image or video, NULL: none. What is kept of it is found again by its pixels and
   * this name together, or by the name alone where `image_name_suffices`: the caller then answers
   * for the name never meaning two images. */
  const char *image_name;
  bool image_name_suffices;
  const struct omma_video *video;
};

struct omma_message {
  enum omma_role role;
  const struct omma_part *parts;
  size_t n_parts;
  /* a JSON object of what else a chat template reads, such as "tool_calls"; NULL: nothing */
  const char *fields;
};

/* How a model writes calls, <tool_call>{"name": ..., "arguments": {...}}</tool_call> or
 * <|tool_calls_section_begin|> and so on, by the name of vLLM's tool parser for it. Errors:
 * ARGUMENT (field "tool_call_parser"; the message lists the names). */
enum omma_tool_format { OMMA_TOOLS_OBJECTS = 0, OMMA_TOOLS_SECTIONS = 1 };
OMMA_API enum omma_status omma_tool_parser_find(const char *name, enum omma_tool_format *form, struct omma_error *error);

#define OMMA_MAX_STOP_STRINGS 16
#define OMMA_MAX_TOP_LOGPROBS 20
#define OMMA_MAX_LOGIT_BIAS 1024
#define OMMA_MAX_BAD_WORDS 128

struct omma_logit_bias {
  int32_t token;
  float bias;
};

/* What answers of a request must look like: docs/structured-output.md says which schemas, patterns
 * and grammars are supported. */
enum omma_grammar_kind {
  OMMA_GRAMMAR_JSON_SCHEMA = 0, /* text: the schema, as JSON */
  OMMA_GRAMMAR_JSON_OBJECT = 1, /* any JSON object; no text */
  OMMA_GRAMMAR_REGEX = 2,       /* text: a regular expression that the whole answer matches */
  OMMA_GRAMMAR_CHOICE = 3,      /* text: a JSON array of strings, one of which is the answer */
  OMMA_GRAMMAR_GBNF = 4         /* text: a grammar in llama.cpp's notation */
};
struct omma_grammar_options {
  enum omma_grammar_kind kind;
  const char *text;
  size_t text_size;  /* at most 1 MiB */
  bool compact_json; /* no blanks and line breaks between the tokens of JSON */
};
struct omma_grammar;

/* Compiles a grammar for answers of this model. Any number of requests may share it. Its tables
 * take up to 20 MiB; the model's trees of tokens, about 11 MB for 152,000, are made with its first
 * grammar. Thread-safe. Errors: FORMAT and UNSUPPORTED (the message begins with the JSON pointer
 * of the key in a schema, the line or byte elsewhere), LIMIT, ARGUMENT, MEMORY. */
OMMA_API enum omma_status omma_grammar_create(const struct omma_model *model, const struct omma_grammar_options *options,
                                              struct omma_grammar **grammar, struct omma_error *error);
/* One more owner of the same grammar, who destroys it too. Thread-safe. */
OMMA_API struct omma_grammar *omma_grammar_share(struct omma_grammar *grammar);
/* Requests that were made with it keep it. NULL is allowed. Thread-safe. */
OMMA_API void omma_grammar_destroy(struct omma_grammar *grammar);

/* Answers that begin with a thought: the marks around it, and what ends one that has used up its
 * budget. */
#define OMMA_MAX_MARK_BYTES 64
struct omma_reasoning {
  const char *begin, *end; /* 1 to OMMA_MAX_MARK_BYTES bytes */
  const char *forced_end;  /* a text whose last part is `end`; NULL: `end` */
};
/* The marks that a reasoning parser of this name looks for, which are vLLM's names where it has
 * one; constant strings. Errors: ARGUMENT (field "reasoning_parser": no such name; the message has
 * all). */
OMMA_API enum omma_status omma_reasoning_find(const char *parser, struct omma_reasoning *reasoning, struct omma_error *error);

/* How the answer is drawn. Zero-initialised: greedy, until the model stops or the context is
 * full. */
struct omma_sampling {
  double temperature;                         /* 0: greedy. At most 2 */
  double top_p;                               /* (0, 1]; 0: 1 */
  double min_p;                               /* [0, 1] */
  int64_t top_k;                              /* 0 or -1: all */
  uint64_t seed;                              /* same request and seed, same answer */
  double repetition_penalty;                  /* 0: 1, that is none; over prompt and answer */
  double presence_penalty, frequency_penalty; /* [-2, 2], over the answer */
  int64_t max_tokens;                         /* 0: what the context leaves */
  int64_t min_tokens;                         /* no stop before that many */
  const char *const *stop;                    /* strings that end the answer and are cut off it */
  size_t n_stop;
  const int32_t *stop_token_ids;
  size_t n_stop_token_ids;
  bool ignore_eos;
  /* what ends the answer, a stop string or the text of a stop token, stays in its text */
  bool include_stop;
  /* special tokens have their text in the answer's; the one that ends it only with include_stop */
  bool keep_special_tokens;
  bool logprobs; /* report the chosen token's log-probability */
  /* and that many of the likeliest tokens', at most OMMA_MAX_TOP_LOGPROBS */
  int n_top_logprobs;
  /* report those of the prompt (on_prompt_token), whose rows are all computed then, kept or not */
  bool prompt_logprobs;
  int n_prompt_logprobs;
  /* added before penalties, within [-100, 100]; of several for a token the last */
  const struct omma_logit_bias *logit_bias;
  size_t n_logit_bias;              /* at most OMMA_MAX_LOGIT_BIAS */
  const int32_t *allowed_token_ids; /* no other token is ever chosen; NULL: all */
  size_t n_allowed_token_ids;
  /* A word's tokens, and those after a blank where they are as many with another first one: the
   * last of them is not chosen after the others. At most OMMA_MAX_BAD_WORDS of such sequences,
   * 1,024 bytes each. */
  const char *const *bad_words;
  size_t n_bad_words;
  /* NULL: any text. The request keeps it. An answer that is complete and cannot go on ends,
   * whatever min_tokens and ignore_eos say; one that max_tokens or a stop string cuts off may be
   * incomplete. */
  struct omma_grammar *grammar;
  /* NULL: an answer is one text. Else it begins with a thought, with or without the begin mark,
   * until the end mark; unless the prompt ends with the end mark, or has it in the message that
   * continue_final_message goes on with. Texts come without the marks, and a grammar is for what
   * follows; before that no stop token ends an answer that has one. Copied. */
  const struct omma_reasoning *reasoning;
  bool limits_thinking;
  /* with limits_thinking: tokens of a thought, after which forced_end is written in its place */
  int64_t max_thinking_tokens;
};

struct omma_engine;

struct omma_truncation {
  int64_t n_tokens; /* that stay of a longer prompt; 0: all */
  bool keep_first;  /* the first ones stay; else the last ones */
};
#define OMMA_MAX_TRUNCATED_TOKENS (INT64_C(1) << 20) /* of a prompt that is cut */

struct omma_request_options {
  struct omma_sampling sampling;
  /* the last message is the beginning of the answer: not closed, no new turn opened */
  bool continue_final_message;
  /* A prompt that would never fit into its KV cache is refused (LIMIT "input_tokens") before images
   * are resized; may be NULL. */
  const struct omma_engine *engine;
  /* lower goes first, in an engine that goes by priority; elsewhere it means nothing */
  int64_t priority;
  /* Prompts with different salts share no keys and values, so that nobody can tell from the time of
   * an answer what others asked; NULL: none. */
  const char *cache_salt;
  /* a JSON array of tools for the chat template (UNSUPPORTED where it has none); NULL: none */
  const char *tools;
  /* a JSON object of its variables; unread ones are refused; NULL: none */
  const char *chat_template_kwargs;
  /* Prompts with images are not cut: where one is longer, that is an ARGUMENT error (field
   * "truncate_prompt_tokens"). */
  struct omma_truncation truncation;
};

struct omma_request;

/* Prepares a request: chat template, tokens, resized images as patches, positions. Thread-safe, and
 * lock-free while the engine runs; copies what it needs. Errors: ARGUMENT with `field`
 * ("messages", "temperature", ...), LIMIT ("input_tokens": prompt and one answer token do not fit
 * into the context; "image": an image, or the pixels of all after the resize), FORMAT, UNSUPPORTED,
 * MEMORY. */
OMMA_API enum omma_status omma_request_create(const struct omma_model *model, const struct omma_message *messages,
                                              size_t n_messages, const struct omma_request_options *options,
                                              struct omma_request **request, struct omma_error *error);
/* Counts the tokens of the prompt that omma_request_create would make, from texts and the sizes of
 * images: resizes none, and works for config_only models. Errors: as there. */
OMMA_API enum omma_status omma_count_prompt_tokens(const struct omma_model *model, const struct omma_message *messages,
                                                   size_t n_messages, const struct omma_request_options *options,
                                                   int64_t *n_tokens, struct omma_error *error);
/* The same from a prompt's ids (of omma_tokenize, say), without chat template and images: of the
 * options, the sampling counts. Errors: ARGUMENT with `field` ("prompt": no id, or one out of
 * range, with its index; or as above), LIMIT ("input_tokens"), MEMORY. */
OMMA_API enum omma_status omma_request_create_tokens(const struct omma_model *model, const int32_t *tokens, size_t n_tokens,
                                                     const struct omma_request_options *options, struct omma_request **request,
                                                     struct omma_error *error);
/* The same prompt and priority with another sampling (NULL: the defaults): resized images are
 * shared, and either may be destroyed first. Thread-safe. Errors: ARGUMENT with `field`,
 * MEMORY. */
OMMA_API enum omma_status omma_request_copy(const struct omma_request *source, const struct omma_sampling *sampling,
                                            struct omma_request **request, struct omma_error *error);
/* Must not be called between a submit and its on_finish. */
OMMA_API void omma_request_destroy(struct omma_request *request);
/* The prompt's ids, image tokens included; owned by the request. */
OMMA_API const int32_t *omma_request_prompt(const struct omma_request *request, size_t *n_tokens);

/* ---- engine ---------------------------------------------------------------------------------- */

#define OMMA_DEFAULT_PATCH_BUDGET 16384
#define OMMA_DEFAULT_MAX_SEQUENCES 8

struct omma_engine_options {
  /* Pages of keys and values. 0: room for max_sequences times max_model_len tokens, at most what
   * this machine, its control group (cgroup) or `ulimit -v` leaves at that moment besides the rest
   * and a reserve. Pages take memory when they are first written. */
  int64_t kv_cache_bytes;
  /* patches the tower takes at once (a bigger image still runs, alone); 0: the default above */
  int64_t patch_budget;
  int64_t prefill_chunk; /* prompt tokens per step, rounded up to whole pages; 0: 512 */
  int64_t queue_limit;   /* requests that may wait; 0: 256 */
  /* Images once encoded are kept in at most that many bytes, the least recently used go first; 0:
   * 512 MiB, -1: none are kept. */
  int64_t encoder_cache_bytes;
  /* copied; its context must live as long as the engine. NULL: none */
  const struct omma_encoding_store *encoding_store;
  const struct omma_kv_events *kv_events; /* likewise */
  /* How long the tower or a prompt is worked on before the engine looks at its queue again, while
   * no answer is being written, aimed at from below; 0: 1000. A tile of 128 rows on every thread
   * is the least. Short slices cost a few per cent in waiting at their ends, and change no
   * result. */
  int64_t slice_ms;
  /* While answers are being written: per cent of the time that images and prompts of others get, 1
   * to 90; 0: 50, which at most doubles the time between two tokens. */
  int64_t slice_percent;
  /* requests that are worked on at the same time, at most 1024; 0: the default above */
  int64_t max_sequences;
  /* A request is begun when there is room for its prompt and this many tokens of its answer, or all
   * of them; 0: 512, -1: none. Where room runs out later, the youngest request gives its own up
   * and goes on afterwards, with the same answer. */
  int64_t reserve_tokens;
  /* Tokens of an answer that are guessed from what prompt and answer have said before, and checked
   * in one step with the last one: at most draft_tokens (up to 15; 0: none), found by the last
   * lookup_max to lookup_min tokens (up to 64; 0: the other one, or 5). No answer changes; where
   * guesses are mostly wrong they pause. */
  int64_t draft_tokens, lookup_min, lookup_max;
  bool no_prefix_cache; /* keep no keys and values of prompts for later ones that begin alike */
  bool by_priority;     /* requests go by their priority, then by age; else by age alone */
};

/* Memory of a model with an engine. All of it but the last part is allocated when they are made;
 * what a request needs is taken when it is made and when it starts, never in between. Not in it:
 * what the program and its libraries take for themselves, 3 to 10 MiB, with the code that oneDNN
 * makes for the shapes of layers where it is in use; and omma_image_plan.resize_bytes. */
struct omma_memory_plan {
  int64_t weight_bytes;
  int64_t kv_cache_bytes;
  int64_t kv_cache_tokens;
  /* prompt and answer of one request: the model's, or what the KV cache holds of it */
  int64_t max_model_len;
  /* for the patch budget; enlarged once for an image that is over it */
  int64_t vision_workspace_bytes;
  int64_t language_workspace_bytes; /* for prompts and for generated tokens */
  int64_t linear_scratch_bytes;     /* the linear layers' own, of all threads */
  /* logits, sampler and penalty tables of all sequences, the scheduler's and the pages' */
  int64_t table_bytes;
  /* the most that kept images may take; grows in use and is not in total_bytes */
  int64_t encoder_cache_bytes;
  int64_t known_image_bytes; /* the same of resized images, for omma_image_recall */
  /* of a request with one image of n_patches: resized pixels and the tower's output */
  int64_t request_bytes;
  int64_t max_sequences; /* such requests at the same time, which total_bytes has */
  int64_t total_bytes;
};
/* n_patches: the largest image expected, 0: the patch budget. Works for config_only models. Errors:
 * ARGUMENT, LIMIT. */
OMMA_API enum omma_status omma_plan_memory(const struct omma_model *model, const struct omma_engine_options *options,
                                           int64_t n_patches, struct omma_memory_plan *plan, struct omma_error *error);

/* Creates the engine: its thread, its team, its memory. One engine per model at a time (BUSY
 * otherwise). */
OMMA_API enum omma_status omma_engine_create(struct omma_model *model, const struct omma_engine_options *options,
                                             struct omma_engine **engine, struct omma_error *error);
/* Tokens that prompt and answer of one request may have together: the model's limit, or what the KV
 * cache holds of it. */
OMMA_API int64_t omma_engine_max_model_len(const struct omma_engine *engine);
/* Cancels what waits and runs, calls the on_finish of each, joins the thread, frees everything. */
OMMA_API void omma_engine_destroy(struct omma_engine *engine);

enum omma_stage { OMMA_STAGE_QUEUED = 0, OMMA_STAGE_ENCODE = 1, OMMA_STAGE_PREFILL = 2, OMMA_STAGE_DECODE = 3 };
enum omma_finish { OMMA_FINISH_STOP = 0, OMMA_FINISH_LENGTH = 1, OMMA_FINISH_CANCELLED = 2, OMMA_FINISH_ERROR = 3 };

struct omma_top_logprob {
  int32_t token;
  float logprob;
};

/* One generated token. `text` is what became safe to show with it: whole characters, nothing that
 * may yet turn out to be a stop string; it may be empty. With `last`, everything that was held
 * back is in it. Pointers live during the callback. */
struct omma_token_event {
  int64_t index;
  int32_t token;
  const char *text;
  size_t text_size;
  const char *reasoning; /* text of the thought, which goes before `text` */
  size_t reasoning_size;
  bool in_thought; /* the token is one of the thought or of its marks */
  bool has_logprob;
  /* natural logarithm, of the model's own distribution: before penalties and temperature */
  float logprob;
  const struct omma_top_logprob *top;
  int n_top;
  bool last;
  enum omma_finish finish; /* with last */
};

/* of a prompt token from the second one on; pointers live during the callback */
struct omma_prompt_token_event {
  /* in the prompt, from 1; how many tokens are as likely as it or likelier, itself included */
  int64_t index, rank;
  int32_t token;
  float logprob; /* natural logarithm */
  const struct omma_top_logprob *top;
  int n_top;
};

struct omma_timings { /* seconds */
  double queue, preprocess, encode, prefill, decode;
};

struct omma_result {
  enum omma_finish finish;
  int64_t n_prompt_tokens, n_completion_tokens;
  int64_t n_reasoning_tokens; /* of the completion's, up to the thought's end mark */
  /* of the prompt's, whose keys and values an earlier prompt had left */
  int64_t n_cached_tokens;
  int32_t stop_token;      /* the id that ended it, or -1 */
  const char *stop_string; /* the string that ended it, or NULL */
  struct omma_timings timings;
  struct omma_error error; /* with OMMA_FINISH_ERROR */
};

/* An engine works on up to max_sequences requests at the same time and takes a step of each in
 * turn; the tokens of a request and its log-probabilities are bit-identical to those of the
 * request alone.
 *
 * Called on the engine's thread; must be quick and must not call the engine, but for
 * omma_engine_cancel. Each may be NULL. on_token returning false cancels the request. on_finish
 * comes exactly once per submitted request, last. */
struct omma_embeddings;

struct omma_callbacks {
  void *context;
  void (*on_progress)(void *context, enum omma_stage stage, int64_t done, int64_t total);
  bool (*on_token)(void *context, const struct omma_token_event *event);
  void (*on_finish)(void *context, const struct omma_result *result);
  /* in order, before the first on_token */
  void (*on_prompt_token)(void *context, const struct omma_prompt_token_event *event);
  /* Of a model opened with encoder_only, before an on_finish with OMMA_FINISH_STOP: the outputs for
   * the request's images and videos, in order. The callee destroys them, by any thread, before the
   * engine is destroyed. */
  void (*on_embeddings)(void *context, struct omma_embeddings *embeddings);
};

/* Puts a request into the queue. Thread-safe. The request must live until on_finish, the callbacks
 * are copied. Errors: ARGUMENT (field "messages": no image for an engine that only encodes), BUSY
 * (queue full), LIMIT (would never fit into the KV cache), CANCELLED (the engine is going
 * down). */
OMMA_API enum omma_status omma_engine_submit(struct omma_engine *engine, const struct omma_request *request,
                                             const struct omma_callbacks *callbacks, uint64_t *id, struct omma_error *error);
/* Ends a request at its next step; on_finish follows with OMMA_FINISH_CANCELLED. Unknown and
 * finished ids are ignored. */
OMMA_API void omma_engine_cancel(struct omma_engine *engine, uint64_t id);

/* Submits and waits for the end. OK also when it was cancelled by on_token; an error of the request
 * is returned. */
OMMA_API enum omma_status omma_generate(struct omma_engine *engine, const struct omma_request *request,
                                        const struct omma_callbacks *callbacks, struct omma_result *result,
                                        struct omma_error *error);

/* Counters since creation, for dashboards. */
struct omma_engine_stats {
  /* waiting: those too that lost their pages to older ones and will go on */
  int64_t n_waiting, n_running;
  int64_t n_finished[4]; /* by enum omma_finish */
  int64_t prompt_tokens, generation_tokens;
  int64_t images, patches, encoder_passes; /* through the tower; a pass takes several images */
  int64_t encoder_cache_bytes, encoder_cache_hits, encoder_cache_misses, encoder_cache_evictions;
  /* images looked for in omma_engine_options.encoding_store */
  int64_t encoding_store_hits, encoding_store_misses;
  /* of OMMA_ATTENTION_PAGE_TOKENS tokens; used: by running requests */
  int64_t kv_pages, kv_pages_used;
  /* of earlier prompts, for later ones; given up when pages run out */
  int64_t kv_pages_kept;
  /* those that later prompts may take over: kept ones, and of running requests */
  int64_t kv_pages_published;
  bool prefix_cache;                               /* keys and values of prompts are kept */
  int64_t prefix_cache_queries, prefix_cache_hits; /* prompt tokens looked up, and found */
  /* guesses, their tokens, and how many of these were right */
  int64_t n_drafts, draft_tokens, accepted_tokens;
  int64_t decode_steps;
  double decode_seconds,
      /* of these steps in all, and of the network in them: the rest draws tokens and tells */
      decode_model_seconds;
  /* requests that lost their pages for a while: in all, and now */
  int64_t n_preemptions, n_preempted;
  int64_t workspace_bytes;
  bool alive; /* false after an internal failure: nothing is accepted any more */
};
OMMA_API void omma_engine_get_stats(const struct omma_engine *engine, struct omma_engine_stats *stats);

/* ---- embeddings ------------------------------------------------------------------------------ */

/* One image's output of the tower: merged [n_tokens, width] f32, and n_deepstack tensors of the
 * same shape. Owned by the embeddings. */
struct omma_image_embeddings {
  int64_t grid_thw[3];
  int64_t n_tokens, width;
  const float *merged;
  int64_t n_deepstack;
  const float *const *deepstack;
};

/* Encodes images on the engine and waits. With `together`, they run as one packed batch (in
 * several, each within the patch budget); the results are bit-identical either way. Errors: as
 * omma_engine_submit, and the images'. */
OMMA_API enum omma_status omma_encode(struct omma_engine *engine, const struct omma_image *const *images, size_t n_images,
                                      const struct omma_image_options *options, bool together, omma_progress progress,
                                      void *progress_context, struct omma_embeddings **embeddings, struct omma_error *error);
OMMA_API void omma_embeddings_get(const struct omma_embeddings *embeddings, size_t index, struct omma_image_embeddings *out);
/* One image's output as vLLM keeps it: rows [n_tokens, (1 + n_deepstack) * width], a token's row of
 * `merged` and of each deepstack tensor side by side, as f32, or as bf16 rounded to nearest. */
OMMA_API void omma_embeddings_copy_rows(const struct omma_embeddings *embeddings, size_t index, enum omma_dtype type,
                                        void *rows);

/* Seconds that making the embeddings took. Parts of work that threads share are the mean of the
 * threads; they add up to `total`. */
struct omma_encode_timings {
  double total;
  double preprocess;  /* resizing, and cutting into normalised patches */
  double patch_embed; /* positions included */
  double attention;   /* of all blocks */
  double linear;      /* layers of all blocks and mergers, activations included */
  double rest;        /* norms, rotary positions, waiting */
  /* of n_slices: the tower stops that often to see whether somebody cancelled */
  double longest_slice;
  int64_t n_slices;
};
OMMA_API void omma_embeddings_get_timings(const struct omma_embeddings *embeddings, struct omma_encode_timings *timings);
OMMA_API void omma_embeddings_destroy(struct omma_embeddings *embeddings);

/* ---- results as files ------------------------------------------------------------------------ */

enum omma_tensor_type { OMMA_TENSOR_F32 = 0, OMMA_TENSOR_I64 = 1 };

/* A tensor to write: name, shape, contiguous data. */
struct omma_tensor {
  const char *name;
  enum omma_tensor_type type;
  int n_dims; /* at most 8 */
  int64_t shape[8];
  const void *data;
};
/* Writes a safetensors file: next to the target first, then renamed, so that a failing write leaves
 * no half file. */
OMMA_API enum omma_status omma_save_tensors(const char *path, const struct omma_tensor *tensors, size_t n_tensors,
                                            struct omma_error *error);

#ifdef __cplusplus
}
#endif

#endif
