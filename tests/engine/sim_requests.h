/* Requests of a case, as the library makes them of messages: here from numbers. */
#pragma once

#include "engine/sim_case.h"
#include "request/request.h"

/* The images that requests have; their pixels are shared by all. */
struct sim_images {
  struct ommai_pixel_budget *budget;
  struct ommai_prepared_image images[SIM_N_IMAGES];
  struct ommai_image_key keys[SIM_N_IMAGES];
};
void sim_images_make(struct sim_images *images);
void sim_images_free(struct sim_images *images);

/* The caller destroys it with sim_request_free. What the engine allocates for it comes from
 * `allocator`. */
struct omma_request *sim_request_make(const struct sim_request *wanted, const struct sim_images *images,
                                      const struct omma_model *model, const struct omma_allocator *allocator);
void sim_request_free(struct omma_request *request);
