#include "cli/model/image_sources.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/file.h"
#include "cli/core/diagnostics.h"
#include "cli/core/pasted_paths.h"
#include "cli/core/paths.h"
#include "cli/model/foreign_images.h"

#define MAX_INPUT_BYTES ((size_t)64 << 20)
#define SHOWN_SOURCE 60

static bool starts_with(const char *text, const char *prefix) { return strncasecmp(text, prefix, strlen(prefix)) == 0; }

static bool is_network_address(const char *source) {
  const char *end = strstr(source, "://");
  if (!end || end == source) return false;
  for (const char *c = source; c < end; c++) {
    bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
    bool other = (*c >= '0' && *c <= '9') || *c == '+' || *c == '-' || *c == '.';
    if (!letter && !(other && c > source)) return false;
  }
  return true;
}

/* Reports that `source` is not an image, what it is where that is known, and what converts it. */
static int refuse_image(const char *source, const void *bytes, size_t size, struct omma_error *error) {
  bool unreadable = error->status == OMMA_ERROR_UNSUPPORTED || strstr(error->message, "cannot identify image");
  const struct ommai_foreign_image *foreign = unreadable && size ? ommai_foreign_image(bytes, size) : NULL;
  bool named = strstr(error->message, source) != NULL;
  const char *name = named ? "" : source, *colon = named ? "" : ": ";
  if (foreign) return ommai_failed("image: %s%s%s; it is %s: %s", name, colon, error->message, foreign->name, foreign->hint);
  if (!unreadable || !size) return ommai_failed("image: %s%s%s", name, colon, error->message);
  return ommai_failed("image: %s%s%s (magick FILE out.png converts many formats)", name, colon, error->message);
}

static int decode(const char *source, const void *bytes, size_t size, struct omma_image **image) {
  struct omma_error error;
  if (omma_image_decode(bytes, size, NULL, image, &error) == OMMA_OK) return OMMAI_EXIT_DONE;
  return refuse_image(source, bytes, size, &error);
}

static int load_data_url(const char *source, struct omma_image **image) {
  const char *comma = strchr(source, ',');
  char name[SHOWN_SOURCE + 4];
  snprintf(name, sizeof name, "%.*s...", SHOWN_SOURCE, source);
  if (!comma || comma - source < 12 || strncasecmp(comma - 7, ";base64", 7) != 0) {
    return ommai_failed("image: %s: a data: URL must have the form data:image/png;base64,...", name);
  }
  const char *encoded = comma + 1;
  size_t encoded_size = strlen(encoded), capacity = encoded_size / 4 * 3 + 3, size;
  unsigned char *bytes = ommai_allocate(&ommai_default_allocator, capacity, 1);
  if (!bytes) return ommai_failed("image: out of memory: a data: URL of %zu bytes", encoded_size);
  const char *end;
  int code;
  if (sodium_base642bin(bytes, capacity, encoded, encoded_size, " \r\n\t", &size, &end, sodium_base64_VARIANT_ORIGINAL) != 0 ||
      *end) {
    code = ommai_failed("image: %s: broken base64 near byte %td", name, end - source);
  } else {
    code = decode(name, bytes, size, image);
  }
  ommai_release(&ommai_default_allocator, bytes, capacity, 1);
  return code;
}

/* Everything that a stream holds, with a NUL after it; `name` is for messages. Release with free.
 * Returns an exit code. */
static int read_stream(FILE *stream, const char *name, char **text, size_t *size) {
  FILE *memory = open_memstream(text, size);
  if (!memory) return ommai_failed("%s: out of memory", name);
  char block[16384];
  size_t total = 0, got;
  while (total <= MAX_INPUT_BYTES && (got = fread(block, 1, sizeof block, stream)) > 0) {
    fwrite(block, 1, got, memory);
    total += got;
  }
  int code = OMMAI_EXIT_DONE;
  bool lost = ferror(memory) != 0;
  if (fclose(memory) != 0 || lost) {
    code = ommai_failed("%s: out of memory", name);
  } else if (ferror(stream)) {
    code = ommai_failed("%s: cannot be read", name);
  } else if (total > MAX_INPUT_BYTES) {
    code = ommai_failed("%s: more than %zu bytes", name, MAX_INPUT_BYTES);
  }
  if (code == OMMAI_EXIT_DONE) return code;
  free(*text);
  *text = NULL;
  return code;
}

static int load_stream(FILE *stream, const char *name, struct omma_image **image) {
  char *bytes;
  size_t size;
  int code = read_stream(stream, name, &bytes, &size);
  if (code != OMMAI_EXIT_DONE) return code;
  code = decode(name, bytes, size, image);
  free(bytes);
  return code;
}

static int load_standard_input(struct omma_image **image) {
  if (isatty(STDIN_FILENO)) {
    return ommai_usage_error("image: -: standard input is a terminal: pipe an image into it, such as curl -s URL | omma ...");
  }
  return load_stream(stdin, "standard input", image);
}

/* A pipe or a device, such as a shell's <(command), is read once. */
static int load_pipe(const char *path, struct omma_image **image) {
  FILE *stream = fopen(path, "rb");
  if (!stream) return ommai_failed("image: %s: %s", path, strerror(errno));
  int code = load_stream(stream, path, image);
  fclose(stream);
  return code;
}

/* Reads the beginning of a file; returns how much there was. */
static size_t read_start(const char *path, char *start, size_t size) {
  FILE *file = fopen(path, "rb");
  size_t got = file ? fread(start, 1, size, file) : 0;
  if (file) fclose(file);
  return got;
}

static bool is_pipe(const char *path) {
  struct stat found;
  return stat(path, &found) == 0 && (S_ISFIFO(found.st_mode) || S_ISCHR(found.st_mode));
}

static int load_file(const char *path, struct omma_image **image) {
  struct omma_error error;
  if (is_pipe(path)) return load_pipe(path, image);
  if (omma_image_load(path, NULL, image, &error) == OMMA_OK) return OMMAI_EXIT_DONE;
  char start[OMMAI_FOREIGN_IMAGE_BYTES];
  size_t size = error.status == OMMA_ERROR_IO ? 0 : read_start(path, start, sizeof start);
  return refuse_image(path, start, size, &error);
}

bool ommai_holds_image(const char *path) {
  struct omma_image *image;
  if (omma_image_load(path, NULL, &image, NULL) == OMMA_OK) {
    omma_image_destroy(image);
    return true;
  }
  char start[OMMAI_FOREIGN_IMAGE_BYTES];
  return ommai_foreign_image(start, read_start(path, start, sizeof start)) != NULL;
}

bool ommai_is_standard_input(const char *source) {
  return strcmp(source, "-") == 0 || strcmp(source, "/dev/stdin") == 0 || strcmp(source, "/dev/fd/0") == 0;
}

bool ommai_is_image_source(const char *word) {
  if (ommai_is_standard_input(word) || ommai_file_exists(word) || is_pipe(word)) return true;
  bool one_word = !strpbrk(word, " \t\r\n");
  return one_word && (starts_with(word, "data:image/") || is_network_address(word));
}

int ommai_load_image(const char *source, struct omma_image **image) {
  char path[OMMAI_MAX_PATH];
  if (ommai_is_standard_input(source)) return load_standard_input(image);
  if (starts_with(source, "data:")) return load_data_url(source, image);
  if (ommai_file_address(source, path, sizeof path)) return load_file(path, image);
  if (is_network_address(source)) {
    return ommai_usage_error(
        "image: %s: images are not fetched from the network: download it, or pipe it in: "
        "curl -s URL | omma ... - (a file, a data: URL, file:// or - is expected)",
        source);
  }
  return load_file(source, image);
}

int ommai_load_images(const char *const *sources, size_t count, struct omma_image ***images) {
  struct omma_image **loaded = ommai_allocate(&ommai_default_allocator, count, sizeof *loaded);
  if (!loaded) return ommai_failed("image: out of memory: a list of %zu images", count);
  for (size_t i = 0; i < count; i++) {
    int code = ommai_load_image(sources[i], &loaded[i]);
    if (code != OMMAI_EXIT_DONE) {
      ommai_release_images(loaded, count);
      return code;
    }
  }
  *images = loaded;
  return OMMAI_EXIT_DONE;
}

void ommai_release_images(struct omma_image **images, size_t count) {
  if (!images) return;
  for (size_t i = 0; i < count; i++) omma_image_destroy(images[i]);
  ommai_release(&ommai_default_allocator, images, count, sizeof *images);
}

int ommai_read_input(char **text, size_t *size) { return read_stream(stdin, "standard input", text, size); }
