#include "runner/fake_runner.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "runner/fake_inside.h"

/* ---- what all parts use ---- */

/* The finaliser of SplitMix64. Source: Steele, Lea, Flood, Fast Splittable Pseudorandom Number
 * Generators, 2014. */
uint64_t ommai_fake_mix(uint64_t hash, uint64_t value) {
  uint64_t z = (hash ^ (hash << 7)) + 0x9e3779b97f4a7c15u * (value + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void ommai_fake_complain(struct ommai_fake_runner *fake, const char *format, ...) {
  va_list arguments;
  if (fake->complaint[0]) return;
  va_start(arguments, format);
  vsnprintf(fake->complaint, sizeof fake->complaint, format, arguments);
  va_end(arguments);
}

bool ommai_fake_fails(struct ommai_fake_runner *fake, enum ommai_fake_call call) {
  fake->n_calls[call]++;
  return fake->network->fails && fake->network->fails(fake->network->context, call);
}

void ommai_fake_runner_wait(struct ommai_runner *runner, int64_t ns) { ommai_fake_inside(runner)->now += ns; }

const char *ommai_fake_runner_complaint(const struct ommai_runner *runner) {
  return ((const struct ommai_fake_runner *)(const void *)runner)->complaint;
}

int64_t ommai_fake_runner_calls(const struct ommai_runner *runner, enum ommai_fake_call call) {
  return ((const struct ommai_fake_runner *)(const void *)runner)->n_calls[call];
}

/* ---- images ---- */

static uint64_t hash_image(const struct ommai_prepared_image *image) {
  uint64_t hash = 7;
  size_t size = ommai_prepared_image_bytes(image);
  for (int i = 0; i < 3; i++) hash = ommai_fake_mix(hash, (uint64_t)image->sizes.grid_thw[i]);
  for (size_t i = 0; i < size; i++) hash = ommai_fake_mix(hash, image->pixels[i]);
  return hash;
}

/* Rows that are not complete hold something else. */
static void fill_rows(const struct ommai_prepared_image *image, struct ommai_image_rows *rows, uint64_t seed) {
  uint64_t hash = ommai_fake_mix(hash_image(image), seed);
  size_t n = ommai_image_rows_size(rows) / OMMAI_IMAGE_VALUE_BYTES;
  uint32_t *values = ommai_image_rows_data(rows);
  for (size_t i = 0; i < n; i++) values[i] = (uint32_t)ommai_fake_mix(hash, i);
}

static enum omma_status encode_begin(struct ommai_runner *runner, const struct ommai_prepared_image *images,
                                     struct ommai_image_rows *const *rows, int64_t n, struct ommai_encode_times *times,
                                     struct omma_error *error) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  const struct ommai_fake_costs *costs = &fake->network->costs;
  int64_t n_patches = 0;
  (void)times;
  if (ommai_fake_fails(fake, OMMAI_FAKE_ENCODE_BEGIN)) return ommai_fail(error, OMMA_ERROR_INTERNAL, "a pass that fails");
  for (int64_t i = 0; i < n; i++) {
    n_patches += images[i].sizes.n_patches;
    if (ommai_image_rows_tokens(rows[i]) != images[i].sizes.n_tokens) ommai_fake_complain(fake, "rows of another image's size");
    fill_rows(&images[i], rows[i], 1);
  }
  if (fake->pass.running || n < 1 || n > OMMAI_MAX_PASS_IMAGES || (n > 1 && n_patches > fake->limits.patch_budget)) {
    ommai_fake_complain(fake, "a pass of %lld images with %lld patches", (long long)n, (long long)n_patches);
  }
  fake->pass = (struct ommai_fake_work){.running = true, .total_ns = costs->pass + n_patches * costs->patch};
  fake->images = images;
  fake->rows = rows;
  fake->n_images = n;
  return OMMA_OK;
}

static enum omma_status encode_advance(struct ommai_runner *runner, int64_t ns, bool *done, struct omma_error *error) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  if (ommai_fake_fails(fake, OMMAI_FAKE_ENCODE_ADVANCE)) return ommai_fail(error, OMMA_ERROR_INTERNAL, "a pass that fails");
  if (!fake->pass.running) ommai_fake_complain(fake, "a pass goes on that was not begun");
  *done = ommai_fake_work_for(fake, &fake->pass, ns);
  for (int64_t i = 0; *done && i < fake->n_images; i++) fill_rows(&fake->images[i], fake->rows[i], 0);
  return OMMA_OK;
}

static void encode_progress(const struct ommai_runner *runner, int64_t *done, int64_t *total) {
  const struct ommai_fake_work *pass = &((const struct ommai_fake_runner *)(const void *)runner)->pass;
  *done = pass->done_ns;
  *total = pass->total_ns > 0 ? pass->total_ns : 1;
}

/* What pages hold is forgotten: whoever reads there is found out. */
static void give_back(struct ommai_runner *runner) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  if (fake->pass.running) ommai_fake_complain(fake, "memory is given back in the midst of a pass");
  for (int64_t slot = 0; slot < fake->limits.max_sequences; slot++) {
    if (fake->slots[slot].used) ommai_fake_complain(fake, "memory is given back in the midst of a sequence");
  }
  for (int g = 0; g < fake->network->facts.n_groups; g++) {
    memset(fake->pages[g], 0, (size_t)fake->limits.n_pages[g] * sizeof *fake->pages[g]);
  }
  fake->chunk = (struct ommai_fake_work){0};
  fake->n_pieces = fake->n_chunk_rows = fake->n_step_rows = 0;
}

static void encode_end(struct ommai_runner *runner) { ommai_fake_inside(runner)->pass = (struct ommai_fake_work){0}; }

static enum omma_status name_encoder(const struct ommai_runner *runner, uint8_t digest[32], struct omma_error *error) {
  (void)runner;
  (void)error;
  memset(digest, 1, 32);
  return OMMA_OK;
}

/* ---- a runner ---- */

static int64_t now(const struct ommai_runner *runner) { return ((const struct ommai_fake_runner *)(const void *)runner)->now; }

static size_t workspace_bytes(const struct ommai_runner *runner) {
  (void)runner;
  return 0;
}

static void destroy(struct ommai_runner *runner) {
  struct ommai_fake_runner *fake = ommai_fake_inside(runner);
  const struct omma_allocator *allocator = &fake->network->allocator;
  const struct ommai_runner_limits *limits = &fake->limits;
  ommai_release(allocator, fake->slots, (size_t)limits->max_sequences, sizeof *fake->slots);
  ommai_release(allocator, fake->chunk_rows, (size_t)limits->prefill_chunk, sizeof *fake->chunk_rows);
  ommai_release(allocator, fake->step_rows, (size_t)limits->max_rows, sizeof *fake->step_rows);
  for (int g = 0; g < fake->network->facts.n_groups; g++) {
    ommai_release(allocator, fake->pages[g], (size_t)limits->n_pages[g], sizeof *fake->pages[g]);
  }
  ommai_release(allocator, fake, 1, sizeof *fake);
}

static const struct ommai_runner_functions functions = {
    .destroy = destroy,
    .now = now,
    .workspace_bytes = workspace_bytes,
    .name_encoder = name_encoder,
    .encode_begin = encode_begin,
    .encode_advance = encode_advance,
    .encode_progress = encode_progress,
    .encode_end = encode_end,
    .slot_begin = ommai_fake_slot_begin,
    .slot_end = ommai_fake_slot_end,
    .prompt_begin = ommai_fake_prompt_begin,
    .prompt_advance = ommai_fake_prompt_advance,
    .prompt_drop = ommai_fake_prompt_drop,
    .copy_rows = ommai_fake_copy_rows,
    .read = ommai_fake_read,
    .decode = ommai_fake_decode,
    .draw = ommai_fake_draw,
    .draft = ommai_fake_draft,
    .give_back = give_back,
};

static enum omma_status create(const void *context, const struct ommai_runner_limits *limits, struct ommai_runner **out,
                               struct omma_error *error) {
  const struct ommai_fake_network *network = context;
  const struct omma_allocator *allocator = &network->allocator;
  struct ommai_fake_runner *fake = ommai_allocate(allocator, 1, sizeof *fake);
  if (!fake) return ommai_fail_memory(error, "runner", sizeof *fake);
  fake->runner = (struct ommai_runner){&functions, network->facts};
  fake->network = network;
  fake->limits = *limits;
  fake->now = 1; /* 0 is no time */
  fake->slots = ommai_allocate(allocator, (size_t)limits->max_sequences, sizeof *fake->slots);
  fake->chunk_rows = ommai_allocate(allocator, (size_t)limits->prefill_chunk, sizeof *fake->chunk_rows);
  fake->step_rows = ommai_allocate(allocator, (size_t)limits->max_rows, sizeof *fake->step_rows);
  bool complete = fake->slots && fake->chunk_rows && fake->step_rows;
  for (int g = 0; g < network->facts.n_groups; g++) {
    fake->pages[g] = ommai_allocate(allocator, (size_t)limits->n_pages[g], sizeof *fake->pages[g]);
    complete = complete && fake->pages[g];
  }
  if (!complete) {
    destroy(&fake->runner);
    return ommai_fail_memory(error, "runner", sizeof *fake);
  }
  *out = &fake->runner;
  return OMMA_OK;
}

/* ---- a source ---- */

static void facts(const void *network, struct ommai_runner_facts *out) {
  *out = ((const struct ommai_fake_network *)network)->facts;
}

static enum omma_status measure(const void *network, const struct ommai_runner_limits *limits, struct ommai_runner_bytes *bytes,
                                struct omma_error *error) {
  (void)network;
  (void)limits;
  (void)error;
  *bytes = (struct ommai_runner_bytes){0};
  return OMMA_OK;
}

static void measure_image(const void *network, int64_t n_patches, size_t *workspace, int64_t *image_bytes) {
  (void)network;
  *workspace = 1;
  *image_bytes = n_patches;
}

struct ommai_runner_source ommai_fake_runner_source(const struct ommai_fake_network *network) {
  return (struct ommai_runner_source){network, facts, measure, measure_image, create};
}
