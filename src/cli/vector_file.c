#include "cli/vector_file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/diagnostics.h"
#include "cli/json_out.h"

/* NumPy's header has a fixed size, so that the number of rows can be written last. */
enum { NPY_HEADER = 128, NPY_PREFIX = 10 };

static int lost(const struct ommai_vector_file *out) {
  return ommai_failed("%s: cannot be written: %s", out->path, strerror(errno));
}

/* Source: numpy.lib.format, version 1.0. */
static bool write_header(struct ommai_vector_file *out) {
  char header[NPY_HEADER + 1], shape[64];
  snprintf(shape, sizeof shape, out->vectors ? "(%lld, %lld)" : "(%lld,)", (long long)out->n_rows, (long long)out->width);
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = NPY_HEADER - NPY_PREFIX;
  header[9] = 0;
  int n = snprintf(header + NPY_PREFIX, sizeof header - NPY_PREFIX, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }",
                   shape);
  memset(header + NPY_PREFIX + n, ' ', (size_t)(NPY_HEADER - NPY_PREFIX - n));
  header[NPY_HEADER - 1] = '\n';
  return fwrite(header, 1, NPY_HEADER, out->file) == NPY_HEADER;
}

int ommai_vector_file_open(const char *path, bool vectors, struct ommai_vector_file *out) {
  *out = (struct ommai_vector_file){.path = path, .vectors = vectors, .is_npy = ommai_path_ends_with(path, ".npy")};
  if (strcmp(path, "-") == 0) {
    out->file = stdout;
    return OMMAI_EXIT_DONE;
  }
  if (!out->is_npy && !ommai_path_ends_with(path, ".jsonl")) {
    return ommai_usage_error("--output %s: expected a name that ends in .npy or .jsonl, or -", path);
  }
  int size = snprintf(out->temporary, sizeof out->temporary, "%s.part", path);
  if (size < 0 || (size_t)size >= sizeof out->temporary) return ommai_failed("--output: the path is too long");
  out->file = fopen(out->temporary, "wbe");
  if (!out->file) return ommai_failed("%s: %s", out->temporary, strerror(errno));
  return out->is_npy && !write_header(out) ? lost(out) : OMMAI_EXIT_DONE;
}

static bool add_binary(const struct ommai_vector_file *out, const float *values) {
  bool good = true;
  for (int64_t i = 0; i < out->width && good; i++) {
    const float value = values ? values[i] : NAN;
    good = fwrite(&value, sizeof value, 1, out->file) == 1;
  }
  return good;
}

/* Nine digits tell every f32 from its neighbours. */
static bool add_line(const struct ommai_vector_file *out, const float *values, int64_t n, const char *reason) {
  fprintf(out->file, "{\"index\":%lld,", (long long)out->n_rows);
  if (!values) {
    json_t *text = ommai_json_text(reason);
    fputs("\"error\":", out->file);
    if (text) json_dumpf(text, out->file, JSON_ENCODE_ANY);
    json_decref(text);
  } else if (out->vectors) {
    fputs("\"embedding\":[", out->file);
    for (int64_t i = 0; i < n; i++) fprintf(out->file, i ? ",%.9g" : "%.9g", values[i]);
    fputc(']', out->file);
  } else {
    fprintf(out->file, "\"score\":%.9g", values[0]);
  }
  fputs("}\n", out->file);
  return !ferror(out->file);
}

/* Rows of .npy that failed before the first good one, whose width is now known. */
static bool add_missing(struct ommai_vector_file *out) {
  bool good = true;
  for (int64_t i = 0; i < out->n_rows && good; i++) good = add_binary(out, NULL);
  return good;
}

int ommai_vector_file_add(struct ommai_vector_file *out, const float *values, int64_t n, const char *reason) {
  bool good = true;
  if (out->width == 0 && values) {
    out->width = n;
    if (out->is_npy) good = add_missing(out);
  }
  if (good) good = out->is_npy ? out->width == 0 || add_binary(out, values) : add_line(out, values, n, reason);
  out->n_rows++;
  return good ? OMMAI_EXIT_DONE : lost(out);
}

int ommai_vector_file_close(struct ommai_vector_file *out, bool complete, int64_t width) {
  if (!out->file) return OMMAI_EXIT_DONE;
  if (out->file == stdout) return ommai_finish_output();
  bool good = true;
  if (complete && out->is_npy) {
    if (out->width == 0) {
      out->width = width;
      good = add_missing(out);
    }
    good = good && fseek(out->file, 0, SEEK_SET) == 0 && write_header(out);
  }
  good = !fflush(out->file) && !ferror(out->file) && good;
  if (complete) good = good && fsync(fileno(out->file)) == 0;
  good = fclose(out->file) == 0 && good;
  if (complete && good && rename(out->temporary, out->path) == 0) return OMMAI_EXIT_DONE;
  int code = complete ? lost(out) : OMMAI_EXIT_DONE;
  unlink(out->temporary);
  return code;
}
