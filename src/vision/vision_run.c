/* Stages and their shapes, n = packed patches, h = hidden_size:
 *   enter:   pixels -> patches [tile, patch_dim] -> residual [n, h] (+ positions) -> norm1 -> qkv -> rope -> qkv [n, 3h]
 *   attend:  qkv -> attended [n, h]
 *   leave b: attended -> residual -> ... -> residual; deepstack; norm1 and qkv of block b + 1, or the merger after the last */
#include "vision/vision_run.h"

#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/team.h"
#include "kernels/dtype.h"
#include "linear/row_tiles.h"
#include "vision/patch_positions.h"

enum phase { PHASE_ENTER, PHASE_ATTEND, PHASE_LEAVE, PHASE_DONE };

/* What one worker needs for its tile; every buffer has OMMAI_MAX_TILE_ROWS rows. */
struct scratch {
  void *normed;         /* dtype [OMMAI_MAX_TILE_ROWS, h]; joined rows of the mergers as well */
  float *wide;          /* f32 [OMMAI_MAX_TILE_ROWS, max(3h, out)] */
  void *hidden;         /* dtype [OMMAI_MAX_TILE_ROWS, max(patch_dim, intermediate, 4h)] */
  float *cosine, *sine; /* [head_dim / 2] */
};

struct ommai_vision_run {
  const struct ommai_vision_tower *tower;
  const struct ommai_vision_input *inputs;
  const struct ommai_patch_spec *patches;
  const struct omma_team *team;
  struct ommai_row_tiles tiles; /* of all packed patches */
  int64_t n_inputs;
  int64_t *starts;                /* [n_inputs + 1] first packed patch of each picture */
  float *residual;                /* [round_up(n, 128), h] */
  void *qkv;                      /* dtype [n, 3h], after rope */
  void *attended;                 /* dtype [round_up(n, 128), h] */
  float *rope_cosine, *rope_sine; /* [max_side, head_dim / 4] */
  struct scratch *scratch;        /* [n_workers] */
  struct omma_attention_plan *plan;
  void *attention_workspace;
  size_t attention_workspace_size;
  int64_t n_attention_steps;

  enum phase phase;
  int64_t block, next_task;
  int64_t first_task; /* of the slice in progress */
  ommai_stage_tap tap;
  void *tap_context;
};

static struct omma_attention_spec attention_spec(const struct ommai_vision_tower *tower, int64_t n_patches, int64_t n_inputs,
                                                 const int64_t *starts) {
  return (struct omma_attention_spec){.form = OMMA_ATTENTION_ENCODER,
                                      .dtype = tower->dtype,
                                      .n_heads = (int32_t)tower->config.n_heads,
                                      .head_dim = (int32_t)tower->config.head_dim,
                                      .n_tokens = n_patches,
                                      .index_type = OMMA_INDEX_INT64,
                                      .n_segments = n_inputs,
                                      .cu_seqlens = starts};
}

static void place_scratch(const struct ommai_vision_config *config, enum omma_dtype dtype, struct ommai_arena *arena,
                          struct scratch *scratch) {
  int64_t h = config->hidden_size, joined = h * config->merge_size * config->merge_size;
  int64_t wide = ommai_max_i64(3 * h, config->out_hidden_size);
  int64_t hidden = ommai_max_i64(ommai_max_i64(ommai_vision_patch_dim(config), config->intermediate_size), joined);
  struct scratch placed = {
      .normed = ommai_arena_take(arena, (size_t)(OMMAI_MAX_TILE_ROWS * joined), ommai_dtype_size(dtype)),
      .wide = ommai_arena_take(arena, (size_t)(OMMAI_MAX_TILE_ROWS * wide), sizeof(float)),
      .hidden = ommai_arena_take(arena, (size_t)(OMMAI_MAX_TILE_ROWS * hidden), ommai_dtype_size(dtype)),
      .cosine = ommai_arena_take(arena, (size_t)config->head_dim / 2, sizeof(float)),
      .sine = ommai_arena_take(arena, (size_t)config->head_dim / 2, sizeof(float)),
  };
  if (scratch) *scratch = placed;
}

/* Places everything but the attention plan's own memory; the same calls measure and place. */
static struct ommai_vision_run *place_run(const struct ommai_vision_tower *tower, int64_t n_patches, int64_t n_inputs,
                                          int64_t max_side, int n_workers, struct ommai_arena *arena) {
  const struct ommai_vision_config *config = &tower->config;
  size_t h = (size_t)config->hidden_size, quarter = (size_t)config->head_dim / 4;
  size_t rows = (size_t)ommai_round_up(n_patches, OMMAI_MAX_TILE_ROWS);
  struct ommai_vision_run *run = ommai_arena_take(arena, 1, sizeof *run);
  struct ommai_vision_run placed = {
      .starts = ommai_arena_take(arena, (size_t)n_inputs + 1, sizeof(int64_t)),
      .residual = ommai_arena_take(arena, rows * h, sizeof(float)),
      .qkv = ommai_arena_take(arena, rows * 3 * h, ommai_dtype_size(tower->dtype)),
      .attended = ommai_arena_take(arena, rows * h, ommai_dtype_size(tower->dtype)),
      .rope_cosine = ommai_arena_take(arena, (size_t)max_side * quarter, sizeof(float)),
      .rope_sine = ommai_arena_take(arena, (size_t)max_side * quarter, sizeof(float)),
      .scratch = ommai_arena_take(arena, (size_t)n_workers, sizeof(struct scratch)),
  };
  for (int worker = 0; worker < n_workers; worker++) {
    place_scratch(config, tower->dtype, arena, placed.scratch ? &placed.scratch[worker] : NULL);
  }
  if (run) *run = placed;
  return run;
}

/* Sizes stay far from overflow: a row is under 2^32 bytes by the config's limits and the patches are bounded here. */
static bool sizes_are_sane(int64_t n_patches, int64_t n_inputs, int64_t max_side, int n_workers) {
  return n_patches > 0 && n_patches <= OMMA_ATTENTION_MAX_TOKENS / 2 && n_inputs > 0 && n_inputs <= n_patches && max_side > 0 &&
         max_side <= n_patches && n_workers > 0;
}

size_t ommai_vision_workspace_size(const struct ommai_vision_tower *tower, int64_t n_patches, int64_t n_inputs,
                                   int64_t max_side, int n_workers) {
  if (!sizes_are_sane(n_patches, n_inputs, max_side, n_workers)) return 0;
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  place_run(tower, n_patches, n_inputs, max_side, n_workers, &arena);
  struct omma_attention_spec spec = attention_spec(tower, n_patches, n_inputs, NULL);
  spec.batch = 1;
  ommai_arena_take(&arena, omma_attention_plan_size_bound(tower->attention, &spec), 1);
  ommai_arena_take(&arena, omma_attention_workspace_bound(tower->attention, &spec, n_workers), 1);
  return arena.failed ? 0 : arena.used;
}

static enum omma_status check_inputs(const struct ommai_vision_config *config, const struct ommai_vision_input *inputs,
                                     int64_t n_inputs, int64_t *n_patches, int64_t *max_side, struct omma_error *error) {
  *n_patches = 0;
  *max_side = 0;
  for (int64_t i = 0; i < n_inputs; i++) {
    int64_t rows = inputs[i].grid_rows, columns = inputs[i].grid_columns, count;
    if (rows < 1 || columns < 1 || rows % config->merge_size || columns % config->merge_size ||
        !ommai_mul_i64(rows, columns, &count) || !ommai_add_i64(*n_patches, count, n_patches)) {
      return ommai_fail_field(error, OMMA_ERROR_ARGUMENT, "image",
                              "image %lld: grid of %lld x %lld patches: expected positive multiples of %lld", (long long)i,
                              (long long)rows, (long long)columns, (long long)config->merge_size);
    }
    *max_side = ommai_max_i64(*max_side, ommai_max_i64(rows, columns));
  }
  return OMMA_OK;
}

enum omma_status ommai_vision_run_start(const struct ommai_vision_tower *tower, const struct ommai_vision_input *inputs,
                                        int64_t n_inputs, const struct ommai_patch_spec *patches, void *workspace,
                                        size_t workspace_size, const struct omma_team *team, struct ommai_vision_run **out,
                                        struct omma_error *error) {
  int64_t n_patches, max_side;
  OMMAI_TRY(check_inputs(&tower->config, inputs, n_inputs, &n_patches, &max_side, error));
  int n_workers = team ? team->n_workers : 1;
  if (!sizes_are_sane(n_patches, n_inputs, max_side, n_workers)) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image", "image: %lld patches in %lld pictures", (long long)n_patches,
                            (long long)n_inputs);
  }
  struct ommai_arena arena;
  ommai_arena_init(&arena, workspace, workspace_size);
  struct ommai_vision_run *run = place_run(tower, n_patches, n_inputs, max_side, n_workers, &arena);
  if (arena.failed) return ommai_fail_memory(error, "vision workspace", arena.used);
  run->tower = tower;
  run->inputs = inputs;
  run->n_inputs = n_inputs;
  run->patches = patches;
  run->team = team;
  ommai_row_tiles_init(&run->tiles, tower->linear_engine, tower->dtype, n_patches);
  run->starts[0] = 0;
  for (int64_t i = 0; i < n_inputs; i++) run->starts[i + 1] = run->starts[i] + inputs[i].grid_rows * inputs[i].grid_columns;
  ommai_vision_rope_table(max_side, tower->config.head_dim / 4, tower->config.rope_theta, run->rope_cosine, run->rope_sine);

  struct omma_attention_spec spec = attention_spec(tower, n_patches, n_inputs, run->starts);
  size_t plan_size = omma_attention_plan_size_bound(tower->attention, &spec);
  void *plan_memory = ommai_arena_take(&arena, plan_size, 1);
  if (!plan_memory) return ommai_fail_memory(error, "vision attention plan", arena.used + plan_size);
  OMMAI_TRY(omma_attention_plan_place(tower->attention, &spec, plan_memory, plan_size, &run->plan, error));
  run->attention_workspace_size = omma_attention_plan_workspace_size(run->plan, n_workers);
  run->attention_workspace = ommai_arena_take(&arena, run->attention_workspace_size, 1);
  if (!run->attention_workspace) return ommai_fail_memory(error, "vision attention workspace", run->attention_workspace_size);
  struct omma_attention_plan_info info;
  omma_attention_plan_get_info(run->plan, &info);
  run->n_attention_steps = info.n_steps;
  *out = run;
  return OMMA_OK;
}

void ommai_vision_run_set_tap(struct ommai_vision_run *run, ommai_stage_tap tap, void *context) {
  run->tap = tap;
  run->tap_context = context;
}

/* The picture that packed patch `row` belongs to. */
static int64_t picture_of(const struct ommai_vision_run *run, int64_t row) {
  int64_t low = 0, high = run->n_inputs - 1;
  while (low < high) {
    int64_t middle = (low + high + 1) / 2;
    if (run->starts[middle] <= row) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/* Rows of `tile` from `row` on that belong to picture `picture`. */
static int64_t rows_in_picture(const struct ommai_vision_run *run, struct ommai_row_tile tile, int64_t row, int64_t picture) {
  return ommai_min_i64(run->starts[picture + 1], tile.first + tile.n_rows) - row;
}

static void cut_patches(const struct ommai_vision_run *run, struct ommai_row_tile tile, void *patches) {
  const struct ommai_vision_config *config = &run->tower->config;
  int64_t patch_dim = ommai_vision_patch_dim(config);
  for (int64_t row = tile.first; row < tile.first + tile.n_rows;) {
    int64_t picture = picture_of(run, row), count = rows_in_picture(run, tile, row, picture);
    const struct ommai_vision_input *input = &run->inputs[picture];
    /* Cannot fail: grids are whole blocks and the range lies inside the picture. */
    (void)ommai_patches_from_pixels(run->patches, input->pixels, (int32_t)(input->grid_columns * config->patch_size),
                                    (int32_t)(input->grid_rows * config->patch_size), row - run->starts[picture], count,
                                    ommai_element(patches, (row - tile.first) * patch_dim, run->tower->dtype), patch_dim,
                                    run->tower->dtype, NULL);
    row += count;
  }
}

static void add_positions(const struct ommai_vision_run *run, struct ommai_row_tile tile) {
  const struct ommai_vision_config *config = &run->tower->config;
  int64_t h = config->hidden_size;
  for (int64_t row = tile.first; row < tile.first + tile.n_rows; row++) {
    int64_t picture = picture_of(run, row);
    const struct ommai_vision_input *input = &run->inputs[picture];
    struct ommai_patch_position position =
        ommai_patch_position(row - run->starts[picture], input->grid_columns, config->merge_size);
    int64_t taps[4];
    float weights[4];
    ommai_position_taps(position, input->grid_rows, input->grid_columns, config->position_side, taps, weights);
    const float *rows[4];
    for (int t = 0; t < 4; t++) rows[t] = run->tower->position_table + taps[t] * h;
    run->tower->ops->add_weighted4(run->residual + row * h, rows, weights, h);
  }
}

static void norm_rows(const struct ommai_vision_run *run, const struct ommai_vision_norm *norm, const float *x, int64_t n_rows,
                      int64_t width, void *out) {
  for (int64_t row = 0; row < n_rows; row++) {
    run->tower->ops->layer_norm(x + row * width, norm->weight, norm->bias, run->tower->config.norm_eps, width,
                                ommai_element(out, row * width, run->tower->dtype), run->tower->dtype);
  }
}

/* The angles of a patch: the first quarter of the head turns with its row, the second with its column. */
static void gather_angles(const struct ommai_vision_run *run, int64_t row, struct scratch *scratch) {
  int64_t quarter = run->tower->config.head_dim / 4;
  size_t bytes = (size_t)quarter * sizeof(float);
  int64_t picture = picture_of(run, row);
  struct ommai_patch_position position =
      ommai_patch_position(row - run->starts[picture], run->inputs[picture].grid_columns, run->tower->config.merge_size);
  memcpy(scratch->cosine, run->rope_cosine + position.row * quarter, bytes);
  memcpy(scratch->cosine + quarter, run->rope_cosine + position.column * quarter, bytes);
  memcpy(scratch->sine, run->rope_sine + position.row * quarter, bytes);
  memcpy(scratch->sine + quarter, run->rope_sine + position.column * quarter, bytes);
}

/* norm1 and qkv of `block` for a tile, q and k turned, everything rounded once into the packed qkv. */
static void project_qkv(struct ommai_vision_run *run, struct ommai_row_tile tile, int64_t block, int worker) {
  const struct ommai_vision_tower *tower = run->tower;
  const struct ommai_vision_block *weights = &tower->blocks[block];
  struct scratch *scratch = &run->scratch[worker];
  int64_t h = tower->config.hidden_size, head_dim = tower->config.head_dim;
  norm_rows(run, &weights->norm1, run->residual + tile.first * h, tile.n_rows, h, scratch->normed);
  ommai_row_tiles_apply(&run->tiles, weights->qkv.op, scratch->normed, scratch->wide, tile.n_rows, worker);
  for (int64_t row = 0; row < tile.n_rows; row++) {
    const float *from = scratch->wide + row * 3 * h;
    void *to = ommai_element(run->qkv, (tile.first + row) * 3 * h, tower->dtype);
    gather_angles(run, tile.first + row, scratch);
    tower->ops->rope_half(from, scratch->cosine, scratch->sine, 2 * tower->config.n_heads, head_dim, to, head_dim,
                          tower->dtype);
    tower->ops->convert(from + 2 * h, h, ommai_element(to, 2 * h, tower->dtype), tower->dtype);
  }
}

/* Merges the tokens of a tile and puts them where their pictures want them; `slot` 0 is the tower's end, then deepstack. */
static void merge_tile(struct ommai_vision_run *run, struct ommai_row_tile tile, const struct ommai_vision_merger *merger,
                       int64_t slot, int worker) {
  const struct ommai_vision_config *config = &run->tower->config;
  struct scratch *scratch = &run->scratch[worker];
  int64_t joined_patches = config->merge_size * config->merge_size, h = config->hidden_size, out = config->out_hidden_size;
  const float *rows = run->residual + tile.first * h;
  int64_t n_tokens = tile.n_rows / joined_patches;
  if (merger->norm_after_join) {
    norm_rows(run, &merger->norm, rows, n_tokens, h * joined_patches, scratch->normed);
  } else {
    norm_rows(run, &merger->norm, rows, tile.n_rows, h, scratch->normed);
  }
  ommai_row_tiles_apply(&run->tiles, merger->fc1.op, scratch->normed, scratch->hidden, n_tokens, worker);
  ommai_row_tiles_apply(&run->tiles, merger->fc2.op, scratch->hidden, scratch->wide, n_tokens, worker);
  for (int64_t token = 0; token < n_tokens;) {
    int64_t row = tile.first + token * joined_patches, picture = picture_of(run, row);
    int64_t count = rows_in_picture(run, tile, row, picture) / joined_patches;
    int64_t picture_tokens = (run->starts[picture + 1] - run->starts[picture]) / joined_patches;
    int64_t first = (row - run->starts[picture]) / joined_patches;
    memcpy(run->inputs[picture].output + (slot * picture_tokens + first) * out, scratch->wide + token * out,
           (size_t)(count * out) * sizeof(float));
    token += count;
  }
}

static void enter_tile(void *context, int64_t task, int worker) {
  struct ommai_vision_run *run = context;
  const struct ommai_vision_tower *tower = run->tower;
  struct ommai_row_tile tile = ommai_row_tile_at(&run->tiles, run->first_task + task);
  struct scratch *scratch = &run->scratch[worker];
  cut_patches(run, tile, scratch->hidden);
  ommai_row_tiles_apply(&run->tiles, tower->patch_embed.op, scratch->hidden,
                        run->residual + tile.first * tower->config.hidden_size, tile.n_rows, worker);
  add_positions(run, tile);
  project_qkv(run, tile, 0, worker);
}

static void leave_tile(void *context, int64_t task, int worker) {
  struct ommai_vision_run *run = context;
  const struct ommai_vision_tower *tower = run->tower;
  const struct ommai_vision_config *config = &tower->config;
  const struct ommai_vision_block *weights = &tower->blocks[run->block];
  struct ommai_row_tile tile = ommai_row_tile_at(&run->tiles, run->first_task + task);
  struct scratch *scratch = &run->scratch[worker];
  float *residual = run->residual + tile.first * config->hidden_size;
  ommai_row_tiles_apply(&run->tiles, weights->proj.op,
                        ommai_element(run->attended, tile.first * config->hidden_size, tower->dtype), residual, tile.n_rows,
                        worker);
  norm_rows(run, &weights->norm2, residual, tile.n_rows, config->hidden_size, scratch->normed);
  ommai_row_tiles_apply(&run->tiles, weights->fc1.op, scratch->normed, scratch->hidden, tile.n_rows, worker);
  ommai_row_tiles_apply(&run->tiles, weights->fc2.op, scratch->hidden, residual, tile.n_rows, worker);
  for (int64_t j = 0; j < config->n_deepstack; j++) {
    if (config->deepstack_layers[j] == run->block) merge_tile(run, tile, &tower->deepstack[j], 1 + j, worker);
  }
  if (run->block + 1 < config->depth) {
    project_qkv(run, tile, run->block + 1, worker);
  } else {
    merge_tile(run, tile, &tower->merger, 0, worker);
  }
}

static enum omma_status attend(struct ommai_vision_run *run, int64_t first, int64_t count, struct omma_error *error) {
  const struct ommai_vision_tower *tower = run->tower;
  int64_t h = tower->config.hidden_size;
  struct omma_attention_tensors tensors = {.q = run->qkv,
                                           .k = ommai_element(run->qkv, h, tower->dtype),
                                           .v = ommai_element(run->qkv, 2 * h, tower->dtype),
                                           .out = run->attended,
                                           .q_token_stride = 3 * h,
                                           .k_token_stride = 3 * h,
                                           .v_token_stride = 3 * h};
  return omma_attention_run_range(run->plan, &tensors, run->attention_workspace, run->attention_workspace_size, run->team,
                                  first, count, error);
}

static void next_phase(struct ommai_vision_run *run) {
  int64_t h = run->tower->config.hidden_size;
  run->next_task = 0;
  switch (run->phase) {
    case PHASE_ENTER:
      if (run->tap) run->tap(run->tap_context, "position_added", 0, run->residual, run->tiles.n_rows, h);
      run->phase = PHASE_ATTEND;
      break;
    case PHASE_ATTEND: run->phase = PHASE_LEAVE; break;
    case PHASE_LEAVE:
      if (run->tap) run->tap(run->tap_context, "block", run->block, run->residual, run->tiles.n_rows, h);
      run->block++;
      run->phase = run->block < run->tower->config.depth ? PHASE_ATTEND : PHASE_DONE;
      break;
    case PHASE_DONE: break;
  }
}

enum omma_status ommai_vision_run_advance(struct ommai_vision_run *run, int64_t max_tasks, struct omma_error *error) {
  if (run->phase == PHASE_DONE) return OMMA_OK;
  int64_t total = run->phase == PHASE_ATTEND ? run->n_attention_steps : run->tiles.n_tiles;
  int64_t count = ommai_min_i64(ommai_max_i64(max_tasks, 1), total - run->next_task);
  run->first_task = run->next_task;
  if (run->phase == PHASE_ATTEND) {
    OMMAI_TRY(attend(run, run->first_task, count, error));
  } else {
    ommai_team_run(run->team, count, run->phase == PHASE_ENTER ? enter_tile : leave_tile, run);
    if (atomic_load(&run->tiles.failed)) return ommai_fail(error, OMMA_ERROR_INTERNAL, "vision tower: a linear layer failed");
  }
  run->next_task += count;
  if (run->next_task == total) next_phase(run);
  return OMMA_OK;
}

bool ommai_vision_run_done(const struct ommai_vision_run *run) { return run->phase == PHASE_DONE; }

void ommai_vision_run_progress(const struct ommai_vision_run *run, int64_t *done, int64_t *total) {
  int64_t phases = 1 + 2 * run->block + (run->phase == PHASE_LEAVE);
  *total = 1 + 2 * run->tower->config.depth;
  *done = run->phase == PHASE_ENTER ? 0 : run->phase == PHASE_DONE ? *total : phases;
}
