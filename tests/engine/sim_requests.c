#include "engine/sim_requests.h"

#include <stdlib.h>

#include "base/allocator.h"
#include "request/prefix_key.h"
#include "runner/fake_inside.h"
#include "support/test.h"

enum { IMAGE_TOKEN = 1 };

void sim_images_make(struct sim_images *images) {
  struct omma_error error;
  assert_ok(ommai_pixel_budget_create(0, &ommai_default_allocator, &images->budget, &error), &error);
  for (int i = 0; i < SIM_N_IMAGES; i++) {
    struct ommai_prepared_image *image = &images->images[i];
    const struct omma_image_sizes sizes = {.resized_width = 2,
                                           .resized_height = 2,
                                           .grid_thw = {1, 2, 2 * sim_image_tokens(i)},
                                           .n_patches = sim_image_patches(i),
                                           .n_tokens = sim_image_tokens(i)};
    *image = (struct ommai_prepared_image){.sizes = sizes, .n_frames = 1};
    assert_ok(ommai_pixel_budget_take(images->budget, ommai_prepared_image_cost(image), &error), &error);
    assert_ok(ommai_prepared_image_create(image, &ommai_default_allocator, images->budget, &error), &error);
    memset(image->pixels, i, ommai_prepared_image_bytes(image));
    ommai_image_digest(image->pixels, ommai_prepared_image_bytes(image), image->digest);
    images->keys[i] = ommai_prepared_image_key(image, NULL, false);
  }
}

void sim_images_free(struct sim_images *images) {
  for (int i = 0; i < SIM_N_IMAGES; i++) ommai_prepared_image_free(&images->images[i]);
  ommai_pixel_budget_destroy(images->budget);
}

static int32_t token_of(uint64_t text, int64_t at) {
  return (int32_t)(ommai_fake_mix(ommai_fake_mix(100, text), (uint64_t)at) % SIM_VOCAB);
}

static void add_token(struct omma_request *request, int32_t token, int32_t image, int32_t image_row) {
  int32_t at = (int32_t)request->n_tokens++;
  request->ids[at] = token;
  request->tokens[at] = (struct ommai_prompt_token){token, {at, at, at}, image, image_row};
}

static void add_prompt(struct omma_request *request, const struct sim_request *wanted) {
  for (int64_t i = 0; i < wanted->shared; i++) add_token(request, token_of((uint64_t)wanted->document, i), -1, 0);
  for (int32_t image = 0; image < wanted->images; image++) {
    int64_t n = sim_image_tokens(wanted->image + image);
    for (int32_t row = 0; row < n; row++) add_token(request, IMAGE_TOKEN, image, row);
  }
  for (int64_t i = 0; i < wanted->own; i++) add_token(request, token_of((uint64_t)(SIM_N_DOCUMENTS + wanted->text), i), -1, 0);
  request->next_position = (int32_t)request->n_tokens;
}

static void set_sampling(struct omma_request *request, const struct sim_request *wanted) {
  static const int32_t stops[] = {11, 23, 42};
  request->sampler = (struct ommai_sampler_settings){.top_p = 1,
                                                     .repetition_penalty = 1,
                                                     .seed = (uint64_t)wanted->text,
                                                     .temperature = wanted->sampled ? 0.7 : 0,
                                                     .presence_penalty = wanted->sampled == 2 ? 0.5 : 0};
  request->max_tokens = wanted->answer;
  request->min_tokens = wanted->min_answer < wanted->answer ? wanted->min_answer : wanted->answer;
  request->ignore_eos = wanted->ignore_eos;
  request->logprobs = true;
  request->n_top_logprobs = (int)wanted->top;
  request->prompt_logprobs = wanted->scores;
  request->n_prompt_logprobs = (int)wanted->scores;
  request->n_stop_tokens = (size_t)wanted->stops;
  memcpy(request->stop_tokens, stops, (size_t)wanted->stops * sizeof *stops);
  request->reasoning.begin_token = request->reasoning.end_token = -1;
}

struct omma_request *sim_request_make(const struct sim_request *wanted, const struct sim_images *images,
                                      const struct omma_model *model, const struct omma_allocator *allocator) {
  struct omma_request *request = calloc(1, sizeof *request);
  size_t n = (size_t)sim_prompt_size(wanted), n_images = (size_t)wanted->images;
  request->allocator = *allocator;
  request->model = model;
  static const enum omma_request_kind kinds[] = {OMMA_REQUEST_GENERATE, OMMA_REQUEST_EMBED, OMMA_REQUEST_SCORE,
                                                 OMMA_REQUEST_EMBED};
  request->kind = wanted->encode ? OMMA_REQUEST_ENCODE : kinds[wanted->read];
  request->every_token = wanted->read == 3;
  request->ids = calloc(n, sizeof *request->ids);
  request->tokens = calloc(n, sizeof *request->tokens);
  request->images = calloc(n_images + 1, sizeof *request->images);
  request->keys = calloc(n_images + 1, sizeof *request->keys);
  request->n_images = n_images;
  for (size_t i = 0; i < n_images; i++) {
    request->images[i] = images->images[((size_t)wanted->image + i) % SIM_N_IMAGES];
    request->keys[i] = images->keys[((size_t)wanted->image + i) % SIM_N_IMAGES];
  }
  add_prompt(request, wanted);
  request->n_page_keys = ommai_prefix_key_count(n);
  request->page_keys = calloc(request->n_page_keys + 1, sizeof *request->page_keys);
  ommai_prefix_keys(request->tokens, request->n_tokens, request->keys, NULL, request->page_keys);
  request->priority = wanted->priority;
  request->whole = wanted->whole;
  set_sampling(request, wanted);
  return request;
}

void sim_request_free(struct omma_request *request) {
  if (!request) return;
  free(request->ids);
  free(request->tokens);
  free(request->images);
  free(request->keys);
  free(request->page_keys);
  free(request);
}
