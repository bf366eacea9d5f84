#include "cli/model/foreign_images.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct format {
  size_t offset, size;
  const char *bytes;
  struct ommai_foreign_image image;
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

static const struct ommai_foreign_image svg = {"an SVG drawing", "rsvg-convert FILE -o out.png"};
static const struct ommai_foreign_image html = {"an HTML page, not the image itself", "download the image's own address"};

/* Text that begins with a tag; SVG files may open with an XML declaration or comments. */
static const struct ommai_foreign_image *find_markup(const char *text, size_t size) {
  char start[OMMAI_FOREIGN_IMAGE_BYTES + 1];
  if (size > OMMAI_FOREIGN_IMAGE_BYTES) size = OMMAI_FOREIGN_IMAGE_BYTES;
  memcpy(start, text, size);
  start[size] = '\0';
  const char *at = start;
  if (strncmp(at, "\xef\xbb\xbf", 3) == 0) at += 3;
  at += strspn(at, " \t\r\n");
  if (*at != '<') return NULL;
  if (strcasestr(at, "<html") || strncasecmp(at, "<!doctype html", 14) == 0) return &html;
  return strstr(at, "<svg") ? &svg : NULL;
}

const struct ommai_foreign_image *ommai_foreign_image(const void *bytes, size_t size) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    const struct format *format = &formats[i];
    bool long_enough = size >= format->offset + format->size;
    if (long_enough && memcmp((const uint8_t *)bytes + format->offset, format->bytes, format->size) == 0) return &format->image;
  }
  return find_markup(bytes, size);
}
