#include "model/pixel_budget.h"

#include <stdatomic.h>

#include "base/allocator.h"
#include "base/assert.h"
#include "base/error.h"

struct ommai_pixel_budget {
  struct omma_allocator allocator;
  size_t limit;
  atomic_size_t taken;
  atomic_size_t n_owners; /* its maker, and what was taken */
};

enum omma_status ommai_pixel_budget_create(int64_t limit, const struct omma_allocator *allocator,
                                           struct ommai_pixel_budget **out, struct omma_error *error) {
  if (limit < 0) {
    return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "max_resized_bytes",
                            "max_resized_bytes: expected 0 or more, found %lld", (long long)limit);
  }
  struct ommai_pixel_budget *budget = ommai_allocate(allocator, 1, sizeof *budget);
  if (!budget) return ommai_fail_memory(error, "budget for resized images", sizeof *budget);
  budget->allocator = *allocator;
  atomic_init(&budget->n_owners, 1);
  budget->limit = limit ? (size_t)limit : SIZE_MAX;
  *out = budget;
  return OMMA_OK;
}

void ommai_pixel_budget_destroy(struct ommai_pixel_budget *budget) {
  if (!budget || atomic_fetch_sub(&budget->n_owners, 1) != 1) return;
  struct omma_allocator allocator = budget->allocator;
  ommai_release(&allocator, budget, 1, sizeof *budget);
}

enum omma_status ommai_pixel_budget_take(struct ommai_pixel_budget *budget, size_t size, struct omma_error *error) {
  size_t taken = atomic_load(&budget->taken);
  do {
    if (size > budget->limit - taken) {
      return ommai_fail(error, OMMA_ERROR_MEMORY, "resized images: %zu bytes wanted, %zu of %zu are taken", size, taken,
                        budget->limit);
    }
  } while (!atomic_compare_exchange_weak(&budget->taken, &taken, taken + size));
  atomic_fetch_add(&budget->n_owners, 1);
  return OMMA_OK;
}

void ommai_pixel_budget_give_back(struct ommai_pixel_budget *budget, size_t size) {
  OMMAI_ASSERT(atomic_load(&budget->taken) >= size);
  atomic_fetch_sub(&budget->taken, size);
  ommai_pixel_budget_destroy(budget);
}
