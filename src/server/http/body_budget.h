/* The bytes that the bodies of all requests may take together while they are received or parsed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct ommai_http_call;

/* Takes `size` more bytes of the budget for the call's body; ommai_http_call_release_body gives
 * them back. Where the budget is spent, slower bodies lose what they have and get 503; false when
 * there is none. IO thread. */
bool ommai_body_budget_reserve(struct ommai_http_call *call, size_t size);
