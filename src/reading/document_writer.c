#include "reading/document_writer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "families/reading_recipe.h"
#include "reading/layout.h"
#include "reading/plain.h"

const char *const ommai_document_forms[] = {"markdown", "json", "html", "text", "doctags", NULL};
const char *const ommai_document_endings[] = {"md", "json", "html", "txt", "doctags"};

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

/* Whether a text has a character of Chinese or Japanese, after which no blank is put. */
static bool has_ideograph(const char *text) {
  for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
    if (*at >> 4 != 14 || !at[1] || !at[2]) continue;
    unsigned point = (at[0] & 15u) << 12 | (at[1] & 63u) << 6 | (at[2] & 63u);
    if (point >= 0x3400 && point <= 0x9fff && (point < 0x4dc0 || point >= 0x4e00)) return true;
  }
  return false;
}

/* The texts that go on in this one are put behind it. */
static void write_continued(FILE *out, const json_t *blocks, size_t index) {
  for (size_t i = index + 1; i < json_array_size(blocks); i++) {
    const json_t *block = json_array_get(blocks, i);
    const char *text = text_of(block, "content");
    if (!*text || !ommai_block_is(block, "text")) continue;
    if (!json_is_true(json_object_get(block, "merge_prev"))) return;
    fprintf(out, "%s%s", has_ideograph(text) ? "" : " ", text);
  }
}

/* Whether write_continued has written it. */
static bool is_continuation(const json_t *blocks, size_t index) {
  if (!json_is_true(json_object_get(json_array_get(blocks, index), "merge_prev"))) return false;
  for (size_t i = 0; i < index; i++) {
    const json_t *block = json_array_get(blocks, i);
    if (ommai_block_is(block, "text") && *text_of(block, "content")) return true;
  }
  return false;
}

static void write_markdown(struct ommai_document_writer *writer, const json_t *blocks, bool plain) {
  json_t *block;
  size_t i;
  json_array_foreach(blocks, i, block) {
    const struct ommai_block_kind *kind = ommai_block_kind_find(text_of(block, "type"));
    const char *text = text_of(block, "content"), *figure = text_of(block, "figure");
    if ((!*text && (!*figure || plain)) || is_continuation(blocks, i)) continue;
    if (writer->begun) fputs("\n\n", writer->out);
    writer->begun = true;
    if (!plain && kind->heading) fprintf(writer->out, "%.*s ", kind->heading, "######");
    if (*figure && !plain && writer->plain_links) fprintf(writer->out, "![%s](%s)", figure, figure);
    if (*figure && !plain && !writer->plain_links) fprintf(writer->out, "![%s](<%s>)", kind->name, figure);
    fputs(text, writer->out);
    if (ommai_block_is(block, "text")) write_continued(writer->out, blocks, i);
  }
}

/* A reader of the text sees where something is missing; JSON alone has the reason, which may hold
 * anything. */
static void write_missing(struct ommai_document_writer *writer, const json_t *page) {
  if (writer->form == OMMAI_FORM_MARKDOWN && writer->begun) fputs("\n\n", writer->out);
  writer->begun = true;
  fprintf(writer->out, "<!-- page %" JSON_INTEGER_FORMAT " could not be read -->",
          json_integer_value(json_object_get(page, "page")));
  if (writer->form == OMMAI_FORM_HTML) fputs("\n", writer->out);
}

static void write_escaped(FILE *out, const char *text) { ommai_plain_write_html(out, text, strlen(text)); }

static void write_html(FILE *out, const json_t *page, const json_t *blocks) {
  json_t *block;
  size_t i;
  fprintf(out, "<section id=\"page-%" JSON_INTEGER_FORMAT "\">\n", json_integer_value(json_object_get(page, "page")));
  json_array_foreach(blocks, i, block) {
    const struct ommai_block_kind *kind = ommai_block_kind_find(text_of(block, "type"));
    const char *text = text_of(block, "content"), *figure = text_of(block, "figure");
    if ((!*text && !*figure) || is_continuation(blocks, i)) continue;
    fprintf(out, "<%s class=\"%s\">", kind->tag, kind->name);
    if (*figure) {
      fputs("<img src=\"", out);
      write_escaped(out, figure);
      fprintf(out, "\" alt=\"%s\">", kind->name);
    }
    /* A table's content is HTML that was made here, unless it is what the model wrote. */
    if (kind->use == OMMAI_BLOCK_TABLE && strcmp(text, text_of(block, "otsl")) != 0) {
      fputs(text, out);
    } else {
      char *whole = NULL;
      size_t size;
      FILE *joined = open_memstream(&whole, &size);
      if (joined) {
        fputs(text, joined);
        if (ommai_block_is(block, "text")) write_continued(joined, blocks, i);
        fclose(joined);
      }
      write_escaped(out, whole ? whole : text);
      free(whole);
    }
    fprintf(out, "</%s>\n", kind->tag);
  }
  fputs("</section>\n", out);
}

/* Places are of 500 to a side. */
static void write_doctags(FILE *out, const json_t *blocks) {
  json_t *block;
  size_t i;
  json_array_foreach(blocks, i, block) {
    const struct ommai_block_kind *kind = ommai_block_kind_find(text_of(block, "type"));
    if (kind->use == OMMAI_BLOCK_GROUP) continue;
    fprintf(out, "<%s>", kind->doctag);
    for (size_t side = 0; side < 4; side++) fprintf(out, "<loc_%d>", (int)(ommai_block_side(block, side) * 500 + 0.5));
    fprintf(out, "%s</%s>\n", text_of(block, *text_of(block, "otsl") ? "otsl" : "content"), kind->doctag);
  }
}

void ommai_document_begin(struct ommai_document_writer *writer, const char *title) {
  FILE *out = writer->out;
  if (writer->form == OMMAI_FORM_HTML) {
    fputs("<!DOCTYPE html>\n<html>\n<head><meta charset=\"utf-8\"><title>", out);
    write_escaped(out, title);
    fputs("</title></head>\n<body>\n", out);
  } else if (writer->form == OMMAI_FORM_JSON) {
    json_t *name = json_string(title);
    fputs("{\"source\": ", out);
    json_dumpf(name, out, JSON_ENCODE_ANY);
    fputs(", \"pages\": [", out);
    json_decref(name);
  } else if (writer->form == OMMAI_FORM_DOCTAGS) {
    fputs("<doctag>\n", out);
  }
}

void ommai_document_page(struct ommai_document_writer *writer, const json_t *page) {
  FILE *out = writer->out;
  const json_t *blocks = json_object_get(page, "blocks");
  bool comments = writer->form == OMMAI_FORM_MARKDOWN || writer->form == OMMAI_FORM_HTML;
  if (comments && json_object_get(page, "error")) {
    write_missing(writer, page);
    return;
  }
  switch (writer->form) {
    case OMMAI_FORM_MARKDOWN: write_markdown(writer, blocks, false); break;
    case OMMAI_FORM_TEXT: write_markdown(writer, blocks, true); break;
    case OMMAI_FORM_HTML: write_html(out, page, blocks); break;
    case OMMAI_FORM_DOCTAGS:
      if (writer->begun) fputs("<page_break>\n", out);
      writer->begun = true;
      write_doctags(out, blocks);
      break;
    case OMMAI_FORM_JSON:
      fputs(writer->begun ? ",\n" : "\n", out);
      writer->begun = true;
      json_dumpf(page, out, JSON_COMPACT | JSON_REAL_PRECISION(15));
      break;
  }
}

void ommai_document_end(struct ommai_document_writer *writer) {
  static const char *const ends[] = {"\n", "\n]}\n", "</body>\n</html>\n", "\n", "</doctag>\n"};
  fputs(ends[writer->form], writer->out);
}

char *ommai_document_markdown(const json_t *blocks, bool plain_links) {
  char *text = NULL;
  size_t size;
  struct ommai_document_writer writer = {
      .out = open_memstream(&text, &size), .form = OMMAI_FORM_MARKDOWN, .plain_links = plain_links};
  if (!writer.out) return NULL;
  write_markdown(&writer, blocks, false);
  if (fclose(writer.out) == 0) return text;
  free(text);
  return NULL;
}
