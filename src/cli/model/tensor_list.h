/* Tensors named image.<i>.<what>, gathered and written as one safetensors file. */
#pragma once

#include <omma/omma.h>
#include <stdbool.h>

#define OMMAI_TENSOR_NAME_SIZE 64

struct ommai_tensor_list {
  struct omma_tensor *tensors;
  char (*names)[OMMAI_TENSOR_NAME_SIZE];
  size_t count, capacity;
};

/* An empty list with room for `capacity` tensors. Returns an exit code. */
int ommai_tensor_list_create(size_t capacity, struct ommai_tensor_list *list);
void ommai_tensor_list_release(struct ommai_tensor_list *list);

/* Adds `image.<index>.<what>`; `data` must live until the list is saved. Within the capacity
 * only. */
void ommai_tensor_list_add_matrix(struct ommai_tensor_list *list, size_t index, const char *what, int64_t rows, int64_t columns,
                                  const float *data);
void ommai_tensor_list_add_grid(struct ommai_tensor_list *list, size_t index, const int64_t grid_thw[3]);

/* Writes the file; Ctrl-C waits for it. Returns an exit code. */
int ommai_tensor_list_save(const struct ommai_tensor_list *list, const char *path);
