#include "weights/safetensors_stream.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "weights/part_file.h"
#include "weights/safetensors.h"

#define LENGTH_BYTES 8
/* Of an entry but its name: {"dtype":"BF16","shape":[N,...],"data_offsets":[N,N]} with up to eight
 * sizes of 19 digits. */
#define ENTRY_BYTES 256

struct ommai_safetensors_stream {
  struct omma_allocator allocator;
  char *path;
  json_t *header;
  size_t max_tensors;
  size_t head_bytes; /* length field and header */
  uint64_t n_bytes;  /* of data */
  struct ommai_part_file file;
};

/* The bytes before the data, all blanks but the length field; NULL when memory is out. */
static unsigned char *blank_head(const struct ommai_safetensors_stream *stream) {
  unsigned char *head = ommai_allocate(&stream->allocator, stream->head_bytes, 1);
  if (!head) return NULL;
  uint64_t length = stream->head_bytes - LENGTH_BYTES;
  memset(head, ' ', stream->head_bytes);
  memcpy(head, &length, sizeof length);
  return head;
}

enum omma_status ommai_safetensors_stream_create(const char *path, size_t max_tensors, const struct omma_allocator *allocator,
                                                 struct ommai_safetensors_stream **stream, struct omma_error *error) {
  const size_t most = (OMMAI_SAFETENSORS_MAX_HEADER_BYTES - ENTRY_BYTES) / (OMMAI_STREAM_NAME_BYTES + ENTRY_BYTES);
  if (max_tensors > most) {
    return ommai_fail(error, OMMA_ERROR_ARGUMENT, "%s: at most %zu tensors fit into one file, not %zu", path, most,
                      max_tensors);
  }
  struct ommai_safetensors_stream *self = ommai_allocate(allocator, 1, sizeof *self);
  if (!self) return ommai_fail_memory(error, path, sizeof *self);
  self->allocator = *allocator;
  self->max_tensors = max_tensors;
  self->head_bytes = LENGTH_BYTES + ENTRY_BYTES + max_tensors * (OMMAI_STREAM_NAME_BYTES + ENTRY_BYTES);
  self->file.fd = -1;
  self->path = ommai_duplicate(allocator, path, strlen(path));
  self->header = json_object();
  unsigned char *head = blank_head(self);
  enum omma_status status = OMMA_OK;
  if (!self->path || !self->header || !head) status = ommai_fail_memory(error, path, self->head_bytes);
  if (status == OMMA_OK) status = ommai_part_file_create(&self->file, self->path, error);
  if (status == OMMA_OK) status = ommai_part_file_write(&self->file, head, self->head_bytes, error);
  ommai_release(allocator, head, self->head_bytes, 1);
  if (status != OMMA_OK) {
    ommai_safetensors_stream_destroy(self);
    return status;
  }
  *stream = self;
  return OMMA_OK;
}

void ommai_safetensors_stream_destroy(struct ommai_safetensors_stream *stream) {
  if (!stream) return;
  struct omma_allocator allocator = stream->allocator;
  ommai_part_file_discard(&stream->file);
  json_decref(stream->header);
  if (stream->path) ommai_release(&allocator, stream->path, strlen(stream->path) + 1, 1);
  ommai_release(&allocator, stream, 1, sizeof *stream);
}

static enum omma_status check_name(const struct ommai_safetensors_stream *stream, const char *name, struct omma_error *error) {
  const char *fault = NULL;
  json_t *text = json_string(name);
  size_t spelled = text ? json_dumpb(text, NULL, 0, JSON_ENCODE_ANY) : 0;
  json_decref(text);
  if (spelled == 0) fault = "is not UTF-8 text";
  if (spelled > OMMAI_STREAM_NAME_BYTES) fault = "is too long";
  if (json_object_get(stream->header, name)) fault = "was added before";
  if (strcmp(name, "__metadata__") == 0) fault = "is reserved";
  if (!fault && json_object_size(stream->header) >= stream->max_tensors) fault = "is one more than was stated";
  if (!fault) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "name", "%s: tensor name \"%.120s\" %s", stream->path, name, fault);
}

enum omma_status ommai_safetensors_stream_add(struct ommai_safetensors_stream *stream, const char *name,
                                              enum ommai_tensor_type type, int n_dims, const int64_t *shape, const void *data,
                                              struct omma_error *error) {
  int64_t n_elements;
  uint64_t size;
  OMMAI_TRY(check_name(stream, name, error));
  if (!ommai_tensor_size(type, n_dims, shape, &n_elements, &size)) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "shape", "%s: tensor \"%.120s\": no size for %s with %d dimensions",
                            stream->path, name, ommai_tensor_type_name(type), n_dims);
  }
  OMMAI_TRY(ommai_part_file_write(&stream->file, data, size, error));
  json_t *sizes = json_array();
  for (int i = 0; i < n_dims; i++) json_array_append_new(sizes, json_integer(shape[i]));
  json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", ommai_tensor_type_name(type), "shape", sizes, "data_offsets",
                            (json_int_t)stream->n_bytes, (json_int_t)(stream->n_bytes + size));
  if (!entry || json_array_size(sizes) != (size_t)n_dims) {
    json_decref(entry);
    return ommai_fail_memory(error, stream->path, ENTRY_BYTES);
  }
  if (json_object_set_new(stream->header, name, entry) != 0) return ommai_fail_memory(error, stream->path, ENTRY_BYTES);
  stream->n_bytes += size;
  return OMMA_OK;
}

enum omma_status ommai_safetensors_stream_finish(struct ommai_safetensors_stream *stream, struct omma_error *error) {
  unsigned char *head = blank_head(stream);
  if (!head) return ommai_fail_memory(error, stream->path, stream->head_bytes);
  size_t room = stream->head_bytes - LENGTH_BYTES;
  size_t used = json_dumpb(stream->header, (char *)head + LENGTH_BYTES, room, JSON_COMPACT);
  enum omma_status status;
  if (used == 0 || used > room) {
    status = ommai_fail(error, OMMA_ERROR_MEMORY, "%s: out of memory for the JSON header", stream->path);
  } else {
    status = ommai_part_file_rewrite(&stream->file, head, stream->head_bytes, error);
  }
  ommai_release(&stream->allocator, head, stream->head_bytes, 1);
  if (status != OMMA_OK) {
    ommai_part_file_discard(&stream->file);
    return status;
  }
  return ommai_part_file_commit(&stream->file, error);
}
