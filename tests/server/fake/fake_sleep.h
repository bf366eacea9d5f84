/* The scripted engine's sleep. */
#pragma once

#include <stdbool.h>

/* Whether it takes nothing in. */
bool fake_is_asleep(void);
