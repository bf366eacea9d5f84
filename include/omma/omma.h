/* Ommatidia: vision-language models on CPUs. This header has everything that the command line and
 * the server use; models are in omma/model.h and what is counted of an engine in
 * omma/engine_figures.h, which it includes.
 *
 *   omma_model    an open checkpoint with packed weights. Immutable; any thread may use it.
 *   omma_image    decoded 8-bit RGB pixels. Immutable after decoding.
 *   omma_request  a prepared prompt: token ids, patches, positions. Any thread may make one;
 *                 immutable.
 *   omma_engine   one thread that runs all requests, with a bounded queue. Any thread may submit
 *                 and cancel.
 *
 * Usual order: omma_model_open -> omma_engine_create -> for each question omma_image_decode and
 * omma_request_create (on any worker thread) -> omma_engine_submit with callbacks, or
 * omma_generate, which waits -> omma_request_destroy -> ...
 *
 * Rules for all calls:
 * - Structs with options may be NULL or zero-initialised; 0 and NULL are the stated defaults.
 * - Option structs begin with struct_size, so that members can be added at their end. With sizeof
 *   (the struct) there, a program and a library of different versions work together: members that
 *   the program's struct lacks have their defaults, and one that the library does not know is
 *   refused (ARGUMENT, field "struct_size") unless it is 0. With 0, which zero-initialising gives,
 *   program and library must have been made with the same headers: the library's soname changes
 *   with every change of a struct that a release made.
 * - Strings are UTF-8.
 * - A failing call fills `error` (which may be NULL) and leaves its outputs untouched.
 * - Destroy functions accept NULL.
 * - A child made by fork() has none of the threads of an engine or service: it must not call
 *   anything with its parent's, nor destroy them or their models. It may open models of its own.
 *
 * "Bit-identical" means: on one machine, one build and one CPU level, regardless of batch, packing,
 * thread count and load. */
#ifndef OMMA_OMMA_H
#define OMMA_OMMA_H

#include <omma/attention.h>
#include <omma/encoding_store.h>
#include <omma/engine_figures.h>
#include <omma/host.h>
#include <omma/kv_events.h>
#include <omma/layout.h>
#include <omma/log.h>
#include <omma/model.h>
#include <omma/sampling.h>
#include <omma/status.h>
#include <omma/tensor_file.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "0.2.0". */
OMMA_API const char *omma_version(void);

/* ---- images ---- */

struct omma_image;

/* Limits that are checked from the header before anything is decoded. 0: the default. */
struct omma_image_limits {
  int64_t max_bytes;  /* of the file; default 64 MiB */
  int64_t max_side;   /* pixels; default 65,500 */
  int64_t max_pixels; /* width * height; default 178,956,970 */
  /* Processor time that decoding may take, checked between rows. Default 30,000. */
  int64_t max_cpu_ms;
};

/* The size of an image, and the peak memory of decoding it: the pixels, and buffers of the codec
 * that grow with them. */
struct omma_image_header {
  int32_t width, height; /* after EXIF orientation */
  int64_t decode_bytes;
};
/* Reads these facts from the file's headers alone. Errors: those of omma_image_decode that the
 * headers show. */
OMMA_API enum omma_status omma_image_probe(const void *bytes, size_t size, const struct omma_image_limits *limits,
                                           struct omma_image_header *header, struct omma_error *error);

/* Decodes an image to 8-bit RGB. Formats: JPEG, PNG, WebP, BMP, the first frame of a GIF; HEIC,
 * AVIF and TIFF if their libraries are installed. The format is detected from the content. EXIF
 * orientation is applied, transparent pixels are blended with white, 16-bit values are cut to their
 * high byte, colour profiles are ignored. The bytes are not kept. The caller destroys the image.
 * Errors: FORMAT (not an image, broken, truncated), UNSUPPORTED (a format that this build lacks),
 * LIMIT, MEMORY. */
OMMA_API enum omma_status omma_image_decode(const void *bytes, size_t size, const struct omma_image_limits *limits,
                                            struct omma_image **image, struct omma_error *error);
/* The same from a file. Errors: also IO. */
OMMA_API enum omma_status omma_image_load(const char *path, const struct omma_image_limits *limits, struct omma_image **image,
                                          struct omma_error *error);
/* Makes an image from 8-bit RGB rows of width * 3 bytes each, which are copied. */
OMMA_API enum omma_status omma_image_from_rgb(int32_t width, int32_t height, const uint8_t *rgb, struct omma_image **image,
                                              struct omma_error *error);
OMMA_API int32_t omma_image_width(const struct omma_image *image);
OMMA_API int32_t omma_image_height(const struct omma_image *image);
/* [height][width][3], owned by the image. NULL for an image of omma_image_recall. */
OMMA_API const uint8_t *omma_image_pixels(const struct omma_image *image);
OMMA_API void omma_image_destroy(struct omma_image *image);

/* Limits of the resized image's area, in pixels. 0: the model's. */
struct omma_image_options {
  int64_t min_pixels, max_pixels;
};

/* The sizes of an image at each stage. They determine its patches, tokens and positions. */
struct omma_image_sizes {
  int32_t width, height;                 /* of the source, after EXIF orientation */
  int32_t resized_width, resized_height; /* the tower's input */
  int64_t grid_thw[3];                   /* patches in time, rows and columns */
  int64_t n_patches, n_tokens;
  /* Spans of patches that attend to each other: one per image, or per temporal patch of a video. */
  int64_t n_segments;
  int64_t n_windows;    /* spans in the tower's windowed layers; 0: it has none */
  double flops;         /* of the vision tower for this image alone */
  int64_t resize_bytes; /* in addition to the pixels, while the image or one frame is resized */
};
/* The sizes of an image of width x height pixels. Thread-safe. Errors: LIMIT (aspect ratio, size),
 * ARGUMENT (sizes or options below 1). */
OMMA_API enum omma_status omma_model_image_sizes(const struct omma_model *model, int32_t width, int32_t height,
                                                 const struct omma_image_options *options, struct omma_image_sizes *sizes,
                                                 struct omma_error *error);

/* The same for a video of n_frames frames of this size, which are all resized to one size.
 * grid_thw[0] counts temporal patches of two frames (if n_frames is odd, the last frame is used
 * twice). The limits are the model's for videos: of one frame's area, or of the sum over all
 * frames. Errors: UNSUPPORTED (the model takes no videos), LIMIT (more than OMMA_MAX_VIDEO_FRAMES,
 * aspect ratio, size), ARGUMENT (too few frames, sizes or options). */
#define OMMA_MAX_VIDEO_FRAMES 768
#define OMMA_MIN_VIDEO_FPS 0.01
#define OMMA_MAX_VIDEO_FPS 1000.0
OMMA_API enum omma_status omma_model_video_sizes(const struct omma_model *model, int32_t width, int32_t height, size_t n_frames,
                                                 const struct omma_image_options *options, struct omma_image_sizes *sizes,
                                                 struct omma_error *error);

/* Finds the image of a file that was decoded and resized before, for this model and the same sizes,
 * if it is still in the store of resized images (omma_model_options.known_image_bytes). Nothing is
 * decoded or resized again. The image has a size but no pixels. It can be used only in requests and
 * calls with this model and these options, not in videos; others fail with ARGUMENT. *image is NULL
 * if the file is not known: then decode it; the request that resizes it puts it into the store.
 * Thread-safe. The caller destroys the image. Errors: as omma_image_probe and
 * omma_model_image_sizes; MEMORY. */
OMMA_API enum omma_status omma_image_recall(const struct omma_model *model, const void *bytes, size_t size,
                                            const struct omma_image_limits *limits, const struct omma_image_options *options,
                                            struct omma_image **image, struct omma_error *error);

/* Resizes an image, normalises it and cuts it into patches: pixel_values [n_patches, patch_dim]
 * f32; `capacity` counts floats. Values and the order of patches are the official processor's:
 * block by block (a block becomes a token) and row by row within a block, or, for some families,
 * row by row over the image. */
OMMA_API enum omma_status omma_preprocess(const struct omma_model *model, const struct omma_image *image,
                                          const struct omma_image_options *options, float *pixel_values, size_t capacity,
                                          struct omma_error *error);

/* ---- text ---- */

/* Token ids of a text; names of special tokens in it become these tokens. *n_tokens is the full
 * number, also where they do not fit. With a capacity of 0 they are counted alone, and `tokens` may
 * be NULL. Errors: FORMAT (invalid UTF-8, with the byte offset), ARGUMENT (field "ids": more than
 * `capacity`, if that is not 0), LIMIT. */
OMMA_API enum omma_status omma_tokenize(const struct omma_model *model, const char *text, size_t text_size, int32_t *tokens,
                                        size_t capacity, size_t *n_tokens, struct omma_error *error);

/* Counts the tokens that omma_tokenize makes, up to about `limit`. If there are at least `limit`,
 * *n_tokens is at least `limit` and at most the true number. The limit bounds the time: a text that
 * is too long to have fewer tokens is not read. Errors: as omma_tokenize. */
OMMA_API enum omma_status omma_count_tokens(const struct omma_model *model, const char *text, size_t text_size, size_t limit,
                                            size_t *n_tokens, struct omma_error *error);

/* The text of token ids. U+FFFD replaces invalid UTF-8. *text_size is the full number of bytes, of
 * which at most `capacity` are stored; no NUL is added. `text` may be NULL when capacity is 0.
 * Errors: ARGUMENT (an id out of range, with its index). */
OMMA_API enum omma_status omma_detokenize(const struct omma_model *model, const int32_t *tokens, size_t n_tokens,
                                          bool skip_special, char *text, size_t capacity, size_t *text_size,
                                          struct omma_error *error);

/* The operations and memory reads of the language model, computed from its shapes. In MoE layers
 * only the experts that a token uses count. Norms and biases do not count. */
struct omma_text_cost {
  /* Of a prompt: 2 per multiply-add, with causal attention, and with the output layer for the last
   * token only. */
  double prompt_flops;
  int64_t step_weight_bytes; /* read to generate one token, including the output layer */
  int64_t step_kv_bytes;     /* keys and values read to generate one token */
};
/* For a prompt of n_tokens, and for a decode step whose token attends to n_tokens, itself included.
 * Works for config_only models. Errors: ARGUMENT (n_tokens not in 1 .. max_model_len). */
OMMA_API enum omma_status omma_model_text_cost(const struct omma_model *model, int64_t n_tokens, struct omma_text_cost *cost,
                                               struct omma_error *error);

/* ---- requests ---- */

/* The author of a message. TOOL: the message is a tool's result. */
enum omma_role { OMMA_ROLE_SYSTEM = 0, OMMA_ROLE_USER = 1, OMMA_ROLE_ASSISTANT = 2, OMMA_ROLE_TOOL = 3 };

/* A video: the frames for the model, in order and all of one size. All frames are used; none are
 * sampled. */
struct omma_video {
  const struct omma_image *const *frames;
  size_t n_frames; /* at most OMMA_MAX_VIDEO_FRAMES */
  /* Frames per second, OMMA_MIN_VIDEO_FPS to OMMA_MAX_VIDEO_FPS. The times of the frames are
   * computed from it. 0: 2. */
  double fps;
};

/* A part of a message: an image if `image` is set, a video if `video` is set, else a text. */
struct omma_part {
  /* text_size bytes. An empty text is NULL or points at a NUL: other bytes with a size of 0 are
   * refused (ARGUMENT, field "messages"), because a size was forgotten. */
  const char *text;
  size_t text_size;
  const struct omma_image *image;
  /* For the image, or for the video's frames (see omma_model_video_sizes). */
  struct omma_image_options image_options;
  /* A name of the image or video; NULL: none. The caches find it by its pixels and this name
   * together. With `image_name_suffices` they find it by the name alone; then the caller must never
   * give two images the same name. */
  const char *image_name;
  bool image_name_suffices;
  const struct omma_video *video;
};

struct omma_message {
  enum omma_role role;
  const struct omma_part *parts;
  size_t n_parts;
  /* A JSON object with further fields for the chat template, such as "tool_calls"; NULL: none. */
  const char *fields;
};

/* How a model writes tool calls. OBJECTS: <tool_call>{"name": ..., "arguments": {...}}</tool_call>.
 * SECTIONS: <|tool_calls_section_begin|> and so on. omma_tool_parser_find gives the format for the
 * name of vLLM's tool parser. Errors: ARGUMENT (field "tool_call_parser"; the message lists the
 * names). */
enum omma_tool_format { OMMA_TOOLS_OBJECTS = 0, OMMA_TOOLS_SECTIONS = 1 };
OMMA_API enum omma_status omma_tool_parser_find(const char *name, enum omma_tool_format *format, struct omma_error *error);

/* The format of a request's answers. docs/structured-output.md lists the supported schemas,
 * patterns and grammars. */
enum omma_grammar_kind {
  OMMA_GRAMMAR_JSON_SCHEMA = 0, /* text: the schema, as JSON */
  OMMA_GRAMMAR_JSON_OBJECT = 1, /* any JSON object; no text */
  OMMA_GRAMMAR_REGEX = 2,       /* text: a regular expression that the whole answer matches */
  OMMA_GRAMMAR_CHOICE = 3,      /* text: a JSON array of strings, one of which is the answer */
  OMMA_GRAMMAR_GBNF = 4         /* text: a grammar in llama.cpp's notation */
};
struct omma_grammar_options {
  size_t struct_size; /* sizeof this struct, or 0: see above */
  enum omma_grammar_kind kind;
  const char *text;
  size_t text_size;  /* at most 1 MiB */
  bool compact_json; /* no whitespace between the tokens of JSON */
  /* Processor time to compile it, and again for its first mask, in counted steps of 10 ns */
  int64_t max_cpu_ms; /* 0: 200 */
};
struct omma_grammar;

/* Compiles a grammar for answers of this model. Any number of requests to one omma_engine may share
 * it. Its tables take up to 32 MiB, of which each further one of several engines in it has its own
 * once a request goes there, and compiling up to 96 MiB, which go back to the system at once. With
 * the model's first grammar, tries of its tokens are built too, about 14 MB for 152,000 tokens.
 * Thread-safe. The caller destroys the grammar. Errors: FORMAT and UNSUPPORTED (the message begins
 * with a schema's JSON pointer, else the line or byte), LIMIT, ARGUMENT, MEMORY. */
OMMA_API enum omma_status omma_grammar_create(const struct omma_model *model, const struct omma_grammar_options *options,
                                              struct omma_grammar **grammar, struct omma_error *error);
/* Adds a reference to the grammar, which must be destroyed as well. Thread-safe. */
OMMA_API struct omma_grammar *omma_grammar_share(struct omma_grammar *grammar);
/* Bytes of its tables; whether there are references besides the caller's, which is thread-safe. */
OMMA_API size_t omma_grammar_bytes(const struct omma_grammar *grammar);
OMMA_API bool omma_grammar_is_shared(const struct omma_grammar *grammar);
/* Releases one reference. Requests made with the grammar have references of their own. NULL is
 * allowed. Thread-safe. */
OMMA_API void omma_grammar_destroy(struct omma_grammar *grammar);

struct omma_engine;

struct omma_truncation {
  int64_t n_tokens; /* the length to which a longer prompt is cut; 0: no truncation */
  bool keep_first;  /* keep the first ones; else the last ones */
};
#define OMMA_MAX_TRUNCATED_TOKENS (INT64_C(1) << 20) /* of a prompt that is truncated */

/* What a request is for. An engine refuses kinds that it does not serve as UNSUPPORTED: without a
 * language model (omma_model_options.encoder_only) it encodes alone. */
enum omma_request_kind {
  OMMA_REQUEST_DEFAULT = 0,  /* GENERATE, or ENCODE where the model was opened with encoder_only */
  OMMA_REQUEST_GENERATE = 1, /* an answer */
  OMMA_REQUEST_ENCODE = 2,   /* its images' and videos' outputs (omma_callbacks.on_embeddings) */
  OMMA_REQUEST_EMBED = 3,    /* a vector (omma_callbacks.on_vectors), omma/vectors.h */
  OMMA_REQUEST_SCORE = 4     /* how well its prompt's document answers its query, likewise */
};

struct omma_request_options {
  size_t struct_size; /* sizeof this struct, or 0: see above */
  enum omma_request_kind kind;
  /* The last message is the beginning of the answer: it is not closed, and no new message
   * begins. */
  bool continue_final_message;
  bool no_generation_prompt; /* the prompt ends with the last message: no answer's turn begins */
  /* Of the engine that will take the request (omma_engine_max_model_len): a longer prompt is
   * refused (LIMIT "input_tokens") before images are resized. 0: the model's limit alone. */
  int64_t max_model_len;
  /* In an engine with by_priority, lower values go first; in others it has no effect. */
  int64_t priority;
  /* The answer is read when it is complete, not token by token: its tokens may come late, next to
   * those of other answers, which together take less time (omma_engine_options.scheduling). */
  bool whole;
  /* Prompts with different salts share no keys and values. So the time of an answer does not show
   * what others asked. NULL: none. */
  const char *cache_salt;
  /* A JSON array of tools for the chat template (UNSUPPORTED where it has none). NULL: none. */
  const char *tools;
  /* A JSON object of variables for the chat template; variables that it does not read are refused.
   * NULL: none. */
  const char *chat_template_kwargs;
  /* Prompts with images are not truncated: a longer one gives ARGUMENT (field
   * "truncate_prompt_tokens"). */
  struct omma_truncation truncation;
  /* EMBED: entries of the vector, which are its first ones. 0: all. */
  int64_t dimensions;
  /* Not 0: a vector is not divided by its length, and a score is the difference of two logits. */
  int64_t raw_vectors;
  /* Not 0: what is embedded is searched, it does not search. Models with a vector for each token
   * write a text that searches differently. */
  int64_t is_document;
  int64_t reserved[5]; /* 0: room for members to come, so that `sampling` keeps its place */
  /* Its struct_size has no effect here. */
  struct omma_sampling sampling;
};

struct omma_request;

/* Prepares a request: renders the chat template, tokenizes, resizes images, computes positions.
 * Copies its inputs. Thread-safe, and takes no lock of the running engine. The caller destroys the
 * request. Errors: ARGUMENT with `field` ("messages", "temperature", ...), LIMIT ("input_tokens":
 * prompt and one answer token do not fit into the context; "image": an image, or the pixels of all
 * after resizing), FORMAT, UNSUPPORTED, MEMORY. */
OMMA_API enum omma_status omma_request_create(const struct omma_model *model, const struct omma_message *messages,
                                              size_t n_messages, const struct omma_request_options *options,
                                              struct omma_request **request, struct omma_error *error);
/* Counts the tokens of the prompt that omma_request_create would make, from texts and the sizes of
 * images. Resizes nothing, and works for config_only models. Errors: as omma_request_create. */
OMMA_API enum omma_status omma_count_prompt_tokens(const struct omma_model *model, const struct omma_message *messages,
                                                   size_t n_messages, const struct omma_request_options *options,
                                                   int64_t *n_tokens, struct omma_error *error);
/* Prepares a request from a prompt's ids (for example of omma_tokenize), without chat template and
 * images. The options continue_final_message, tools and chat_template_kwargs have no effect.
 * Errors: ARGUMENT with `field` ("prompt": no id, or one out of range, with its index; or as
 * omma_request_create), LIMIT ("input_tokens"), MEMORY. */
OMMA_API enum omma_status omma_request_create_tokens(const struct omma_model *model, const int32_t *tokens, size_t n_tokens,
                                                     const struct omma_request_options *options, struct omma_request **request,
                                                     struct omma_error *error);
/* Makes a request with the same prompt and priority and other sampling settings (NULL: the
 * defaults). The two share resized images, and either may be destroyed first. Thread-safe. Errors:
 * ARGUMENT with `field`, MEMORY. */
OMMA_API enum omma_status omma_request_copy(const struct omma_request *source, const struct omma_sampling *sampling,
                                            struct omma_request **request, struct omma_error *error);
/* Must not be called between a submit of the request and its on_finish. NULL is allowed. */
OMMA_API void omma_request_destroy(struct omma_request *request);
/* The prompt's ids, with image tokens. Owned by the request. */
OMMA_API const int32_t *omma_request_prompt(const struct omma_request *request, size_t *n_tokens);

/* ---- engine ---- */

#define OMMA_DEFAULT_PATCH_BUDGET 16384
/* The most that max_sequences is by default. */
#define OMMA_DEFAULT_MAX_SEQUENCES 128
/* Where max_sequences is not given: the KV cache has room for this many requests at max_model_len,
 * and this many with an image of patch_budget each run at once. */
#define OMMA_DEFAULT_FULL_SEQUENCES 8

/* Which answers may wait for others, so that their tokens are computed together: those of requests
 * that say `whole` (AUTO), none (LATENCY), or all (THROUGHPUT). No answer changes. */
enum omma_scheduling { OMMA_SCHEDULING_AUTO = 0, OMMA_SCHEDULING_LATENCY = 1, OMMA_SCHEDULING_THROUGHPUT = 2 };

/* What drafts tokens (omma_engine_options.draft_tokens). LOOKUP: the text so far. HEAD: that of a
 * model which was opened with draft_head. MODEL: the draft_model that it was opened with. */
enum omma_drafting { OMMA_DRAFTS_LOOKUP = 0, OMMA_DRAFTS_HEAD = 1, OMMA_DRAFTS_MODEL = 2 };

struct omma_engine_options {
  size_t struct_size; /* sizeof this struct, or 0: see above */
  /* Bytes for the pages of keys and values. 0: enough for max_sequences times max_model_len tokens
   * (where max_sequences is 0, OMMA_DEFAULT_FULL_SEQUENCES times), but at most the memory that is
   * free on this machine, in its control group (cgroup) and by `ulimit -v`, minus everything else
   * and a reserve. Pages take memory when they are first written. */
  int64_t kv_cache_bytes;
  /* Patches in one pass of the tower (a larger image still runs, alone). 0: the default above. */
  int64_t patch_budget;
  int64_t prefill_chunk; /* prompt tokens per step, rounded up to full pages; 0: 512 */
  int64_t queue_limit;   /* requests that may wait; 0: as many as queue_bytes allow */
  /* Bytes of the encoder cache, which keeps outputs of the tower and evicts the least recently used
   * first. 0: 512 MiB, -1: no cache. */
  int64_t encoder_cache_bytes;
  /* Copied; its context must live as long as the engine. NULL: none. */
  const struct omma_encoding_store *encoding_store;
  /* Copied; its context likewise. Of several engines one for each, in order. NULL: none. */
  const struct omma_kv_events *kv_events;
  /* While no answer is being generated: the longest slice of the tower or of prefill, after which
   * the engine checks its queue. The minimum is a tile of 128 rows on every thread. Short slices
   * cost a few per cent, because threads wait for each other at the end, and change no result. 0:
   * 1000. */
  int64_t slice_ms;
  /* While answers are being generated: the percentage of the time for the images and prompts of
   * other requests, 1 to 90. 0: 50, which at most doubles the time between two tokens. */
  int64_t slice_percent;
  /* Requests that run at the same time, at most 1024. 0: as many as the memory and the KV cache
   * allow, up to the default above. */
  int64_t max_sequences;
  /* A request starts when there are pages for its prompt and for this many tokens of its answer (or
   * for max_tokens if that is less). 0: 512, -1: none. If pages run out later, the youngest request
   * gives its pages up and continues afterwards, with the same answer. */
  int64_t reserve_tokens;
  /* Up to draft_tokens tokens (at most 15; 0: none) are drafted as `drafting` says, and checked in
   * one step with the last token. A lookup's draft is what followed an earlier occurrence, in
   * prompt or answer, of the last lookup_max to lookup_min tokens (at most 64; 0: the other one, or
   * 5). No answer changes. Drafts pause where they are mostly wrong, or, of a head, where steps
   * without them were measured to be faster. */
  int64_t draft_tokens, lookup_min, lookup_max;
  /* keep no keys and values of prompts for later prompts with the same beginning */
  bool no_prefix_cache;
  bool by_priority; /* order requests by priority, then by age; else by age alone */
  enum omma_scheduling scheduling;
  /* Milliseconds that an answer may wait for others in all, before it goes on as if it were read
   * token by token. 0: 30,000. */
  int64_t max_wait_ms;
  /* Bytes of the requests that wait, without the pixels of their images: tokens, positions, keys. A
   * request always fits where no other waits. 0: 1 GiB. */
  int64_t queue_bytes;
  /* What computes: a team of the host's (omma/team.h) with at most as many workers as the model has
   * threads, which nobody else runs on while the engine lives. NULL: a pool of the engine's own. */
  const struct omma_team *team;
  enum omma_drafting drafting;
  /* Of several engines (omma_model_options.n_engines): one that works on a step or slice for longer
   * than this is out. It gets no more requests, and those that it has begin again at the others,
   * with the same answers; nothing is called twice. Once it goes on it is in again. 1 or more; 0:
   * 60,000. */
  int64_t stuck_ms;
  /* Called when an engine is out (answers: false), and when it is in again, by a thread of its own.
   * NULL: it is not reported. */
  void (*on_engine_state)(void *context, int engine, bool answers);
  void *on_engine_state_context;
};

/* Estimates the memory before anything is allocated. n_patches: of the largest image expected; 0:
 * the patch budget. Works for config_only models. Errors: ARGUMENT, LIMIT. */
OMMA_API enum omma_status omma_estimate_memory(const struct omma_model *model, const struct omma_engine_options *options,
                                               int64_t n_patches, struct omma_memory_estimate *estimate,
                                               struct omma_error *error);

/* Creates the engine: its thread, its thread pool, its memory. One engine per model at a time, else
 * BUSY; with omma_model_options.n_engines it consists of several, and the options hold for each.
 * The caller destroys it before the model. */
OMMA_API enum omma_status omma_engine_create(struct omma_model *model, const struct omma_engine_options *options,
                                             struct omma_engine **engine, struct omma_error *error);
/* Maximum tokens of prompt and answer of one request together: the model's limit, or the KV cache's
 * if that is lower. */
OMMA_API int64_t omma_engine_max_model_len(const struct omma_engine *engine);
/* Of how many engines it consists; and the counters of one, from 0 on. `alive` is false while it is
 * out. */
OMMA_API int omma_engine_count(const struct omma_engine *engine);
OMMA_API void omma_engine_get_stats_of(const struct omma_engine *engine, int index, struct omma_engine_stats *stats);
/* Puts an engine to sleep that nobody needs for a while. From now on submit and omma_encode give
 * BUSY (field "asleep"); what was submitted before ends as usual, and is waited for. Then the
 * memory of the KV cache, of workspaces, and of all that is kept for later requests (prompts,
 * encoded and resized images) is the system's, of each of several engines but for one that is out.
 * Weights stay. An engine that sleeps goes on sleeping. Any thread but the engine's. Errors:
 * CANCELLED: it was woken first. */
OMMA_API enum omma_status omma_engine_sleep(struct omma_engine *engine, struct omma_error *error);
/* From now on requests are taken again, with the same answers to the bit; memory is taken as they
 * need it. Of an engine that is awake: nothing. Any thread. */
OMMA_API void omma_engine_wake(struct omma_engine *engine);
/* Cancels all waiting and running requests, calls the on_finish of each, joins the thread and frees
 * everything. One of several engines that is out is not waited for: it stays with all it uses, and
 * omma_model_close then frees nothing. NULL is allowed. */
OMMA_API void omma_engine_destroy(struct omma_engine *engine);

enum omma_stage { OMMA_STAGE_QUEUED = 0, OMMA_STAGE_ENCODE = 1, OMMA_STAGE_PREFILL = 2, OMMA_STAGE_DECODE = 3 };

struct omma_top_logprob {
  int32_t token;
  float logprob;
};

/* One generated token. `text` is the text that can be shown now: complete characters, without
 * anything that may yet become a stop string. It may be empty. With `last`, it includes everything
 * that was held back. Pointers live during the callback. */
struct omma_token_event {
  int64_t index;
  int32_t token;
  const char *text;
  size_t text_size;
  const char *reasoning; /* text that comes before `text` */
  size_t reasoning_size;
  bool in_reasoning; /* the token belongs to the reasoning or its marks */
  bool has_logprob;
  /* Natural logarithm, of the model's own distribution, before penalties and temperature. */
  float logprob;
  const struct omma_top_logprob *top;
  int n_top;
  bool last;
  enum omma_finish finish; /* with last */
  int engine;              /* of several, from 0, that generated it */
};

/* A prompt token, from the second one on. Pointers live during the callback. */
struct omma_prompt_token_event {
  /* index: in the prompt, from 1. rank: the number of tokens that are at least as likely, including
   * this one. */
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
  int64_t n_reasoning_tokens; /* of the completion's tokens, up to the reasoning's end mark */
  int64_t n_cached_tokens;    /* prompt tokens whose keys and values came from an earlier prompt */
  int64_t n_preemptions;      /* times that it gave its pages up for older ones */
  int32_t stop_token;         /* the id that ended the answer, or -1 */
  /* The string that ended the answer, or NULL. It is the request's copy and lives as long as the
   * request, also after on_finish and omma_generate. */
  const char *stop_string;
  struct omma_timings timings;
  struct omma_error error; /* with OMMA_FINISH_ERROR */
  int engine;              /* of several, from 0, the one that answered */
};

struct omma_embeddings;
struct omma_vectors;

/* An engine works on up to max_sequences requests at the same time. The tokens and
 * log-probabilities of a request are bit-identical to those of the request alone.
 *
 * The engine's thread calls the callbacks. They must be quick and must not call the engine, except
 * omma_engine_cancel. Each may be NULL. on_token cancels the request by returning false. on_finish
 * is called exactly once for each submitted request, as the last call. */
struct omma_callbacks {
  size_t struct_size; /* sizeof this struct, or 0: see above */
  void *context;
  void (*on_progress)(void *context, enum omma_stage stage, int64_t done, int64_t total);
  bool (*on_token)(void *context, const struct omma_token_event *event);
  void (*on_finish)(void *context, const struct omma_result *result);
  /* In order, before the first on_token. */
  void (*on_prompt_token)(void *context, const struct omma_prompt_token_event *event);
  /* Of a request of the kind ENCODE: the outputs for its images and videos, in order. Called before
   * an on_finish with OMMA_FINISH_STOP. The callee owns the embeddings; any thread may destroy
   * them, before the engine is destroyed. */
  void (*on_embeddings)(void *context, struct omma_embeddings *embeddings);
  /* Of a request of the kind EMBED or SCORE, before an on_finish with OMMA_FINISH_STOP. The vectors
   * live during the callback. */
  void (*on_vectors)(void *context, const struct omma_vectors *vectors);
};

/* Puts a request into the queue. Thread-safe. The request must live until on_finish; the callbacks
 * are copied. Errors: ARGUMENT (field "messages": no image in a request to encode), UNSUPPORTED
 * (field "kind"), BUSY (the queue is full), LIMIT (the request could never fit into the KV cache),
 * CANCELLED (the engine is being destroyed). */
OMMA_API enum omma_status omma_engine_submit(struct omma_engine *engine, const struct omma_request *request,
                                             const struct omma_callbacks *callbacks, uint64_t *id, struct omma_error *error);
/* Cancels a request at its next step; on_finish follows with OMMA_FINISH_CANCELLED. Unknown and
 * finished ids are ignored. Thread-safe. */
OMMA_API void omma_engine_cancel(struct omma_engine *engine, uint64_t id);

/* Submits a request and waits for its end. Returns the error of the request if it fails. Returns OK
 * also if on_token cancelled it. */
OMMA_API enum omma_status omma_generate(struct omma_engine *engine, const struct omma_request *request,
                                        const struct omma_callbacks *callbacks, struct omma_result *result,
                                        struct omma_error *error);

/* Counters since the engine was created, of several engines their sums; `alive` where one is. */
OMMA_API void omma_engine_get_stats(const struct omma_engine *engine, struct omma_engine_stats *stats);

/* ---- embeddings ---- */

/* The tower's output for one image: merged [n_tokens, width] f32, and n_deepstack tensors of the
 * same shape. Owned by the embeddings. */
struct omma_image_embeddings {
  int64_t grid_thw[3];
  int64_t n_tokens, width;
  const float *merged;
  int64_t n_deepstack;
  const float *const *deepstack;
};

/* Encodes images on the engine and waits. With `together` they run as one packed batch (in several
 * batches if they exceed the patch budget or are more than 64). The results are bit-identical
 * either way. The caller destroys the embeddings. Errors: as omma_engine_submit, and those of the
 * images. */
OMMA_API enum omma_status omma_encode(struct omma_engine *engine, const struct omma_image *const *images, size_t n_images,
                                      const struct omma_image_options *options, bool together, omma_progress progress,
                                      void *progress_context, struct omma_embeddings **embeddings, struct omma_error *error);
OMMA_API void omma_embeddings_get(const struct omma_embeddings *embeddings, size_t index, struct omma_image_embeddings *out);
/* The output for one image in vLLM's layout: rows [n_tokens, (1 + n_deepstack) * width]. A token's
 * row is its row of `merged` followed by its row of each deepstack tensor. In f32, or in bf16
 * rounded to nearest. */
OMMA_API void omma_embeddings_copy_rows(const struct omma_embeddings *embeddings, size_t index, enum omma_dtype type,
                                        void *rows);

/* The time of omma_encode, in seconds. For work that threads share, the mean over the threads is
 * used, so the parts add up to `total`. */
struct omma_encode_timings {
  double total;
  double preprocess;    /* resizing, and cutting into normalised patches */
  double patch_embed;   /* with positions */
  double attention;     /* of all blocks */
  double linear;        /* layers of all blocks and mergers, with activations */
  double rest;          /* norms, rotary positions, waiting */
  double longest_slice; /* of n_slices; between two slices cancellations are checked */
  int64_t n_slices;
};
OMMA_API void omma_embeddings_get_timings(const struct omma_embeddings *embeddings, struct omma_encode_timings *timings);
OMMA_API void omma_embeddings_destroy(struct omma_embeddings *embeddings);

#ifdef __cplusplus
}
#endif

#endif
