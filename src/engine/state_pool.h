/* Who uses which page of every group (base/state_groups.h), and what is kept of finished prompts: a
 * page pool for each group, and what one sequence holds of them.
 *
 * A prefix may be resumed at a border of pages where everything is there: all pages before it, of a
 * window those that it reaches, and a snapshot that was left exactly there. Snapshots are left
 * where a chunk ends and at the last border of a prompt. A page in use by others or published is
 * never written: a sequence goes on from it in a page of its own. One thread. */
#pragma once

#include "base/state_groups.h"
#include "engine/page_pool.h"

struct ommai_state_pool {
  struct omma_allocator allocator;
  int n_groups;
  struct ommai_state_group groups[OMMAI_MAX_STATE_GROUPS];
  struct ommai_page_pool *pools[OMMAI_MAX_STATE_GROUPS];
  int64_t most[OMMAI_MAX_STATE_GROUPS]; /* ommai_state_most_pages */
  struct omma_kv_events events;         /* of the first group's pages */
  int64_t n_snapshot_hits;              /* prompts that went on from a snapshot of another */
  /* Pages that are kept in part; and all that ever were, which gives them keys. */
  int64_t n_parts;
  uint64_t n_part_keys;
};

/* Of one sequence and group. Pages: [max_pages], those from `first` to n_pages are held. Snapshots:
 * where the sequence stands (-1: at its beginning), where it goes on, and what a draft may
 * overwrite; -1: none. `rows` is what calls get (struct ommai_state_pages). */
enum ommai_row_kind { OMMAI_ROW_BEGIN, OMMAI_ROW_GO_ON, OMMAI_ROW_FORK, OMMAI_ROW_DRAFT, OMMAI_ROW_KINDS };
struct ommai_held_group {
  int32_t *pages;
  int64_t first;
  int32_t current, next, draft, border;
  int32_t rows[OMMAI_ROW_KINDS][OMMAI_SNAPSHOT_PAGES];
};

struct ommai_held_state {
  struct ommai_held_group groups[OMMAI_MAX_STATE_GROUPS];
  int64_t n_pages, max_pages; /* positions that are covered, in pages */
};

/* Pages that a sequence holds of a group at once, at most, where chunks have prefill_chunk rows;
 * INT64_MAX: all of its own. */
int64_t ommai_state_most_pages(const struct ommai_state_group *group, int64_t prefill_chunk);

/* Errors: MEMORY; nothing stays. */
enum omma_status ommai_state_pool_create(const struct ommai_state_group *groups, int n_groups, const int64_t *n_pages,
                                         int64_t prefill_chunk, const struct omma_allocator *allocator,
                                         struct ommai_state_pool **pool, struct omma_error *error);
void ommai_state_pool_destroy(struct ommai_state_pool *pool);
/* Who gets the events of the first group's pages; copied. */
void ommai_state_pool_set_events(struct ommai_state_pool *pool, const struct omma_kv_events *events);
/* Forgets all that was published, in every group: one event. No sequence holds anything. */
void ommai_state_pool_clear(struct ommai_state_pool *pool);
/* Of the first group, and of snapshots; zeros where there is none. Published are full pages
 * alone. */
struct ommai_page_counts ommai_state_pool_counts(const struct ommai_state_pool *pool);
struct ommai_page_counts ommai_state_pool_snapshot_counts(const struct ommai_state_pool *pool);

bool ommai_state_pool_has_snapshots(const struct ommai_state_pool *pool);

/* Tables for a sequence of up to max_pages pages, which holds nothing. Errors: MEMORY; free it in
 * any case. */
enum omma_status ommai_held_state_init(struct ommai_held_state *held, const struct ommai_state_pool *pool, int64_t max_pages,
                                       const struct omma_allocator *allocator, struct omma_error *error);
void ommai_held_state_free(struct ommai_held_state *held, const struct omma_allocator *allocator);
/* What a call gets. A chunk gets BEGIN; the first generated token of a step BEGIN, those after it
 * that are no draft tokens GO_ON, the first draft token FORK, the others DRAFT. */
struct ommai_state_pages ommai_held_state_rows(struct ommai_held_state *held, const struct ommai_state_pool *pool,
                                               enum ommai_row_kind kind);

/* Takes over what others have left, up to the last border of the n keys where a prompt can go on;
 * returns how many pages the sequence is further. It stands at a border. */
int64_t ommai_state_pool_match(struct ommai_state_pool *pool, struct ommai_held_state *held,
                               const struct omma_kv_page_key *keys, int64_t n);
/* Makes sure that n_positions are covered and can be written, of which the next one is `position`:
 * pages before a window are given back. False, and nothing taken, where pages are missing. */
bool ommai_state_pool_take(struct ommai_state_pool *pool, struct ommai_held_state *held, int64_t position, int64_t n_positions);
/* Takes the page that drafts overwrite; false where none is free. */
bool ommai_state_pool_take_draft(struct ommai_state_pool *pool, struct ommai_held_state *held);
/* Has the next chunk leave a snapshot at its last border, if it goes beyond it, where there is a
 * page for it that nobody uses. */
void ommai_state_pool_mark_border(struct ommai_state_pool *pool, struct ommai_held_state *held,
                                  const struct omma_kv_page_key *key);

/* The chunk or step is over; of a step: the state is that before its draft, or after all of it. */
void ommai_state_pool_go_on(struct ommai_state_pool *pool, struct ommai_held_state *held);
void ommai_held_state_accept_drafts(struct ommai_held_state *held, const struct ommai_state_pool *pool);

/* Names page `page`, which is full. True where the first group's was not known by the key yet. */
bool ommai_state_pool_publish(struct ommai_state_pool *pool, struct ommai_held_state *held, int64_t page,
                              const struct omma_kv_page_key *key);
/* Names the first page of a sequence that writes no more, though it is not full: under a new key,
 * without an event. Of a pool with one group of pages. */
void ommai_state_pool_publish_part(struct ommai_state_pool *pool, struct ommai_held_state *held, struct omma_kv_page_key *key);
/* Names the snapshot where the sequence stands, or the one at the chunk's last border. */
void ommai_state_pool_publish_snapshot(struct ommai_state_pool *pool, struct ommai_held_state *held, bool border,
                                       const struct omma_kv_page_key *key);
void ommai_state_pool_give_back(struct ommai_state_pool *pool, struct ommai_held_state *held);

/* How many pages a request of these n keys would take over now. */
int64_t ommai_state_pool_find(const struct ommai_state_pool *pool, const struct omma_kv_page_key *keys, int64_t n);

/* Admission: adds the pages that a running sequence is yet to take for n_positions to promised[];
 * then whether a request of these keys finds what it needs besides. */
void ommai_state_pool_promise(const struct ommai_state_pool *pool, const struct ommai_held_state *held, int64_t n_positions,
                              int64_t *promised);
bool ommai_state_pool_has(const struct ommai_state_pool *pool, const struct omma_kv_page_key *keys, int64_t n,
                          int64_t n_positions, const int64_t *promised);
