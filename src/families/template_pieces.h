/* A chat template cut into what counts: the lines of its literal texts, and its tags, so that two
 * that render alike by their spelling are equal. Blanks that jinja removes, the spelling of line
 * ends, runs of blanks inside tags and comments do not count. Source: jinja2's lexer with
 * trim_blocks and lstrip_blocks, as transformers compiles templates. */
#ifndef OMMAI_FAMILIES_TEMPLATE_PIECES_H
#define OMMAI_FAMILIES_TEMPLATE_PIECES_H

#include <omma/host.h>
#include <omma/status.h>
#include <stddef.h>
#include <stdint.h>

struct ommai_template_piece {
  /* FNV-1a of '=' and a line of text with its end, '%' and a statement, or '{' and an expression */
  uint32_t digest;
  size_t at, size; /* in the template: from the first byte of the line or tag */
};

struct ommai_template_pieces {
  struct ommai_template_piece *items;
  size_t count, capacity;
  struct omma_allocator allocator;
};

/* Templates with more pieces than this are not compared (LIMIT): the longest known has about
 * 130. */
#define OMMAI_TEMPLATE_MAX_PIECES 4096

/* Any bytes are taken; what is not a template is some list of pieces. Errors: LIMIT, MEMORY; free
 * in every case. */
enum omma_status ommai_template_cut(const char *text, size_t size, const struct omma_allocator *allocator,
                                    struct ommai_template_pieces *pieces, struct omma_error *error);
void ommai_template_pieces_free(struct ommai_template_pieces *pieces);

/* The line that holds byte `at`, from 1; lines end in LF, CR or CR LF. */
size_t ommai_template_line(const char *text, size_t size, size_t at);

#endif
