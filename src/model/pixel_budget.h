/* How many bytes the resized images of all requests may take together. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stddef.h>
#include <stdint.h>

struct ommai_pixel_budget;

/* limit 0: none. Errors: ARGUMENT (below 0), MEMORY. */
enum omma_status ommai_pixel_budget_create(int64_t limit, const struct omma_allocator *allocator,
                                           struct ommai_pixel_budget **budget, struct omma_error *error);
/* NULL is allowed. The budget lives on until all that was taken is given back: embeddings may
 * outlive their model. */
void ommai_pixel_budget_destroy(struct ommai_pixel_budget *budget);

/* Thread-safe. Give back what was taken. Errors: MEMORY (the limit would be passed; nothing is
 * taken). */
enum omma_status ommai_pixel_budget_take(struct ommai_pixel_budget *budget, size_t size, struct omma_error *error);
void ommai_pixel_budget_give_back(struct ommai_pixel_budget *budget, size_t size);
