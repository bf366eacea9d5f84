#include "runner/cpu_runner.h"

#include <string.h>

#include "base/allocator.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "model/draft_model.h"
#include "runner/cpu_inside.h"

/* ---- sizes ---- */

static bool has_decoder(const struct omma_model *model) { return model->network.has_decoder; }

static int64_t vocabulary(const struct omma_model *model) { return has_decoder(model) ? model->config.text.vocab_size : 0; }

static void find_facts(const void *network, struct ommai_runner_facts *facts) {
  const struct omma_model *model = network;
  const struct ommai_vision_config *vision = &model->config.vision;
  *facts = (struct ommai_runner_facts){.kinds = 1u << OMMA_REQUEST_ENCODE,
                                       .vocab_size = vocabulary(model),
                                       .n_workers = model->network.n_threads,
                                       .image = {vision->out_hidden_size, vision->n_deepstack},
                                       .draw_rows = OMMAI_CPU_DRAW_ROWS};
  if (!has_decoder(model)) return;
  facts->kinds |= 1u << OMMA_REQUEST_EMBED;
  if (!model->config.text.headless) facts->kinds |= 1u << OMMA_REQUEST_GENERATE | 1u << OMMA_REQUEST_SCORE;
  facts->drafter = model->draft                            ? OMMAI_DRAFT_MODEL
                   : model->config.text.n_draft_layers > 0 ? OMMAI_DRAFT_HEAD
                                                           : OMMAI_NO_DRAFTER;
  facts->state_bytes = (size_t)ommai_decoder_state_width(&model->config.text) * sizeof(float);
  struct ommai_state_layout layout;
  ommai_state_layout_make(&model->config.text, model->network.decoder.kv_type, &layout);
  facts->n_groups = (int)layout.n_groups;
  for (int g = 0; g < facts->n_groups; g++) facts->groups[g] = layout.groups[g].state;
  if (model->draft) facts->groups[0].page_bytes += ommai_cpu_draft_page_bytes(model);
}

int64_t ommai_cpu_max_pieces(const struct ommai_runner_limits *limits) {
  _Static_assert(OMMAI_MAX_CHUNK_PIECES <= OMMAI_PREFILL_MAX_PIECES, "a chunk's pieces fit");
  return ommai_min_i64(limits->max_sequences, OMMAI_MAX_CHUNK_PIECES);
}

int64_t ommai_cpu_logits_rows(const struct ommai_runner_limits *limits) {
  return ommai_min_i64(limits->drawn_rows, OMMAI_CPU_DRAW_ROWS);
}

int64_t ommai_cpu_sampler_rows(const struct ommai_runner_limits *limits) {
  return ommai_min_i64(limits->max_sequences, OMMAI_CPU_DRAW_ROWS);
}

static void place_tables(const struct omma_model *model, const struct ommai_runner_limits *limits, struct ommai_arena *arena,
                         struct ommai_cpu_tables *tables) {
  size_t vocab = (size_t)vocabulary(model), hidden = (size_t)model->config.text.hidden_size;
  size_t logits_rows = (size_t)ommai_cpu_logits_rows(limits), drawn_rows = (size_t)limits->drawn_rows;
  size_t max_rows = (size_t)limits->max_rows;
  int64_t sampler_rows = ommai_cpu_sampler_rows(limits);
  tables->slots = ommai_arena_take(arena, (size_t)limits->max_sequences, sizeof *tables->slots);
  tables->profiles = ommai_arena_take(arena, (size_t)model->network.n_threads, sizeof *tables->profiles);
  if (!has_decoder(model)) return;
  tables->prompt_rows = ommai_arena_take(arena, (size_t)limits->prefill_chunk, sizeof *tables->prompt_rows);
  tables->pieces = ommai_arena_take(arena, (size_t)ommai_cpu_max_pieces(limits), sizeof *tables->pieces);
  tables->piece_slots = ommai_arena_take(arena, (size_t)ommai_cpu_max_pieces(limits), sizeof *tables->piece_slots);
  tables->step_rows = ommai_arena_take(arena, (size_t)limits->max_rows, sizeof *tables->step_rows);
  bool head = model->config.text.n_draft_layers > 0;
  size_t draft_width = model->draft ? (size_t)model->draft->config.text.hidden_size : head ? hidden : 0;
  if (head || drawn_rows > logits_rows) tables->residual = ommai_arena_take(arena, max_rows * hidden, sizeof(float));
  if (draft_width) tables->draft_states = ommai_arena_take(arena, max_rows * draft_width, sizeof(float));
  if (model->draft) ommai_cpu_draft_place(model, limits, arena, &tables->draft);
  tables->logits = ommai_arena_take(arena, logits_rows * vocab, sizeof(float));
  tables->inputs = ommai_arena_take(arena, (size_t)sampler_rows, sizeof *tables->inputs);
  tables->sampler_memory = ommai_arena_take(arena, ommai_sampler_size((int64_t)vocab, sampler_rows), 1);
}

/* Images of one merge block each are the largest number that a pass can have. */
static size_t vision_workspace(const struct omma_model *model, int64_t patch_budget) {
  int64_t block = ommai_vision_joined_patches(&model->config.vision), n_patches = ommai_max_i64(patch_budget, block);
  const struct ommai_vision_sizes largest = {n_patches, ommai_max_i64(patch_budget / block, 1), n_patches};
  return ommai_vision_workspace_size(&model->network.tower, &largest, model->network.n_threads);
}

static enum omma_status measure(const void *network, const struct ommai_runner_limits *limits, struct ommai_runner_bytes *bytes,
                                struct omma_error *error) {
  const struct omma_model *model = network;
  struct ommai_cpu_tables tables = {0};
  struct ommai_arena arena;
  ommai_arena_measure(&arena);
  place_tables(model, limits, &arena, &tables);
  *bytes = (struct ommai_runner_bytes){.encode = vision_workspace(model, limits->patch_budget),
                                       .tables = sizeof(struct ommai_cpu_runner) + arena.used,
                                       .slot = (size_t)vocabulary(model) * (sizeof(int32_t) + sizeof(bool))};
  bool fits = bytes->encode && !arena.failed;
  if (has_decoder(model)) {
    bytes->prefill = ommai_prefill_workspace_size(&model->network.decoder, limits->prefill_chunk, ommai_cpu_max_pieces(limits),
                                                  limits->context, model->network.n_threads);
    bytes->decode =
        ommai_decode_workspace_size(&model->network.decoder, limits->max_rows, limits->context, model->network.n_threads);
    fits = fits && bytes->prefill && bytes->decode && ommai_sampler_size(vocabulary(model), ommai_cpu_sampler_rows(limits));
  }
  if (fits) return OMMA_OK;
  return ommai_fail_field(error, OMMA_ERROR_LIMIT, "patch_budget",
                          "engine: the workspace's size does not fit into this machine's addresses");
}

static void measure_image(const void *network, int64_t n_patches, size_t *workspace, int64_t *image_bytes) {
  const struct omma_model *model = network;
  const struct ommai_vision_config *vision = &model->config.vision;
  const struct ommai_vision_sizes sizes = {n_patches, 1, n_patches};
  int64_t n_tokens = n_patches / ommai_vision_joined_patches(vision);
  *workspace = ommai_vision_workspace_size(&model->network.tower, &sizes, model->network.n_threads);
  *image_bytes = n_patches * 3 * vision->patch_size * vision->patch_size +
                 ommai_vision_output_size(vision, n_tokens) * (int64_t)sizeof(float);
}

/* ---- creation ---- */

static size_t table_bytes(const struct ommai_cpu_runner *cpu) { return cpu->bytes.tables - sizeof *cpu; }

static void destroy(struct ommai_runner *runner) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  struct omma_allocator allocator = cpu->model->allocator, large_allocator = cpu->network->large_allocator;
  for (int64_t slot = 0; cpu->table_memory && slot < cpu->limits.max_sequences; slot++) ommai_cpu_slot_end(runner, slot);
  ommai_release(&large_allocator, cpu->prefill_workspace, cpu->bytes.prefill, 1);
  ommai_release(&large_allocator, cpu->decode_workspace, cpu->bytes.decode, 1);
  ommai_release(&large_allocator, cpu->vision_workspace, cpu->bytes.encode, 1);
  ommai_release(&allocator, cpu->table_memory, table_bytes(cpu), 1);
  ommai_kv_cache_destroy(cpu->kv);
  ommai_kv_cache_destroy(cpu->draft_kv);
  ommai_team_destroy(cpu->team);
  ommai_release(&allocator, cpu, 1, sizeof *cpu);
}

static enum omma_status allocate(struct ommai_cpu_runner *cpu, struct omma_error *error) {
  const struct omma_allocator *allocator = &cpu->model->allocator, *large_allocator = &cpu->network->large_allocator;
  const struct ommai_runner_bytes *bytes = &cpu->bytes;
  struct ommai_arena arena;
  cpu->prefill_workspace = ommai_allocate_uninitialised(large_allocator, bytes->prefill, 1);
  cpu->decode_workspace = ommai_allocate_uninitialised(large_allocator, bytes->decode, 1);
  cpu->vision_workspace = ommai_allocate_uninitialised(large_allocator, bytes->encode, 1);
  void *tables = ommai_allocate_uninitialised(allocator, table_bytes(cpu), 1);
  if (tables) {
    ommai_arena_init(&arena, tables, table_bytes(cpu));
    place_tables(cpu->model, &cpu->limits, &arena, &cpu->tables);
    memset(cpu->tables.slots, 0, (size_t)cpu->limits.max_sequences * sizeof *cpu->tables.slots);
    cpu->table_memory = tables;
  }
  if (!tables || !cpu->prefill_workspace || !cpu->decode_workspace || !cpu->vision_workspace) {
    return ommai_fail_memory(error, "engine", bytes->prefill + bytes->decode + bytes->encode + bytes->tables);
  }
  if (!has_decoder(cpu->model)) return OMMA_OK;
  cpu->sampler = ommai_sampler_place(cpu->tables.sampler_memory, vocabulary(cpu->model), ommai_cpu_sampler_rows(&cpu->limits),
                                     cpu->network->decoder.ops);
  return OMMA_OK;
}

static enum omma_status set_up(struct ommai_cpu_runner *cpu, struct omma_error *error) {
  const struct omma_model *model = cpu->model;
  OMMAI_TRY(measure(model, &cpu->limits, &cpu->bytes, error));
  cpu->threads = cpu->limits.team;
  if (!cpu->threads) {
    OMMAI_TRY(ommai_team_create(cpu->network->n_threads, model->pin_threads, &model->allocator, &cpu->team, error));
    cpu->threads = ommai_team_interface(cpu->team);
  }
  if (has_decoder(model)) {
    OMMAI_TRY(ommai_kv_cache_create(&model->config.text, cpu->network->decoder.kv_type, cpu->limits.n_pages,
                                    &cpu->network->large_allocator, &cpu->kv, error));
    OMMAI_TRY(ommai_cpu_draft_create(cpu, error));
  }
  return allocate(cpu, error);
}

static void give_back(struct ommai_runner *runner) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  OMMAI_ASSERT(!cpu->pass);
  cpu->chunk = cpu->draft_chunk = NULL;
  cpu->n_logits = cpu->n_step_rows = 0;
  ommai_kv_cache_discard(cpu->kv);
  ommai_kv_cache_discard(cpu->draft_kv);
  ommai_discard(cpu->prefill_workspace, cpu->bytes.prefill);
  ommai_discard(cpu->decode_workspace, cpu->bytes.decode);
  ommai_discard(cpu->vision_workspace, cpu->bytes.encode);
}

static int64_t now(const struct ommai_runner *runner) {
  (void)runner;
  return ommai_clock_ns();
}

static size_t workspace_bytes(const struct ommai_runner *runner) {
  const struct ommai_runner_bytes *bytes = &ommai_cpu_inside_const(runner)->bytes;
  return bytes->prefill + bytes->decode + bytes->encode;
}

static enum omma_status create(const void *network, const struct ommai_runner_limits *limits, struct ommai_runner **out,
                               struct omma_error *error) {
  static const struct ommai_runner_functions functions = {.destroy = destroy,
                                                          .now = now,
                                                          .workspace_bytes = workspace_bytes,
                                                          .name_encoder = ommai_cpu_name_encoder,
                                                          .encode_begin = ommai_cpu_encode_begin,
                                                          .encode_advance = ommai_cpu_encode_advance,
                                                          .encode_progress = ommai_cpu_encode_progress,
                                                          .encode_end = ommai_cpu_encode_end,
                                                          .slot_begin = ommai_cpu_slot_begin,
                                                          .slot_end = ommai_cpu_slot_end,
                                                          .prompt_begin = ommai_cpu_prompt_begin,
                                                          .prompt_advance = ommai_cpu_prompt_advance,
                                                          .prompt_drop = ommai_cpu_prompt_drop,
                                                          .copy_rows = ommai_cpu_copy_rows,
                                                          .read = ommai_cpu_read,
                                                          .decode = ommai_cpu_decode,
                                                          .draw = ommai_cpu_draw,
                                                          .draft = ommai_cpu_draft,
                                                          .give_back = give_back};
  const struct omma_model *model = network;
  struct ommai_cpu_runner *cpu = ommai_allocate(&model->allocator, 1, sizeof *cpu);
  if (!cpu) return ommai_fail_memory(error, "engine", sizeof *cpu);
  cpu->runner.functions = &functions;
  find_facts(model, &cpu->runner.facts);
  cpu->model = model;
  cpu->network = ommai_model_network(model, limits->engine);
  cpu->limits = *limits;
  enum omma_status status = set_up(cpu, error);
  if (status == OMMA_OK) {
    *out = &cpu->runner;
  } else {
    destroy(&cpu->runner);
  }
  return status;
}

struct ommai_runner_source ommai_cpu_runner_source(const struct omma_model *model) {
  return (struct ommai_runner_source){model, find_facts, measure, measure_image, create};
}
