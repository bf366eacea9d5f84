#include "server/api/page_loop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "server/api/batch_request.h"
#include "server/api/batch_slots.h"

#define INTERNAL 500

struct run {
  const struct ommai_page_loop *loop;
  struct ommai_batch_slots slots;
  struct ommai_open_page *pages; /* [n_open] */
  bool all_open;                 /* no page is to be opened any more */
  bool stop;
  int64_t n_requests;
};

void ommai_open_page_fail(struct ommai_open_page *page, const char *why) {
  if (!*page->failure) snprintf(page->failure, sizeof page->failure, "%s", why);
}

static void open_page(struct run *run, struct ommai_open_page *page) {
  const struct ommai_page_loop *loop = run->loop;
  *page = (struct ommai_open_page){.began = ommai_clock_seconds()};
  enum ommai_page_opening opening = loop->open(loop->context, page);
  page->open = opening == OMMAI_PAGE_OPENED;
  run->all_open |= opening == OMMAI_PAGE_NONE;
  if (!page->open) return;
  page->cost.render = ommai_clock_seconds() - page->began;
  if (page->image && !loop->recipe->layout_prompt) page->blocks = ommai_page_whole();
}

void ommai_open_page_release(struct ommai_open_page *page) {
  json_decref(page->blocks);
  ommai_image_destroy(page->image);
  *page = (struct ommai_open_page){.open = false};
}

/* ---- requests ---- */

/* Starts a request about a page; takes the body. */
static void ask(struct run *run, struct ommai_batch_slot *slot, struct ommai_open_page *page, json_t *body, json_t *block) {
  char id[32];
  snprintf(id, sizeof id, "%" PRId64, ++run->n_requests);
  if (run->loop->measures) json_object_set_new(body, "ommatidia", json_pack("{s:b}", "details", true));
  json_t *line =
      json_pack("{s:s, s:s, s:s, s:o}", "custom_id", id, "method", "POST", "url", "/v1/chat/completions", "body", body);
  char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
  struct ommai_batch_request *request =
      text ? ommai_batch_request_read(run->loop->server, text, strlen(text), run->n_requests) : NULL;
  free(text);
  json_decref(line);
  if (!request) return ommai_open_page_fail(page, "out of memory: a request");
  page->n_asked++;
  ommai_batch_slots_start(&run->slots, slot, request, block ? (void *)block : (void *)page);
}

/* Starts the page's next request; false: it has none now. */
static bool ask_next(struct run *run, struct ommai_batch_slot *slot, struct ommai_open_page *page) {
  const struct ommai_page_loop *loop = run->loop;
  struct omma_error error;
  json_t *body = NULL;
  if (*page->failure || !page->image || (!page->blocks && page->n_asked)) return false;
  if (!page->blocks) {
    if (ommai_page_layout_request(loop->recipe, page->image, &body, &error) != OMMA_OK) {
      ommai_open_page_fail(page, error.message);
      return false;
    }
    ask(run, slot, page, body, NULL);
    return true;
  }
  while (page->next < json_array_size(page->blocks)) {
    json_t *block = json_array_get(page->blocks, page->next++);
    if (ommai_page_element_request(loop->recipe, loop->prompt, page->image, block, &body, &error) != OMMA_OK) {
      ommai_open_page_fail(page, error.message);
      return false;
    }
    if (body) {
      ask(run, slot, page, body, block);
      return true;
    }
  }
  return false;
}

/* ---- answers ---- */

/* The page to which a slot's request belongs, and its block, NULL for the layout. */
static struct ommai_open_page *page_of(const struct run *run, const struct ommai_batch_slot *slot, json_t **block) {
  size_t j;
  json_t *candidate;
  *block = NULL;
  for (size_t i = 0; i < run->loop->n_open; i++) {
    struct ommai_open_page *page = &run->pages[i];
    if (slot->owner == page) return page;
    json_array_foreach(page->blocks, j, candidate) {
      if (slot->owner != candidate) continue;
      *block = candidate;
      return page;
    }
  }
  return NULL;
}

/* The text of an answer; a NUL in it becomes a blank. By malloc. */
static char *copy_answer(const json_t *content) {
  size_t size = json_is_string(content) ? json_string_length(content) : 0;
  char *text = malloc(size + 1);
  for (size_t i = 0; text && i < size; i++) text[i] = json_string_value(content)[i] ? json_string_value(content)[i] : ' ';
  if (text) text[size] = '\0';
  return text;
}

static void add_cost(struct ommai_page_cost *cost, const json_t *body) {
  const json_t *usage = json_object_get(body, "usage");
  const json_t *timings = json_object_get(json_object_get(body, "ommatidia"), "timings");
  cost->n_requests++;
  cost->n_prompt_tokens += json_integer_value(json_object_get(usage, "prompt_tokens"));
  cost->n_tokens += json_integer_value(json_object_get(usage, "completion_tokens"));
  cost->encode += json_number_value(json_object_get(timings, "encode"));
  cost->prefill += json_number_value(json_object_get(timings, "prefill"));
  cost->decode += json_number_value(json_object_get(timings, "decode"));
}

/* The text of a reply, or what went wrong. */
static void take_answer(struct ommai_open_page *page, json_t *block, const json_t *line) {
  const json_t *response = json_object_get(line, "response"), *body = json_object_get(response, "body");
  const json_t *choice = json_array_get(json_object_get(body, "choices"), 0), *message = json_object_get(choice, "message");
  const char *end = json_string_value(json_object_get(choice, "finish_reason"));
  const bool cut = end && strcmp(end, "length") == 0;
  const char *why = json_string_value(json_object_get(json_object_get(body, "error"), "message"));
  if (!message) {
    if (!*page->failure) page->status = (int)json_integer_value(json_object_get(response, "status_code"));
    return ommai_open_page_fail(page, why ? why : "no answer");
  }
  add_cost(&page->cost, body);
  page->n_cut += cut;
  char *text = copy_answer(json_object_get(message, "content"));
  if (text && block) {
    json_object_set_new(block, "content", json_string(text));
    if (cut) json_object_set_new(block, "cut", json_true());
  } else if (text) {
    page->cost.layout = ommai_clock_seconds() - page->began - page->cost.render;
    page->blocks = ommai_layout_read(text);
    if (page->blocks) ommai_layout_drop_inner_captions(page->blocks);
    page->layout_unread = *text && json_array_size(page->blocks) == 0;
  }
  if (!text || !page->blocks) ommai_open_page_fail(page, "out of memory: an answer");
  free(text);
}

static void take_reply(struct run *run, struct ommai_batch_slot *slot) {
  size_t size;
  json_t *block;
  struct ommai_open_page *page = page_of(run, slot, &block);
  char *text = ommai_batch_request_write(slot->request, &size);
  json_t *line = text ? json_loadb(text, size, JSON_ALLOW_NUL, NULL) : NULL;
  ommai_batch_request_destroy(slot->request);
  slot->request = NULL;
  page->n_asked--;
  if (line) {
    take_answer(page, block, line);
  } else {
    ommai_open_page_fail(page, "out of memory: an answer");
  }
  json_decref(line);
  free(text);
}

/* ---- the loop ---- */

/* Ends the pages that have all answers, or failed. */
static void end_pages(struct run *run) {
  const struct ommai_page_loop *loop = run->loop;
  for (size_t i = 0; i < loop->n_open && !run->stop; i++) {
    struct ommai_open_page *page = &run->pages[i];
    bool asked = page->blocks && page->next >= json_array_size(page->blocks);
    if (!page->open || page->n_asked || !(asked || *page->failure)) continue;
    bool whole = !loop->recipe->layout_prompt;
    if (!*page->failure && !ommai_page_finish(page->blocks, whole)) ommai_open_page_fail(page, "out of memory");
    if (*page->failure && !page->status) page->status = INTERNAL;
    run->stop = !loop->end(loop->context, page);
    ommai_open_page_release(page);
  }
}

/* Starts requests of the pages that are open, the oldest first, and opens further ones, until all
 * slots are taken. */
static void fill(struct run *run) {
  const struct ommai_page_loop *loop = run->loop;
  struct ommai_batch_slot *slot;
  for (size_t i = 0; i < loop->n_open && !run->stop && !loop->is_over(loop->context); i++) {
    struct ommai_open_page *page = &run->pages[i];
    if (!page->open && !run->all_open) open_page(run, page);
    while (page->open && (slot = ommai_batch_slots_free(&run->slots)) != NULL && ask_next(run, slot, page)) continue;
  }
}

static void run_all(struct run *run) {
  const struct ommai_page_loop *loop = run->loop;
  for (;;) {
    struct ommai_batch_slot *slot;
    while ((slot = ommai_batch_slots_done(&run->slots)) != NULL) take_reply(run, slot);
    end_pages(run);
    if (!run->stop) fill(run);
    if (loop->after_turn) loop->after_turn(loop->context);
    if (run->stop || loop->is_over(loop->context)) return;
    bool open = false;
    for (size_t i = 0; i < loop->n_open; i++) open |= run->pages[i].open;
    if (!open && run->all_open) return;
    if (!ommai_batch_slots_idle(&run->slots)) loop->wait(loop->context);
  }
}

bool ommai_page_loop_run(const struct ommai_page_loop *loop) {
  struct run run = {.loop = loop};
  run.pages = ommai_allocate(&ommai_default_allocator, loop->n_open, sizeof *run.pages);
  bool good = ommai_batch_slots_init(&run.slots, loop->n_parallel, loop->wake, loop->context) && run.pages;
  if (good) run_all(&run);
  ommai_batch_slots_release(&run.slots);
  for (size_t i = 0; run.pages && i < loop->n_open; i++) ommai_open_page_release(&run.pages[i]);
  ommai_release(&ommai_default_allocator, run.pages, loop->n_open, sizeof *run.pages);
  return good;
}
