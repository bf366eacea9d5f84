/* Lookup of tensors by name: an array of pointers sorted by name. Chosen over a hash table because
 * file contents cannot make it slow, equal names become neighbours, and it needs no memory beyond
 * the pointers. */
#pragma once

#include "weights/tensor.h"

/* Sorts `count` pointers by name. */
void ommai_tensor_index_sort(const struct ommai_tensor **sorted, int64_t count);

/* The first position i with sorted[i] and sorted[i + 1] of the same name; -1 when all names
 * differ. */
int64_t ommai_tensor_index_duplicate(const struct ommai_tensor *const *sorted, int64_t count);

/* The position of the tensor of that name; -1 when there is none. O(log count). */
int64_t ommai_tensor_index_position(const struct ommai_tensor *const *sorted, int64_t count, const char *name);

/* The tensor of that name, or NULL. */
const struct ommai_tensor *ommai_tensor_index_find(const struct ommai_tensor *const *sorted, int64_t count, const char *name);

/* The tensor whose name shares the longest beginning and end with `name`, when they cover at least
 * half of it; else NULL. */
const struct ommai_tensor *ommai_tensor_index_nearest(const struct ommai_tensor *const *sorted, int64_t count,
                                                      const char *name);
