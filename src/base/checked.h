/* Arithmetic on sizes that come from files and requests: false instead of overflow. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool ommai_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool ommai_add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool ommai_mul_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool ommai_add_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }

/* ceil(a / b) and a rounded up to a multiple of b, for a >= 0, b > 0 and results that fit. */
static inline int64_t ommai_div_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }
static inline int64_t ommai_round_up(int64_t a, int64_t b) { return ommai_div_up(a, b) * b; }

static inline int64_t ommai_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ommai_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
