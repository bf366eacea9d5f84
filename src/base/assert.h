/* What always holds, checked in builds for debugging and for sanitizers and compiled out of all
 * others. For invariants of our own objects: input is never checked like this. */
#pragma once

#ifdef OMMA_ASSERTIONS
#undef NDEBUG
#include <assert.h>
#define OMMAI_ASSERT(condition) assert(condition)
#else
/* Compiled for its types, never evaluated. */
#define OMMAI_ASSERT(condition) ((void)sizeof(!(condition)))
#endif

/* Somebody holds the mutex, which in code that belongs under it is this thread. */
#define OMMAI_ASSERT_LOCKED(mutex) OMMAI_ASSERT(pthread_mutex_trylock(mutex) != 0)
