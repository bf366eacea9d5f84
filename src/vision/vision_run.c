/* A map of the pass. n = packed patches, h = hidden_size; each line in capitals is a phase: a task
 * of ENTER and LEAVE is a tile of rows (vision_rows.c), one of ATTEND a step of the attention plan.
 *
 *   ommai_vision_run_start:  ommai_vision_layout_fill, ommai_vision_rope_table, place_attention
 *   ommai_vision_run_advance, ommai_vision_run_advance_for: run_tasks, next_phase until PHASE_DONE:
 *     ENTER    ommai_vision_enter_tile:
 *                ommai_vision_entry: cut_patches: pixels -> patches [tile, patch_dim]
 *                  patch embedding -> residual [n, h];  add_positions
 *                project_qkv of block 0: norm1, qkv, rotate_row -> qkv [n, 3h]
 *     for each block:
 *       ATTEND   attend: qkv -> attended [n, h], inside windows or whole temporal patches
 *       LEAVE    ommai_vision_leave_tile:
 *                  residual += proj(attended)
 *                  feed_forward: residual += fc2(act(fc1(norm2 residual)))
 *                  ommai_vision_merge: where the block has a deepstack merger
 *                  not the last:  project_qkv of the next block: -> qkv
 *                  the last:      ommai_vision_exit: final merge -> the caller's embeddings
 */
#include "vision/vision_run.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/pace.h"
#include "base/team.h"
#include "kernels/dtype.h"
#include "vision/vision_rows.h"
#include "vision/vision_tile.h"

enum phase { PHASE_ENTER, PHASE_ATTEND, PHASE_LEAVE, PHASE_DONE };

/* The two ways in which blocks attend. */
enum scope { SCOPE_FULL, SCOPE_WINDOW, N_SCOPES };

struct attention {
  struct omma_attention_plan *plan; /* NULL for windows where the tower has none */
  size_t workspace_size;
  int64_t n_steps;
  double flops;
  struct ommai_pace pace;
};

struct ommai_vision_run {
  struct ommai_vision_rows rows;
  const struct omma_team *team;
  struct attention attention[N_SCOPES];
  void *attention_workspace; /* for the larger of the two */

  enum phase phase;
  int64_t block, next_task;
  int64_t first_task;                                   /* of the slice in progress */
  struct ommai_pace enter_pace, leave_pace, merge_pace; /* see pace_of */
  ommai_stage_observer observer;
  void *observer_context;
};

static struct omma_attention_spec attention_spec(const struct ommai_vision_tower *tower, int64_t n_patches, int64_t n_segments,
                                                 const int64_t *borders) {
  return (struct omma_attention_spec){.mode = OMMA_ATTENTION_ENCODER,
                                      .dtype = tower->dtype,
                                      .n_heads = (int32_t)tower->config.n_heads,
                                      .head_dim = (int32_t)tower->config.head_dim,
                                      .n_tokens = n_patches,
                                      .index_type = OMMA_INDEX_INT64,
                                      .n_segments = n_segments,
                                      .cu_seqlens = borders,
                                      .batch = borders ? 0 : 1,
                                      .int8_scores = tower->int8_scores};
}

/* Sizes stay far from overflow: a row is under 2^32 bytes by the config's limits and the patches
 * are bounded here. */
static bool sizes_are_sane(const struct ommai_vision_sizes *sizes, int n_workers) {
  return sizes->n_patches > 0 && sizes->n_patches <= OMMA_ATTENTION_MAX_TOKENS / 2 && sizes->n_temporal_patches > 0 &&
         sizes->n_temporal_patches <= sizes->n_patches && sizes->max_side > 0 && sizes->max_side <= sizes->n_patches &&
         n_workers > 0;
}

size_t ommai_vision_workspace_size(const struct ommai_vision_tower *tower, const struct ommai_vision_sizes *sizes,
                                   int n_workers) {
  if (!sizes_are_sane(sizes, n_workers)) return 0;
  struct ommai_arena arena;
  struct ommai_vision_rows rows;
  size_t workspace = 0;
  ommai_arena_measure(&arena);
  ommai_arena_take(&arena, 1, sizeof(struct ommai_vision_run));
  ommai_vision_rows_place(&rows, tower, sizes, n_workers, &arena);
  const int64_t segments[N_SCOPES] = {sizes->n_temporal_patches, ommai_vision_max_windows(&tower->config, sizes)};
  for (int scope = 0; scope < N_SCOPES; scope++) {
    if (segments[scope] == 0) continue;
    struct omma_attention_spec spec = attention_spec(tower, sizes->n_patches, segments[scope], NULL);
    size_t bound = omma_attention_workspace_bound(tower->attention, &spec, n_workers);
    ommai_arena_take(&arena, omma_attention_plan_size_bound(tower->attention, &spec), 1);
    workspace = bound > workspace ? bound : workspace;
  }
  ommai_arena_take(&arena, workspace, 1);
  return arena.failed ? 0 : arena.used;
}

static enum omma_status plan_attention(struct attention *attention, const struct ommai_vision_tower *tower, int64_t n_patches,
                                       int64_t n_segments, const int64_t *borders, int n_workers, struct ommai_arena *arena,
                                       struct omma_error *error) {
  struct omma_attention_spec spec = attention_spec(tower, n_patches, n_segments, borders);
  size_t size = omma_attention_plan_size_bound(tower->attention, &spec);
  void *memory = ommai_arena_take(arena, size, 1);
  if (!memory) return ommai_fail_memory(error, "vision attention plan", arena->used + size);
  OMMAI_TRY(omma_attention_plan_place(tower->attention, &spec, memory, size, &attention->plan, error));
  struct omma_attention_plan_info info;
  omma_attention_plan_get_info(attention->plan, &info);
  attention->workspace_size = omma_attention_plan_workspace_size(attention->plan, n_workers);
  attention->n_steps = info.n_steps;
  attention->flops = info.flops;
  return OMMA_OK;
}

/* Both plans, and one workspace for them: they never run at the same time. */
static enum omma_status place_attention(struct ommai_vision_run *run, int n_workers, struct ommai_arena *arena,
                                        struct omma_error *error) {
  const struct ommai_vision_layout *layout = &run->rows.layout;
  const struct ommai_vision_tower *tower = run->rows.tower;
  int64_t n_patches = run->rows.tiles.n_rows;
  struct attention *temporal_patches = &run->attention[SCOPE_FULL], *windows = &run->attention[SCOPE_WINDOW];
  OMMAI_TRY(plan_attention(temporal_patches, tower, n_patches, layout->n_temporal_patches, layout->temporal_patch_starts,
                           n_workers, arena, error));
  if (layout->n_windows) {
    OMMAI_TRY(plan_attention(windows, tower, n_patches, layout->n_windows, layout->window_starts, n_workers, arena, error));
  }
  size_t size =
      temporal_patches->workspace_size > windows->workspace_size ? temporal_patches->workspace_size : windows->workspace_size;
  run->attention_workspace = ommai_arena_take(arena, size, 1);
  return run->attention_workspace ? OMMA_OK : ommai_fail_memory(error, "vision attention workspace", size);
}

enum omma_status ommai_vision_run_start(const struct ommai_vision_tower *tower, const struct ommai_vision_input *inputs,
                                        int64_t n_inputs, const struct ommai_patch_spec *patches, void *workspace,
                                        size_t workspace_size, const struct omma_team *team, struct ommai_vision_run **out,
                                        struct omma_error *error) {
  struct ommai_vision_sizes sizes = {0};
  struct ommai_vision_rows rows;
  int n_workers = team ? team->n_workers : 1;
  for (int64_t i = 0; i < n_inputs; i++) {
    enum omma_status status = ommai_vision_sizes_add(&tower->config, &inputs[i], &sizes, error);
    if (status == OMMA_OK) continue;
    ommai_error_prefix(error, "image %lld", (long long)i);
    return status;
  }
  if (!sizes_are_sane(&sizes, n_workers)) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image", "image: %lld patches in %lld images", (long long)sizes.n_patches,
                            (long long)n_inputs);
  }
  struct ommai_arena arena;
  ommai_arena_init(&arena, workspace, workspace_size);
  struct ommai_vision_run *run = ommai_arena_take(&arena, 1, sizeof *run);
  ommai_vision_rows_place(&rows, tower, &sizes, n_workers, &arena);
  if (arena.failed) return ommai_fail_memory(error, "vision workspace", arena.used);
  *run = (struct ommai_vision_run){.rows = rows, .team = team};
  ommai_vision_rows_start(&run->rows, inputs, n_inputs, &sizes, patches, n_workers);
  OMMAI_TRY(place_attention(run, n_workers, &arena, error));
  *out = run;
  return OMMA_OK;
}

void ommai_vision_run_set_profiles(struct ommai_vision_run *run, struct ommai_vision_profile *profiles) {
  run->rows.profiles = profiles;
}

void ommai_vision_run_set_observer(struct ommai_vision_run *run, ommai_stage_observer observer, void *context) {
  run->observer = observer;
  run->observer_context = context;
}

static const struct ommai_vision_config *config_of(const struct ommai_vision_run *run) { return &run->rows.tower->config; }

/* How the present block attends. */
static struct attention *attention_of(struct ommai_vision_run *run) {
  return &run->attention[config_of(run)->windowed[run->block] ? SCOPE_WINDOW : SCOPE_FULL];
}

static void enter_tile(void *context, int64_t task, int worker) {
  struct ommai_vision_run *run = context;
  ommai_vision_enter_tile(&run->rows, run->first_task + task, worker);
}

static void leave_tile(void *context, int64_t task, int worker) {
  struct ommai_vision_run *run = context;
  ommai_vision_leave_tile(&run->rows, run->block, run->first_task + task, worker);
}

static enum omma_status attend(struct ommai_vision_run *run, int64_t count, struct omma_error *error) {
  const struct ommai_vision_rows *rows = &run->rows;
  const struct attention *attention = attention_of(run);
  int64_t h = config_of(run)->hidden_size;
  struct omma_attention_tensors tensors = {.q = rows->qkv,
                                           .k = ommai_element(rows->qkv, h, rows->tower->dtype),
                                           .v = ommai_element(rows->qkv, 2 * h, rows->tower->dtype),
                                           .out = rows->attended,
                                           .q_token_stride = 3 * h,
                                           .k_token_stride = 3 * h,
                                           .v_token_stride = 3 * h};
  int64_t start = ommai_vision_profile_start(rows->profiles);
  enum omma_status status = omma_attention_run_range(attention->plan, &tensors, run->attention_workspace,
                                                     attention->workspace_size, run->team, run->first_task, count, error);
  for (int worker = 0; worker < (run->team ? run->team->n_workers : 1); worker++) {
    ommai_vision_profile_stop(rows->profiles, worker, OMMAI_VISION_ATTENTION, start);
  }
  return status;
}

static void show(const struct ommai_vision_run *run, const char *stage, int64_t index) {
  if (run->observer) {
    run->observer(run->observer_context, stage, index, run->rows.residual, run->rows.tiles.n_rows, config_of(run)->hidden_size);
  }
}

static void next_phase(struct ommai_vision_run *run) {
  run->next_task = 0;
  switch (run->phase) {
    case PHASE_ENTER:
      show(run, "position_added", 0);
      run->phase = PHASE_ATTEND;
      break;
    case PHASE_ATTEND: run->phase = PHASE_LEAVE; break;
    case PHASE_LEAVE:
      show(run, "block", run->block);
      run->block++;
      run->phase = run->block < config_of(run)->depth ? PHASE_ATTEND : PHASE_DONE;
      break;
    case PHASE_DONE: break;
  }
}

/* At most max_tasks of the present phase; *count: how many. */
static enum omma_status run_tasks(struct ommai_vision_run *run, int64_t max_tasks, int64_t *count, struct omma_error *error) {
  int64_t total = run->phase == PHASE_ATTEND ? attention_of(run)->n_steps : run->rows.tiles.n_tiles;
  *count = ommai_min_i64(ommai_max_i64(max_tasks, 1), total - run->next_task);
  run->first_task = run->next_task;
  if (run->phase == PHASE_ATTEND) {
    OMMAI_TRY(attend(run, *count, error));
  } else {
    ommai_team_run(run->team, *count, run->phase == PHASE_ENTER ? enter_tile : leave_tile, run);
    OMMAI_TRY(ommai_first_error_result(&run->rows.tiles.failure, "vision tower", error));
  }
  run->next_task += *count;
  if (run->next_task == total) next_phase(run);
  return OMMA_OK;
}

enum omma_status ommai_vision_run_advance(struct ommai_vision_run *run, int64_t max_tasks, struct omma_error *error) {
  int64_t count;
  return run->phase == PHASE_DONE ? OMMA_OK : run_tasks(run, max_tasks, &count, error);
}

/* ---- slices by time -------------------------------------------------------------------------- */

/* A plan's first steps pack keys and are far shorter than the mean, so the first slice of attention
 * is not recorded: its mean step is taken to run at the rate of the entering tiles. */
static double estimate_round(const struct ommai_vision_run *run, const struct attention *attention) {
  const struct ommai_vision_config *config = config_of(run);
  double weights = (double)(config->hidden_size * (ommai_vision_patch_dim(config) + 3 * config->hidden_size));
  double tile_flops = 2 * weights * (double)run->rows.tiles.tile_rows;
  return run->enter_pace.round_ns * attention->flops / ((double)attention->n_steps * tile_flops);
}

/* Whether tiles that leave `block` also go through a merger. */
static bool merges(const struct ommai_vision_config *config, int64_t block) {
  if (block == config->depth - 1) return true;
  for (int64_t j = 0; j < config->n_deepstack; j++) {
    if (config->deepstack_layers[j] == block) return true;
  }
  return false;
}

/* Of the present phase's tasks. Tiles with a merger take up to twice as long as others. */
static struct ommai_pace *pace_of(struct ommai_vision_run *run) {
  if (run->phase == PHASE_ENTER) return &run->enter_pace;
  if (run->phase == PHASE_LEAVE) return merges(config_of(run), run->block) ? &run->merge_pace : &run->leave_pace;
  struct attention *attention = attention_of(run);
  if (attention->pace.round_ns == 0) attention->pace.round_ns = estimate_round(run, attention);
  return &attention->pace;
}

enum omma_status ommai_vision_run_advance_for(struct ommai_vision_run *run, int64_t ns, struct omma_error *error) {
  if (run->phase == PHASE_DONE) return OMMA_OK;
  int64_t n_workers = run->team ? run->team->n_workers : 1, start = ommai_clock_ns(), count;
  struct ommai_pace *pace = pace_of(run);
  OMMAI_TRY(run_tasks(run, ommai_pace_tasks(pace, ns, n_workers), &count, error));
  ommai_pace_record(pace, ommai_clock_ns() - start, count, n_workers);
  return OMMA_OK;
}

bool ommai_vision_run_done(const struct ommai_vision_run *run) { return run->phase == PHASE_DONE; }

void ommai_vision_run_progress(const struct ommai_vision_run *run, int64_t *done, int64_t *total) {
  int64_t phases = 1 + 2 * run->block + (run->phase == PHASE_LEAVE);
  *total = 1 + 2 * config_of(run)->depth;
  *done = run->phase == PHASE_ENTER ? 0 : run->phase == PHASE_DONE ? *total : phases;
}
