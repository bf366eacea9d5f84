#include "reading/layout.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "families/reading_recipe.h"

#define COVERED 0.9
#define SAME_OVERLAP 0.9
#define MAX_BLOCKS 2000

#define BOX_START "<|box_start|>"
#define BOX_END "<|box_end|><|ref_start|>"
#define TYPE_END "<|ref_end|>"

bool ommai_block_is(const json_t *block, const char *type) {
  return strcmp(json_string_value(json_object_get(block, "type")), type) == 0;
}

double ommai_block_side(const json_t *block, size_t side) {
  return json_number_value(json_array_get(json_object_get(block, "bbox"), side));
}

static double area(const json_t *block) {
  return (ommai_block_side(block, 2) - ommai_block_side(block, 0)) * (ommai_block_side(block, 3) - ommai_block_side(block, 1));
}

static double common_area(const json_t *a, const json_t *b) {
  double width = fmin(ommai_block_side(a, 2), ommai_block_side(b, 2)) - fmax(ommai_block_side(a, 0), ommai_block_side(b, 0));
  double height = fmin(ommai_block_side(a, 3), ommai_block_side(b, 3)) - fmax(ommai_block_side(a, 1), ommai_block_side(b, 1));
  return width > 0 && height > 0 ? width * height : 0;
}

double ommai_layout_cover(const json_t *inner, const json_t *outer) { return common_area(inner, outer) / area(inner); }

/* Drops blocks of the types (a list that ends in NULL) of which most lies in one of the others. */
static void drop_covered(json_t *blocks, const char *const *types, const char *const *around) {
  json_t *kept = json_array(), *block, *outer;
  size_t i, j;
  json_array_foreach(blocks, i, block) {
    bool inside = false;
    for (const char *const *type = types; *type; type++) {
      if (!ommai_block_is(block, *type)) continue;
      json_array_foreach(blocks, j, outer) {
        for (const char *const *other = around; *other && i != j; other++) {
          inside |= ommai_block_is(outer, *other) && ommai_layout_cover(block, outer) >= COVERED;
        }
      }
    }
    if (!inside) json_array_append(kept, block);
  }
  json_array_clear(blocks);
  json_array_extend(blocks, kept);
  json_decref(kept);
}

void ommai_layout_drop_inner_captions(json_t *blocks) {
  drop_covered(blocks, (const char *const[]){"image_caption", NULL},
               (const char *const[]){"image", "chart", "image_block", NULL});
}

static bool is_repeated(const json_t *blocks, const json_t *block) {
  size_t i;
  json_t *earlier;
  json_array_foreach(blocks, i, earlier) {
    double common = common_area(block, earlier), all = area(block) + area(earlier) - common;
    if (json_equal(json_object_get(earlier, "type"), json_object_get(block, "type")) &&
        json_equal(json_object_get(earlier, "angle"), json_object_get(block, "angle")) && common > SAME_OVERLAP * all)
      return true;
  }
  return false;
}

/* Four numbers of 0 to 1000 with blanks between, whatever their order; false where they are no box.
 * *form: whether they are four numbers. */
static bool read_box(const char **at, int box[4], bool *form) {
  bool inside = true;
  for (int i = 0; i < 4; i++) {
    const char *start = *at;
    while (i && isspace((unsigned char)**at)) ++*at;
    if ((i && *at == start) || !isdigit((unsigned char)**at)) return *form = false;
    int value = 0;
    for (; isdigit((unsigned char)**at); ++*at) value = value > 1000 ? value : value * 10 + (**at - '0');
    box[i] = value;
    inside &= value <= 1000;
  }
  for (int i = 0; i < 2; i++) {
    if (box[i] <= box[i + 2]) continue;
    int value = box[i];
    box[i] = box[i + 2];
    box[i + 2] = value;
  }
  *form = true;
  return inside && box[0] < box[2] && box[1] < box[3];
}

/* The direction's mark, which is passed; -1: none. */
static int read_angle(const char **at) {
  static const struct {
    const char *mark;
    int angle;
  } marks[] = {{"<|rotate_up|>", 0}, {"<|rotate_right|>", 90}, {"<|rotate_down|>", 180}, {"<|rotate_left|>", 270}};
  for (size_t i = 0; i < 4; i++) {
    size_t size = strlen(marks[i].mark);
    if (strncmp(*at, marks[i].mark, size) != 0) continue;
    *at += size;
    return marks[i].angle;
  }
  return -1;
}

/* A block whose parts are known; NULL where its type is not. */
static json_t *make_block(const char *type, const int box[4], int angle, const char *tail, size_t tail_size) {
  if (strcmp(type, "unknown") == 0) type = "image";
  if (!ommai_block_kind_find(type)) return NULL;
  json_t *block =
      json_pack("{s:s, s:[f,f,f,f], s:o, s:n}", "type", type, "bbox", box[0] / 1000.0, box[1] / 1000.0, box[2] / 1000.0,
                box[3] / 1000.0, "angle", angle < 0 ? json_null() : json_integer(angle), "content");
  if (strcmp(type, "text") == 0) {
    bool continued = memmem(tail, tail_size, "txt_contd_tgt", 13) != NULL;
    json_object_set_new(block, "merge_prev", json_boolean(continued));
  }
  return block;
}

/* Reads what stands after a box's start and adds the block where it is one. */
static void read_block(json_t *blocks, const char *at) {
  int box[4];
  char type[32];
  size_t size = 0;
  bool form, is_box = read_box(&at, box, &form);
  if (!form || strncmp(at, BOX_END, strlen(BOX_END)) != 0) return;
  at += strlen(BOX_END);
  for (; (isalnum((unsigned char)*at) || *at == '_') && size < sizeof type - 1; at++) type[size++] = (char)tolower(*at);
  type[size] = '\0';
  if (!size || strncmp(at, TYPE_END, strlen(TYPE_END)) != 0 || !is_box) return;
  at += strlen(TYPE_END);
  int angle = read_angle(&at);
  const char *next = strstr(at, BOX_START);
  json_t *block = make_block(type, box, angle, at, next ? (size_t)(next - at) : strlen(at));
  if (block && !is_repeated(blocks, block)) json_array_append(blocks, block);
  json_decref(block);
}

json_t *ommai_layout_read(const char *answer) {
  json_t *blocks = json_array();
  for (const char *at = answer; blocks && (at = strstr(at, BOX_START)) && json_array_size(blocks) < MAX_BLOCKS;) {
    at += strlen(BOX_START);
    read_block(blocks, at);
  }
  static const char *const inner[] = {"text", "equation", "equation_block", NULL}, *const around[] = {"table", NULL};
  if (blocks) drop_covered(blocks, inner, around);
  return blocks;
}
