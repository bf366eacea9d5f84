#include "support/stage_run.h"

#include <stdlib.h>

#include "base/allocator.h"
#include "base/team.h"
#include "language/decode.h"
#include "support/test.h"

enum { STEP = 5 }; /* tasks of an advance: stages end between advances too */

static struct ommai_vision_input make_input(const struct ommai_prepared_image *image) {
  return (struct ommai_vision_input){.pixels = image->pixels,
                                     .n_frames = image->n_frames,
                                     .grid_rows = image->sizes.grid_thw[1],
                                     .grid_columns = image->sizes.grid_thw[2]};
}

static float *place_outputs(const struct omma_model *model, const struct omma_request *request, const uint8_t *const *pixels,
                            struct ommai_vision_input *inputs, struct ommai_vision_sizes *sizes) {
  struct omma_error error;
  size_t n_values = 0;
  for (size_t i = 0; i < request->n_images; i++)
    n_values += (size_t)ommai_vision_output_size(&model->config.vision, request->images[i].sizes.n_tokens);
  float *values = malloc(n_values * sizeof *values), *output = values;
  for (size_t i = 0; i < request->n_images; i++) {
    inputs[i] = make_input(&request->images[i]);
    if (pixels) inputs[i].pixels = pixels[i];
    inputs[i].output = output;
    assert_ok(ommai_vision_sizes_add(&model->config.vision, &inputs[i], sizes, &error), &error);
    output += ommai_vision_output_size(&model->config.vision, request->images[i].sizes.n_tokens);
  }
  return values;
}

static int n_workers(const struct omma_team *team) { return team ? team->n_workers : 1; }

static void *workspace_of(size_t size) { return aligned_alloc(64, (size + 63) / 64 * 64); }

float *stage_run_tower(const struct omma_model *model, const struct omma_request *request, const uint8_t *const *pixels,
                       const struct omma_team *team, ommai_stage_observer observer, void *context,
                       struct ommai_vision_input *inputs) {
  struct omma_error error;
  struct ommai_vision_sizes sizes = {0};
  struct ommai_vision_run *run;
  float *values = place_outputs(model, request, pixels, inputs, &sizes);
  size_t size = ommai_vision_workspace_size(&model->network.tower, &sizes, n_workers(team));
  void *workspace = workspace_of(size);
  assert_ok(ommai_vision_run_start(&model->network.tower, inputs, (int64_t)request->n_images, &model->config.image.patches,
                                   workspace, size, team, &run, &error),
            &error);
  ommai_vision_run_set_observer(run, observer, context);
  while (!ommai_vision_run_done(run)) assert_ok(ommai_vision_run_advance(run, STEP, &error), &error);
  free(workspace);
  return values;
}

float *stage_run_slot(const struct omma_model *model, const struct omma_request *request,
                      const struct ommai_vision_input *inputs, int64_t slot, int64_t *n_rows) {
  int64_t width = model->config.vision.out_hidden_size;
  *n_rows = 0;
  for (size_t i = 0; i < request->n_images; i++) *n_rows += request->images[i].sizes.n_tokens;
  float *joined = malloc((size_t)(*n_rows * width) * sizeof *joined), *to = joined;
  for (size_t i = 0; i < request->n_images; i++) {
    int64_t values = request->images[i].sizes.n_tokens * width;
    memcpy(to, inputs[i].output + slot * values, (size_t)values * sizeof *to);
    to += values;
  }
  return joined;
}

static struct ommai_prompt_row *make_rows(const struct omma_model *model, const struct omma_request *request,
                                          const struct ommai_vision_input *inputs) {
  int64_t width = model->config.text.hidden_size;
  struct ommai_prompt_row *rows = calloc(request->n_tokens, sizeof *rows);
  for (size_t i = 0; i < request->n_tokens; i++) {
    const struct ommai_prompt_token *token = &request->tokens[i];
    rows[i].token = token->token;
    memcpy(rows[i].position, token->position, sizeof rows[i].position);
    if (token->image < 0) continue;
    rows[i].image = inputs[token->image].output + token->image_row * width;
    rows[i].image_stride = request->images[token->image].sizes.n_tokens * width;
  }
  return rows;
}

/* Of every group: pages, or a snapshot in page 0 that nothing came before. */
static struct ommai_state_pages state_pages(const struct ommai_kv_cache *cache, const int32_t *pages) {
  static const int32_t snapshot[OMMAI_SNAPSHOT_PAGES] = {-1, 0, -1};
  struct ommai_state_pages of = {{0}};
  for (int64_t g = 0; g < cache->layout.n_groups; g++) {
    of.of_group[g] = cache->layout.groups[g].state.kind == OMMAI_STATE_SNAPSHOT ? snapshot : pages;
  }
  return of;
}

static void prefill_all(const struct omma_model *model, const struct omma_request *request,
                        const struct ommai_vision_input *inputs, const struct ommai_kv_cache *cache, int32_t *pages,
                        const struct omma_team *team, ommai_layer_observer observer, void *context, float *logits) {
  struct omma_error error;
  const struct ommai_decoder *decoder = &model->network.decoder;
  int64_t n = (int64_t)request->n_tokens;
  const struct ommai_prefill_piece piece = {.n_rows = n, .pages = state_pages(cache, pages), .next = {.token = -1}};
  struct ommai_prompt_row *rows = make_rows(model, request, inputs);
  size_t size = ommai_prefill_workspace_size(decoder, n, 1, n, n_workers(team)),
         decode_size = ommai_decode_workspace_size(decoder, 1, n, n_workers(team));
  void *workspace = workspace_of(size), *decode_workspace = workspace_of(decode_size);
  struct ommai_prefill *prefill;
  assert_ok(ommai_prefill_start(decoder, cache, &piece, 1, rows, workspace, size, team, &prefill, &error), &error);
  ommai_prefill_set_observer(prefill, observer, context);
  while (!ommai_prefill_done(prefill)) assert_ok(ommai_prefill_advance(prefill, STEP, &error), &error);
  const float *last = ommai_prefill_residual(prefill, n - 1);
  assert_ok(ommai_decode_logits(decoder, &last, 1, decode_workspace, decode_size, team, logits, &error), &error);
  free(workspace);
  free(decode_workspace);
  free(rows);
}

void stage_run_decoder(const struct omma_model *model, const struct omma_request *request,
                       const struct ommai_vision_input *inputs, const struct omma_team *team, ommai_layer_observer observer,
                       void *context, float *logits) {
  struct omma_error error;
  struct ommai_kv_cache *cache;
  int64_t n_pages = (int64_t)request->n_tokens / 64 + 1;
  const int64_t group_pages[OMMAI_MAX_STATE_GROUPS] = {n_pages, n_pages};
  assert_ok(ommai_kv_cache_create(&model->config.text, model->network.decoder.dtype, group_pages, &ommai_default_allocator,
                                  &cache, &error),
            &error);
  int32_t *pages = malloc((size_t)n_pages * sizeof *pages);
  for (int64_t i = 0; i < n_pages; i++) pages[i] = (int32_t)i;
  prefill_all(model, request, inputs, cache, pages, team, observer, context, logits);
  free(pages);
  ommai_kv_cache_destroy(cache);
}
