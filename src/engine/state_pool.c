#include "engine/state_pool.h"

#include <omma/attention.h>
#include <string.h>

#include "base/allocator.h"
#include "base/checked.h"
#include "base/error.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS, NONE = -1 };

/* Snapshots of a sequence: where it stands, and where it goes on. */
enum { SNAPSHOTS = 2 };

int64_t ommai_state_most_pages(const struct ommai_state_group *group, int64_t prefill_chunk) {
  switch (group->kind) {
    case OMMAI_STATE_WINDOW: return ommai_div_up(group->window - 1 + ommai_round_up(prefill_chunk, PAGE), PAGE) + 1;
    case OMMAI_STATE_SNAPSHOT: return SNAPSHOTS;
    default: return INT64_MAX;
  }
}

/* ---- the pool ---- */

/* Keys of pages that are not full are numbers before ones; those of full ones are hashes. */
static struct omma_kv_page_key part_key(uint64_t number) {
  struct omma_kv_page_key key;
  memset(&key, 0xff, sizeof key);
  memcpy(key.bytes, &number, sizeof number);
  return key;
}

static bool is_part(const struct omma_kv_page_key *key) {
  uint64_t number;
  memcpy(&number, key->bytes, sizeof number);
  const struct omma_kv_page_key same = part_key(number);
  return !memcmp(&same, key, sizeof same);
}

/* A page of the first group is gone: without it nobody comes to what others keep under its key. */
static void forget(void *context, const struct omma_kv_page_key *key) {
  struct ommai_state_pool *pool = context;
  if (is_part(key)) {
    pool->n_parts--;
    return;
  }
  for (int g = 1; g < pool->n_groups; g++) ommai_page_pool_drop(pool->pools[g], key);
  if (pool->events.removed) pool->events.removed(pool->events.context, key);
}

enum omma_status ommai_state_pool_create(const struct ommai_state_group *groups, int n_groups, const int64_t *n_pages,
                                         int64_t prefill_chunk, const struct omma_allocator *allocator,
                                         struct ommai_state_pool **out, struct omma_error *error) {
  struct ommai_state_pool *pool = ommai_allocate(allocator, 1, sizeof *pool);
  if (!pool) return ommai_fail_memory(error, "page pool", sizeof *pool);
  *pool = (struct ommai_state_pool){.allocator = *allocator, .n_groups = n_groups};
  for (int g = 0; g < n_groups; g++) {
    pool->groups[g] = groups[g];
    pool->most[g] = ommai_state_most_pages(&groups[g], prefill_chunk);
    enum omma_status status = ommai_page_pool_create(n_pages[g], allocator, &pool->pools[g], error);
    if (status == OMMA_OK) continue;
    ommai_state_pool_destroy(pool);
    return status;
  }
  if (n_groups) ommai_page_pool_set_events(pool->pools[0], &(struct omma_kv_events){.context = pool, .removed = forget});
  *out = pool;
  return OMMA_OK;
}

void ommai_state_pool_destroy(struct ommai_state_pool *pool) {
  if (!pool) return;
  struct omma_allocator allocator = pool->allocator;
  for (int g = 0; g < pool->n_groups; g++) ommai_page_pool_destroy(pool->pools[g]);
  ommai_release(&allocator, pool, 1, sizeof *pool);
}

void ommai_state_pool_set_events(struct ommai_state_pool *pool, const struct omma_kv_events *events) {
  if (events) pool->events = *events;
}

void ommai_state_pool_clear(struct ommai_state_pool *pool) {
  for (int g = 0; g < pool->n_groups; g++) ommai_page_pool_clear(pool->pools[g]);
  pool->n_parts = 0;
  if (pool->n_groups && pool->events.cleared) pool->events.cleared(pool->events.context);
}

struct ommai_page_counts ommai_state_pool_counts(const struct ommai_state_pool *pool) {
  struct ommai_page_counts counts = {0};
  if (pool->n_groups) counts = ommai_page_pool_counts(pool->pools[0]);
  counts.n_published -= pool->n_parts;
  return counts;
}

/* ---- what a sequence holds ---- */

static bool is_snapshot(const struct ommai_state_pool *pool, int g) { return pool->groups[g].kind == OMMAI_STATE_SNAPSHOT; }

/* The group of snapshots; n_groups: there is none. */
static int snapshot_group(const struct ommai_state_pool *pool) {
  int g = 0;
  while (g < pool->n_groups && !is_snapshot(pool, g)) g++;
  return g;
}

bool ommai_state_pool_has_snapshots(const struct ommai_state_pool *pool) { return snapshot_group(pool) < pool->n_groups; }

struct ommai_page_counts ommai_state_pool_snapshot_counts(const struct ommai_state_pool *pool) {
  int g = snapshot_group(pool);
  return g < pool->n_groups ? ommai_page_pool_counts(pool->pools[g]) : (struct ommai_page_counts){0};
}

enum omma_status ommai_held_state_init(struct ommai_held_state *held, const struct ommai_state_pool *pool, int64_t max_pages,
                                       const struct omma_allocator *allocator, struct omma_error *error) {
  static const struct ommai_held_group nothing = {.current = NONE, .next = NONE, .draft = NONE, .border = NONE};
  *held = (struct ommai_held_state){.max_pages = max_pages};
  for (int g = 0; g < pool->n_groups; g++) held->groups[g] = nothing;
  for (int g = 0; g < pool->n_groups; g++) {
    struct ommai_held_group *group = &held->groups[g];
    if (is_snapshot(pool, g)) continue;
    group->pages = ommai_allocate(allocator, (size_t)max_pages, sizeof *group->pages);
    if (!group->pages) return ommai_fail_memory(error, "request", (size_t)max_pages * sizeof *group->pages);
  }
  return OMMA_OK;
}

void ommai_held_state_free(struct ommai_held_state *held, const struct omma_allocator *allocator) {
  for (int g = 0; g < OMMAI_MAX_STATE_GROUPS; g++) {
    ommai_release(allocator, held->groups[g].pages, (size_t)held->max_pages, sizeof *held->groups[g].pages);
  }
}

static void set_row(struct ommai_held_group *group, enum ommai_row_kind kind, int32_t read, int32_t written) {
  int32_t *row = group->rows[kind];
  row[OMMAI_SNAPSHOT_READ] = read;
  row[OMMAI_SNAPSHOT_WRITTEN] = written;
  row[OMMAI_SNAPSHOT_BORDER] = group->border;
}

struct ommai_state_pages ommai_held_state_rows(struct ommai_held_state *held, const struct ommai_state_pool *pool,
                                               enum ommai_row_kind kind) {
  struct ommai_state_pages pages = {{0}};
  for (int g = 0; g < pool->n_groups; g++) {
    struct ommai_held_group *group = &held->groups[g];
    pages.of_group[g] = is_snapshot(pool, g) ? group->rows[kind] : group->pages;
    if (!is_snapshot(pool, g)) continue;
    bool begins = kind == OMMAI_ROW_BEGIN, drafts = kind == OMMAI_ROW_FORK || kind == OMMAI_ROW_DRAFT;
    int32_t read = begins ? group->current : kind == OMMAI_ROW_DRAFT ? group->draft : group->next;
    set_row(group, kind, read, drafts ? group->draft : group->next);
  }
  return pages;
}

/* Gives up a user of a snapshot. */
static void drop(struct ommai_page_pool *pool, int32_t *page) {
  if (*page != NONE) ommai_page_pool_give_back(pool, 1, page);
  *page = NONE;
}

/* Gives back a window's pages before `first`. */
static void trim(struct ommai_page_pool *pool, struct ommai_held_group *group, int64_t n_pages, int64_t first) {
  first = ommai_min_i64(first, n_pages);
  for (; group->first < first; group->first++) {
    if (group->pages[group->first] != NONE) ommai_page_pool_give_back(pool, 1, &group->pages[group->first]);
    group->pages[group->first] = NONE;
  }
}

void ommai_state_pool_give_back(struct ommai_state_pool *pool, struct ommai_held_state *held) {
  for (int g = 0; g < pool->n_groups; g++) {
    struct ommai_held_group *group = &held->groups[g];
    if (is_snapshot(pool, g)) {
      if (group->next == group->current) group->next = NONE;
      drop(pool->pools[g], &group->current);
      drop(pool->pools[g], &group->next);
      drop(pool->pools[g], &group->draft);
      drop(pool->pools[g], &group->border);
    } else if (group->pages) {
      ommai_page_pool_give_back(pool->pools[g], held->n_pages - group->first, group->pages + group->first);
      group->first = 0;
    }
  }
  held->n_pages = 0;
}

/* ---- prefixes ---- */

/* The first page that the next token at a border reads. */
static int64_t first_read(const struct ommai_state_group *group, int64_t position) {
  return group->window ? ommai_max_i64(position - group->window + 1, 0) / PAGE : 0;
}

static bool knows(const struct ommai_page_pool *pool, const struct omma_kv_page_key *key, int64_t *n_kept) {
  int64_t kept, found = ommai_page_pool_find(pool, key, 1, &kept);
  *n_kept += found ? kept : 0;
  return found > 0;
}

/* The last border up to n where everything is there that is not held; `border` where there is none.
 * firsts: of windows, from which page on they are held; `from`: from which on they are there. */
static int64_t find_border(const struct ommai_state_pool *pool, int64_t border, const int64_t *firsts,
                           const struct omma_kv_page_key *keys, int64_t n) {
  int64_t from[OMMAI_MAX_STATE_GROUPS], found = border, kept = 0;
  for (int g = 0; g < pool->n_groups; g++) from[g] = firsts[g];
  for (int64_t i = border; i < n; i++) {
    bool whole = true;
    for (int g = 0; g < pool->n_groups; g++) {
      bool known = knows(pool->pools[g], &keys[i], &kept);
      if (pool->groups[g].kind == OMMAI_STATE_PAGES && !known) return found;
      if (pool->groups[g].kind == OMMAI_STATE_WINDOW && !known) from[g] = i + 1;
      whole &= is_snapshot(pool, g) ? known : from[g] <= first_read(&pool->groups[g], (i + 1) * PAGE);
    }
    if (whole) found = i + 1;
  }
  return found;
}

int64_t ommai_state_pool_match(struct ommai_state_pool *pool, struct ommai_held_state *held,
                               const struct omma_kv_page_key *keys, int64_t n) {
  int64_t firsts[OMMAI_MAX_STATE_GROUPS], from = held->n_pages;
  for (int g = 0; g < pool->n_groups; g++) firsts[g] = held->groups[g].first;
  int64_t border = find_border(pool, from, firsts, keys, n);
  if (border == from) return 0;
  for (int g = 0; g < pool->n_groups; g++) {
    struct ommai_held_group *group = &held->groups[g];
    struct ommai_page_pool *pages = pool->pools[g];
    if (is_snapshot(pool, g)) {
      if (group->next == group->current) group->next = NONE;
      drop(pages, &group->current);
      (void)ommai_page_pool_match(pages, &keys[border - 1], 1, &group->current);
      continue;
    }
    int64_t first = first_read(&pool->groups[g], border * PAGE), begin = ommai_max_i64(first, from);
    trim(pages, group, from, first);
    for (; group->first < first; group->first++) group->pages[group->first] = NONE;
    (void)ommai_page_pool_match(pages, keys + begin, border - begin, group->pages + begin);
  }
  held->n_pages = border;
  pool->n_snapshot_hits += ommai_state_pool_has_snapshots(pool);
  return border - from;
}

bool ommai_state_pool_publish(struct ommai_state_pool *pool, struct ommai_held_state *held, int64_t page,
                              const struct omma_kv_page_key *key) {
  bool is_new = false;
  for (int g = 0; g < pool->n_groups; g++) {
    struct ommai_held_group *group = &held->groups[g];
    if (is_snapshot(pool, g) || page < group->first) continue;
    bool published = ommai_page_pool_publish(pool->pools[g], group->pages[page], key);
    is_new |= g == 0 && published;
  }
  return is_new;
}

void ommai_state_pool_publish_part(struct ommai_state_pool *pool, struct ommai_held_state *held, struct omma_kv_page_key *key) {
  *key = part_key(++pool->n_part_keys);
  pool->n_parts += ommai_page_pool_publish(pool->pools[0], held->groups[0].pages[0], key);
}

void ommai_state_pool_mark_border(struct ommai_state_pool *pool, struct ommai_held_state *held,
                                  const struct omma_kv_page_key *key) {
  for (int g = 0; g < pool->n_groups; g++) {
    int64_t kept = 0;
    if (!is_snapshot(pool, g) || knows(pool->pools[g], key, &kept)) continue;
    if (!ommai_page_pool_take(pool->pools[g], 1, &held->groups[g].border)) held->groups[g].border = NONE;
  }
}

void ommai_state_pool_publish_snapshot(struct ommai_state_pool *pool, struct ommai_held_state *held, bool border,
                                       const struct omma_kv_page_key *key) {
  for (int g = 0; g < pool->n_groups; g++) {
    struct ommai_held_group *group = &held->groups[g];
    if (!is_snapshot(pool, g)) continue;
    int32_t page = border ? group->border : group->current;
    bool published = page != NONE && ommai_page_pool_publish(pool->pools[g], page, key);
    if (border) drop(pool->pools[g], &group->border);
    if (!border && published) group->next = NONE; /* not written any more */
  }
}

/* ---- the way on ---- */

bool ommai_state_pool_take(struct ommai_state_pool *pool, struct ommai_held_state *held, int64_t position,
                           int64_t n_positions) {
  int64_t end = ommai_max_i64(ommai_div_up(n_positions, PAGE), held->n_pages), missing[OMMAI_MAX_STATE_GROUPS];
  for (int g = 0; g < pool->n_groups; g++) {
    struct ommai_held_group *group = &held->groups[g];
    missing[g] = is_snapshot(pool, g) ? group->next == NONE : end - held->n_pages;
    if (!is_snapshot(pool, g)) trim(pool->pools[g], group, held->n_pages, first_read(&pool->groups[g], position));
    if (missing[g] > ommai_page_pool_available(pool->pools[g])) return false;
  }
  for (int g = 0; g < pool->n_groups; g++) {
    struct ommai_held_group *group = &held->groups[g];
    (void)ommai_page_pool_take(pool->pools[g], missing[g], is_snapshot(pool, g) ? &group->next : group->pages + held->n_pages);
  }
  held->n_pages = end;
  return true;
}

bool ommai_state_pool_take_draft(struct ommai_state_pool *pool, struct ommai_held_state *held) {
  for (int g = 0; g < pool->n_groups; g++) {
    struct ommai_held_group *group = &held->groups[g];
    if (is_snapshot(pool, g) && group->draft == NONE && !ommai_page_pool_take(pool->pools[g], 1, &group->draft)) return false;
  }
  return true;
}

void ommai_state_pool_go_on(struct ommai_state_pool *pool, struct ommai_held_state *held) {
  for (int g = 0; g < pool->n_groups; g++) {
    struct ommai_held_group *group = &held->groups[g];
    if (!is_snapshot(pool, g) || group->current == group->next) continue;
    drop(pool->pools[g], &group->current);
    group->current = group->next;
  }
}

void ommai_held_state_accept_drafts(struct ommai_held_state *held, const struct ommai_state_pool *pool) {
  for (int g = 0; g < pool->n_groups; g++) {
    struct ommai_held_group *group = &held->groups[g];
    if (!is_snapshot(pool, g)) continue;
    int32_t spare = group->current;
    group->current = group->next = group->draft;
    group->draft = spare;
  }
}

/* ---- admission ---- */

static int64_t needed(const struct ommai_state_pool *pool, int g, int64_t n_positions) {
  return ommai_min_i64(ommai_div_up(n_positions, PAGE) * (is_snapshot(pool, g) ? SNAPSHOTS : 1), pool->most[g]);
}

void ommai_state_pool_promise(const struct ommai_state_pool *pool, const struct ommai_held_state *held, int64_t n_positions,
                              int64_t *promised) {
  for (int g = 0; g < pool->n_groups; g++) {
    const struct ommai_held_group *group = &held->groups[g];
    int64_t has = held->n_pages - group->first;
    if (is_snapshot(pool, g)) has = (group->current != NONE) + (group->next != NONE && group->next != group->current);
    promised[g] += ommai_max_i64(needed(pool, g, n_positions) - has, 0);
  }
}

int64_t ommai_state_pool_find(const struct ommai_state_pool *pool, const struct omma_kv_page_key *keys, int64_t n) {
  static const int64_t firsts[OMMAI_MAX_STATE_GROUPS] = {0};
  return find_border(pool, 0, firsts, keys, n);
}

bool ommai_state_pool_has(const struct ommai_state_pool *pool, const struct omma_kv_page_key *keys, int64_t n,
                          int64_t n_positions, const int64_t *promised) {
  int64_t border = ommai_state_pool_find(pool, keys, n);
  for (int g = 0; g < pool->n_groups; g++) {
    int64_t first = is_snapshot(pool, g) ? ommai_max_i64(border - 1, 0) : first_read(&pool->groups[g], border * PAGE), kept = 0;
    int64_t found = ommai_page_pool_find(pool->pools[g], keys + first, border - first, &kept);
    int64_t available = ommai_page_pool_available(pool->pools[g]) - kept - promised[g];
    if (needed(pool, g, n_positions) - found > available) return false;
  }
  return true;
}
