/* What a decoder keeps of its sequences, by group of layers, in numbers: for whoever hands out the
 * memory and knows no layers.
 *
 *   PAGES     a page holds 64 positions of all layers of the group, until the sequence ends
 *   WINDOW    the same, but pages wholly behind the window are not read any more
 *   SNAPSHOT  a page holds all that came before, in the same bytes at any length */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define OMMAI_MAX_STATE_GROUPS 4

enum ommai_state_kind { OMMAI_STATE_PAGES, OMMAI_STATE_WINDOW, OMMAI_STATE_SNAPSHOT };

/* Layers of like needs. A page number is valid within its group. */
struct ommai_state_group {
  enum ommai_state_kind kind;
  int64_t window;    /* positions that a token sees, itself included; 0: all */
  size_t page_bytes; /* of all its layers */
};

/* Where a sequence's state lies. Pages: of_group[g][i] holds the positions from 64 * i on; entries
 * behind a window are not read. Snapshots: of_group[g] is {read, written, border}. A generated
 * token or a part of a prompt begins from what is in `read` (-1: from nothing) and leaves its end
 * in `written`, which may be the same. A part of a prompt that goes beyond its last multiple of 64
 * leaves what stands there in `border` too, where that is not -1. */
struct ommai_state_pages {
  const int32_t *of_group[OMMAI_MAX_STATE_GROUPS];
};
enum { OMMAI_SNAPSHOT_READ, OMMAI_SNAPSHOT_WRITTEN, OMMAI_SNAPSHOT_BORDER, OMMAI_SNAPSHOT_PAGES };
