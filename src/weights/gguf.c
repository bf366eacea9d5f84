#include "weights/gguf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"

/* Types of values. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, N_TYPES };

static const struct {
  const char *name;
  size_t size; /* 0: the value gives it */
} value_types[N_TYPES] = {
    [U8] = {"u8", 1},   [I8] = {"i8", 1},   [U16] = {"u16", 2},        [I16] = {"i16", 2},         [U32] = {"u32", 4},
    [I32] = {"i32", 4}, [F32] = {"f32", 4}, [BOOL] = {"a boolean", 1}, [STRING] = {"a string", 0}, [ARRAY] = {"an array", 0},
    [U64] = {"u64", 8}, [I64] = {"i64", 8}, [F64] = {"f64", 8},
};

struct key {
  const char *name; /* in names */
  uint32_t type, element_type;
  uint64_t count;            /* of an array's elements */
  const unsigned char *data; /* the value; an array's first element */
};

struct ommai_gguf {
  struct omma_allocator allocator;
  char *path;
  struct ommai_file_map map;
  int64_t n_keys, n_tensors;
  struct key *keys;                  /* [n_keys], by name */
  struct ommai_gguf_tensor *tensors; /* [n_tensors], by name */
  char *names;                       /* of keys, then of tensors, each with its NUL */
  size_t names_size;
};

/* ---- bytes ---- */

/* A place in the file. Whatever reads past the end sets `ended` and gives zeroes. */
struct cursor {
  const unsigned char *data;
  size_t size, at;
  bool ended;
};

static const unsigned char *take(struct cursor *cursor, uint64_t size) {
  if (cursor->ended || size > cursor->size - cursor->at) {
    cursor->ended = true;
    return NULL;
  }
  const unsigned char *bytes = cursor->data + cursor->at;
  cursor->at += (size_t)size;
  return bytes;
}

static uint32_t take_u32(struct cursor *cursor) {
  uint32_t value = 0;
  const unsigned char *bytes = take(cursor, sizeof value);
  if (bytes) memcpy(&value, bytes, sizeof value);
  return value;
}

static uint64_t take_u64(struct cursor *cursor) {
  uint64_t value = 0;
  const unsigned char *bytes = take(cursor, sizeof value);
  if (bytes) memcpy(&value, bytes, sizeof value);
  return value;
}

static struct ommai_gguf_text take_text(struct cursor *cursor) {
  uint64_t size = take_u64(cursor);
  const unsigned char *bytes = take(cursor, size);
  return (struct ommai_gguf_text){(const char *)bytes, bytes ? (size_t)size : 0};
}

static enum omma_status fail_ended(const struct ommai_gguf *file, const char *what, struct omma_error *error) {
  return ommai_fail(error, OMMA_ERROR_FORMAT, "%.300s: the file ends inside %s: truncated, or not whole yet", file->path, what);
}

/* Takes a name and copies it to *names, where there is room for it. Names go into messages and
 * paths of keys: printable ASCII. */
static enum omma_status take_name(const struct ommai_gguf *file, struct cursor *cursor, const char *what, char **names,
                                  const char **out, struct omma_error *error) {
  struct ommai_gguf_text text = take_text(cursor);
  if (cursor->ended) return fail_ended(file, what, error);
  if (text.size < 1 || text.size > OMMAI_GGUF_MAX_NAME) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "%.300s: the name of %s has %zu bytes: expected 1 to %d", file->path, what,
                      text.size, OMMAI_GGUF_MAX_NAME);
  }
  for (size_t i = 0; i < text.size; i++) {
    if (text.bytes[i] > ' ' && text.bytes[i] < 0x7f) continue;
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%.300s: byte 0x%02x in the name of %s: expected printable characters",
                      file->path, (unsigned char)text.bytes[i], what);
  }
  memcpy(*names, text.bytes, text.size);
  (*names)[text.size] = '\0';
  *out = *names;
  *names += text.size + 1;
  return OMMA_OK;
}

/* ---- keys ---- */

static enum omma_status fail_type(const struct ommai_gguf *file, const char *what, uint32_t type, struct omma_error *error) {
  return ommai_fail(error, OMMA_ERROR_FORMAT, "%.300s: %s has a value of type %" PRIu32 ": expected 0 to %d", file->path, what,
                    type, N_TYPES - 1);
}

/* An array's elements, all looked at: strings have lengths of their own. Arrays of arrays are
 * nowhere in use. */
static enum omma_status take_elements(const struct ommai_gguf *file, struct cursor *cursor, const char *what, struct key *key,
                                      struct omma_error *error) {
  key->element_type = take_u32(cursor);
  key->count = take_u64(cursor);
  if (cursor->ended) return fail_ended(file, what, error);
  if (key->element_type >= N_TYPES || key->element_type == ARRAY) return fail_type(file, what, key->element_type, error);
  if (key->count > OMMAI_GGUF_MAX_ARRAY) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "%.300s: %s has %" PRIu64 " elements, more than the limit of %d", file->path,
                      what, key->count, OMMAI_GGUF_MAX_ARRAY);
  }
  key->data = cursor->data + cursor->at;
  if (key->element_type != STRING) {
    take(cursor, key->count * value_types[key->element_type].size);
  } else {
    for (uint64_t i = 0; i < key->count && !cursor->ended; i++) take_text(cursor);
  }
  return cursor->ended ? fail_ended(file, what, error) : OMMA_OK;
}

static enum omma_status take_key(const struct ommai_gguf *file, struct cursor *cursor, char **names, struct key *key,
                                 struct omma_error *error) {
  static const char what[] = "a key";
  OMMAI_TRY(take_name(file, cursor, what, names, &key->name, error));
  key->type = take_u32(cursor);
  if (cursor->ended) return fail_ended(file, what, error);
  if (key->type >= N_TYPES) return fail_type(file, what, key->type, error);
  if (key->type == ARRAY) return take_elements(file, cursor, what, key, error);
  key->data = cursor->data + cursor->at;
  if (key->type == STRING) {
    take_text(cursor);
  } else {
    take(cursor, value_types[key->type].size);
  }
  return cursor->ended ? fail_ended(file, what, error) : OMMA_OK;
}

static int compare_keys(const void *a, const void *b) {
  const struct key *left = a, *right = b;
  return strcmp(left->name, right->name);
}

static enum omma_status sort_keys(struct ommai_gguf *file, struct omma_error *error) {
  qsort(file->keys, (size_t)file->n_keys, sizeof *file->keys, compare_keys);
  for (int64_t i = 1; i < file->n_keys; i++) {
    if (strcmp(file->keys[i - 1].name, file->keys[i].name) == 0) {
      return ommai_fail(error, OMMA_ERROR_FORMAT, "%.300s: key \"%.160s\" is there twice", file->path, file->keys[i].name);
    }
  }
  return OMMA_OK;
}

static const struct key *find_key(const struct ommai_gguf *file, const char *name) {
  const struct key wanted = {.name = name};
  return file->n_keys ? bsearch(&wanted, file->keys, (size_t)file->n_keys, sizeof wanted, compare_keys) : NULL;
}

bool ommai_gguf_has(const struct ommai_gguf *file, const char *key) { return find_key(file, key) != NULL; }

static enum omma_status fail_key(const struct ommai_gguf *file, const char *name, const char *expected, const struct key *found,
                                 struct omma_error *error) {
  if (!found) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, name, "%.300s: key \"%s\" is missing", file->path, name);
  }
  bool array = found->type == ARRAY;
  return ommai_fail_field(error, OMMA_ERROR_FORMAT, name, "%.300s: key \"%s\": expected %s, found %s%s", file->path, name,
                          expected, array ? "an array of " : "", value_types[array ? found->element_type : found->type].name);
}

static bool is_whole(uint32_t type) { return type <= I32 || type == U64 || type == I64; }

static bool is_number(uint32_t type) { return type != STRING && type != ARRAY; }

/* A value of a whole type or a boolean; a u64 of more than an int64 comes out below 0. */
static int64_t whole_value(uint32_t type, const unsigned char *data) {
  uint64_t bits = 0;
  size_t size = value_types[type].size;
  memcpy(&bits, data, size);
  bool is_signed = type == I8 || type == I16 || type == I32;
  uint64_t sign = UINT64_C(1) << (8 * size - 1);
  return (int64_t)(is_signed ? (bits ^ sign) - sign : bits);
}

static double number_value(uint32_t type, const unsigned char *data) {
  if (type == F32) {
    float value;
    memcpy(&value, data, sizeof value);
    return (double)value;
  }
  if (type == F64) {
    double value;
    memcpy(&value, data, sizeof value);
    return value;
  }
  int64_t whole = whole_value(type, data);
  return type == U64 ? (double)(uint64_t)whole : (double)whole;
}

enum omma_status ommai_gguf_integer(const struct ommai_gguf *file, const char *name, bool required, int64_t low, int64_t high,
                                    int64_t *out, struct omma_error *error) {
  const struct key *key = find_key(file, name);
  if (!key && !required) return OMMA_OK;
  if (!key || !is_whole(key->type)) return fail_key(file, name, "an integer", key, error);
  int64_t value = whole_value(key->type, key->data);
  bool fits = key->type != U64 || value >= 0;
  if (!fits || value < low || value > high) {
    return ommai_fail_field(error, OMMA_ERROR_FORMAT, name,
                            "%.300s: key \"%s\": expected an integer from %" PRId64 " to %" PRId64 ", found %s%" PRId64,
                            file->path, name, low, high, fits ? "" : "more than ", fits ? value : INT64_MAX);
  }
  *out = value;
  return OMMA_OK;
}

enum omma_status ommai_gguf_number(const struct ommai_gguf *file, const char *name, bool required, double *out,
                                   struct omma_error *error) {
  const struct key *key = find_key(file, name);
  if (!key && !required) return OMMA_OK;
  if (!key || !is_number(key->type) || key->type == BOOL) return fail_key(file, name, "a number", key, error);
  double value = number_value(key->type, key->data);
  if (!isfinite(value)) return fail_key(file, name, "a finite number", key, error);
  *out = value;
  return OMMA_OK;
}

enum omma_status ommai_gguf_boolean(const struct ommai_gguf *file, const char *name, bool required, bool *out,
                                    struct omma_error *error) {
  const struct key *key = find_key(file, name);
  if (!key && !required) return OMMA_OK;
  if (!key || key->type != BOOL) return fail_key(file, name, "a boolean", key, error);
  *out = *key->data != 0;
  return OMMA_OK;
}

/* A string whose bytes were looked at when the file was opened. */
static struct ommai_gguf_text text_at(const unsigned char *data) {
  uint64_t size;
  memcpy(&size, data, sizeof size);
  return (struct ommai_gguf_text){(const char *)data + sizeof size, (size_t)size};
}

enum omma_status ommai_gguf_string(const struct ommai_gguf *file, const char *name, bool required, struct ommai_gguf_text *out,
                                   struct omma_error *error) {
  const struct key *key = find_key(file, name);
  if (!key && !required) return OMMA_OK;
  if (!key || key->type != STRING) return fail_key(file, name, "a string", key, error);
  *out = text_at(key->data);
  return OMMA_OK;
}

static enum omma_status find_array(const struct ommai_gguf *file, const char *name, bool required, bool strings,
                                   struct ommai_gguf_array *out, struct omma_error *error) {
  const struct key *key = find_key(file, name);
  *out = (struct ommai_gguf_array){0};
  if (!key && !required) return OMMA_OK;
  if (!key || key->type != ARRAY || (key->element_type == STRING) != strings) {
    return fail_key(file, name, strings ? "an array of strings" : "an array of numbers", key, error);
  }
  *out = (struct ommai_gguf_array){key->data, key->element_type, key->count, key->count};
  return OMMA_OK;
}

enum omma_status ommai_gguf_strings(const struct ommai_gguf *file, const char *key, bool required, struct ommai_gguf_array *out,
                                    struct omma_error *error) {
  return find_array(file, key, required, true, out, error);
}

enum omma_status ommai_gguf_numbers(const struct ommai_gguf *file, const char *key, bool required, struct ommai_gguf_array *out,
                                    struct omma_error *error) {
  return find_array(file, key, required, false, out, error);
}

struct ommai_gguf_text ommai_gguf_next_string(struct ommai_gguf_array *array) {
  struct ommai_gguf_text text = text_at(array->at);
  array->at += sizeof(uint64_t) + text.size;
  array->left--;
  return text;
}

double ommai_gguf_next_number(struct ommai_gguf_array *array) {
  double value = number_value(array->type, array->at);
  array->at += value_types[array->type].size;
  array->left--;
  return value;
}

/* ---- tensors ---- */

static enum omma_status fail_tensor(const struct ommai_gguf *file, const struct ommai_gguf_tensor *tensor, const char *what,
                                    struct omma_error *error) {
  return ommai_fail(error, OMMA_ERROR_FORMAT, "%.300s: tensor \"%.160s\": %s", file->path, tensor->name, what);
}

/* The shape, turned round; none of its lengths may be 0. */
static enum omma_status take_shape(const struct ommai_gguf *file, struct cursor *cursor, struct ommai_gguf_tensor *tensor,
                                   struct omma_error *error) {
  uint32_t n_dims = take_u32(cursor);
  if (!cursor->ended && (n_dims < 1 || n_dims > OMMAI_GGUF_MAX_DIMS)) {
    return fail_tensor(file, tensor, "expected 1 to 4 dimensions", error);
  }
  tensor->n_dims = (int)n_dims;
  tensor->n_elements = 1;
  for (int i = tensor->n_dims - 1; i >= 0 && !cursor->ended; i--) {
    uint64_t length = take_u64(cursor);
    if (cursor->ended) break;
    if (length < 1 || length > INT64_MAX || !ommai_mul_i64(tensor->n_elements, (int64_t)length, &tensor->n_elements)) {
      return fail_tensor(file, tensor, "a length of 0, or more elements than can be counted", error);
    }
    tensor->shape[i] = (int64_t)length;
  }
  return OMMA_OK;
}

static enum omma_status check_type(const struct ommai_gguf *file, struct ommai_gguf_tensor *tensor, struct omma_error *error) {
  int64_t n_in = tensor->shape[tensor->n_dims - 1], bytes;
  tensor->format = ommai_gguf_format(tensor->type);
  if (!tensor->format) {
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED,
                      "%.300s: tensor \"%.160s\": type %s (%" PRIu32
                      ") is not supported; take a file in which all tensors are of "
                      "these: " OMMAI_GGUF_TYPE_LIST,
                      file->path, tensor->name, ommai_gguf_type_name(tensor->type), tensor->type);
  }
  if (n_in % tensor->format->block_size) {
    return ommai_fail(error, OMMA_ERROR_FORMAT,
                      "%.300s: tensor \"%.160s\": rows of %" PRId64 " values are not whole blocks of %s, which have %" PRId64,
                      file->path, tensor->name, n_in, tensor->format->name, tensor->format->block_size);
  }
  if (!ommai_mul_i64(tensor->n_elements / tensor->format->block_size, tensor->format->block_bytes, &bytes)) {
    return fail_tensor(file, tensor, "more bytes than can be counted", error);
  }
  tensor->size_bytes = (uint64_t)bytes;
  return OMMA_OK;
}

/* file_offset counts from the data until place_tensors. */
static enum omma_status take_tensor(const struct ommai_gguf *file, struct cursor *cursor, char **names,
                                    struct ommai_gguf_tensor *tensor, struct omma_error *error) {
  static const char what[] = "the list of tensors";
  OMMAI_TRY(take_name(file, cursor, "a tensor", names, &tensor->name, error));
  OMMAI_TRY(take_shape(file, cursor, tensor, error));
  tensor->type = take_u32(cursor);
  tensor->file_offset = take_u64(cursor);
  return cursor->ended ? fail_ended(file, what, error) : check_type(file, tensor, error);
}

static int compare_places(const void *a, const void *b) {
  const struct ommai_gguf_tensor *left = a, *right = b;
  return left->file_offset < right->file_offset ? -1 : left->file_offset > right->file_offset;
}

static int compare_tensors(const void *a, const void *b) {
  const struct ommai_gguf_tensor *left = a, *right = b;
  return strcmp(left->name, right->name);
}

/* Tensors lie aligned, one after the other, inside the file. */
static enum omma_status place_tensors(struct ommai_gguf *file, uint64_t begin, uint64_t alignment, struct omma_error *error) {
  uint64_t end = 0;
  qsort(file->tensors, (size_t)file->n_tensors, sizeof *file->tensors, compare_places);
  for (int64_t i = 0; i < file->n_tensors; i++) {
    struct ommai_gguf_tensor *tensor = &file->tensors[i];
    uint64_t room = begin <= file->map.size ? file->map.size - begin : 0;
    if (tensor->file_offset % alignment) return fail_tensor(file, tensor, "its data is not aligned", error);
    if (tensor->file_offset < end) return fail_tensor(file, tensor, "its data lies in another tensor's", error);
    if (tensor->file_offset > room || tensor->size_bytes > room - tensor->file_offset) {
      return fail_tensor(file, tensor, "its data ends after the end of the file: truncated, or not whole yet", error);
    }
    end = tensor->file_offset + tensor->size_bytes;
    tensor->file_offset += begin;
    tensor->data = file->map.data + tensor->file_offset;
  }
  qsort(file->tensors, (size_t)file->n_tensors, sizeof *file->tensors, compare_tensors);
  for (int64_t i = 1; i < file->n_tensors; i++) {
    if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0) {
      return fail_tensor(file, &file->tensors[i], "is there twice", error);
    }
  }
  return OMMA_OK;
}

/* ---- the file ---- */

static enum omma_status take_header(struct ommai_gguf *file, struct cursor *cursor, struct omma_error *error) {
  const unsigned char *magic = take(cursor, 4);
  if (!magic || memcmp(magic, "GGUF", 4) != 0) {
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%.300s: not a GGUF file: it does not begin with \"GGUF\"", file->path);
  }
  uint32_t version = take_u32(cursor);
  uint64_t n_tensors = take_u64(cursor), n_keys = take_u64(cursor);
  if (cursor->ended) return fail_ended(file, "its header", error);
  if (version != 2 && version != 3) {
    if (version != 0 && (version & 0xffff) == 0) {
      return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "%.300s: big-endian GGUF is not supported: take the little-endian file",
                        file->path);
    }
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "%.300s: GGUF version %" PRIu32 " is not supported; versions 2 and 3 are",
                      file->path, version);
  }
  if (n_keys > OMMAI_GGUF_MAX_KEYS || n_tensors > OMMAI_GGUF_MAX_TENSORS) {
    return ommai_fail(error, OMMA_ERROR_LIMIT,
                      "%.300s: %" PRIu64 " keys and %" PRIu64 " tensors, more than the limits of %d and %d", file->path, n_keys,
                      n_tensors, OMMAI_GGUF_MAX_KEYS, OMMAI_GGUF_MAX_TENSORS);
  }
  file->n_keys = (int64_t)n_keys;
  file->n_tensors = (int64_t)n_tensors;
  return OMMA_OK;
}

static enum omma_status allocate_tables(struct ommai_gguf *file, struct omma_error *error) {
  size_t n_keys = (size_t)file->n_keys, n_tensors = (size_t)file->n_tensors;
  file->names_size = (n_keys + n_tensors) * (OMMAI_GGUF_MAX_NAME + 1);
  file->keys = ommai_allocate(&file->allocator, n_keys, sizeof *file->keys);
  file->tensors = ommai_allocate(&file->allocator, n_tensors, sizeof *file->tensors);
  file->names = ommai_allocate(&file->allocator, file->names_size, 1);
  if (file->keys && file->tensors && file->names) return OMMA_OK;
  ommai_fail_memory(error, "the tables of keys and tensors",
                    n_keys * sizeof *file->keys + n_tensors * sizeof *file->tensors + file->names_size);
  ommai_error_prefix(error, "%.300s", file->path);
  return OMMA_ERROR_MEMORY;
}

/* What the header counts must be there before memory is taken for it. */
static enum omma_status check_counts(const struct ommai_gguf *file, struct omma_error *error) {
  enum { MIN_KEY = 8 + 1 + 4 + 1, MIN_TENSOR = 8 + 1 + 4 + 8 + 4 + 8 };
  if (file->n_keys * MIN_KEY + file->n_tensors * MIN_TENSOR <= (int64_t)file->map.size) return OMMA_OK;
  return fail_ended(file, "its tables", error);
}

static enum omma_status read_tables(struct ommai_gguf *file, struct omma_error *error) {
  struct cursor cursor = {.data = file->map.data, .size = file->map.size};
  OMMAI_TRY(take_header(file, &cursor, error));
  OMMAI_TRY(check_counts(file, error));
  OMMAI_TRY(allocate_tables(file, error));
  char *names = file->names;
  for (int64_t i = 0; i < file->n_keys; i++) OMMAI_TRY(take_key(file, &cursor, &names, &file->keys[i], error));
  for (int64_t i = 0; i < file->n_tensors; i++) OMMAI_TRY(take_tensor(file, &cursor, &names, &file->tensors[i], error));
  OMMAI_TRY(sort_keys(file, error));
  int64_t alignment = 32;
  OMMAI_TRY(ommai_gguf_integer(file, "general.alignment", false, 1, OMMAI_GGUF_MAX_ALIGNMENT, &alignment, error));
  if (alignment % 8)
    return ommai_fail(error, OMMA_ERROR_FORMAT, "%.300s: general.alignment is not a multiple of 8", file->path);
  return place_tensors(file, (uint64_t)ommai_round_up((int64_t)cursor.at, alignment), (uint64_t)alignment, error);
}

enum omma_status ommai_gguf_open(const char *path, const struct omma_allocator *allocator, struct ommai_gguf **file,
                                 struct omma_error *error) {
  enum omma_status status;
  struct ommai_gguf *self = ommai_allocate(allocator, 1, sizeof *self);
  if (!self) return ommai_fail_memory(error, path, sizeof *self);
  self->allocator = *allocator;
  self->path = ommai_duplicate(allocator, path, strlen(path));
  if (!self->path) {
    status = ommai_fail_memory(error, path, strlen(path) + 1);
    goto failed;
  }
  OMMAI_TRY_GOTO(ommai_file_map_open(path, &self->map, error), failed);
  OMMAI_TRY_GOTO(read_tables(self, error), failed);
  *file = self;
  return OMMA_OK;
failed:
  ommai_gguf_close(self);
  return status;
}

void ommai_gguf_close(struct ommai_gguf *file) {
  if (!file) return;
  struct omma_allocator allocator = file->allocator;
  ommai_release(&allocator, file->keys, (size_t)file->n_keys, sizeof *file->keys);
  ommai_release(&allocator, file->tensors, (size_t)file->n_tensors, sizeof *file->tensors);
  ommai_release(&allocator, file->names, file->names_size, 1);
  ommai_file_map_close(&file->map);
  if (file->path) ommai_release(&allocator, file->path, strlen(file->path) + 1, 1);
  ommai_release(&allocator, file, 1, sizeof *file);
}

const char *ommai_gguf_path(const struct ommai_gguf *file) { return file->path; }

int64_t ommai_gguf_count(const struct ommai_gguf *file) { return file->n_tensors; }

const struct ommai_gguf_tensor *ommai_gguf_at(const struct ommai_gguf *file, int64_t index) { return &file->tensors[index]; }

const struct ommai_gguf_tensor *ommai_gguf_find(const struct ommai_gguf *file, const char *name) {
  const struct ommai_gguf_tensor wanted = {.name = name};
  if (!file->n_tensors) return NULL;
  return bsearch(&wanted, file->tensors, (size_t)file->n_tensors, sizeof wanted, compare_tensors);
}

void ommai_gguf_release(const struct ommai_gguf *file, uint64_t offset, uint64_t size) {
  ommai_file_map_release_pages(&file->map, (size_t)offset, (size_t)size);
}
