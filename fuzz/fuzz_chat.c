/* Requests in typed form, and what they name by a URL. Byte 0 chooses: a chat request, of one of
 * three interfaces, the fields of an answer and token ids of a completion, or a URL of media. A
 * refusal is a status with a message; what is accepted is within its limits. */
#include <string.h>
#include <unistd.h>

#include "base/allocator.h"
#include "fuzz_folder.h"
#include "fuzz_input.h"
#include "server/api/answer_fields.h"
#include "server/api/chat_request.h"
#include "server/api/media.h"
#include "server/api/other_requests.h"
#include "server/api/token_fields.h"
#include "server/core/request_json.h"
#include "server/state/server_state.h"

static struct ommai_media_root *opened_root;

static void close_root(void) { ommai_media_root_close(opened_root); }

static struct ommai_server *server(void) {
  static char name[] = "m";
  static struct ommai_server made = {
      .config = {.allocator = &ommai_default_allocator,
                 .info = {.vocab_size = 1000, .max_model_len = 4096},
                 .model_names = {name},
                 .n_model_names = 1,
                 .settings = {.limit_images_per_prompt = 4,
                              .limit_videos_per_prompt = 2,
                              .image_limits = {.max_bytes = 1 << 20, .max_side = 4000, .max_pixels = 1 << 16}}}};
  if (!made.config.media_root.opened) {
    FUZZ_CHECK(ommai_media_root_open(fuzz_folder(), &made.config.media_root, NULL) == OMMA_OK);
    opened_root = &made.config.media_root;
    atexit(close_root);
  }
  return &made;
}

static void check_refusal(const struct ommai_api_error *error) {
  FUZZ_CHECK(error->status >= 400 && error->status < 600 && memchr(error->message, 0, sizeof error->message));
  FUZZ_CHECK(error->message[0]);
}

static void check_fields(const struct ommai_answer_fields *fields) {
  FUZZ_CHECK(fields->n >= 1 && fields->n <= 1 << 20);
  FUZZ_CHECK(fields->sampling.n_stop <= OMMA_MAX_STOP_STRINGS);
  FUZZ_CHECK(fields->sampling.n_stop_token_ids <= OMMAI_FIELD_MAX_STOP_TOKENS);
  FUZZ_CHECK(fields->sampling.temperature >= 0 && fields->sampling.temperature <= 2);
  FUZZ_CHECK(fields->sampling.n_top_logprobs >= 0 && fields->sampling.n_top_logprobs <= OMMA_MAX_TOP_LOGPROBS);
}

static void try_chat(const struct ommai_chat_source *source, bool messages_only) {
  struct ommai_chat_request request;
  struct ommai_api_error error = {.status = 0};
  if (ommai_chat_request_read(server(), source, messages_only, &request, &error)) {
    FUZZ_CHECK(request.n_messages > 0 && request.n_parts_used <= request.n_parts);
    FUZZ_CHECK(request.n_images <= 4 && request.n_videos <= 2);
    if (!messages_only) check_fields(&request.fields);
    struct ommai_text repeated = ommai_text_of(&ommai_default_allocator);
    if (source->original) ommai_responses_request_write(&request, &repeated);
    FUZZ_CHECK(!repeated.failed);
    ommai_text_free(&repeated);
  } else {
    check_refusal(&error);
  }
  ommai_chat_request_destroy(&request);
}

static void try_other(json_t *root, bool responses, bool count_only) {
  struct ommai_chat_source source;
  struct ommai_api_error error = {.status = 0};
  bool good = responses ? ommai_responses_request_read(root, &source, &error)
                        : ommai_messages_request_read(&server()->config, root, count_only, &source, &error);
  if (good) {
    try_chat(&source, count_only);
  } else {
    check_refusal(&error);
  }
}

static void try_completion(json_t *root) {
  struct ommai_answer_fields fields = {.n = 1};
  struct ommai_api_error error = {.status = 0};
  int32_t *tokens = NULL;
  size_t n_tokens = 0;
  if (ommai_answer_fields_read(server(), root, 16, &fields, &error)) {
    check_fields(&fields);
  } else {
    check_refusal(&error);
  }
  const json_t *prompt = json_object_get(root, "prompt");
  if (json_is_array(prompt)) {
    if (ommai_token_array_read(&server()->config, prompt, "prompt", &tokens, &n_tokens, &error)) {
      for (size_t i = 0; i < n_tokens; i++) FUZZ_CHECK(tokens[i] >= 0 && tokens[i] < 1000);
      ommai_release(&ommai_default_allocator, tokens, n_tokens, sizeof *tokens);
    } else {
      check_refusal(&error);
    }
  }
  ommai_answer_fields_free(server(), &fields);
  json_decref(root);
}

static void try_url(const char *url, size_t size) {
  struct omma_image *image = NULL;
  struct ommai_api_error error = {.status = 0};
  struct ommai_stop stop = {.ask = NULL};
  struct ommai_media_file file = {.bytes = NULL};
  bool done =
      ommai_media_read(server(), url, size, &stop, &file, &error) && ommai_media_decode(server(), &file, 10000, &image, &error);
  ommai_media_file_free(server(), &file);
  if (done) {
    FUZZ_CHECK(image && (int64_t)omma_image_width(image) * omma_image_height(image) <= 1 << 16);
  } else {
    FUZZ_CHECK(!image);
    check_refusal(&error);
    /* No file of the server is named but by what the client wrote itself. */
    FUZZ_CHECK(memmem(url, size, fuzz_folder(), strlen(fuzz_folder())) || !strstr(error.message, fuzz_folder()));
  }
  omma_image_destroy(image);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (size < 1) return 0;
  const char *text = (const char *)bytes + 1;
  int kind = bytes[0] % 8;
  if (kind == 3 || kind == 7) {
    try_url(text, size - 1);
    return 0;
  }
  struct ommai_api_error error = {.status = 0};
  json_t *root = ommai_request_parse(text, size - 1, &error);
  if (!root) {
    check_refusal(&error);
  } else if (kind == 2) {
    try_completion(root);
  } else if (kind > 3) {
    try_other(root, kind == 4, kind == 6);
  } else {
    try_chat(&(struct ommai_chat_source){.root = root}, kind == 1);
  }
  return 0;
}
