/* Prompts of vectors and scores: the messages of the model's own form. */
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/sized.h"
#include "families/vector_rules.h"
#include "request/request_make.h"
#include "request/vectors.h"
#include "text/unicode.h"
#include "text/utf8.h"

/* Parts of a user's message, of room for all. */
struct draft {
  struct omma_part *parts;
  size_t n;
};

static struct omma_part text_part(const char *text) { return (struct omma_part){.text = text, .text_size = strlen(text)}; }

static void add_text(struct draft *draft, const char *text) { draft->parts[draft->n++] = text_part(text); }

static bool is_empty(const struct omma_part *part) {
  return !part->image && !part->video && part->text_size == 0 && !(part->text && *part->text);
}

enum order { VIDEO, IMAGE, TEXT, N_ORDERS };

static enum order order_of(const struct omma_part *part) { return part->video ? VIDEO : part->image ? IMAGE : TEXT; }

/* Videos, images, texts; where there is none of them, what the rules say instead. Empty texts are
 * none. */
static void add_parts(struct draft *draft, const struct omma_part *parts, size_t n, const struct ommai_vector_rules *rules) {
  size_t before = draft->n;
  for (int order = 0; order < N_ORDERS; order++) {
    for (size_t i = 0; i < n; i++) {
      if ((int)order_of(&parts[i]) == order && !is_empty(&parts[i])) draft->parts[draft->n++] = parts[i];
    }
  }
  if (draft->n == before) add_text(draft, rules->nothing);
}

/* ---- instructions ---- */

/* Without white space around it; *size 0: nothing is left. */
static const char *strip(const char *text, size_t *size) {
  size_t length, n = strlen(text);
  while (n && ommai_utf8_white_space(ommai_utf8_decode(text, &length))) {
    text += length;
    n -= length;
  }
  for (size_t at = n; at-- > 0;) { /* back to where a character begins */
    if (((unsigned char)text[at] & 0xc0) == 0x80) continue;
    if (!ommai_utf8_white_space(ommai_utf8_decode(text + at, &length))) break;
    n = at;
  }
  *size = n;
  return text;
}

static bool ends_with_punctuation(const char *text, size_t size) {
  size_t at = size - 1, length;
  while (((unsigned char)text[at] & 0xc0) == 0x80) at--;
  return ommai_unicode_is_punctuation(ommai_utf8_decode(text + at, &length));
}

/* The instruction of a vector as the model's own code writes it, with a full stop where it ends
 * without punctuation; to be released, `*size` and the NUL. */
static char *complete_instruction(const struct omma_allocator *allocator, const char *given, const char *otherwise,
                                  size_t *size) {
  const char *text = given ? strip(given, size) : NULL;
  if (!text || *size == 0) {
    *size = strlen(otherwise);
    return ommai_duplicate(allocator, otherwise, *size);
  }
  bool complete = ends_with_punctuation(text, *size);
  char *out = ommai_allocate(allocator, *size + 2 - complete, 1);
  if (!out) return NULL;
  memcpy(out, text, *size);
  if (!complete) out[(*size)++] = '.';
  return out;
}

static enum omma_status check_instruction(const char *instruction, struct omma_error *error) {
  size_t offset;
  if (!instruction || ommai_utf8_valid(instruction, strlen(instruction), &offset)) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, "instruction", "instruction: invalid UTF-8 at byte %zu", offset);
}

/* ---- requests ---- */

static enum omma_status check_task(const struct omma_model *model, enum omma_model_task task, struct omma_error *error) {
  static const char *const gives[] = {[OMMA_TASK_GENERATE] = "generates text",
                                      [OMMA_TASK_EMBED] = "gives vectors of inputs",
                                      [OMMA_TASK_SCORE] = "gives scores of documents"};
  bool has_token_vectors = task == OMMA_TASK_EMBED && model->config.text.projected_state;
  if (model->task == task || has_token_vectors) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "model", "the model %s; %s models are such that %s",
                          gives[model->task], ommai_vector_model_name(task),
                          task == OMMA_TASK_EMBED ? "give vectors" : "give scores");
}

/* Two messages; prompts that are too long are cut to what model and engine hold. */
static enum omma_status create(const struct omma_model *model, enum omma_request_kind kind, const struct omma_part *system,
                               const struct draft *user, const struct omma_request_options *given,
                               struct omma_request **request, struct omma_error *error) {
  const struct ommai_vector_rules *rules = model->network.family->vectors;
  const struct omma_message messages[2] = {{.role = OMMA_ROLE_SYSTEM, .parts = system, .n_parts = 1},
                                           {.role = OMMA_ROLE_USER, .parts = user->parts, .n_parts = user->n}};
  struct omma_request_options options = *given;
  size_t last = kind == OMMA_REQUEST_SCORE ? rules->score_kept_last : 0;
  int64_t context = model->max_model_len - 1 - (int64_t)last;
  if (given->max_model_len) context = ommai_min_i64(context, given->max_model_len - 1 - (int64_t)last);
  options.kind = kind;
  options.tools = options.chat_template_kwargs = NULL;
  options.continue_final_message = options.no_generation_prompt = false;
  options.truncation.n_tokens =
      ommai_min_i64(given->truncation.n_tokens ? given->truncation.n_tokens : rules->max_tokens, context);
  return omma_request_create(model, messages, 2, &options, request, error);
}

/* ---- vectors of tokens ---- */

/* The part that is not an empty text; an input without one is an empty text. */
static enum omma_status find_single_part(const struct omma_part *parts, size_t n_parts, struct omma_part *single,
                                         struct omma_error *error) {
  size_t n = 0;
  *single = text_part("");
  for (size_t i = 0; i < n_parts; i++) {
    if (is_empty(&parts[i])) continue;
    *single = parts[i];
    n++;
  }
  if (n <= 1 && !single->video) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "messages",
                          "an input of a model with a vector for each token is one text or one image, found %s",
                          single->video ? "a video" : "several of them");
}

static enum omma_status write_input(const struct omma_model *model, const struct omma_part *part, bool is_document,
                                    struct ommai_prompt_builder *prompt, struct omma_error *error) {
  const struct ommai_token_vector_config *form = &model->config.token_vectors;
  if (part->image) {
    OMMAI_TRY(ommai_prompt_string(prompt, form->before_image, error));
    OMMAI_TRY(ommai_prompt_media(prompt, model->network.family->marks, part, model->config.vision.temporal_patch_size, error));
    return ommai_prompt_string(prompt, form->after_image, error);
  }
  if (!is_document) OMMAI_TRY(ommai_prompt_string(prompt, form->query_prefix, error));
  OMMAI_TRY(ommai_prompt_text(prompt, part->text, part->text_size ? part->text_size : strlen(part->text), error));
  return is_document ? OMMA_OK : ommai_prompt_string(prompt, form->query_suffix, error);
}

static enum omma_status create_for_tokens(const struct omma_model *model, const char *instruction,
                                          const struct omma_part *parts, size_t n_parts,
                                          const struct omma_request_options *given, struct omma_request **request,
                                          struct omma_error *error) {
  struct omma_part part;
  struct omma_request_options options = *given;
  struct ommai_prompt_builder prompt;
  if (instruction && *instruction) {
    return ommai_fail_field(error, OMMA_ERROR_UNSUPPORTED, "instruction",
                            "instruction: a model with a vector for each token takes none");
  }
  OMMAI_TRY(find_single_part(parts, n_parts, &part, error));
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  options.kind = OMMA_REQUEST_EMBED;
  ommai_prompt_builder_init(&prompt, &model->allocator);
  enum omma_status status = write_input(model, &part, given->is_document != 0, &prompt, error);
  if (status == OMMA_OK) status = ommai_request_create_prompt(model, &message, 1, &prompt, &options, request, error);
  ommai_prompt_builder_free(&prompt);
  return status;
}

enum omma_status omma_request_create_embed(const struct omma_model *model, const char *instruction,
                                           const struct omma_part *parts, size_t n_parts,
                                           const struct omma_request_options *options, struct omma_request **request,
                                           struct omma_error *error) {
  OMMAI_TAKE_OPTIONS(omma_request_options, options, error);
  const struct ommai_vector_rules *rules = model->network.family->vectors;
  OMMAI_TRY(check_task(model, OMMA_TASK_EMBED, error));
  if (model->config.text.projected_state) {
    return create_for_tokens(model, instruction, parts, n_parts, options, request, error);
  }
  OMMAI_TRY(check_instruction(instruction, error));
  struct draft user = {.parts = ommai_allocate(&model->allocator, n_parts + 1, sizeof *user.parts)};
  size_t size = 0;
  char *text = complete_instruction(&model->allocator, instruction, rules->instruction, &size);
  enum omma_status status;
  if (!user.parts || !text) {
    status = ommai_fail_memory(error, "prompt", (n_parts + 1) * sizeof *user.parts + size);
  } else {
    const struct omma_part system = text_part(text);
    add_parts(&user, parts, n_parts, rules);
    status = create(model, OMMA_REQUEST_EMBED, &system, &user, options, request, error);
  }
  if (text) ommai_release(&model->allocator, text, size + 1, 1);
  ommai_release(&model->allocator, user.parts, n_parts + 1, sizeof *user.parts);
  return status;
}

enum omma_status omma_request_create_score(const struct omma_model *model, const char *instruction,
                                           const struct omma_part *query, size_t n_query, const struct omma_part *document,
                                           size_t n_document, const struct omma_request_options *options,
                                           struct omma_request **request, struct omma_error *error) {
  enum { OWN_PARTS = 6 }; /* three openings, the instruction, and what stands for nothing, twice */
  OMMAI_TAKE_OPTIONS(omma_request_options, options, error);
  const struct ommai_vector_rules *rules = model->network.family->vectors;
  OMMAI_TRY(check_task(model, OMMA_TASK_SCORE, error));
  OMMAI_TRY(check_instruction(instruction, error));
  size_t room = n_query + n_document + OWN_PARTS;
  struct draft user = {.parts = ommai_allocate(&model->allocator, room, sizeof *user.parts)};
  if (!user.parts) return ommai_fail_memory(error, "prompt", room * sizeof *user.parts);
  const struct omma_part system = text_part(rules->score_system);
  add_text(&user, rules->before_instruction);
  add_text(&user, instruction && *instruction ? instruction : rules->score_instruction);
  add_text(&user, rules->before_query);
  add_parts(&user, query, n_query, rules);
  add_text(&user, rules->before_document);
  add_parts(&user, document, n_document, rules);
  enum omma_status status = create(model, OMMA_REQUEST_SCORE, &system, &user, options, request, error);
  ommai_release(&model->allocator, user.parts, room, sizeof *user.parts);
  return status;
}
