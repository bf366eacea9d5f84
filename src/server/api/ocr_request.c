#include "server/api/ocr_request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "server/api/answer_fields.h"
#include "server/core/request_json.h"
#include "server/state/server_state.h"

#define DEFAULT_DPI 200
#define MIN_DPI 30
#define MAX_DPI 600
#define MAX_PAGE 1000000

static bool read_document(const json_t *root, struct ommai_ocr_request *request, struct ommai_api_error *error) {
  const json_t *document = ommai_field_get(root, "document"), *image;
  const char *type = NULL;
  if (!json_is_object(document)) return ommai_api_fail(error, 400, "document", "Field required: document, an object.");
  if (!ommai_field_string(document, "type", &type, error)) return false;
  if (!type) type = ommai_field_get(document, "image_url") ? "image_url" : "document_url";
  if (strcmp(type, "file") == 0) {
    return ommai_api_fail(
        error, 400, "document",
        "document.type: this server keeps no files: send the document as a data: URL with type document_url.");
  }
  image = ommai_field_get(document, "image_url");
  if (strcmp(type, "image_url") == 0 && json_is_object(image)) {
    if (!ommai_field_string(image, "url", &request->url, error)) return false;
  } else if (strcmp(type, "image_url") == 0 || strcmp(type, "document_url") == 0) {
    if (!ommai_field_string(document, type, &request->url, error)) return false;
  } else {
    return ommai_api_fail(error, 400, "document", "document.type must be document_url or image_url.");
  }
  return request->url || ommai_api_fail(error, 400, "document", "Field required: document.%s.", type);
}

/* Fields that would change the answer, and why they do not. */
static bool refuse(const json_t *root, const char *const *fields, const char *why, struct ommai_api_error *error) {
  for (; *fields; fields++) {
    if (ommai_field_get(root, *fields)) return ommai_api_fail(error, 400, *fields, "%s %s.", *fields, why);
  }
  return true;
}

static bool check_unsupported(const json_t *root, struct ommai_api_error *error) {
  static const char *const of_mistral[] = {"bbox_annotation_format", "document_annotation_format", "document_annotation_prompt",
                                           "confidence_scores_granularity", NULL};
  static const char *const of_chat[] = {"max_tokens",
                                        "max_completion_tokens",
                                        "temperature",
                                        "top_p",
                                        "top_k",
                                        "min_p",
                                        "seed",
                                        "stop",
                                        "n",
                                        "presence_penalty",
                                        "frequency_penalty",
                                        "repetition_penalty",
                                        "no_repeat_ngram_size",
                                        "logit_bias",
                                        "response_format",
                                        "messages",
                                        "prompt",
                                        NULL};
  return refuse(root, of_mistral, "is not supported: ask about pages by /v1/chat/completions", error) &&
         refuse(root, of_chat,
                "is not a field of /v1/ocr: ommatidia.recipe and ommatidia.prompt choose how pages are asked about", error);
}

static bool read_table_format(const json_t *root, struct ommai_ocr_request *request, struct ommai_api_error *error) {
  const char *format = NULL;
  if (!ommai_field_string(root, "table_format", &format, error)) return false;
  request->tables_apart = format != NULL;
  if (!format || strcmp(format, "html") == 0) return true;
  return ommai_api_fail(error, 400, "table_format",
                        "table_format must be \"html\" or null, with which tables stand as HTML in "
                        "the Markdown.");
}

static const struct ommai_reading_recipe *default_recipe(const struct ommai_server *server) {
  const struct ommai_reading_recipe *recipe =
      server->config.info.directory ? ommai_reading_recipe_of_model(server->config.info.directory) : NULL;
  for (size_t i = 0; i < server->config.n_model_names && !recipe; i++)
    recipe = ommai_reading_recipe_of_model(server->config.model_names[i]);
  return recipe ? recipe : ommai_reading_recipe_find("page");
}

static bool fail_recipe(const char *recipe, struct ommai_api_error *error) {
  char names[256] = "";
  const struct ommai_reading_recipe *known;
  for (size_t i = 0; (known = ommai_reading_recipe_at(i)); i++) ommai_list_entry(names, sizeof names, "%s", known->name);
  return ommai_api_fail(error, 400, "ommatidia", "ommatidia.recipe: \"%.64s\" is not known; known are %s.", recipe, names);
}

static bool read_own(const struct ommai_server *server, const json_t *root, struct ommai_ocr_request *request,
                     struct ommai_api_error *error) {
  static const char *const known[] = {"recipe", "prompt", "dpi", "page_images", NULL};
  const json_t *own;
  const char *recipe = NULL;
  request->dpi = DEFAULT_DPI;
  if (!ommai_field_object(root, "ommatidia", known, &own, error) || !ommai_field_string(own, "recipe", &recipe, error) ||
      !ommai_field_string(own, "prompt", &request->prompt, error) ||
      !ommai_field_integer(own, "dpi", MIN_DPI, MAX_DPI, &request->dpi, error) ||
      !ommai_field_boolean(own, "page_images", &request->page_images, error)) {
    return false;
  }
  request->recipe = recipe            ? ommai_reading_recipe_find(recipe)
                    : request->prompt ? ommai_reading_recipe_find("page")
                                      : default_recipe(server);
  return request->recipe || fail_recipe(recipe, error);
}

bool ommai_ocr_is_served(const struct ommai_server *server) {
  return server->readers && server->config.reads_pdf && server->config.settings.limit_images_per_prompt > 0 &&
         !server->config.info.encoder_only && server->config.info.task == OMMA_TASK_GENERATE;
}

bool ommai_ocr_request_read(const struct ommai_server *server, const json_t *root, struct ommai_ocr_request *request,
                            struct ommai_api_error *error) {
  *request = (struct ommai_ocr_request){.image_limit = INT64_MAX, .include_blocks = true};
  request->pages = ommai_field_get(root, "pages");
  if (request->pages && !json_is_array(request->pages) && !ommai_json_is_text(request->pages)) {
    return ommai_api_fail(error, 400, "pages", "pages must be a list of numbers from 0, or a text such as \"0,2-4\".");
  }
  return ommai_model_read(&server->config, root, &request->model, error) && read_document(root, request, error) &&
         check_unsupported(root, error) && read_table_format(root, request, error) &&
         ommai_field_boolean(root, "include_image_base64", &request->include_images, error) &&
         ommai_field_integer(root, "image_limit", 0, INT32_MAX, &request->image_limit, error) &&
         ommai_field_integer(root, "image_min_size", 0, INT32_MAX, &request->image_min_size, error) &&
         ommai_field_boolean(root, "extract_header", &request->extract_header, error) &&
         ommai_field_boolean(root, "extract_footer", &request->extract_footer, error) &&
         ommai_field_boolean(root, "include_blocks", &request->include_blocks, error) &&
         ommai_field_boolean(root, "stream", &request->stream, error) && read_own(server, root, request, error);
}

/* Marks pages from `first` to `last`. */
static bool mark(int64_t first, int64_t last, int64_t n_pages, bool *wanted, struct ommai_api_error *error) {
  if (first == last && (first < 0 || first >= n_pages)) {
    return ommai_api_fail(error, 400, "pages", "pages: %" PRId64 ": the document has pages 0 to %" PRId64 ".", first,
                          n_pages - 1);
  }
  if (first < 0 || last < first || last >= n_pages) {
    return ommai_api_fail(error, 400, "pages", "pages: %" PRId64 "-%" PRId64 ": the document has pages 0 to %" PRId64 ".",
                          first, last, n_pages - 1);
  }
  for (int64_t page = first; page <= last; page++) wanted[page] = true;
  return true;
}

/* A number of digits at *text, which is moved behind it; -1: there is none. */
static int64_t read_number(const char **text) {
  int64_t value = -1;
  for (; **text >= '0' && **text <= '9' && value <= MAX_PAGE; (*text)++) value = (value < 0 ? 0 : value * 10) + (**text - '0');
  return value;
}

static bool mark_text(const char *text, int64_t n_pages, bool *wanted, struct ommai_api_error *error) {
  for (const char *at = text;; at++) {
    at += strspn(at, " ");
    int64_t first = read_number(&at), last = first;
    if (*at == '-') {
      at++;
      last = read_number(&at);
    }
    at += strspn(at, " ");
    if (first < 0 || last < 0 || (*at && *at != ',')) {
      return ommai_api_fail(error, 400, "pages", "pages: expected numbers from 0 and ranges of them, such as \"0,2-4\".");
    }
    if (!mark(first, last, n_pages, wanted, error)) return false;
    if (!*at) return true;
  }
}

static bool mark_list(const json_t *list, int64_t n_pages, bool *wanted, struct ommai_api_error *error) {
  json_t *value;
  size_t i;
  json_array_foreach(list, i, value) {
    int64_t page = json_integer_value(value);
    if (!json_is_integer(value)) return ommai_api_fail(error, 400, "pages", "pages[%zu] must be a number from 0.", i);
    if (!mark(page, page, n_pages, wanted, error)) return false;
  }
  return true;
}

int64_t ommai_ocr_request_pages(const struct ommai_ocr_request *request, int64_t n_pages, int64_t max_pages, bool *wanted,
                                struct ommai_api_error *error) {
  int64_t n = 0;
  bool good = !request->pages                      ? mark(0, n_pages - 1, n_pages, wanted, error)
              : ommai_json_is_text(request->pages) ? mark_text(json_string_value(request->pages), n_pages, wanted, error)
                                                   : mark_list(request->pages, n_pages, wanted, error);
  for (int64_t i = 0; good && i < n_pages; i++) n += wanted[i];
  if (good && !n) ommai_api_fail(error, 400, "pages", "pages names no page.");
  if (n <= max_pages) return n;
  ommai_api_fail(error, 400, "pages",
                 "The request is about %" PRId64 " pages, but this server reads at most %" PRId64
                 " at once: send several requests with `pages`.",
                 n, max_pages);
  return 0;
}
