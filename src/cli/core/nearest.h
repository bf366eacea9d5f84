/* The name that somebody probably meant. */
#pragma once

#include <stddef.h>

/* Longer names are near to none. */
#define OMMAI_NEAREST_MAX_NAME 48

/* A running search: zero-initialise, set `wanted`, offer every name; `best` is then the nearest
 * one, or NULL when none is near. Near: one letter and a quarter of them more added, dropped,
 * changed or swapped, or one begins with the other. */
struct ommai_nearest {
  const char *wanted;
  const char *best;
  size_t distance;
};
void ommai_nearest_offer(struct ommai_nearest *search, const char *name);
