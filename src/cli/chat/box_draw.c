#include "cli/chat/box_draw.h"

#include <string.h>

#include "cli/chat/box_font.h"

/* Of the shorter side: one pixel of line, and one pixel of a letter's point. */
#define PIXELS_PER_LINE 300
#define PIXELS_PER_POINT 280
#define MAX_POINT 8

struct colour {
  uint8_t red, green, blue;
  bool dark; /* letters on it are white */
};

static const struct colour colours[] = {
    {230, 25, 75, true},   {60, 180, 75, false}, {0, 110, 230, true},   {255, 200, 0, false},
    {240, 50, 230, false}, {0, 200, 210, false}, {245, 130, 48, false}, {130, 40, 190, true},
};

struct canvas {
  uint8_t *pixels;
  int32_t width, height;
};

static int32_t within(int64_t value, int32_t low, int32_t high) {
  return value < low ? low : value > high ? high : (int32_t)value;
}

/* Fills columns x1 to x2 - 1 of rows y1 to y2 - 1, as far as they are on the image. */
static void fill(const struct canvas *canvas, int64_t x1, int64_t y1, int64_t x2, int64_t y2, struct colour colour) {
  int32_t left = within(x1, 0, canvas->width), right = within(x2, 0, canvas->width);
  int32_t top = within(y1, 0, canvas->height), bottom = within(y2, 0, canvas->height);
  for (int32_t y = top; y < bottom; y++) {
    uint8_t *at = canvas->pixels + ((size_t)y * (size_t)canvas->width + (size_t)left) * 3;
    for (int32_t x = left; x < right; x++) {
      *at++ = colour.red;
      *at++ = colour.green;
      *at++ = colour.blue;
    }
  }
}

static void draw_outline(const struct canvas *canvas, const struct ommai_box *box, int32_t line, struct colour colour) {
  int32_t inner_left = within((int64_t)box->x1 + line, box->x1, box->x2),
          inner_top = within((int64_t)box->y1 + line, box->y1, box->y2);
  fill(canvas, box->x1, box->y1, box->x2, inner_top, colour);
  fill(canvas, box->x1, box->y2 - line > inner_top ? box->y2 - line : inner_top, box->x2, box->y2, colour);
  fill(canvas, box->x1, box->y1, inner_left, box->y2, colour);
  fill(canvas, box->x2 - line > inner_left ? box->x2 - line : inner_left, box->y1, box->x2, box->y2, colour);
}

static void draw_character(const struct canvas *canvas, char character, int64_t x, int64_t y, int32_t point,
                           struct colour ink) {
  const uint8_t *rows = ommai_font_rows(character);
  for (int row = 0; row < OMMAI_FONT_HEIGHT; row++) {
    for (int column = 0; column < OMMAI_FONT_WIDTH; column++) {
      if (!(rows[row] >> (OMMAI_FONT_WIDTH - 1 - column) & 1)) continue;
      int64_t left = x + (int64_t)column * point, top = y + (int64_t)row * point;
      fill(canvas, left, top, left + point, top + point, ink);
    }
  }
}

/* The later bytes of a character in UTF-8 are not characters of their own. */
static bool begins_character(char byte) { return ((unsigned char)byte & 0xc0) != 0x80; }

static void draw_label(const struct canvas *canvas, const struct ommai_box *box, int32_t point, struct colour colour) {
  static const struct colour black = {0, 0, 0, true}, white = {255, 255, 255, false};
  int64_t advance = (int64_t)(OMMAI_FONT_WIDTH + 1) * point, height = (int64_t)(OMMAI_FONT_HEIGHT + 2) * point;
  int64_t count = 0;
  for (const char *c = box->label; *c; c++) count += begins_character(*c);
  if (!count) return;
  int64_t width = count * advance + point;
  int64_t x = box->x1 + width > canvas->width ? canvas->width - width : box->x1;
  int64_t y = box->y1 >= height ? box->y1 - height : box->y1;
  if (x < 0) x = 0;
  fill(canvas, x, y, x + width, y + height, colour);
  x += point;
  for (const char *c = box->label; *c && x < canvas->width; c++) {
    if (!begins_character(*c)) continue;
    draw_character(canvas, *c, x, y + point, point, colour.dark ? white : black);
    x += advance;
  }
}

void ommai_box_draw(uint8_t *pixels, int32_t width, int32_t height, const struct ommai_box *box, size_t number) {
  struct canvas canvas = {pixels, width, height};
  int32_t side = width < height ? width : height;
  struct colour colour = colours[number % (sizeof colours / sizeof *colours)];
  draw_outline(&canvas, box, within(side / PIXELS_PER_LINE, 2, 4), colour);
  draw_label(&canvas, box, within(side / PIXELS_PER_POINT, 1, MAX_POINT), colour);
}
