/* quantization_config: what is read of it, what is refused by name, and which layer gets which
 * scheme. */
#include <stdlib.h>

#include "base/allocator.h"
#include "families/quantization.h"
#include "support/model_fixture.h"
#include "support/test.h"

static const struct omma_allocator *const memory = &ommai_default_allocator;

enum { OK = OMMA_OK, FORMAT = OMMA_ERROR_FORMAT, UNSUPPORTED = OMMA_ERROR_UNSUPPORTED, LIMIT = OMMA_ERROR_LIMIT };

static enum omma_status read_text(struct test_folder *fixture, const char *name, const char *text,
                                  struct ommai_quantization **out) {
  char path[TEST_PATH_SIZE];
  test_write_file(test_path(path, fixture->folder, name), text, strlen(text));
  return ommai_quantization_read(&(struct ommai_documents){.directory = fixture->folder}, memory, out, &fixture->error);
}

/* A quantization_config without its quant_method. */
static enum omma_status read_method(struct test_folder *fixture, const char *method, const char *keys,
                                    struct ommai_quantization **out) {
  char text[4096];
  snprintf(text, sizeof text, "{\"quantization_config\": {\"quant_method\": \"%s\"%s%s}}", method, *keys ? ", " : "", keys);
  return read_text(fixture, "config.json", text, out);
}

#define CT "compressed-tensors"
#define GROUP(format, targets, weights) \
  "\"format\": \"" format "\", \"config_groups\": {\"group_0\": {\"targets\": " targets ", \"weights\": {" weights "}}}"
#define LINEAR "[\"Linear\"]"
#define INT4 "\"num_bits\": 4, \"type\": \"int\", \"strategy\": \"group\", \"group_size\": 32"

/* A description where it is read, the message where it is refused. */
static const struct {
  const char *method, *keys;
  int status;
  const char *text;
} configs[] = {
    {CT, GROUP("pack-quantized", LINEAR, INT4), OK, CT ": 4-bit integers in groups of 32"},
    {CT, GROUP("pack-quantized", LINEAR, "\"num_bits\": 8, \"strategy\": \"channel\""), OK,
     CT ": 8-bit integers, a scale for each output"},
    {CT, GROUP("int-quantized", LINEAR, "\"num_bits\": 8, \"strategy\": \"channel\""), OK, ""},
    {CT, GROUP("naive-quantized", LINEAR, "\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"channel\""), OK,
     CT ": 8-bit floats"},
    {CT, GROUP("float-quantized", LINEAR, "\"num_bits\": 8, \"type\": \"float\""), OK, CT ": 8-bit floats"},
    {CT,
     GROUP("float-quantized", LINEAR,
           "\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"block\", \"block_structure\": [128, 64]"),
     OK, CT ": 8-bit floats in blocks of 128 x 64"},
    {CT, GROUP("float-quantized", LINEAR, "\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"block\""), UNSUPPORTED,
     "\"block\" is not supported; expected tensor, channel or block with its block_structure"},
    {CT, GROUP("nvfp4-pack-quantized", LINEAR, "\"num_bits\": 4, \"type\": \"float\""), UNSUPPORTED,
     "weights: key \"format\": \"nvfp4-pack-quantized\" is not supported; expected pack-quantized, int-quantized, "
     "float-quantized, naive-quantized or mixed-precision"},
    {CT, GROUP("marlin-24", LINEAR, INT4), UNSUPPORTED, "\"marlin-24\" is not supported"},
    {CT, GROUP("int-quantized", LINEAR, INT4), UNSUPPORTED, "int-quantized of 4 bits is not supported; 8 are"},
    {CT, GROUP("pack-quantized", LINEAR, "\"num_bits\": 3, \"group_size\": 32"), UNSUPPORTED,
     "integers of 4 or 8 bits are supported, found 3"},
    {CT, GROUP("pack-quantized", LINEAR, "\"num_bits\": 4, \"group_size\": -5"), FORMAT, "expected -1 to 16777216, found -5"},
    {CT, GROUP("pack-quantized", LINEAR, "\"num_bits\": 4, \"group_size\": 0"), FORMAT, "expected -1 or more than 0, found 0"},
    {CT, GROUP("pack-quantized", LINEAR, "\"num_bits\": 4, \"strategy\": \"tensor\""), UNSUPPORTED,
     "\"tensor\" is not supported; expected group or channel"},
    {CT, GROUP("pack-quantized", LINEAR, INT4 ", \"dynamic\": true"), UNSUPPORTED, "\"dynamic\": true is not supported"},
    {CT, GROUP("float-quantized", LINEAR, "\"num_bits\": 8, \"type\": \"float\", \"symmetric\": false"), UNSUPPORTED,
     "expected true for floats"},
    {CT, GROUP("pack-quantized", LINEAR, "\"num_bits\": 4, \"type\": \"complex\""), UNSUPPORTED, "expected int or float"},
    {CT, GROUP("pack-quantized", "[7]", INT4), FORMAT, "targets: expected strings, found an integer"},
    {CT, GROUP("pack-quantized", "[\"re:(\"]", INT4), FORMAT,
     "\"re:(\" is not a regular expression: missing closing parenthesis"},
    {CT, GROUP("pack-quantized", "[\"re:((((((((((((((((((((((((((((((((((((((((a\"]", INT4), FORMAT, "too deeply nested"},
    {CT, GROUP("pack-quantized", "[\"re:(((a{1,999}){1,999}){1,999})\"]", INT4), FORMAT, "is not a regular expression"},
    {CT, "\"config_groups\": {}", FORMAT, "\"format\" is missing"},
    {CT, "\"format\": \"pack-quantized\", \"config_groups\": {}", FORMAT, "it gives no layer's quantisation"},
    {CT, "\"format\": \"pack-quantized\", \"config_groups\": {\"W4A16\": [\"Linear\"]}", UNSUPPORTED,
     "config_groups: W4A16: expected a scheme spelled out, found an array"},
    {CT, "\"quantization_status\": \"frozen\", " GROUP("pack-quantized", LINEAR, INT4), UNSUPPORTED,
     "expected \"compressed\", found \"frozen\""},
    {CT, "\"sparsity_config\": {\"format\": \"sparse-24-bitmask\"}, " GROUP("pack-quantized", LINEAR, INT4), UNSUPPORTED,
     "sparsity_config: key \"format\": \"sparse-24-bitmask\" is not supported; expected dense"},
    {CT, "\"transform_config\": {\"config_groups\": {\"u\": {}}}, " GROUP("pack-quantized", LINEAR, INT4), UNSUPPORTED,
     "transforms are not supported"},
    {CT, "\"transform_config\": {}, \"sparsity_config\": {}, " GROUP("pack-quantized", LINEAR, INT4), OK, ""},
    {"fp8", "", OK, "fp8: 8-bit floats"},
    {"fp8", "\"weight_block_size\": [128, 128], \"activation_scheme\": \"static\"", OK,
     "fp8: 8-bit floats in blocks of 128 x 128"},
    {"fp8", "\"fmt\": \"e5m2\"", UNSUPPORTED, "\"fmt\": expected \"e4m3\", found \"e5m2\""},
    {"fp8", "\"weight_block_size\": [128]", FORMAT, "\"weight_block_size\": expected two sizes"},
    {"fp8", "\"weight_block_size\": [0, 128]", FORMAT, "entry 0: expected 1 to"},
    {"awq", "\"bits\": 4, \"group_size\": 128", OK, "awq: 4-bit integers in groups of 128"},
    {"awq", "\"bits\": 8", UNSUPPORTED, "awq of 8 bits is not supported"},
    {"awq", "\"bits\": 4, \"version\": \"gemv\"", UNSUPPORTED, "\"version\": \"gemv\" is not supported; expected \"gemm\""},
    {"awq", "", FORMAT, "\"bits\" is missing"},
    {"AWQ", "\"bits\": 4", OK, "awq: 4-bit integers"},
    {"gptq", "\"bits\": 4, \"group_size\": -1", OK, "gptq: 4-bit integers, a scale for each output"},
    {"gptq", "\"bits\": 8, \"group_size\": 64, \"checkpoint_format\": \"gptq_v2\", \"desc_act\": true", OK, ""},
    {"gptq", "\"bits\": 2", UNSUPPORTED, "integers of 4 or 8 bits are supported, found 2"},
    {"gptq", "\"bits\": 4, \"checkpoint_format\": \"marlin\"", UNSUPPORTED,
     "\"marlin\" is not supported; expected \"gptq\" or \"gptq_v2\""},
    {"gptq", "\"bits\": 4, \"is_marlin_format\": true", UNSUPPORTED, "\"is_marlin_format\": true is not supported"},
    {"gptq", "\"bits\": 4, \"pack_dtype\": \"int8\"", UNSUPPORTED, "\"pack_dtype\": expected \"int32\""},
    {"gptq", "\"bits\": 4, \"dynamic\": {\"+:[\": {}}", FORMAT, "is not a regular expression"},
    {"gptq", "\"bits\": 4, \"dynamic\": {\"-:.*visual\": {}, \"+:.*down\": {\"bits\": 8}}", OK,
     "gptq: 4-bit integers, a scale for each output and 1 more schemes"},
    {"bitsandbytes", "", UNSUPPORTED,
     "quantization_config: bitsandbytes is not supported; compressed-tensors, fp8, awq and gptq are"},
    {"modelopt", "", UNSUPPORTED, "modelopt is not supported"},
};

static void configurations(void **state) {
  struct test_folder *fixture = *state;
  for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
    struct ommai_quantization *quantization = NULL;
    enum omma_status status = read_method(fixture, configs[i].method, configs[i].keys, &quantization);
    const char *found = status == OMMA_OK ? ommai_quantization_description(quantization) : fixture->error.message;
    if ((int)status != configs[i].status || !strstr(found, configs[i].text)) {
      fail_msg("%s, %s: expected \"%s\", found \"%s\"", configs[i].method, configs[i].keys, configs[i].text, found);
    }
    ommai_quantization_destroy(quantization);
  }
}

static void places(void **state) {
  struct test_folder *fixture = *state;
  struct ommai_quantization *found;
  assert_ok(read_text(fixture, "config.json", "{}", &found), &fixture->error);
  assert_null(found);
  assert_ok(read_text(fixture, "config.json", "{\"quantization_config\": null, \"text_config\": {}}", &found), &fixture->error);
  assert_null(found);
  assert_ok(
      read_text(fixture, "config.json", "{\"text_config\": {\"quantization_config\": {\"quant_method\": \"fp8\"}}}", &found),
      &fixture->error);
  assert_string_equal(ommai_quantization_description(found), "fp8: 8-bit floats");
  ommai_quantization_destroy(found);
  for (int bits = 4; bits <= 8; bits += 4) {
    char text[80];
    snprintf(text, sizeof text, "{\"quantization_config\": {\"load_in_%dbit\": true}}", bits);
    assert_fails(read_text(fixture, "config.json", text, &found), OMMA_ERROR_UNSUPPORTED, "bitsandbytes is not supported",
                 &fixture->error);
  }
  assert_fails(read_text(fixture, "config.json", "{\"quantization_config\": 4}", &found), OMMA_ERROR_FORMAT,
               "expected an object, found an integer", &fixture->error);
  assert_fails(read_text(fixture, "config.json", "{\"quantization_config\": {}}", &found), OMMA_ERROR_UNSUPPORTED,
               "a method without a name is not supported", &fixture->error);
  assert_fails(read_text(fixture, "config.json", "{\"vision_config\": {\"quantization_config\": {}}}", &found),
               OMMA_ERROR_UNSUPPORTED, "vision_config: quantization_config", &fixture->error);
  assert_fails(read_text(fixture, "config.json", "{\"compression_config\": {}}", &found), OMMA_ERROR_UNSUPPORTED,
               "compression_config: this format of", &fixture->error);
  /* AutoGPTQ's file of its own, which does not name the method. */
  test_write_file(test_path(fixture->path, fixture->folder, "config.json"), "{}", 2);
  assert_ok(read_text(fixture, "quantize_config.json", "{\"bits\": 4, \"group_size\": 128}", &found), &fixture->error);
  assert_string_equal(ommai_quantization_description(found), "gptq: 4-bit integers in groups of 128");
  ommai_quantization_destroy(found);
}

/* The bits of each layer's scheme; 0: none. */
static void expect_bits(struct ommai_quantization *quantization, const char *layer, int bits) {
  struct ommai_storage storage = {0};
  struct omma_error error;
  enum omma_status status = ommai_quantization_storage(quantization, layer, &storage, &error);
  if (status != OMMA_OK) assert_non_null(strstr(error.message, "no target of quantization_config names it"));
  if (storage.bits != bits) fail_msg("%s: expected %d bits, found %d", layer, bits, storage.bits);
}

static void layers_find_their_schemes(void **state) {
  struct test_folder *fixture = *state;
  struct ommai_quantization *found;
  assert_ok(read_method(
                fixture, CT,
                "\"format\": \"mixed-precision\", \"config_groups\": {"
                "\"a\": {\"format\": \"pack-quantized\", \"targets\": [\"re:.*mlp\\\\.(up|gate)_proj$\", \"model.layers.1.q\"],"
                " \"weights\": {\"num_bits\": 4, \"group_size\": 32}},"
                "\"b\": {\"format\": \"int-quantized\", \"targets\": [\"re:model.layers.*_proj\"],"
                " \"weights\": {\"num_bits\": 8, \"strategy\": \"channel\"}},"
                "\"c\": {\"targets\": [\"re:.*\"], \"weights\": null}}",
                &found),
            &fixture->error);
  /* of two expressions the first by its text */
  expect_bits(found, "model.layers.0.mlp.up_proj", 4);
  expect_bits(found, "model.layers.0.mlp.down_proj", 8);
  expect_bits(found, "model.layers.1.q", 4);
  expect_bits(found, "layers.1.q", 4);
  expect_bits(found, "model.language_model.layers.1.q", 4);
  expect_bits(found, "language_model.layers.1.q", 4);
  expect_bits(found, "model.layers.11.q", 0);
  /* with the inner part left out */
  expect_bits(found, "model.language_model.layers.0.mlp.down_proj", 8);
  expect_bits(found, "lm_head", 0);
  ommai_quantization_destroy(found);
  assert_ok(read_method(fixture, "gptq",
                        "\"bits\": 4, \"group_size\": 32, \"dynamic\": {\"-:.*visual\": {}, \"+:.*down_proj\": {\"bits\": 8}}",
                        &found),
            &fixture->error);
  expect_bits(found, "model.layers.0.mlp.up_proj", 4);
  expect_bits(found, "model.layers.0.mlp.down_proj", 8);
  ommai_quantization_destroy(found);
}

/* Expressions that try every way to part a name, and more of them than are taken. */
static void expressions_are_bounded(void **state) {
  struct test_folder *fixture = *state;
  struct ommai_quantization *found;
  struct ommai_storage storage;
  char *text = malloc(1 << 20), name[300];
  memset(name, 'a', sizeof name);
  name[sizeof name - 1] = '\0';
  assert_ok(read_method(fixture, CT, GROUP("pack-quantized", "[\"re:(a*)*(a*)*(a*)*[bc]\"]", INT4), &found), &fixture->error);
  assert_fails(ommai_quantization_storage(found, name, &storage, &fixture->error), OMMA_ERROR_LIMIT,
               "more steps or memory than the limit", &fixture->error);
  ommai_quantization_destroy(found);
  size_t used = (size_t)sprintf(text, "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"dynamic\": {");
  for (int i = 0; i < 1025; i++) used += (size_t)sprintf(text + used, "%s\"x%d\": {}", i ? ", " : "", i);
  sprintf(text + used, "}}}");
  assert_fails(read_text(fixture, "config.json", text, &found), OMMA_ERROR_LIMIT, "more than the limit of 1024",
               &fixture->error);
  used = (size_t)sprintf(text, "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"dynamic\": {\"");
  memset(text + used, 'x', 1025);
  sprintf(text + used + 1025, "\": {}}}}");
  assert_fails(read_text(fixture, "config.json", text, &found), OMMA_ERROR_LIMIT, "more than the limit of 1024 bytes",
               &fixture->error);
  free(text);
}

static enum omma_status make(const struct omma_allocator *allocator, struct omma_error *error) {
  struct ommai_quantization *quantization = NULL;
  struct ommai_checkpoint *checkpoint = NULL;
  static const char folder[] = OMMA_TEST_DATA "/data/quantized/gptq";
  enum omma_status status =
      ommai_quantization_read(&(struct ommai_documents){.directory = folder}, allocator, &quantization, error);
  if (status == OMMA_OK) status = ommai_quantization_open_checkpoint(quantization, folder, allocator, &checkpoint, error);
  ommai_checkpoint_close(checkpoint);
  ommai_quantization_destroy(quantization);
  return status;
}

static void memory_may_run_out_anywhere(void **state) {
  (void)state;
  test_fail_every_allocation(make, 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(configurations, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(places, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(layers_find_their_schemes, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(expressions_are_bounded, test_folder_setup, test_folder_teardown),
      cmocka_unit_test(memory_may_run_out_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
