/* Models, requests and answers for the tests of engine/ and models/: the golden checkpoints, copies
 * of them with one thing changed, what a client sees of an answer, and a gate that holds the
 * engine's thread inside a callback. */
#pragma once

#include <omma/omma.h>
#include <pthread.h>

#include "support/weights_files.h"

/* Opens a golden model; options NULL: f32, one thread, 1,024 tokens of context. */
struct omma_model *fixture_model(const char *name, const struct omma_model_options *options);
/* Opens a golden model whose layers see windows, or one with a layer that sees all, a recurrent one
 * (toy_mixer) and one with a window. */
enum fixture_groups { FIXTURE_SLIDING, FIXTURE_ALTERNATING, FIXTURE_HYBRID, FIXTURE_GROUPS };
struct omma_model *fixture_groups_model(enum fixture_groups groups, const struct omma_model_options *options);
/* An engine with these options, NULL for the defaults. */
struct omma_engine *fixture_engine(struct omma_model *model, const struct omma_engine_options *options);
/* The bytes of that many KV pages: a page has the elements of the linear layers, whose type follows
 * the CPU level where none is asked for. */
int64_t fixture_kv_bytes(const struct omma_model *model, int64_t n_pages);
/* An image of tests/golden/images. */
struct omma_image *fixture_image(const char *name);
/* One user message: the images, then the text. sampling may be NULL. */
struct omma_request *fixture_request(const struct omma_model *model, const struct omma_image *const *images, size_t n_images,
                                     const char *text, const struct omma_sampling *sampling);

enum { FIXTURE_MAX_TOKENS = 512, FIXTURE_MAX_TEXT = 16384 };

struct fixture_answer {
  int32_t tokens[FIXTURE_MAX_TOKENS];
  float logprobs[FIXTURE_MAX_TOKENS];
  size_t n;
  char text[FIXTURE_MAX_TEXT];
  size_t text_size;
  int n_last;
};

/* on_token: context is a struct fixture_answer. */
bool fixture_collect(void *context, const struct omma_token_event *event);

/* Generates into `answer` (cleared first) and waits; fails the test on an error. */
struct omma_result fixture_ask(struct omma_engine *engine, const struct omma_request *request, struct fixture_answer *answer);
void fixture_expect_equal(const struct fixture_answer *a, const struct fixture_answer *b);

/* A gate: whoever passes waits until it is opened. */
struct fixture_gate {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int n_arrived;
  bool open;
};
void fixture_gate_init(struct fixture_gate *gate, bool open);
void fixture_gate_destroy(struct fixture_gate *gate);
void fixture_gate_pass(struct fixture_gate *gate);
void fixture_gate_await(struct fixture_gate *gate, int n_arrived);
void fixture_gate_open(struct fixture_gate *gate);

/* Copies one file; a whole checkpoint (everything that omma_model_open reads) into a new folder;
 * its three configuration files. */
void fixture_copy_file(const char *from, const char *to);
void fixture_copy_checkpoint(const char *model, char folder[TEST_PATH_SIZE]);
void fixture_copy_config(const char *model, char folder[TEST_PATH_SIZE]);

/* Sets "a.b.c" of a JSON file to the value that `json` spells; NULL removes the key. */
void fixture_set_key(const char *folder, const char *file, const char *key, const char *json);

/* A whole file; the caller frees. */
unsigned char *fixture_read(const char *path, size_t *size);
