#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/allocator.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/core/config_file.h"

#define MAX_FILE_BYTES ((size_t)1 << 20)
/* Of a value with what it contains. An alias is followed each time that it is named. */
#define MAX_NODES 100000
#define MAX_DEPTH 64

struct reading {
  const char *path;
  yaml_document_t document;
  size_t n_nodes;
  struct omma_error *error;
};

static json_t *fail(struct reading *reading, enum omma_status status, const yaml_mark_t *mark, const char *what) {
  ommai_fail(reading->error, status, "%s:%zu: %s", reading->path, mark->line + 1, what);
  return NULL;
}

static json_t *no_memory(struct reading *reading) {
  ommai_fail(reading->error, OMMA_ERROR_MEMORY, "%s: out of memory", reading->path);
  return NULL;
}

static bool is_one_of(const char *text, const char *const *words) {
  while (*words && strcasecmp(text, *words) != 0) words++;
  return *words;
}

static const char *text_of(const yaml_node_t *node) { return (const char *)node->data.scalar.value; }

static bool is_plain(const yaml_node_t *node) {
  return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool is_nothing(const yaml_node_t *node) {
  static const char *const words[] = {"", "~", "null", NULL};
  return is_plain(node) && is_one_of(text_of(node), words);
}

/* What YAML 1.1 means by a plain scalar in JSON's terms, as PyYAML reads it; other styles are
 * texts. */
static json_t *typed_scalar(const yaml_node_t *node) {
  static const char *const yes[] = {"true", "yes", "on", NULL}, *const no[] = {"false", "no", "off", NULL};
  const char *text = text_of(node);
  char *end;
  if (is_nothing(node)) return json_null();
  if (is_plain(node) && (is_one_of(text, yes) || is_one_of(text, no))) return json_boolean(is_one_of(text, yes));
  if (is_plain(node) && strspn(text, "+-.0123456789eE") == strlen(text)) {
    errno = 0;
    long long integer = strtoll(text, &end, 10);
    if (!*end && !errno) return json_integer(integer);
    double number = strtod(text, &end);
    if (!*end) return json_real(number);
  }
  return json_string(text);
}

static json_t *not_utf8(struct reading *reading, const yaml_node_t *node) {
  return fail(reading, OMMA_ERROR_FORMAT, &node->start_mark, "a text that is not UTF-8");
}

/* What becomes of a node, `depth` levels below the value that it belongs to. NULL with the error
 * filled. */
typedef json_t *read_node(struct reading *reading, int index, int depth);

static json_t *read_list(struct reading *reading, const yaml_node_t *node, read_node *read, int depth) {
  json_t *list = json_array();
  if (!list) return no_memory(reading);
  for (const yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++) {
    json_t *value = read(reading, *item, depth);
    if (value && json_array_append_new(list, value) == 0) continue;
    if (value) no_memory(reading);
    json_decref(list);
    return NULL;
  }
  return list;
}

/* `wanted`: what a key must be. */
static json_t *read_mapping(struct reading *reading, const yaml_node_t *node, const char *wanted, read_node *read, int depth) {
  json_t *object = json_object();
  if (!object) return no_memory(reading);
  for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
    const yaml_node_t *key = yaml_document_get_node(&reading->document, pair->key);
    json_t *value = NULL;
    if (key->type != YAML_SCALAR_NODE) {
      fail(reading, OMMA_ERROR_FORMAT, &key->start_mark, wanted);
    } else if (json_object_get(object, text_of(key))) {
      fail(reading, OMMA_ERROR_FORMAT, &key->start_mark, "the same key stands there twice");
    } else {
      value = read(reading, pair->value, depth);
      if (value && json_object_set_new(object, text_of(key), value) == 0) continue;
      if (value) fail(reading, OMMA_ERROR_FORMAT, &key->start_mark, "a key that is not UTF-8");
    }
    json_decref(object);
    return NULL;
  }
  return object;
}

static json_t *typed_value(struct reading *reading, int index, int depth) {
  const yaml_node_t *node = yaml_document_get_node(&reading->document, index);
  if (++reading->n_nodes > MAX_NODES || depth > MAX_DEPTH) {
    return fail(reading, OMMA_ERROR_LIMIT, &node->start_mark, "a value of too many parts");
  }
  if (node->type == YAML_SEQUENCE_NODE) return read_list(reading, node, typed_value, depth + 1);
  if (node->type == YAML_MAPPING_NODE) return read_mapping(reading, node, "a key must be a text", typed_value, depth + 1);
  json_t *scalar = typed_scalar(node);
  return scalar ? scalar : not_utf8(reading, node);
}

/* A mapping as the text that the option is given on the command line. */
static json_t *json_text(struct reading *reading, int index) {
  json_t *value = typed_value(reading, index, 0);
  char *dumped = value ? json_dumps(value, JSON_COMPACT) : NULL;
  json_t *text = dumped ? json_string(dumped) : NULL;
  if (value && !text) no_memory(reading);
  free(dumped);
  json_decref(value);
  return text;
}

/* A text; of what has parts its JSON. */
static json_t *text_value(struct reading *reading, int index, int depth) {
  const yaml_node_t *node = yaml_document_get_node(&reading->document, index);
  (void)depth;
  if (node->type != YAML_SCALAR_NODE) return json_text(reading, index);
  json_t *text = json_string(text_of(node));
  return text ? text : not_utf8(reading, node);
}

static json_t *setting_value(struct reading *reading, int index, int depth) {
  const yaml_node_t *node = yaml_document_get_node(&reading->document, index);
  if (node->type == YAML_SEQUENCE_NODE) return read_list(reading, node, text_value, 0);
  return is_nothing(node) ? json_null() : text_value(reading, index, depth);
}

static json_t *read_settings(struct reading *reading) {
  const yaml_node_t *root = yaml_document_get_root_node(&reading->document);
  if (!root || is_nothing(root)) {
    json_t *none = json_object();
    return none ? none : no_memory(reading);
  }
  if (root->type == YAML_MAPPING_NODE) {
    return read_mapping(reading, root, "a key must be the name of an option", setting_value, 0);
  }
  return fail(reading, OMMA_ERROR_FORMAT, &root->start_mark, "expected options with their values, such as port: 8000");
}

enum omma_status ommai_config_file_load(const char *path, json_t **settings, struct omma_error *error) {
  struct omma_error reason = {.status = OMMA_OK};
  struct reading reading = {.path = path, .error = &reason};
  yaml_parser_t parser;
  char *data;
  size_t size;
  OMMAI_TRY(ommai_file_read(path, MAX_FILE_BYTES, &ommai_default_allocator, &data, &size, error));
  *settings = NULL;
  if (!yaml_parser_initialize(&parser)) {
    no_memory(&reading);
  } else {
    yaml_parser_set_input_string(&parser, (const unsigned char *)data, size);
    if (!yaml_parser_load(&parser, &reading.document)) {
      const yaml_mark_t *mark = &parser.problem_mark;
      fail(&reading, OMMA_ERROR_FORMAT, mark, parser.problem ? parser.problem : "no YAML");
    } else {
      *settings = read_settings(&reading);
      yaml_document_delete(&reading.document);
    }
    yaml_parser_delete(&parser);
  }
  ommai_release(&ommai_default_allocator, data, size + 1, 1);
  if (!*settings && error) *error = reason;
  return *settings ? OMMA_OK : reason.status;
}
