/* Checking and copying of struct omma_sampling. */
#pragma once

#include "request/request.h"

/* Checks every value and copies the settings into the request. Errors: ARGUMENT with the field's
 * name and value, MEMORY. */
enum omma_status ommai_request_set_sampling(struct omma_request *request, const struct omma_sampling *sampling,
                                            struct omma_error *error);
