/* Chat templates: how a checkpoint's is found, that the released ones render conversations as
 * transformers renders them, and that none leaves out anything unnoticed.
 * tools/make_chat_templates.py makes tests/data/chat. */
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "families/family.h"
#include "families/template_prompt.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

static json_t *load_data(const char *name) {
  char path[1024];
  json_error_t reason;
  snprintf(path, sizeof path, "%s/data/chat/%s", OMMA_TEST_DATA, name);
  json_t *root = json_load_file(path, 0, &reason);
  if (!root) fail_msg("%s: %s", path, reason.text);
  return root;
}

/* ---- rendering ---- */

static const struct omma_image *const image = (const struct omma_image *)"only its address is used";
static const struct omma_video video = {.n_frames = 2, .fps = 2};

enum { MAX_MESSAGES = 8, MAX_PARTS = 8, MAX_PROMPT = 8192 };

/* Strings of JSON are freed with the conversation. */
struct conversation {
  struct omma_message messages[MAX_MESSAGES];
  struct omma_part parts[MAX_MESSAGES][MAX_PARTS];
  size_t n_messages;
  char *fields[MAX_MESSAGES], *tools, *kwargs;
};

static enum omma_role role_of(const json_t *message) {
  const char *role = json_string_value(json_object_get(message, "role"));
  if (strcmp(role, "tool") == 0) return OMMA_ROLE_TOOL;
  return strcmp(role, "system") == 0 ? OMMA_ROLE_SYSTEM : strcmp(role, "user") == 0 ? OMMA_ROLE_USER : OMMA_ROLE_ASSISTANT;
}

/* What a message has besides its role and content; NULL: nothing. */
static char *fields_of(const json_t *message) {
  json_t *copy = json_copy((json_t *)(uintptr_t)message);
  json_object_del(copy, "role");
  json_object_del(copy, "content");
  char *text = json_object_size(copy) ? json_dumps(copy, 0) : NULL;
  json_decref(copy);
  return text;
}

static char *text_of(const json_t *value) { return value ? json_dumps(value, 0) : NULL; }

static void read_conversation(const json_t *this_case, struct conversation *out) {
  const json_t *list = json_object_get(this_case, "messages"), *message, *part;
  size_t i, j;
  *out = (struct conversation){.n_messages = json_array_size(list)};
  out->tools = text_of(json_object_get(this_case, "tools"));
  out->kwargs = text_of(json_object_get(this_case, "kwargs"));
  assert_true(out->n_messages <= MAX_MESSAGES);
  json_array_foreach(list, i, message) {
    const json_t *content = json_object_get(message, "content");
    out->fields[i] = fields_of(message);
    out->messages[i] = (struct omma_message){role_of(message), out->parts[i], json_array_size(content), out->fields[i]};
    assert_true(json_array_size(content) <= MAX_PARTS);
    json_array_foreach(content, j, part) {
      const char *type = json_string_value(json_object_get(part, "type"));
      const char *text = json_string_value(json_object_get(part, "text"));
      if (strcmp(type, "image") == 0) {
        out->parts[i][j].image = image;
      } else if (strcmp(type, "video") == 0) {
        out->parts[i][j].video = &video;
      } else {
        out->parts[i][j].text = text;
        out->parts[i][j].text_size = strlen(text);
      }
    }
  }
}

static void free_conversation(struct conversation *talk) {
  for (size_t i = 0; i < talk->n_messages; i++) free(talk->fields[i]);
  free(talk->tools);
  free(talk->kwargs);
}

/* The prompt with one marker where images and videos stand, as templates write it. */
static void prompt_text(const struct ommai_prompt_builder *builder, const char *image_pad, char out[MAX_PROMPT]) {
  size_t at = 0, n = 0;
  for (size_t i = 0; i <= builder->n_images; i++) {
    size_t end = i < builder->n_images ? builder->images[i].at : builder->size;
    const char *pad = i == builder->n_images ? "" : builder->images[i].part->video ? "<|video_pad|>" : image_pad;
    assert_true(n + (end - at) + strlen(pad) < MAX_PROMPT);
    if (end > at) memcpy(out + n, builder->text + at, end - at);
    n += end - at;
    strcpy(out + n, pad);
    n += strlen(pad);
    at = end;
  }
  out[n] = '\0';
}

/* A released template. */
struct released {
  const char *name;
  const struct ommai_family *family;
  struct ommai_chat_choice choice;
};

static void read_released(struct released *released) {
  static char text[16384];
  char path[1024];
  struct omma_error error;
  snprintf(path, sizeof path, "%s/data/chat/templates/%s.jinja", OMMA_TEST_DATA, released->name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(text, 1, sizeof text, file);
  fclose(file);
  assert_ok(ommai_chat_template_take(path, text, size, &ommai_default_allocator, released->family, &released->choice, &error),
            &error);
  assert_string_equal(released->choice.problem, "");
}

static void compare_prompt(const json_t *this_case, const struct released *released) {
  const char *name = json_string_value(json_object_get(this_case, "name"));
  const char *expected = json_string_value(json_object_get(json_object_get(this_case, "prompts"), released->name));
  struct conversation talk;
  struct ommai_prompt_builder builder;
  struct omma_error error;
  char text[MAX_PROMPT];
  read_conversation(this_case, &talk);
  ommai_prompt_builder_init(&builder, &ommai_default_allocator);
  const struct ommai_conversation conversation = {
      .messages = talk.messages,
      .n_messages = talk.n_messages,
      .tools = talk.tools,
      .kwargs = talk.kwargs,
      .temporal_patch_size = 2,
      .continue_final_message = json_is_true(json_object_get(this_case, "continue_final_message"))};
  enum omma_status status = ommai_conversation_render(&released->choice, &conversation, &builder, &error);
  if (expected && status != OMMA_OK) fail_msg("%s: %s: %s", released->name, name, error.message);
  if (!expected && status != OMMA_ERROR_ARGUMENT && status != OMMA_ERROR_UNSUPPORTED)
    fail_msg("%s: %s: rendered", released->name, name);
  if (expected) {
    prompt_text(&builder, released->family->marks->image_token, text);
    if (strcmp(text, expected) != 0) fail_msg("%s: %s: expected\n%s\nfound\n%s", released->name, name, expected, text);
  }
  ommai_prompt_builder_free(&builder);
  free_conversation(&talk);
}

static void prompts_are_those_of_transformers(void **state) {
  (void)state;
  struct released all[] = {{"qwen2_5_vl", &ommai_family_qwen2_vl, {0}},
                           {"qwen2_5_vl", &ommai_family_qwen2_5_vl, {0}},
                           {"qwen3_vl_instruct", &ommai_family_qwen3_vl, {0}},
                           {"qwen3_vl_thinking", &ommai_family_qwen3_vl, {0}},
                           {"kimi_vl", &ommai_family_kimi_vl, {0}}};
  json_t *root = load_data("cases.json"), *this_case;
  size_t i;
  for (size_t t = 0; t < sizeof all / sizeof *all; t++) {
    read_released(&all[t]);
    json_array_foreach(json_object_get(root, "cases"), i, this_case) {
      char *printed = json_dumps(json_object_get(this_case, "messages"), JSON_COMPACT);
      bool videos = strstr(printed, "\"video\"") != NULL;
      free(printed);
      /* Videos never come to a template that has none. */
      if (!videos || all[t].family->marks->video_token) compare_prompt(this_case, &all[t]);
    }
    ommai_chat_choice_free(&all[t].choice);
  }
  assert_true(i > 40);
  json_decref(root);
}

/* A template that takes the reasoning out of an answer, so that texts are looked for by marks. */
static enum omma_status render_with(const struct omma_allocator *allocator, struct omma_error *error) {
  static const char text[] = "{% for m in messages %}{{ m.content.split('</think>')[-1] }}|{% endfor %}";
  const struct omma_part question = {.text = "How many?", .text_size = 9};
  const struct omma_part answer = {.text = "It may be.</think>Two.", .text_size = 22};
  const struct omma_message talk[] = {{.role = OMMA_ROLE_USER, .parts = &question, .n_parts = 1},
                                      {.role = OMMA_ROLE_ASSISTANT, .parts = &answer, .n_parts = 1}};
  const struct ommai_conversation conversation = {.messages = talk, .n_messages = 2, .temporal_patch_size = 2};
  struct ommai_chat_choice choice;
  struct ommai_prompt_builder builder;
  ommai_prompt_builder_init(&builder, allocator);
  enum omma_status status =
      ommai_chat_template_take("t", text, sizeof text - 1, allocator, &ommai_family_qwen3_vl, &choice, error);
  if (status == OMMA_OK) {
    assert_true(choice.strings_alone); /* a list has no split() */
    status = ommai_conversation_render(&choice, &conversation, &builder, error);
  }
  if (status == OMMA_OK) assert_memory_equal(builder.text, "How many?|Two.|", 15);
  ommai_prompt_builder_free(&builder);
  ommai_chat_choice_free(&choice);
  return status;
}

/* Whether a template that writes the two messages "first" and " second " is refused. */
static void expect_left_out(const char *template, const char *message) {
  const struct omma_part parts[] = {{.text = "first", .text_size = 5}, {.text = " second ", .text_size = 8}};
  const struct omma_message talk[] = {{.role = OMMA_ROLE_SYSTEM, .parts = parts, .n_parts = 1},
                                      {.role = OMMA_ROLE_USER, .parts = parts + 1, .n_parts = 1}};
  const struct ommai_conversation conversation = {.messages = talk, .n_messages = 2, .temporal_patch_size = 1};
  struct ommai_chat_choice choice;
  struct ommai_prompt_builder builder;
  struct omma_error error;
  ommai_prompt_builder_init(&builder, &ommai_default_allocator);
  assert_ok(ommai_chat_template_take("t", template, strlen(template), &ommai_default_allocator, &ommai_family_qwen3_vl, &choice,
                                     &error),
            &error);
  enum omma_status status = ommai_conversation_render(&choice, &conversation, &builder, &error);
  if (!message) assert_ok(status, &error);
  if (message) {
    assert_fails(status, OMMA_ERROR_ARGUMENT, message, &error);
    assert_string_equal(error.field, "messages");
  }
  ommai_prompt_builder_free(&builder);
  ommai_chat_choice_free(&choice);
}

static void no_text_is_left_out_unnoticed(void **state) {
  (void)state;
  expect_left_out("{{ messages[0].content }}{{ messages[1].content|trim }}", NULL);
  expect_left_out("{{ messages[0].content|upper }}{{ messages[1].content|tojson }}", NULL);
  /* in another order */
  expect_left_out("{{ messages[1].content }}{{ messages[0].content }}", NULL);
  expect_left_out("{{ messages[1].content }}", "messages[0]: the chat template leaves this text out");
  expect_left_out("{{ messages[0].content }}", "messages[1]: the chat template leaves this text out");
  expect_left_out("{{ messages[0].content[:3] }}{{ messages[1].content }}", "messages[0]: the chat template leaves");
}

/* A family's own form, for checkpoints without a template. */
static void families_have_a_form_of_their_own(void **state) {
  (void)state;
  static const struct {
    const struct ommai_family *family;
    const char *expected;
  } cases[] = {
      {&ommai_family_qwen2_vl,
       "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nSee "
       "<|vision_start|><|image_pad|><|vision_end|><|im_end|>\n<|im_start|>assistant\n"},
      {&ommai_family_qwen3_vl,
       "<|im_start|>user\nSee <|vision_start|><|image_pad|><|vision_end|><|im_end|>\n<|im_start|>assistant\n"},
      {&ommai_family_kimi_vl,
       "<|im_system|>system<|im_middle|>You are a helpful assistant<|im_end|><|im_user|>user<|im_middle|>See "
       "<|media_start|>image<|media_content|><|media_pad|><|media_end|><|im_end|><|im_assistant|>assistant<|im_middle|>"}};
  const struct omma_part parts[] = {{.text = "See ", .text_size = 4}, {.image = image}};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 2};
  const struct ommai_conversation conversation = {.messages = &message, .n_messages = 1, .temporal_patch_size = 2};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct ommai_documents nothing = {.directory = "/nowhere"};
    struct ommai_chat_choice choice;
    struct ommai_prompt_builder builder;
    struct omma_error error;
    char text[MAX_PROMPT];
    assert_ok(ommai_chat_template_read(&nothing, NULL, true, &ommai_default_allocator, cases[i].family, &choice, &error),
              &error);
    assert_non_null(strstr(choice.problem, "no chat template"));
    ommai_prompt_builder_init(&builder, &ommai_default_allocator);
    assert_ok(ommai_conversation_render(&choice, &conversation, &builder, &error), &error);
    prompt_text(&builder, cases[i].family->marks->image_token, text);
    assert_string_equal(text, cases[i].expected);
    ommai_prompt_builder_free(&builder);
    ommai_chat_choice_free(&choice);
  }
}

/* The template itself, with a tool. */
static enum omma_status run_template_with(const struct omma_allocator *allocator, struct omma_error *error) {
  static const char text[] =
      "{%- macro say(m) %}{{ '<' + m.role + '>' + m.content|trim }}{% endmacro %}{{ tools|tojson }}"
      "{% for m in messages[::-1] %}{{ say(m) }}{% endfor %}";
  const struct omma_part part = {.text = " How many <|image_pad|>?", .text_size = 24};
  const struct omma_message talk[] = {{.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1}};
  const struct ommai_conversation conversation = {
      .messages = talk, .n_messages = 1, .tools = "[{\"a\": \"<|video_pad|>\"}]", .temporal_patch_size = 2};
  struct ommai_chat_choice choice;
  struct ommai_prompt_builder builder;
  ommai_prompt_builder_init(&builder, allocator);
  enum omma_status status =
      ommai_chat_template_take("t", text, sizeof text - 1, allocator, &ommai_family_qwen3_vl, &choice, error);
  if (status == OMMA_OK) status = ommai_conversation_render(&choice, &conversation, &builder, error);
  if (status == OMMA_OK) {
    assert_int_equal(builder.n_images, 0);
    assert_memory_equal(builder.text, "[{\"a\": \"<|video_pad|>\"}]<user>How many <|image_pad|>?", 53);
  }
  ommai_prompt_builder_free(&builder);
  ommai_chat_choice_free(&choice);
  return status;
}

/* Renders what asks twice for "a<|media_pad|>b", whose second part may go on, with Kimi-VL's
 * template, which has no videos. */
static void expect_rendered(const char *template, bool go_on, const char *expected) {
  const struct omma_part part = {.text = "a<|media_pad|>b", .text_size = 15};
  const struct omma_message talk[] = {{.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1},
                                      {.role = OMMA_ROLE_ASSISTANT, .parts = &part, .n_parts = 1}};
  const struct ommai_conversation conversation = {
      .messages = talk, .n_messages = 2, .temporal_patch_size = 1, .continue_final_message = go_on};
  struct ommai_chat_choice choice;
  struct ommai_prompt_builder builder;
  struct omma_error error;
  ommai_prompt_builder_init(&builder, &ommai_default_allocator);
  assert_ok(ommai_chat_template_take("t", template, strlen(template), &ommai_default_allocator, &ommai_family_kimi_vl, &choice,
                                     &error),
            &error);
  assert_ok(ommai_conversation_render(&choice, &conversation, &builder, &error), &error);
  assert_int_equal(builder.size, strlen(expected));
  assert_memory_equal(builder.text, expected, builder.size);
  ommai_prompt_builder_free(&builder);
  ommai_chat_choice_free(&choice);
}

#define BOTH "{{ messages[0].content }}{{ messages[1].content }}"
#define TWICE "a<|media_pad|>ba<|media_pad|>b"

static void what_spells_a_token_may_be_cut_and_repeated(void **state) {
  (void)state;
  expect_rendered("{{ messages[0].content[:2] }}{{ messages[0].content[3:] }}" BOTH, false, "ab" TWICE);
  expect_rendered("{{ messages[0].content[:2] }}" BOTH, false, "a" TWICE);
  expect_rendered("{{ messages[0].content[:2] }}1" BOTH, false, "a1" TWICE);
  expect_rendered("{{ messages[1].content }}|{{ messages[1].content }}|", true, "a<|media_pad|>b|a<|media_pad|>b");
  expect_rendered("{{ messages[1].content|trim }}|{{ messages[1].content }}|", true, "a<|media_pad|>b|a<|media_pad|>b");
}

static void rendering_survives_failed_allocations(void **state) {
  (void)state;
  test_fail_every_allocation(render_with, 60);
  test_fail_every_allocation(run_template_with, 100);
}

/* ---- files ---- */

static void write_template(const char *folder, const char *name, const char *text) {
  char path[TEST_PATH_SIZE];
  test_write_file(test_path(path, folder, name), text, strlen(text));
}

static struct ommai_chat_choice read_folder(const char *folder) {
  struct ommai_chat_choice choice;
  struct omma_error error;
  assert_ok(ommai_chat_template_read(&(struct ommai_documents){.directory = folder}, NULL, false, &ommai_default_allocator,
                                     &ommai_family_qwen3_vl, &choice, &error),
            &error);
  ommai_chat_choice_free(&choice);
  return choice;
}

/* Each file that is there goes before those that were there already. */
static void files_go_before_each_other_as_in_transformers(void **state) {
  struct test_folder *test = *state;
  assert_non_null(strstr(read_folder(test->folder).problem, "no chat template"));
  write_template(test->folder, "tokenizer_config.json", "{\"chat_template\": null}");
  assert_non_null(strstr(read_folder(test->folder).problem, "no chat template"));
  write_template(test->folder, "tokenizer_config.json",
                 "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"a\"}, {\"name\": \"default\", \"template\": "
                 "\"\\n\\n{{\"}]}");
  assert_non_null(strstr(read_folder(test->folder).problem, "tokenizer_config.json: chat_template: line 3"));
  write_template(test->folder, "chat_template.jinja", "{{ a");
  assert_non_null(strstr(read_folder(test->folder).problem, "chat_template.jinja: line 1"));
  write_template(test->folder, "chat_template.json", "{\"chat_template\": \"{{ b\"}");
  assert_non_null(strstr(read_folder(test->folder).problem, "chat_template.json: chat_template: line 1"));
  write_template(test->folder, "processor_config.json", "{}");
  assert_non_null(strstr(read_folder(test->folder).problem, "chat_template.json: chat_template: line 1"));
  write_template(test->folder, "processor_config.json", "{\"chat_template\": \"{{ c\"}");
  assert_non_null(strstr(read_folder(test->folder).problem, "processor_config.json: chat_template: line 1"));
}

static void what_is_no_file_is_not_missing(void **state) {
  static const char *const names[] = {"processor_config.json", "chat_template.json", "chat_template.jinja",
                                      "tokenizer_config.json"};
  struct test_folder *test = *state;
  struct ommai_chat_choice choice;
  char path[TEST_PATH_SIZE];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    test_path(path, test->folder, names[i]);
    for (int kind = 0; kind < 3; kind++) {
      if (kind == 0) assert_int_equal(mkdir(path, 0700), 0);
      if (kind == 1) assert_int_equal(mkfifo(path, 0600), 0);
      if (kind == 2) assert_int_equal(symlink("nowhere", path), 0);
      assert_fails(ommai_chat_template_read(&(struct ommai_documents){.directory = test->folder}, NULL, false,
                                            &ommai_default_allocator, &ommai_family_qwen3_vl, &choice, &test->error),
                   OMMA_ERROR_IO, names[i], &test->error);
      ommai_chat_choice_free(&choice);
      if (kind == 0) assert_int_equal(rmdir(path), 0);
      if (kind > 0) assert_int_equal(unlink(path), 0);
    }
  }
  write_template(test->folder, "chat_template.json", "{}");
  assert_fails(ommai_chat_template_read(&(struct ommai_documents){.directory = test->folder}, NULL, false,
                                        &ommai_default_allocator, &ommai_family_qwen3_vl, &choice, &test->error),
               OMMA_ERROR_FORMAT, "key \"chat_template\" is missing", &test->error);
  ommai_chat_choice_free(&choice);
}

/* ---- opening a model ---- */

/* A model of the test checkpoint with this chat template. */
static enum omma_status open_with(const char *folder, const char *text, struct omma_model_options options,
                                  struct omma_model **model, struct omma_error *error) {
  char path[TEST_PATH_SIZE];
  options.n_threads = 1;
  options.max_model_len = 256;
  if (text) test_write_file(test_path(path, folder, "chat_template.jinja"), text, strlen(text));
  return omma_model_open(folder, &options, model, error);
}

static void expect_info(struct omma_model *model, const char *name, const char *difference) {
  struct omma_model_info info;
  omma_model_get_info(model, &info);
  assert_string_equal(info.chat_template, name);
  if (difference) assert_non_null(strstr(info.chat_template_difference, difference));
  if (!difference) assert_null(info.chat_template_difference);
}

static void a_template_that_cannot_be_rendered_is_refused_unless_asked_for(void **state) {
  (void)state;
  static const char strange[] = "{{ messages[0].content }}\n{% include 'x' %}",
                    why[] = "chat_template.jinja: line 2: this statement";
  char folder[TEST_PATH_SIZE];
  struct omma_model *model;
  struct omma_error error;
  struct omma_request *request;
  const struct omma_part part = {.text = "Hi", .text_size = 2};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  fixture_copy_checkpoint("qwen3_vl_tied", folder);
  assert_fails(open_with(folder, strange, (struct omma_model_options){0}, &model, &error), OMMA_ERROR_UNSUPPORTED, why, &error);
  assert_string_equal(error.field, "chat_template");
  for (enum omma_chat_template_use use = OMMA_CHAT_TEMPLATE_OWN; use <= OMMA_CHAT_TEMPLATE_UNUSED; use++) {
    const struct omma_model_options options = {.chat_template = use, .config_only = use == OMMA_CHAT_TEMPLATE_OWN};
    assert_ok(open_with(folder, NULL, options, &model, &error), &error);
    expect_info(model, "Qwen3-VL Instruct", why);
    if (use == OMMA_CHAT_TEMPLATE_FAMILY) {
      assert_ok(omma_request_create(model, &message, 1, NULL, &request, &error), &error);
      omma_request_destroy(request);
    } else {
      assert_fails(omma_request_create(model, &message, 1, NULL, &request, &error), OMMA_ERROR_UNSUPPORTED, why, &error);
    }
    omma_model_close(model);
  }
  assert_fails(open_with(folder, NULL, (struct omma_model_options){.chat_template = 3}, &model, &error), OMMA_ERROR_ARGUMENT,
               "no such use: 3", &error);
  test_folder_remove(folder);
}

/* A call that can only fail is reported before a request meets it; not where the template asks
 * first, or has such a macro. */
static void unknown_functions_are_refused(void **state) {
  (void)state;
  static const char *const refused[] = {
      "a\n{{ own_clock('%Y') }}", "a\n{% if tools %}{{ (own_clock)('%Y') }}{% endif %}",
      "a\n{% set day = own_clock('%Y')|trim %}{% if day is defined %}{{ day }}{% endif %}"};
  static const char *const rendered[] = {"{% if own_clock is defined %}{{ own_clock('%Y') }}{% else %}a{% endif %}",
                                         "{{ 'a' if own_clock is not defined else own_clock('%Y') }}",
                                         "{{ own_clock('%Y') if own_clock is callable else 'a' }}",
                                         "{% macro own_clock(format) %}a{% endmacro %}{{ own_clock('%Y') }}"};
  struct ommai_jinja *jinja;
  struct omma_error error;
  char *text;
  size_t size, at;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    assert_fails(ommai_jinja_create(refused[i], strlen(refused[i]), &ommai_default_allocator, &jinja, &error),
                 OMMA_ERROR_UNSUPPORTED, "line 2: there is no function own_clock here", &error);
  }
  json_t *variables = json_object();
  for (size_t i = 0; i < sizeof rendered / sizeof *rendered; i++) {
    assert_ok(ommai_jinja_create(rendered[i], strlen(rendered[i]), &ommai_default_allocator, &jinja, &error), &error);
    assert_ok(ommai_jinja_render(jinja, variables, 100, &text, &size, &error), &error);
    assert_string_equal(text, "a");
    assert_false(ommai_jinja_reads(jinja, "own_clock")); /* no switch */
    at = 0;
    assert_null(ommai_jinja_next_read(jinja, &at, &size));
    ommai_release(&ommai_default_allocator, text, strlen(text) + 1, 1);
    ommai_jinja_destroy(jinja);
  }
  json_decref(variables);
}

/* The prompt's text, as the tokenizer gives it back. */
static void expect_request(struct omma_model *model, const struct omma_message *message,
                           const struct omma_request_options *options, const char *expected) {
  struct omma_request *request;
  struct omma_error error;
  char text[512];
  size_t n, size = 0;
  assert_ok(omma_request_create(model, message, 1, options, &request, &error), &error);
  const int32_t *ids = omma_request_prompt(request, &n);
  assert_ok(omma_detokenize(model, ids, n, false, text, sizeof text - 1, &size, &error), &error);
  text[size] = '\0';
  assert_string_equal(text, expected);
  omma_request_destroy(request);
}

static void another_template_is_rendered(void **state) {
  (void)state;
  static const char pirate[] =
      "{% for m in messages %}<|im_start|>{{ m.role }}\nArr. {{ m.content }}<|im_end|>{% endfor %}{{ mood }}{% if tools %}{{ "
      "tools|tojson }}{% endif %}";
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  struct omma_model *model;
  struct omma_error error;
  struct omma_request *request;
  const struct omma_part part = {.text = "Hi <|image_pad|>", .text_size = 16};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  fixture_copy_checkpoint("qwen3_vl_tied", folder);
  assert_ok(open_with(folder, pirate, (struct omma_model_options){0}, &model, &error), &error);
  expect_info(model, "its own", NULL);
  expect_request(model, &message, NULL, "<|im_start|>user\nArr. Hi <|image_pad|><|im_end|>");
  struct omma_request_options options = {.chat_template_kwargs = "{\"mood\": \"!\"}", .tools = "[{\"a\":1}]"};
  expect_request(model, &message, &options, "<|im_start|>user\nArr. Hi <|image_pad|><|im_end|>![{\"a\": 1}]");
  options = (struct omma_request_options){.chat_template_kwargs = "{\"enable_thinking\": false}"};
  assert_fails(omma_request_create(model, &message, 1, &options, &request, &error), OMMA_ERROR_ARGUMENT,
               "\"enable_thinking\" is nothing that this model's chat template reads; it reads: mood", &error);
  assert_string_equal(error.field, "chat_template_kwargs");
  options.chat_template_kwargs = "{\"messages\": []}";
  assert_fails(omma_request_create(model, &message, 1, &options, &request, &error), OMMA_ERROR_ARGUMENT, "\"messages\"",
               &error);
  options = (struct omma_request_options){.continue_final_message = true};
  expect_request(model, &message, &options, "<|im_start|>user\nArr. Hi <|image_pad|>");
  omma_model_close(model);
  /* A file in place of the checkpoint's. */
  test_write_file(test_path(path, folder, "other.jinja"), "only {{ messages[0].content }}", 30);
  assert_ok(open_with(folder, NULL, (struct omma_model_options){.chat_template_file = path}, &model, &error), &error);
  expect_request(model, &message, NULL, "only Hi <|image_pad|>");
  options = (struct omma_request_options){.tools = "[{}]"};
  assert_fails(omma_request_create(model, &message, 1, &options, &request, &error), OMMA_ERROR_UNSUPPORTED,
               "this model's chat template has no tools", &error);
  assert_string_equal(error.field, "tools");
  omma_model_close(model);
  test_folder_remove(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prompts_are_those_of_transformers),
      cmocka_unit_test(what_spells_a_token_may_be_cut_and_repeated),
      cmocka_unit_test(rendering_survives_failed_allocations),
      cmocka_unit_test(no_text_is_left_out_unnoticed),
      cmocka_unit_test(families_have_a_form_of_their_own),
      cmocka_unit_test_setup_teardown(files_go_before_each_other_as_in_transformers, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(what_is_no_file_is_not_missing, test_folder_setup, test_folder_teardown),
      cmocka_unit_test(a_template_that_cannot_be_rendered_is_refused_unless_asked_for),
      cmocka_unit_test(unknown_functions_are_refused),
      cmocka_unit_test(another_template_is_rendered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
