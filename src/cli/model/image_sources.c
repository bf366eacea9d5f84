#include "cli/model/image_sources.h"

#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/file.h"
#include "cli/core/diagnostics.h"
#include "cli/core/folder_files.h"
#include "cli/core/pasted_paths.h"
#include "cli/core/paths.h"

#define MAX_INPUT_BYTES ((size_t)64 << 20)
#define SHOWN_SOURCE 60

/* ---- files that people take for images ---- */

/* As many bytes from the start of a file as the search needs. */
#define FOREIGN_IMAGE_BYTES 512

struct foreign_image {
  const char *name; /* with its article: "a PDF" */
  /* the command that converts it, with FILE for the file's name, or what else to do */
  const char *hint;
};

struct format {
  size_t offset, size;
  const char *bytes;
  struct foreign_image image;
};

#define HEIF_HINT "heif-convert FILE out.png"
#define VIDEO_HINT "ffmpeg -i FILE -vf fps=2 FRAMES/%d.png, and then --video FRAMES"
#define AUDIO_HINT "models here see images and read text, sound is not supported"
#define MAGICK_HINT "magick FILE out.png"

/* ISO base media files tell their kind in the four bytes after "ftyp"; the last of them stands for
 * all others: videos. */
static const struct format formats[] = {
    {4, 8, "ftypheic", {"a HEIC image", HEIF_HINT}},
    {4, 8, "ftypheix", {"a HEIC image", HEIF_HINT}},
    {4, 8, "ftypmif1", {"a HEIF image", HEIF_HINT}},
    {4, 8, "ftypmsf1", {"a HEIF image", HEIF_HINT}},
    {4, 8, "ftypavif", {"an AVIF image", HEIF_HINT}},
    {4, 8, "ftypavis", {"an AVIF image", HEIF_HINT}},
    {4, 8, "ftypM4A ", {"an M4A recording", AUDIO_HINT}},
    {4, 7, "ftypcrx", {"a camera's raw image", "darktable-cli FILE out.png"}},
    {4, 4, "ftyp", {"a video", VIDEO_HINT}},
    {0, 4, "\x1a\x45\xdf\xa3", {"a video", VIDEO_HINT}},
    {8, 4, "AVI ", {"a video", VIDEO_HINT}},
    {8, 4, "WAVE", {"a WAV recording", AUDIO_HINT}},
    {0, 3, "ID3", {"an MP3 recording", AUDIO_HINT}},
    {0, 2, "\xff\xfb", {"an MP3 recording", AUDIO_HINT}},
    {0, 2, "\xff\xf3", {"an MP3 recording", AUDIO_HINT}},
    {0, 2, "\xff\xf2", {"an MP3 recording", AUDIO_HINT}},
    {0, 4, "fLaC", {"a FLAC recording", AUDIO_HINT}},
    {0, 4, "OggS", {"an Ogg recording or video", AUDIO_HINT}},
    {0, 4, "II*\0", {"a TIFF image or a camera's raw image", MAGICK_HINT}},
    {0, 4, "MM\0*", {"a TIFF image or a camera's raw image", MAGICK_HINT}},
    {0, 8, "\0\0\0\x0cjP  ", {"a JPEG 2000 image", MAGICK_HINT}},
    {0, 12, "\0\0\0\x0cJXL \r\n\x87\n", {"a JPEG XL image", "djxl FILE out.png"}},
    {0, 2, "\xff\x0a", {"a JPEG XL image", "djxl FILE out.png"}},
    {0, 4, "8BPS", {"a Photoshop document", MAGICK_HINT}},
    {0, 4, "\0\0\1\0", {"an icon (ICO)", MAGICK_HINT}},
    {0, 8, "gimp xcf", {"a GIMP document", MAGICK_HINT}},
    {0, 5, "%PDF-", {"a PDF", "pdftoppm -png -r 100 FILE page makes an image of each page"}},
    {0, 2, "P5", {"a PGM image", MAGICK_HINT}},
    {0, 2, "P6", {"a PPM image", MAGICK_HINT}},
    {0, 4, "GGUF", {"a GGUF model", "a model goes to --model, and its vision tower to --mmproj"}},
    {0, 23, "version https://git-lfs", {"a Git LFS pointer, not the file itself", "git lfs pull"}},
    {0, 2, "\x1f\x8b", {"compressed by gzip", "gunzip FILE"}},
    {0, 4, "PK\3\4", {"a ZIP archive", "unzip FILE"}},
};

static const struct foreign_image svg = {"an SVG drawing", "rsvg-convert FILE -o out.png"};
static const struct foreign_image html = {"an HTML page, not the image itself", "download the image's own address"};

/* Text that begins with a tag; SVG files may open with an XML declaration or comments. */
static const struct foreign_image *find_markup(const char *text, size_t size) {
  char start[FOREIGN_IMAGE_BYTES + 1];
  if (size > FOREIGN_IMAGE_BYTES) size = FOREIGN_IMAGE_BYTES;
  memcpy(start, text, size);
  start[size] = '\0';
  const char *at = start;
  if (strncmp(at, "\xef\xbb\xbf", 3) == 0) at += 3;
  at += strspn(at, " \t\r\n");
  if (*at != '<') return NULL;
  if (strcasestr(at, "<html") || strncasecmp(at, "<!doctype html", 14) == 0) return &html;
  return strstr(at, "<svg") ? &svg : NULL;
}

/* Recognises what the first `size` bytes of a file begin, among formats that people take for images
 * and that this program may not read. NULL: none of them. */
static const struct foreign_image *foreign_image(const void *bytes, size_t size) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    const struct format *format = &formats[i];
    bool long_enough = size >= format->offset + format->size;
    if (long_enough && memcmp((const uint8_t *)bytes + format->offset, format->bytes, format->size) == 0) return &format->image;
  }
  return find_markup(bytes, size);
}

/* ---- sources ---- */

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
  const struct foreign_image *foreign = unreadable && size ? foreign_image(bytes, size) : NULL;
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
  OMMAI_TRY_CODE(read_stream(stream, name, &bytes, &size));
  int code = decode(name, bytes, size, image);
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
  char start[FOREIGN_IMAGE_BYTES];
  size_t size = error.status == OMMA_ERROR_IO ? 0 : read_start(path, start, sizeof start);
  return refuse_image(path, start, size, &error);
}

bool ommai_holds_image(const char *path) {
  struct omma_image *image;
  if (omma_image_load(path, NULL, &image, NULL) == OMMA_OK) {
    omma_image_destroy(image);
    return true;
  }
  char start[FOREIGN_IMAGE_BYTES];
  return foreign_image(start, read_start(path, start, sizeof start)) != NULL;
}

bool ommai_is_standard_input(const char *source) {
  return strcmp(source, "-") == 0 || strcmp(source, "/dev/stdin") == 0 || strcmp(source, "/dev/fd/0") == 0;
}

bool ommai_is_image_source(const char *word) {
  if (ommai_is_standard_input(word) || ommai_file_exists(word) || is_pipe(word)) return true;
  bool one_word = !strpbrk(word, " \t\r\n");
  return one_word && (starts_with(word, "data:image/") || is_network_address(word));
}

bool ommai_is_no_file(const char *word) {
  if (ommai_is_image_source(word) || starts_with(word, "data:") || access(word, F_OK) == 0) return false;
  return errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG;
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

/* ---- folders ---- */

static int add_word(void *list, const char *word) {
  char *copy = strdup(word);
  if (copy && ommai_strings_add(list, copy)) return OMMAI_EXIT_DONE;
  free(copy);
  return ommai_failed("out of memory: %s", word);
}

static int add_folder(struct ommai_strings *list, const char *folder) {
  int code, n = ommai_each_file_of(folder, ommai_ends_as_image, add_word, list, &code);
  if (n < 0) return ommai_failed("image: %s: %s", folder, strerror(errno));
  return n ? code : ommai_failed("image: %s: a folder without images (names that end in .jpg, .png and so on)", folder);
}

int ommai_expand_folders(const struct ommai_strings *words, struct ommai_strings *expanded) {
  int code = OMMAI_EXIT_DONE;
  *expanded = (struct ommai_strings){0};
  for (size_t i = 0; i < words->count && code == OMMAI_EXIT_DONE; i++) {
    struct stat found;
    bool is_folder = stat(words->items[i], &found) == 0 && S_ISDIR(found.st_mode);
    code = is_folder ? add_folder(expanded, words->items[i]) : add_word(expanded, words->items[i]);
  }
  return code;
}

void ommai_expanded_release(struct ommai_strings *expanded) {
  for (size_t i = 0; i < expanded->count; i++) free((char *)expanded->items[i]);
  ommai_strings_release(expanded);
}

int ommai_read_input(char **text, size_t *size) { return read_stream(stdin, "standard input", text, size); }
