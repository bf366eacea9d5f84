#include "weights/tensor_index.h"

#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b) {
  const struct ommai_tensor *const *left = a;
  const struct ommai_tensor *const *right = b;
  return strcmp((*left)->name, (*right)->name);
}

void ommai_tensor_index_sort(const struct ommai_tensor **sorted, int64_t count) {
  qsort(sorted, (size_t)count, sizeof *sorted, compare_names);
}

int64_t ommai_tensor_index_duplicate(const struct ommai_tensor *const *sorted, int64_t count) {
  for (int64_t i = 0; i + 1 < count; i++) {
    if (strcmp(sorted[i]->name, sorted[i + 1]->name) == 0) return i;
  }
  return -1;
}

int64_t ommai_tensor_index_position(const struct ommai_tensor *const *sorted, int64_t count, const char *name) {
  int64_t low = 0, high = count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    int order = strcmp(name, sorted[middle]->name);
    if (order == 0) return middle;
    if (order < 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return -1;
}

const struct ommai_tensor *ommai_tensor_index_find(const struct ommai_tensor *const *sorted, int64_t count, const char *name) {
  int64_t position = ommai_tensor_index_position(sorted, count, name);
  return position < 0 ? NULL : sorted[position];
}

/* Length of the common beginning plus the common end, which may not overlap in the shorter
 * string. */
static size_t likeness(const char *a, const char *b) {
  size_t a_length = strlen(a), b_length = strlen(b);
  size_t shorter = a_length < b_length ? a_length : b_length;
  size_t front = 0, back = 0;
  while (front < shorter && a[front] == b[front]) front++;
  while (back < shorter - front && a[a_length - 1 - back] == b[b_length - 1 - back]) back++;
  return front + back;
}

const struct ommai_tensor *ommai_tensor_index_nearest(const struct ommai_tensor *const *sorted, int64_t count,
                                                      const char *name) {
  const struct ommai_tensor *nearest = NULL;
  size_t best = (strlen(name) + 1) / 2;
  for (int64_t i = 0; i < count; i++) {
    size_t score = likeness(name, sorted[i]->name);
    if (score > best || (score == best && !nearest)) {
      nearest = sorted[i];
      best = score;
    }
  }
  return nearest;
}
