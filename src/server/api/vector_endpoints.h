/* What requests for vectors and scores are at each path. */
#pragma once

#include "server/api/vector_fields.h"

/* NULL where the path is none of them. */
const struct ommai_vector_rules *ommai_vector_rules_of(const char *path);
