#include "cli/model/tensor_list.h"

#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "cli/core/diagnostics.h"
#include "cli/core/interrupt.h"

int ommai_tensor_list_create(size_t capacity, struct ommai_tensor_list *list) {
  *list = (struct ommai_tensor_list){.capacity = capacity};
  list->tensors = ommai_allocate(&ommai_default_allocator, capacity, sizeof *list->tensors);
  list->names = ommai_allocate(&ommai_default_allocator, capacity, sizeof *list->names);
  if (list->tensors && list->names) return OMMAI_EXIT_DONE;
  ommai_tensor_list_release(list);
  return ommai_failed("out of memory: a list of %zu tensors", capacity);
}

void ommai_tensor_list_release(struct ommai_tensor_list *list) {
  ommai_release(&ommai_default_allocator, list->tensors, list->capacity, sizeof *list->tensors);
  ommai_release(&ommai_default_allocator, list->names, list->capacity, sizeof *list->names);
  *list = (struct ommai_tensor_list){0};
}

static struct omma_tensor *add(struct ommai_tensor_list *list, size_t index, const char *what) {
  struct omma_tensor *tensor = &list->tensors[list->count];
  snprintf(list->names[list->count], OMMAI_TENSOR_NAME_SIZE, "image.%zu.%s", index, what);
  *tensor = (struct omma_tensor){.name = list->names[list->count]};
  list->count++;
  return tensor;
}

void ommai_tensor_list_add_matrix(struct ommai_tensor_list *list, size_t index, const char *what, int64_t rows, int64_t columns,
                                  const float *data) {
  struct omma_tensor *tensor = add(list, index, what);
  tensor->type = OMMA_TENSOR_F32;
  tensor->n_dims = 2;
  tensor->shape[0] = rows;
  tensor->shape[1] = columns;
  tensor->data = data;
}

void ommai_tensor_list_add_grid(struct ommai_tensor_list *list, size_t index, const int64_t grid_thw[3]) {
  struct omma_tensor *tensor = add(list, index, "grid_thw");
  tensor->type = OMMA_TENSOR_I64;
  tensor->n_dims = 1;
  tensor->shape[0] = 3;
  tensor->data = grid_thw;
}

int ommai_tensor_list_save(const struct ommai_tensor_list *list, const char *path) {
  struct omma_error error;
  ommai_interrupt_defer();
  enum omma_status status = omma_save_tensors(path, list->tensors, list->count, &error);
  bool interrupted = ommai_interrupted();
  ommai_interrupt_resume();
  if (status != OMMA_OK) return ommai_failed_call(&error);
  return interrupted ? ommai_failed("interrupted after %s was written", path) : OMMAI_EXIT_DONE;
}
