#include "cli/model/vector_file.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/file.h"
#include "base/json_writer.h"
#include "cli/core/diagnostics.h"
#include "cli/core/paths.h"

/* NumPy's header has a fixed size, so that the number of rows can be written last. */
enum { NPY_HEADER = 128, NPY_PREFIX = 10 };

static int lost(const struct ommai_vector_file *out) {
  return ommai_failed("%s: cannot be written: %s", out->path, strerror(errno));
}

/* ---- one file ---- */

/* Source: numpy.lib.format, version 1.0. width 0: one number a row. */
static bool write_header(FILE *file, const char *type, int64_t n_rows, int64_t width) {
  char header[NPY_HEADER + 1], shape[64];
  snprintf(shape, sizeof shape, width ? "(%lld, %lld)" : "(%lld,)", (long long)n_rows, (long long)width);
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = NPY_HEADER - NPY_PREFIX;
  header[9] = 0;
  int n = snprintf(header + NPY_PREFIX, sizeof header - NPY_PREFIX, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                   type, shape);
  memset(header + NPY_PREFIX + n, ' ', (size_t)(NPY_HEADER - NPY_PREFIX - n));
  header[NPY_HEADER - 1] = '\n';
  return fwrite(header, 1, NPY_HEADER, file) == NPY_HEADER;
}

/* NAME, or with `extra` NAMEextra.npy of NAME.npy. */
static int open_part(const char *path, const char *extra, struct ommai_part_file *part) {
  size_t length = strlen(path) - (extra ? strlen(".npy") : 0);
  int size = snprintf(part->path, sizeof part->path, "%.*s%s%s", (int)length, path, extra ? extra : "", extra ? ".npy" : "");
  if (size >= 0 && (size_t)size < sizeof part->path) {
    size = snprintf(part->temporary, sizeof part->temporary, "%s.part", part->path);
  }
  if (size < 0 || (size_t)size >= sizeof part->temporary) return ommai_failed("--output: the path is too long");
  part->file = fopen(part->temporary, "wbe");
  return part->file ? OMMAI_EXIT_DONE : ommai_failed("%s: %s", part->path, strerror(errno));
}

static bool close_part(struct ommai_part_file *part, bool complete) {
  if (!part->file) return true;
  bool good = !fflush(part->file) && !ferror(part->file) && complete;
  if (complete) good = good && fsync(fileno(part->file)) == 0;
  good = fclose(part->file) == 0 && good;
  if (good && rename(part->temporary, part->path) == 0) return true;
  unlink(part->temporary);
  return !complete;
}

/* ---- the beginning ---- */

int ommai_vector_file_check(const char *path) {
  if (strcmp(path, "-") == 0) return OMMAI_EXIT_DONE;
  if (ommai_path_ends_with(path, ".npy") || ommai_path_ends_with(path, ".jsonl")) return ommai_check_output_path(path);
  return ommai_usage_error("--output %s: expected a name that ends in .npy or .jsonl, or -", path);
}

static bool add_offset(const struct ommai_vector_file *out) {
  return !out->offsets.file || fwrite(&out->n_rows, sizeof out->n_rows, 1, out->offsets.file) == 1;
}

int ommai_vector_file_open(const char *path, enum ommai_vector_shape shape, struct ommai_vector_file *out) {
  *out = (struct ommai_vector_file){.path = path, .shape = shape, .is_npy = ommai_path_ends_with(path, ".npy")};
  if (strcmp(path, "-") == 0) {
    out->file = stdout;
    return OMMAI_EXIT_DONE;
  }
  int code = open_part(path, NULL, &out->values);
  out->file = out->values.file;
  if (code != OMMAI_EXIT_DONE || !out->is_npy) return code;
  bool good = write_header(out->file, "<f4", 0, 0);
  if (shape == OMMAI_VECTOR_LISTS) {
    OMMAI_TRY_CODE(open_part(path, ".offsets", &out->offsets));
    good = good && write_header(out->offsets.file, "<i8", 0, 0) && add_offset(out);
  }
  return good ? OMMAI_EXIT_DONE : lost(out);
}

/* ---- what is added ---- */

/* A row of .npy; NULL: one that failed. */
static bool add_row(const struct ommai_vector_file *out, const float *values) {
  bool good = true;
  for (int64_t i = 0; i < out->width && good; i++) {
    const float value = values ? values[i] : NAN;
    good = fwrite(&value, sizeof value, 1, out->file) == 1;
  }
  return good;
}

/* Rows that failed before the first good one, whose width is now known. */
static bool add_missing(const struct ommai_vector_file *out) {
  bool good = true;
  for (int64_t i = 0; i < out->n_rows && good; i++) good = add_row(out, NULL);
  return good;
}

static bool add_binary(struct ommai_vector_file *out, const struct omma_vectors *vectors) {
  bool lists = out->shape == OMMAI_VECTOR_LISTS, good = true;
  if (out->width == 0 && vectors) {
    out->width = vectors->width;
    good = add_missing(out);
  }
  const int64_t n = vectors ? vectors->n_rows : lists ? 0 : 1;
  for (int64_t i = 0; i < n && good; i++) good = add_row(out, vectors ? vectors->values + i * vectors->width : NULL);
  out->n_rows += n;
  return good && add_offset(out);
}

/* Nine digits tell every f32 from its neighbours. */
static void add_vectors(struct ommai_text *line, enum ommai_vector_shape shape, const struct omma_vectors *vectors) {
  if (shape == OMMAI_VECTOR_VALUES) {
    ommai_put_number(line, "score", vectors->values[0], 9);
    return;
  }
  ommai_put_key(line, "embedding", strlen("embedding"));
  if (shape == OMMAI_VECTOR_LISTS) ommai_put_begin(line, NULL, "[");
  for (int64_t i = 0; i < vectors->n_rows; i++) {
    ommai_put_begin(line, NULL, "[");
    for (int64_t j = 0; j < vectors->width; j++) ommai_put_number(line, NULL, vectors->values[i * vectors->width + j], 9);
    ommai_put_end(line, "]");
  }
  if (shape == OMMAI_VECTOR_LISTS) ommai_put_end(line, "]");
}

static bool add_line(const struct ommai_vector_file *out, const struct omma_vectors *vectors, const char *reason) {
  struct ommai_text line = ommai_text_of(&ommai_default_allocator);
  ommai_put_begin(&line, NULL, "{");
  ommai_put_integer(&line, "index", out->n_inputs);
  if (vectors) {
    add_vectors(&line, out->shape, vectors);
  } else {
    ommai_put_string(&line, "error", reason);
  }
  ommai_put_end(&line, "}\n");
  bool good = !line.failed && fwrite(line.data, 1, line.size, out->file) == line.size;
  ommai_text_free(&line);
  return good;
}

int ommai_vector_file_add(struct ommai_vector_file *out, const struct omma_vectors *vectors, const char *reason) {
  bool good = out->is_npy ? add_binary(out, vectors) : add_line(out, vectors, reason);
  out->n_inputs++;
  return good ? OMMAI_EXIT_DONE : lost(out);
}

/* ---- the end ---- */

/* Numbers of rows into the headers. */
static bool complete_binary(struct ommai_vector_file *out, int64_t width) {
  bool good = true;
  if (out->width == 0) {
    out->width = out->shape == OMMAI_VECTOR_VALUES ? 1 : width;
    good = add_missing(out);
  }
  good = good && fseek(out->file, 0, SEEK_SET) == 0 &&
         write_header(out->file, "<f4", out->n_rows, out->shape == OMMAI_VECTOR_VALUES ? 0 : out->width);
  if (!out->offsets.file) return good;
  return good && fseek(out->offsets.file, 0, SEEK_SET) == 0 && write_header(out->offsets.file, "<i8", out->n_inputs + 1, 0);
}

int ommai_vector_file_close(struct ommai_vector_file *out, bool complete, int64_t width) {
  if (out->file == stdout) return ommai_finish_output();
  if (!out->file) return OMMAI_EXIT_DONE;
  bool good = !complete || !out->is_npy || complete_binary(out, width);
  good = close_part(&out->offsets, complete && good) && good;
  good = close_part(&out->values, complete && good) && good;
  return good ? OMMAI_EXIT_DONE : lost(out);
}
