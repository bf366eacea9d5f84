#include "server/api/ocr_request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "image_out/image_part.h"
#include "reading/document_writer.h"

struct making {
  const struct ommai_ocr_request *request;
  const struct ommai_open_page *page;
  struct ommai_ocr_numbers *numbers;
  json_t *images, *tables, *blocks;
};

static const char *content_of(const json_t *block) {
  const char *content = json_string_value(json_object_get(block, "content"));
  return content ? content : "";
}

static enum ommai_block_use use_of(const json_t *block) {
  return ommai_block_kind_find(json_string_value(json_object_get(block, "type")))->use;
}

/* {"top_left_x": ..., "bottom_right_y": ...} in pixels. */
static json_t *make_box(const struct ommai_open_page *page, const json_t *block) {
  static const char *const names[] = {"top_left_x", "top_left_y", "bottom_right_x", "bottom_right_y"};
  const int32_t sides[] = {page->image->width, page->image->height};
  json_t *box = json_object();
  for (size_t i = 0; i < 4; i++) {
    json_object_set_new(box, names[i], json_integer((json_int_t)nearbyint(ommai_block_side(block, i) * sides[i % 2])));
  }
  return box;
}

/* A data: URL of a JPEG. */
static enum omma_status make_url(const struct ommai_image *image, json_t **url, struct omma_error *error) {
  json_t *part = NULL;
  OMMAI_TRY(ommai_image_part_from_pixels(image->pixels, image->width, image->height, &image->allocator, &part, error));
  *url = json_incref(json_object_get(json_object_get(part, "image_url"), "url"));
  json_decref(part);
  return OMMA_OK;
}

/* ---- figures and tables get names ---- */

static enum omma_status add_figure(struct making *making, json_t *block, struct omma_error *error) {
  const struct ommai_ocr_request *request = making->request;
  struct ommai_image *crop;
  json_t *image, *url = json_null();
  char name[32];
  enum omma_status status = OMMA_OK;
  if (making->numbers->n_figures >= request->image_limit) return OMMA_OK;
  OMMAI_TRY(ommai_page_crop(request->recipe, making->page->image, block, false, &crop, error));
  if (!crop) return OMMA_OK;
  if (crop->width >= request->image_min_size && crop->height >= request->image_min_size) {
    snprintf(name, sizeof name, "img-%lld.jpeg", (long long)making->numbers->n_figures++);
    if (request->include_images) status = make_url(crop, &url, error);
    json_object_set_new(block, "figure", json_string(name));
    image = make_box(making->page, block);
    json_object_set_new(image, "id", json_string(name));
    json_object_set_new(image, "image_base64", url);
    json_array_append_new(making->images, image);
  }
  ommai_image_destroy(crop);
  return status;
}

/* The Markdown then has a link in the table's place. */
static void set_apart(struct making *making, json_t *block) {
  char name[32];
  snprintf(name, sizeof name, "tbl-%lld.html", (long long)making->numbers->n_tables++);
  json_array_append_new(
      making->tables, json_pack("{s:s, s:O, s:s}", "id", name, "content", json_object_get(block, "content"), "format", "html"));
  json_object_set_new(block, "table", json_string(name));
}

/* ---- blocks ---- */

/* The type by Mistral's names. */
static const char *type_of(const json_t *block) {
  static const struct {
    const char *own, *name;
  } names[] = {{"title", "title"},         {"doc_title", "title"}, {"paragraph_title", "title"},
               {"code", "code"},           {"algorithm", "code"},  {"aside_text", "aside_text"},
               {"ref_text", "references"}, {"header", "header"},   {"footer", "footer"},
               {"page_number", "footer"},  {"list", "list"}};
  const char *own = json_string_value(json_object_get(block, "type"));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(names[i].own, own) == 0) return names[i].name;
  }
  if (strstr(own, "caption")) return "caption";
  switch (use_of(block)) {
    case OMMAI_BLOCK_TABLE: return "table";
    case OMMAI_BLOCK_FORMULA: return "equation";
    default: return "text";
  }
}

/* Figures that got no name are no images of Mistral's; groups lie around other blocks. */
static void add_block(struct making *making, const json_t *block) {
  const json_t *figure = json_object_get(block, "figure"), *table = json_object_get(block, "table");
  bool is_figure = use_of(block) == OMMAI_BLOCK_FIGURE;
  if (use_of(block) == OMMAI_BLOCK_GROUP || (is_figure && !figure)) return;
  json_t *made = make_box(making->page, block);
  json_object_set_new(made, "type", json_string(is_figure ? "image" : type_of(block)));
  json_object_set_new(made, "content", json_string(content_of(block)));
  if (is_figure) json_object_set(made, "image_id", (json_t *)figure);
  if (table) json_object_set(made, "table_id", (json_t *)table);
  json_array_append_new(making->blocks, made);
}

/* ---- the page ---- */

/* Takes blocks of a kind out of the page; their texts. */
static json_t *extract(json_t *blocks, const char *type) {
  json_t *text = json_null();
  for (size_t i = 0; i < json_array_size(blocks);) {
    const json_t *block = json_array_get(blocks, i);
    if (!ommai_block_is(block, type)) {
      i++;
      continue;
    }
    json_t *longer = json_is_string(text) ? json_sprintf("%s\n%s", json_string_value(text), content_of(block))
                                          : json_string(content_of(block));
    json_decref(text);
    text = longer;
    json_array_remove(blocks, i);
  }
  return text;
}

static json_t *write_markdown(const json_t *blocks) {
  char *text = ommai_document_markdown(blocks, true);
  json_t *markdown = text ? json_string(text) : NULL;
  free(text);
  return markdown;
}

static void link_tables(json_t *blocks) {
  json_t *block;
  size_t i;
  json_array_foreach(blocks, i, block) {
    const char *name = json_string_value(json_object_get(block, "table"));
    if (name) json_object_set_new(block, "content", json_sprintf("[%s](%s)", name, name));
  }
}

static enum omma_status name_parts(struct making *making, struct omma_error *error) {
  json_t *block;
  size_t i;
  json_array_foreach(making->page->blocks, i, block) {
    enum ommai_block_use use = use_of(block);
    if (use == OMMAI_BLOCK_FIGURE) OMMAI_TRY(add_figure(making, block, error));
    if (use == OMMAI_BLOCK_TABLE && making->request->tables_apart && *content_of(block)) set_apart(making, block);
    if (making->request->include_blocks) add_block(making, block);
  }
  return OMMA_OK;
}

enum omma_status ommai_ocr_page_make(const struct ommai_ocr_request *request, const struct ommai_open_page *page,
                                     struct ommai_ocr_numbers *numbers, json_t **made, struct omma_error *error) {
  struct making making = {.request = request, .page = page, .numbers = numbers};
  const json_int_t dpi = numbers->is_pdf ? request->dpi : 72;
  making.images = json_array();
  making.tables = json_array();
  making.blocks = json_array();
  *made = json_pack("{s:I, s:o, s:o, s:o, s:{s:I, s:i, s:i}}", "index", (json_int_t)page->number - 1, "images", making.images,
                    "tables", making.tables, "blocks", making.blocks, "dimensions", "dpi", dpi, "height", page->image->height,
                    "width", page->image->width);
  if (!*made) return ommai_fail_memory(error, "a page's answer", 1);
  enum omma_status status = name_parts(&making, error);
  link_tables(page->blocks);
  if (request->extract_header) json_object_set_new(*made, "header", extract(page->blocks, "header"));
  if (request->extract_footer) json_object_set_new(*made, "footer", extract(page->blocks, "footer"));
  json_object_set_new(*made, "markdown", write_markdown(page->blocks));
  json_object_set_new(*made, "hyperlinks", json_array());
  if (!request->include_blocks) json_object_set_new(*made, "blocks", json_null());
  if (page->n_cut || page->layout_unread) {
    json_t *own = json_object();
    if (page->n_cut) json_object_set_new(own, "cut", json_integer((json_int_t)page->n_cut));
    if (page->layout_unread) json_object_set_new(own, "layout_unread", json_true());
    json_object_set_new(*made, "ommatidia", own);
  }
  if (status == OMMA_OK && request->page_images) {
    json_t *url = NULL;
    status = make_url(page->image, &url, error);
    json_object_set_new(*made, "page_image", url);
  }
  if (status == OMMA_OK && !json_object_get(*made, "markdown")) status = ommai_fail_memory(error, "a page's answer", 1);
  if (status == OMMA_OK) return status;
  json_decref(*made);
  *made = NULL;
  return status;
}
