#include "cli/inputs.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/allocator.h"
#include "base/error.h"
#include "cli/diagnostics.h"

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

static int load_data_url(const char *source, struct omma_image **image) {
  const char *comma = strchr(source, ',');
  if (!comma || comma - source < 12 || strncasecmp(comma - 7, ";base64", 7) != 0) {
    return ommai_failed("image: %.*s...: a data: URL must have the form data:image/png;base64,...", SHOWN_SOURCE, source);
  }
  const char *encoded = comma + 1;
  size_t encoded_size = strlen(encoded), capacity = encoded_size / 4 * 3 + 3, size;
  unsigned char *bytes = ommai_allocate(&ommai_default_allocator, capacity, 1);
  if (!bytes) return ommai_failed("image: out of memory: a data: URL of %zu bytes", encoded_size);
  const char *end;
  int code;
  struct omma_error error;
  if (sodium_base642bin(bytes, capacity, encoded, encoded_size, " \r\n\t", &size, &end, sodium_base64_VARIANT_ORIGINAL) != 0 ||
      *end) {
    code = ommai_failed("image: %.*s...: broken base64 near byte %td", SHOWN_SOURCE, source, end - source);
  } else if (omma_image_decode(bytes, size, NULL, image, &error) != OMMA_OK) {
    ommai_error_prefix(&error, "image: %.*s...", SHOWN_SOURCE, source);
    code = ommai_failed_call(&error);
  } else {
    code = OMMAI_EXIT_DONE;
  }
  ommai_release(&ommai_default_allocator, bytes, capacity, 1);
  return code;
}

int ommai_load_image(const char *source, struct omma_image **image) {
  if (starts_with(source, "data:")) return load_data_url(source, image);
  if (is_network_address(source)) {
    return ommai_wrong_use("image: %s: pictures are not fetched from addresses: give a file or a data: URL", source);
  }
  struct omma_error error;
  if (omma_image_load(source, NULL, image, &error) == OMMA_OK) return OMMAI_EXIT_DONE;
  if (!strstr(error.message, source)) ommai_error_prefix(&error, "image: %s", source);
  return ommai_failed_call(&error);
}

int ommai_load_images(const char *const *sources, size_t count, struct omma_image ***images) {
  struct omma_image **loaded = ommai_allocate(&ommai_default_allocator, count, sizeof *loaded);
  if (!loaded) return ommai_failed("image: out of memory: a list of %zu pictures", count);
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

int ommai_read_input(char **text, size_t *size) {
  FILE *memory = open_memstream(text, size);
  if (!memory) return ommai_failed("standard input: out of memory");
  char block[16384];
  size_t total = 0, got;
  while (total <= MAX_INPUT_BYTES && (got = fread(block, 1, sizeof block, stdin)) > 0) {
    fwrite(block, 1, got, memory);
    total += got;
  }
  int code = OMMAI_EXIT_DONE;
  bool lost = ferror(memory) != 0;
  if (fclose(memory) != 0 || lost) {
    code = ommai_failed("standard input: out of memory");
  } else if (ferror(stdin)) {
    code = ommai_failed("standard input: cannot be read");
  } else if (total > MAX_INPUT_BYTES) {
    code = ommai_failed("standard input: more than %zu bytes", MAX_INPUT_BYTES);
  }
  if (code == OMMAI_EXIT_DONE) return code;
  free(*text);
  *text = NULL;
  return code;
}
