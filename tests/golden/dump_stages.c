/* omma_stages MODEL IMAGE PROMPT DTYPE MAX_ROWS: what tools/verify_release.py compares with
 * transformers. Each stage goes to standard output as a line "NAME N_ROWS WIDTH STORED_ROWS" and
 * STORED_ROWS rows of f32: every k-th row of the stage, k the least by which they are at most
 * MAX_ROWS. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"
#include "base/team.h"
#include "model/image_prepare.h"
#include "support/stage_run.h"

static int64_t max_rows;

static void write_stage(const char *name, const float *data, int64_t n_rows, int64_t width) {
  int64_t step = (n_rows + max_rows - 1) / max_rows;
  printf("%s %" PRId64 " %" PRId64 " %" PRId64 "\n", name, n_rows, width, (n_rows + step - 1) / step);
  for (int64_t row = 0; row < n_rows; row += step) fwrite(data + row * width, sizeof *data, (size_t)width, stdout);
}

static void write_numbered(const char *name, int64_t index, const float *data, int64_t n_rows, int64_t width) {
  char text[64];
  snprintf(text, sizeof text, "%s.%" PRId64, name, index);
  write_stage(text, data, n_rows, width);
}

static void write_tower_stage(void *context, const char *stage, int64_t index, const float *data, int64_t n_rows,
                              int64_t width) {
  (void)context;
  if (strcmp(stage, "block") == 0) {
    write_numbered("vision.block", index, data, n_rows, width);
  } else {
    char text[64];
    snprintf(text, sizeof text, "vision.%s", stage);
    write_stage(text, data, n_rows, width);
  }
}

static void write_layer(void *context, int64_t layer, const float *residual, int64_t n_rows, int64_t width) {
  (void)context;
  write_numbered("language.layer", layer, residual, n_rows, width);
}

static void give_up(enum omma_status status, const struct omma_error *error) {
  if (status == OMMA_OK) return;
  fprintf(stderr, "omma_stages: %s\n", error->message);
  exit(1);
}

static void write_prompt(const struct omma_request *request) {
  size_t n = request->n_tokens;
  float *values = malloc(4 * n * sizeof *values);
  for (size_t i = 0; i < n; i++) {
    values[i] = (float)request->ids[i];
    for (int axis = 0; axis < 3; axis++) values[n + (size_t)axis * n + i] = (float)request->tokens[i].position[axis];
  }
  write_stage("prompt.ids", values, 1, (int64_t)n);
  for (int axis = 0; axis < 3; axis++) write_numbered("prompt.positions", axis, values + (size_t)(1 + axis) * n, 1, (int64_t)n);
  free(values);
}

static void write_preprocessed(const struct omma_model *model, const struct omma_image *image,
                               const struct omma_image_sizes *sizes) {
  struct omma_error error;
  int64_t width = ommai_patch_length(&model->config.image.patches);
  float *values = malloc((size_t)(sizes->n_patches * width) * sizeof *values);
  const float grid[] = {(float)sizes->grid_thw[0], (float)sizes->grid_thw[1], (float)sizes->grid_thw[2]};
  give_up(omma_preprocess(model, image, NULL, values, (size_t)(sizes->n_patches * width), &error), &error);
  write_stage("image.grid_thw", grid, 1, 3);
  write_stage("image.pixel_values", values, sizes->n_patches, width);
  free(values);
}

static void write_network(const struct omma_model *model, const struct omma_request *request, const struct omma_team *team) {
  struct ommai_vision_input input;
  int64_t n_rows, width = model->config.vision.out_hidden_size;
  float *outputs = stage_run_tower(model, request, NULL, team, write_tower_stage, NULL, &input);
  for (int64_t slot = 0; slot <= model->config.vision.n_deepstack; slot++) {
    float *rows = stage_run_slot(model, request, &input, slot, &n_rows);
    if (slot == 0) {
      write_stage("vision.merged", rows, n_rows, width);
    } else {
      write_numbered("vision.deepstack", slot - 1, rows, n_rows, width);
    }
    free(rows);
  }
  float *logits = malloc((size_t)model->config.text.vocab_size * sizeof *logits);
  stage_run_decoder(model, request, &input, team, write_layer, NULL, logits);
  write_stage("language.logits", logits, 1, model->config.text.vocab_size);
  free(logits);
  free(outputs);
}

int main(int argc, char **argv) {
  struct omma_error error;
  struct omma_model *model;
  struct omma_image *image;
  struct omma_request *request;
  struct ommai_team *team;
  if (argc != 6 || (max_rows = strtoll(argv[5], NULL, 10)) < 1) {
    fprintf(stderr, "usage: omma_stages MODEL IMAGE PROMPT f32|bf16 MAX_ROWS\n");
    return 2;
  }
  const struct omma_model_options options = {.weights = strcmp(argv[4], "f32") == 0 ? OMMA_WEIGHTS_F32 : OMMA_WEIGHTS_BF16};
  give_up(ommai_team_create(ommai_team_cpu_count(), false, &ommai_default_allocator, &team, &error), &error);
  give_up(omma_model_open(argv[1], &options, &model, &error), &error);
  give_up(omma_image_load(argv[2], NULL, &image, &error), &error);
  const struct omma_part parts[] = {{.image = image}, {.text = argv[3], .text_size = strlen(argv[3])}};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = parts, .n_parts = 2};
  give_up(omma_request_create(model, &message, 1, NULL, &request, &error), &error);
  write_prompt(request);
  write_preprocessed(model, image, &request->images[0].sizes);
  write_network(model, request, ommai_team_interface(team));
  omma_request_destroy(request);
  omma_image_destroy(image);
  omma_model_close(model);
  ommai_team_destroy(team);
  return fflush(stdout) == 0 ? 0 : 1;
}
