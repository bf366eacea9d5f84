/* Replies with vectors and scores, as vLLM writes them. */
#pragma once

#include "server/api/vector_result.h"

/* Appends the body. Returns its content type. A failed allocation is the text's. */
const char *ommai_vector_reply_write(const struct ommai_vector_reply *reply, struct ommai_text *out);
