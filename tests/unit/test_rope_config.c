/* Scaled rotary positions and the processor classes' defaults against what transformers computes:
 * tests/data/rope.json, made by tools/make_config_fixtures.py. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "families/family.h"
#include "families/text_family.h"
#include "language/decoder_sizes.h"
#include "language/mrope.h"
#include "support/test.h"

static json_t *load_fixture(void) {
  char path[1024];
  json_error_t reason;
  snprintf(path, sizeof path, "%s/data/rope.json", OMMA_TEST_DATA);
  json_t *root = json_load_file(path, 0, &reason);
  if (!root) fail_msg("%s: %s", path, reason.text);
  return root;
}

static enum omma_status parse(const char *kind, json_t *text, struct ommai_decoder_config *config, struct omma_error *error) {
  json_t *root = json_pack("{s:O}", "text_config", text);
  memset(config, 0, sizeof *config);
  const struct ommai_text_family *family = strcmp(kind, "deepseek") == 0 ? &ommai_text_deepseek
                                           : strcmp(kind, "qwen2") == 0  ? &ommai_text_qwen2
                                                                         : &ommai_text_qwen3;
  enum omma_status status = family->parse(family, root, "config.json", config, error);
  json_decref(root);
  return status;
}

static bool close_to(double found, double expected) { return fabs(found - expected) <= 3e-7 * fabs(expected); }

static void expect_case(const json_t *this_case) {
  const char *name = json_string_value(json_object_get(this_case, "name"));
  const char *kind = json_string_value(json_object_get(this_case, "kind"));
  const json_t *frequencies = json_object_get(this_case, "frequencies"), *section = json_object_get(this_case, "section");
  struct ommai_decoder_config config;
  struct ommai_mrope mrope;
  struct omma_error error;
  assert_ok(parse(kind, json_object_get(this_case, "text"), &config, &error), &error);
  ommai_mrope_init(&mrope, ommai_decoder_rope_dim(&config), config.rope_theta, &config.rope_scaling, config.mrope_section,
                   config.mrope_interleaved);
  assert_int_equal(json_array_size(frequencies), mrope.n_pairs);
  for (int64_t j = 0; j < mrope.n_pairs; j++) {
    double expected = json_number_value(json_array_get(frequencies, (size_t)j));
    if (!close_to(mrope.frequency[j], expected)) {
      fail_msg("%s, %s, pair %d: expected %.9g, found %.9g", kind, name, (int)j, expected, (double)mrope.frequency[j]);
    }
  }
  double scale = json_number_value(json_object_get(this_case, "scale"));
  double score = json_number_value(json_object_get(this_case, "score_scale"));
  if (!close_to(mrope.scale, scale)) fail_msg("%s, %s: scale %g, expected %g", kind, name, (double)mrope.scale, scale);
  if (!close_to(ommai_decoder_attention_scale(&config), score)) {
    fail_msg("%s, %s: scores by %g, expected %g", kind, name, (double)ommai_decoder_attention_scale(&config), score);
  }
  for (size_t i = 0; i < json_array_size(section); i++) {
    assert_int_equal(config.mrope_section[i], json_integer_value(json_array_get(section, i)));
  }
}

static void scaled_rotations_are_those_of_transformers(void **state) {
  (void)state;
  json_t *root = load_fixture(), *this_case;
  size_t i;
  json_array_foreach(json_object_get(root, "cases"), i, this_case) expect_case(this_case);
  assert_true(i > 20);
  json_decref(root);
}

/* The angles carry the factor too. */
static void cosines_and_sines_are_scaled(void **state) {
  (void)state;
  struct ommai_mrope plain, yarn;
  float cosine[2][4], sine[2][4];
  const int64_t section[3] = {2, 1, 1};
  const struct ommai_rope_scaling none = {0}, scaling = {OMMAI_SCALING_YARN, 1, 1.5, 32, 1, 4096, true};
  const int32_t position[3] = {7, 8, 9};
  ommai_mrope_init(&plain, 8, 10000, &none, section, false);
  ommai_mrope_init(&yarn, 8, 10000, &scaling, section, false);
  ommai_mrope_angles(&plain, position, cosine[0], sine[0]);
  ommai_mrope_angles(&yarn, position, cosine[1], sine[1]);
  for (int j = 0; j < 4; j++) {
    assert_true(fabsf(cosine[1][j] - 1.5f * cosine[0][j]) < 1e-6f);
    assert_true(fabsf(sine[1][j] - 1.5f * sine[0][j]) < 1e-6f);
  }
}

/* Counted as vLLM does: yarn's original length, or all positions, times the factor. */
static void positions_grow_with_the_factor(void **state) {
  (void)state;
  static const struct {
    const char *scaling;
    int64_t positions;
  } cases[] = {{"null", 128000},
               {"{\"type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": 32768}", 131072},
               {"{\"type\": \"yarn\", \"factor\": 2}", 256000},
               {"{\"type\": \"yarn\", \"factor\": null, \"original_max_position_embeddings\": 32768}", 128000},
               {"{\"type\": \"linear\", \"factor\": 1.5}", 192000}};
  json_t *root = load_fixture();
  json_t *text = json_object_get(json_array_get(json_object_get(root, "cases"), 0), "text");
  json_object_set_new(text, "max_position_embeddings", json_integer(128000));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct ommai_decoder_config config;
    struct omma_error error;
    json_object_set_new(text, "rope_scaling", json_loads(cases[i].scaling, JSON_DECODE_ANY, NULL));
    assert_ok(parse("qwen2", text, &config, &error), &error);
    assert_int_equal(config.max_positions, cases[i].positions);
  }
  json_decref(root);
}

static void expect_values(const json_t *expected, const float found[3]) {
  for (size_t i = 0; i < 3; i++) assert_true((float)json_number_value(json_array_get(expected, i)) == found[i]);
}

static void processor_defaults_are_the_classes(void **state) {
  (void)state;
  json_t *root = load_fixture();
  const json_t *classes = json_object_get(root, "processors");
  const struct ommai_processor_defaults *const defaults[2] = {ommai_family_qwen2_5_vl.defaults, ommai_family_qwen3_vl.defaults};
  for (size_t i = 0; i < 2; i++) {
    const json_t *image = json_array_get(classes, 0), *video = json_array_get(classes, 1 + i);
    const json_t *limits = json_object_get(image, "limits");
    assert_int_equal(json_integer_value(json_array_get(limits, 0)), defaults[i]->min_pixels);
    assert_int_equal(json_integer_value(json_array_get(limits, 1)), defaults[i]->max_pixels);
    expect_values(json_object_get(image, "mean"), defaults[i]->mean);
    expect_values(json_object_get(image, "std"), defaults[i]->std);
    expect_values(json_object_get(video, "mean"), defaults[i]->video_mean);
    expect_values(json_object_get(video, "std"), defaults[i]->video_std);
  }
  json_decref(root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scaled_rotations_are_those_of_transformers),
      cmocka_unit_test(cosines_and_sines_are_scaled),
      cmocka_unit_test(positions_grow_with_the_factor),
      cmocka_unit_test(processor_defaults_are_the_classes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
