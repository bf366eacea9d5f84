/* Blocks of pages (layout.h) as text in one of several forms. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum ommai_document_form { OMMAI_FORM_MARKDOWN, OMMAI_FORM_JSON, OMMAI_FORM_HTML, OMMAI_FORM_TEXT, OMMAI_FORM_DOCTAGS };

/* The names of the forms and of their files' endings, in that order; the first list ends in
 * NULL. */
extern const char *const ommai_document_forms[], *const ommai_document_endings[];

struct ommai_document_writer {
  FILE *out;
  enum ommai_document_form form;
  bool begun; /* something stands there of an earlier page */
  bool plain_links; /* Markdown shows a figure as ![NAME](NAME) */
};

/* Begins a document named `title`. */
void ommai_document_begin(struct ommai_document_writer *writer, const char *title);

/* Writes a page: {"page": N, "width": ..., "height": ..., "blocks": [...]}, or with "error" in
 * place of the blocks: a comment in Markdown and HTML, which says that the page is missing.
 * "figure" of a block is the file that holds it. */
void ommai_document_page(struct ommai_document_writer *writer, const json_t *page);

void ommai_document_end(struct ommai_document_writer *writer);

/* A page's blocks alone as Markdown, by malloc; NULL: memory is out. */
char *ommai_document_markdown(const json_t *blocks, bool plain_links);
