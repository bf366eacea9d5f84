/* The formats in which weights are kept in memory. What the rest of the program asks about one
 * stands in its table, in the file of the format (linear_NAME.c); the list of tables is here. */
#pragma once

#include <omma/model.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/gemv.h"

/* Every format: X(constant, table), in the order in which help lists them. The first is that of a
 * spec in which none was set. */
#define OMMAI_WEIGHT_FORMAT_LIST(X) X(F32, f32) X(BF16, bf16) X(INT8, int8) X(INT6, int6) X(INT4, int4)

enum ommai_weight_format {
#define OMMAI_FORMAT_CONSTANT(constant, table) OMMAI_FORMAT_##constant,
  OMMAI_WEIGHT_FORMAT_LIST(OMMAI_FORMAT_CONSTANT)
#undef OMMAI_FORMAT_CONSTANT
      OMMAI_WEIGHT_FORMATS
};

#define OMMAI_LINEAR_PART_PANELS 4 /* in a part of weights of 16 or 32 bits */

struct ommai_integer_traits;
struct ommai_linear_code;
struct ommai_linear_context;
struct ommai_linear_spec;

/* A word for omma_model_options.quantization that leads to a format. */
struct ommai_format_method {
  const char *name;
  int64_t group; /* inputs that share a scale; 0: all of an output */
};

struct ommai_linear_format {
  const char *name;
  enum ommai_weight_layout layout;
  int part_panels; /* of a part (linear_parts.h): parts of all formats take similar times */
  /* Bytes of the scales of one output; NULL: there are none. */
  int64_t (*scale_bytes)(const struct ommai_linear_spec *spec);

  /* Which layers it is for. */
  /* The word of the public interface that brings a tower's layers into it; AUTO: none. */
  enum omma_weight_type tower;
  /* What a language model has instead of it in layers that it would harm most, or that are few. */
  enum ommai_weight_format finer;
  /* Weights are rounded to integers with scales: not in patch embeddings, routers and norms. */
  bool quantised;

  /* How it is asked for, the usual method first, whose name is the format's; NULL: it cannot be. */
  struct ommai_format_method methods[5]; /* up to a NULL name */
  /* Bytes of a bf16 checkpoint that are packed in a second, in those that the same threads read
   * from memory: for estimates. */
  double packing_share;

  /* Integers of that many bits (weights/stored_matrix.h), or fewer, can be taken as they are; 0:
   * none can. */
  int stored_bits;
  /* Integers that no format takes as they are become this one's, with a scale for that many inputs;
   * 0: another format's. */
  int64_t stored_group;

  /* The largest error of a weight, in parts of the largest magnitude that shares its scale. */
  double rounding;

  const struct ommai_integer_traits *integer; /* linear_objects.h; NULL: other weights */
  /* What packs and multiplies such layers on this CPU. */
  const struct ommai_linear_code *(*code)(const struct ommai_linear_context *context, const struct ommai_linear_spec *spec);
};

const struct ommai_linear_format *ommai_linear_format(enum ommai_weight_format format);

/* The index-th of all methods, in the order of the list; NULL after the last. *format is whose it
 * is. */
const struct ommai_format_method *ommai_format_method(int index, enum ommai_weight_format *format);
