/* Passes of images through the tower. */
#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"
#include "runner/cpu_inside.h"

/* Makes the workspace at least `size` bytes, for a pass whose one image is over the patch
 * budget. */
static enum omma_status grow(struct ommai_cpu_runner *cpu, size_t size, struct omma_error *error) {
  if (size <= cpu->bytes.encode) return OMMA_OK;
  const struct omma_allocator *allocator = &cpu->network->large_allocator;
  void *larger = ommai_allocate_uninitialised(allocator, size, 1);
  if (!larger) return ommai_fail_memory(error, "vision workspace", size);
  ommai_release(allocator, cpu->vision_workspace, cpu->bytes.encode, 1);
  cpu->vision_workspace = larger;
  cpu->bytes.encode = size;
  return OMMA_OK;
}

static struct ommai_vision_input input_of(const struct ommai_prepared_image *image, struct ommai_image_rows *rows) {
  return (struct ommai_vision_input){.pixels = image->pixels,
                                     .n_frames = image->n_frames,
                                     .grid_rows = image->sizes.grid_thw[1],
                                     .grid_columns = image->sizes.grid_thw[2],
                                     .output = ommai_image_rows_data(rows)};
}

enum omma_status ommai_cpu_encode_begin(struct ommai_runner *runner, const struct ommai_prepared_image *images,
                                        struct ommai_image_rows *const *rows, int64_t n, struct ommai_encode_times *times,
                                        struct omma_error *error) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  const struct omma_model *model = cpu->model;
  struct ommai_vision_sizes sizes = {0};
  for (int64_t i = 0; i < n; i++) {
    cpu->inputs[i] = input_of(&images[i], rows[i]);
    OMMAI_TRY(ommai_vision_sizes_add(&model->config.vision, &cpu->inputs[i], &sizes, error));
  }
  size_t size = ommai_vision_workspace_size(&cpu->network->tower, &sizes, cpu->network->n_threads);
  if (!size) {
    return ommai_fail_field(error, OMMA_ERROR_LIMIT, "image", "image: %lld patches are too many", (long long)sizes.n_patches);
  }
  OMMAI_TRY(grow(cpu, size, error));
  OMMAI_TRY(ommai_vision_run_start(&cpu->network->tower, cpu->inputs, n, &model->config.image.patches, cpu->vision_workspace,
                                   cpu->bytes.encode, cpu->threads, &cpu->pass, error));
  cpu->times = times;
  if (!times) return OMMA_OK;
  for (int i = 0; i < cpu->network->n_threads; i++) cpu->tables.profiles[i] = (struct ommai_vision_profile){0};
  ommai_vision_run_set_profiles(cpu->pass, cpu->tables.profiles);
  return OMMA_OK;
}

enum omma_status ommai_cpu_encode_advance(struct ommai_runner *runner, int64_t ns, bool *done, struct omma_error *error) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  int64_t start = ommai_clock_ns(), took = 0;
  do {
    OMMAI_TRY(ommai_vision_run_advance_for(cpu->pass, ns - took, error));
    took = ommai_clock_ns() - start;
  } while (!ommai_vision_run_done(cpu->pass) && took < ns - ns / 8);
  *done = ommai_vision_run_done(cpu->pass);
  return OMMA_OK;
}

void ommai_cpu_encode_progress(const struct ommai_runner *runner, int64_t *done, int64_t *total) {
  ommai_vision_run_progress(ommai_cpu_inside_const(runner)->pass, done, total);
}

static double seconds(const struct ommai_cpu_runner *cpu, enum ommai_vision_part part) {
  return ommai_vision_profile_seconds(cpu->tables.profiles, cpu->network->n_threads, part);
}

void ommai_cpu_encode_end(struct ommai_runner *runner) {
  struct ommai_cpu_runner *cpu = ommai_cpu_inside(runner);
  struct ommai_encode_times *times = cpu->pass ? cpu->times : NULL;
  cpu->pass = NULL;
  if (!times) return;
  times->cut += seconds(cpu, OMMAI_VISION_CUT);
  times->embed += seconds(cpu, OMMAI_VISION_EMBED);
  times->attention += seconds(cpu, OMMAI_VISION_ATTENTION);
  times->linear += seconds(cpu, OMMAI_VISION_LINEAR);
}
