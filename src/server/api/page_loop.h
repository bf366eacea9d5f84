/* Pages of documents on their way through a server: what `omma read` and /v1/ocr have in common.
 * Pages are opened one after the other, asked about (reading/document_page.h) and ended; the
 * requests of all open pages run through the engine together.
 *
 * One thread runs the loop; the engine's threads compute meanwhile. A page is held from its opening
 * until its last answer. */
#pragma once

#include "reading/document_page.h"
#include "reading/page_source.h"

struct ommai_server;

/* Of all requests about a page together. */
struct ommai_page_cost {
  int64_t n_requests, n_prompt_tokens, n_tokens;
  /* seconds: until the page was there; until its layout was known; of the requests' stages */
  double render, layout, encode, prefill, decode;
};

struct ommai_open_page {
  bool open;
  void *document; /* the caller's */
  int64_t number; /* from 1 */
  struct ommai_image *image;
  json_t *blocks;                        /* NULL: the layout is not known yet */
  size_t next;                           /* block that has not been asked about */
  size_t n_asked;                        /* requests under way */
  size_t n_cut;                          /* answers that ended at their limit of tokens */
  bool layout_unread;                    /* an answer about the layout had no block */
  int status;                            /* of the request that failed first; 0: none did */
  char failure[OMMA_ERROR_MESSAGE_SIZE]; /* "": none */
  double began;
  struct ommai_page_cost cost;
};

enum ommai_page_opening {
  OMMAI_PAGE_OPENED,
  OMMAI_PAGE_NOT_NOW, /* not before another page has ended */
  OMMAI_PAGE_NONE     /* there is none left, or all are to end now */
};

struct ommai_page_loop {
  struct ommai_server *server;
  const struct ommai_reading_recipe *recipe;
  const char *prompt;        /* NULL: the recipe's */
  size_t n_open, n_parallel; /* pages and requests at once */
  bool measures;             /* the costs of pages are added up */
  void *context;             /* of the following */
  /* Opens the next page: its document, number and image, or failure. */
  enum ommai_page_opening (*open)(void *context, struct ommai_open_page *page);
  /* A page has all its answers, or its failure; blocks are finished (ommai_page_finish). It may
   * take image and blocks over. False: stop. */
  bool (*end)(void *context, struct ommai_open_page *page);
  void (*after_turn)(void *context); /* NULL: nothing to do */
  bool (*is_over)(void *context);    /* asked between requests */
  void (*wait)(void *context);       /* until `wake`, or for no reason */
  void (*wake)(void *context);       /* by any thread */
};

/* Runs until all pages have ended, is_over, or a call says stop: true then. False when memory is
 * out. */
bool ommai_page_loop_run(const struct ommai_page_loop *loop);

/* Notes why a page failed; the first cause stays. */
void ommai_open_page_fail(struct ommai_open_page *page, const char *why);

/* Frees what a page holds, and makes its place free. */
void ommai_open_page_release(struct ommai_open_page *page);
