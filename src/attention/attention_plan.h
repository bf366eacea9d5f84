/* The inside of the operator: context, the checked problem, the plan and its jobs.
 *
 * A plan is a list of units, those that use shared workspace before the small ones and the heaviest
 * of each first, and a list of waves over them. A unit is the queries of one segment (one
 * query row in the DECODE mode) against the keys of its sequence. A pair is a unit and one kv head,
 * or a few neighbouring ones where there is work enough for everybody. The pairs, in unit order,
 * are cut into waves so that what a wave keeps in shared workspace fits a fixed budget. A wave has
 * two phases, each one team call:
 *
 *   ENCODER, CAUSAL   prepare: pack up to PACK_BLOCKS key blocks of a pair
 *                     attend: one tile of query rows of one head
 *   DECODE            prepare: one split of the keys of a pair
 *                     attend: combine the splits of a pair
 *
 * Small units keep nothing in shared workspace: they have no prepare jobs, and one attend job per
 * pair does everything in the worker's scratch. Jobs are numbered through the whole plan, so a job
 * is found by bisection over the units' prefix sums and no job list exists. */
#pragma once

#include <omma/attention.h>

#include "kernels/attention_kernels.h"

enum {
  OMMAI_ATTENTION_PACK_BLOCKS = 16, /* key blocks per prepare job */
  /* keys per decode split: part of the arithmetic, do not tune per machine */
  OMMAI_ATTENTION_SPLIT_KEYS = 256,
  OMMAI_ATTENTION_SMALL_KEYS = 128,
  OMMAI_ATTENTION_SMALL_ROWS = 512, /* query rows times query heads per kv head */
  /* maximum number of kv heads in a pair: neighbours in memory, so one prefetches for the next */
  OMMAI_ATTENTION_PAIR_HEADS = 16,
  OMMAI_ATTENTION_MANY_PAIRS = 128, /* as long as that many are left, pairs have more heads */
  /* likewise of pairs and splits when decoding, where memory is read faster in its order */
  OMMAI_ATTENTION_MANY_SPLITS = 4,
};
#define OMMAI_ATTENTION_WAVE_BYTES ((size_t)16 << 20)

/* Index into a context's kernels: an enum omma_dtype up to f16; f32 queries over keys and values in
 * bf16; f32 and bf16 queries over keys and values of 8 bits. */
enum { OMMAI_ATTENTION_F32_BF16 = OMMA_F16 + 1, OMMAI_ATTENTION_F32_KV8, OMMAI_ATTENTION_BF16_KV8, OMMAI_ATTENTION_TYPES };
/* That of a pair of types, and the pair of an index. */
int ommai_attention_types_index(struct ommai_attention_types types);
extern const struct ommai_attention_types ommai_attention_types_at[OMMAI_ATTENTION_TYPES];

struct omma_attention_context {
  struct omma_allocator allocator;
  enum ommai_cpu_level level;
  const struct ommai_attention_tile_kernel *tile[OMMAI_ATTENTION_TYPES];
  const struct ommai_attention_tile_kernel *window[OMMAI_ATTENTION_TYPES];
  const struct ommai_attention_tile_kernel *int8[OMMAI_ATTENTION_TYPES]; /* NULL: none */
  const struct ommai_attention_decode_kernel *decode[OMMAI_ATTENTION_TYPES];
};

/* The values of a checked spec, with its defaults filled in. */
struct ommai_attention_problem {
  enum omma_attention_mode mode;
  struct ommai_attention_types types;
  int32_t n_heads, n_kv_heads, group; /* group: query heads per kv head */
  int32_t head_dim, v_head_dim;
  float scale;
  bool paged;
  int64_t window_keys; /* that a row sees at most; OMMA_ATTENTION_MAX_TOKENS: all */
  int64_t n_tokens, n_kv_tokens;
  int64_t n_segments;
  int64_t batch_rows, batch_kv_rows; /* rows per segment where cu_seqlens is NULL */
  bool int8;                         /* the tile kernel's scores are of integers */
  const struct ommai_attention_tile_kernel *tile;
  const struct ommai_attention_tile_kernel
      *window; /* ENCODER, for units of one block; NULL where the tile kernel serves them */
  const struct ommai_attention_decode_kernel *decode;
  size_t block_bytes;   /* TILE: one packed block */
  size_t state_bytes;   /* DECODE: the state of one query head */
  size_t scratch_bytes; /* per worker, a multiple of 64 */
};

/* One segment's borders, read from a spec. */
struct ommai_attention_segment {
  int64_t first_row, n_rows;   /* in q and out */
  int64_t first_key, key_room; /* in k and v; room: rows up to the next segment */
  int64_t offset;              /* position of the first row; CAUSAL and DECODE */
  int64_t n_keys;              /* that the last row sees */
};

struct ommai_attention_unit {
  int64_t first_row, n_rows;
  int64_t first_key, n_keys;
  int64_t first_visible; /* the number of keys up to the last that the first row sees */
  /* blocks of keys (DECODE: splits) of which a row sees any; the others are not touched */
  int64_t first_part, n_parts;
  int64_t segment;                     /* index in the spec's order: the page table's row */
  int64_t first_prepare, first_attend; /* job numbers of the unit's first pair */
  /* of the unit's first pair, if all waves were laid end to end */
  size_t first_byte;
  size_t bytes_per_pair;
  int64_t prepare_per_pair, attend_per_pair;
  int32_t heads_per_pair, n_pairs;
  bool small;
};

/* Pairs from (first_unit, first_pair) up to those of the next wave. */
struct ommai_attention_wave {
  int64_t first_unit;
  int32_t first_pair;
  int64_t first_prepare, first_attend;
  size_t first_byte;
};

struct omma_attention_plan {
  struct ommai_attention_problem problem;
  struct omma_allocator allocator; /* allocate is NULL for a plan in caller's memory */
  size_t plan_bytes;
  size_t wave_bytes; /* of the largest wave */
  int64_t n_units, n_waves;
  int64_t n_steps;
  int64_t tail_row; /* rows from here on are zero */
  int64_t max_keys; /* of any unit */
  double flops;
  struct ommai_attention_unit *units; /* [n_units] */
  struct ommai_attention_wave *waves; /* [n_waves + 1]; the last is the end */
};

/* Checks everything in a spec but the contents of its arrays, and fills in defaults. */
enum omma_status ommai_attention_check_spec(const struct omma_attention_context *context,
                                            const struct omma_attention_spec *spec, struct ommai_attention_problem *problem,
                                            struct omma_error *error);

/* Checks the contents of the arrays against the problem. */
enum omma_status ommai_attention_check_segments(const struct ommai_attention_problem *problem,
                                                const struct omma_attention_spec *spec, struct omma_error *error);

/* Borders of segment `index` of a checked spec. */
struct ommai_attention_segment ommai_attention_segment_at(const struct ommai_attention_problem *problem,
                                                          const struct omma_attention_spec *spec, int64_t index);

/* Tiles of a unit of n_rows query rows, and the rows of tile `index`: whole tiles first, then the
 * rest without a tile that is nearly empty. */
int64_t ommai_attention_tile_count(const struct ommai_attention_tile_kernel *kernel, int64_t n_rows);
void ommai_attention_tile_rows(const struct ommai_attention_tile_kernel *kernel, int64_t n_rows, int64_t index,
                               int64_t *first_row, int64_t *count);

/* The kernel for units of n_keys keys, in the ENCODER and CAUSAL modes. */
const struct ommai_attention_tile_kernel *ommai_attention_kernel_for(const struct ommai_attention_problem *problem,
                                                                     int64_t n_keys);

/* The first key that a row sees which would see n_keys without a window. */
int64_t ommai_attention_first_key(const struct ommai_attention_problem *problem, int64_t n_keys);

/* The largest number of kv heads in a pair. */
int32_t ommai_attention_pair_heads(int32_t n_kv_heads);

/* A checked run: the caller's tensors with their default strides filled in, and the workspace. */
struct ommai_attention_run {
  const struct omma_attention_plan *plan;
  struct omma_attention_tensors tensors;
  const struct ommai_attention_wave *wave; /* in progress */
  unsigned char *wave_memory;
  unsigned char *scratch; /* [n_workers], problem.scratch_bytes each */
  int32_t n_workers;
  int64_t first_job;
};

/* A pair, the job's number within it, and where its share of the wave's memory is. */
struct ommai_attention_job {
  const struct ommai_attention_unit *unit;
  int32_t first_head, n_heads; /* kv heads */
  int64_t index;
  unsigned char *shared;
  unsigned char *scratch;
};

/* The jobs of the two families. */
void ommai_attention_tile_prepare(const struct ommai_attention_run *run, const struct ommai_attention_job *job);
void ommai_attention_tile_attend(const struct ommai_attention_run *run, const struct ommai_attention_job *job);
void ommai_attention_decode_prepare(const struct ommai_attention_run *run, const struct ommai_attention_job *job);
void ommai_attention_decode_attend(const struct ommai_attention_run *run, const struct ommai_attention_job *job);
