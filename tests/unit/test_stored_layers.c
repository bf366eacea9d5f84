/* Quantised layers against the values that the quantising tools' own code reads from them
 * (tests/data/quantized), and against damage. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/half.h"
#include "families/quantization.h"
#include "support/model_fixture.h"
#include "support/test.h"
#include "weights/safetensors.h"
#include "weights/safetensors_writer.h"

#define FIXTURES OMMA_TEST_DATA "/data/quantized"

static const struct omma_allocator *const memory = &ommai_default_allocator;

static const struct {
  const char *name;
  int bits; /* of the integers that are handed out; 0: none are */
  int64_t group;
  int zero;
  bool has_minimums;
} formats[] = {
    {"packed_int4", 4, 32, 8, false},
    {"packed_int4_zeros", 4, 32, 0, true},
    {"packed_int4_channel", 4, 44, 8, false},
    {"packed_int8", 8, 32, 0, false},
    {"packed_int8_zeros", 8, 44, 0, true},
    {"int8", 8, 40, 0, false},
    {"int8_zeros", 8, 40, 0, true},
    {"float8_channel", 0, 0, 0, false},
    {"float8_tensor", 0, 0, 0, false},
    {"float8_block", 0, 0, 0, false},
    {"fp8", 0, 0, 0, false},
    {"awq", 4, 32, 0, true},
    {"awq_symmetric", 4, 32, 8, false},
    {"gptq", 4, 32, 0, true},
    {"gptq_int8", 8, 32, 0, true},
    {"gptq_v2", 4, 96, 8, false}, /* its zeros are all 8 */
    {"gptq_ordered", 0, 0, 0, false},
};

static enum omma_status open_folder(const char *folder, struct ommai_quantization **quantization,
                                    struct ommai_checkpoint **checkpoint, struct omma_error *error) {
  enum omma_status status =
      ommai_quantization_read(&(struct ommai_documents){.directory = folder}, memory, quantization, error);
  if (status != OMMA_OK) return status;
  status = ommai_quantization_open_checkpoint(*quantization, folder, memory, checkpoint, error);
  if (status != OMMA_OK) ommai_quantization_destroy(*quantization);
  return status;
}

/* ---- values ---- */

static void expect_values(const struct ommai_tensor *tensor, const struct ommai_tensor *expected) {
  size_t size = (size_t)expected->n_elements * sizeof(float);
  float *values = malloc(size);
  assert_true(ommai_tensor_has_shape(tensor, expected->n_dims, expected->shape));
  assert_true(ommai_tensor_to_f32(tensor, 0, tensor->n_elements, values));
  assert_memory_equal(values, expected->data, size);
  /* From any place on, as packing reads them. */
  for (int64_t first = 0; first + 7 <= tensor->n_elements; first += 5) {
    float seven[7];
    assert_true(ommai_tensor_to_f32(tensor, first, 7, seven));
    assert_memory_equal(seven, values + first, sizeof seven);
  }
  assert_int_equal(ommai_tensor_count_nonfinite(tensor), 0);
  free(values);
}

/* Scales of 16 bits times a few bits are exact in f32, those of 32 bits are not. */
static void expect_integers(const struct ommai_tensor *tensor) {
  const struct ommai_stored_matrix *stored = tensor->stored;
  int8_t q[128];
  float scale, minimum, value;
  for (int64_t output = 0; output < tensor->shape[0]; output++) {
    for (int64_t group = 0; group < tensor->shape[1] / stored->group; group++) {
      stored->integers(stored->context, output, group, q, &scale, &minimum);
      if (!stored->has_minimums) assert_true(minimum == 0);
      for (int64_t i = 0; i < stored->group; i++) {
        if (stored->bits == 4) assert_in_range(q[i], 0, 15);
        stored->values(stored->context, output, group * stored->group + i, 1, &value);
        assert_true(fabsf(scale * (float)(q[i] - stored->zero) - minimum - value) <= 1e-4f * fabsf(scale));
      }
    }
  }
}

static void values_are_those_of_the_official_code(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
    struct omma_error error;
    struct ommai_quantization *quantization;
    struct ommai_checkpoint *checkpoint;
    struct ommai_safetensors *expected;
    test_path(folder, FIXTURES, formats[i].name);
    assert_ok(open_folder(folder, &quantization, &checkpoint, &error), &error);
    assert_ok(ommai_safetensors_open(test_path(path, folder, "expected.safetensors"), memory, &expected, &error), &error);
    assert_int_equal(ommai_checkpoint_count(checkpoint), ommai_safetensors_count(expected));
    for (int64_t t = 0; t < ommai_safetensors_count(expected); t++) {
      const struct ommai_tensor *wanted = ommai_safetensors_at(expected, t);
      const struct ommai_tensor *tensor = ommai_checkpoint_find(checkpoint, wanted->name);
      if (!tensor) fail_msg("%s: %s is missing", formats[i].name, wanted->name);
      expect_values(tensor, wanted);
      if (tensor->type != OMMAI_TENSOR_QUANTISED) continue;
      assert_int_equal(tensor->stored->bits, formats[i].bits);
      if (!formats[i].bits) continue;
      assert_int_equal(tensor->stored->group, formats[i].group);
      assert_int_equal(tensor->stored->zero, formats[i].zero);
      assert_int_equal(tensor->stored->has_minimums, formats[i].has_minimums);
      expect_integers(tensor);
    }
    ommai_safetensors_close(expected);
    ommai_checkpoint_close(checkpoint);
    ommai_quantization_destroy(quantization);
  }
}

static void eight_bit_floats_are_exact(void **state) {
  (void)state;
  for (int code = 0; code < 256; code++) {
    int exponent = code >> 3 & 15, fraction = code & 7;
    double value = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
    float found = ommai_e4m3_to_f32((uint8_t)code);
    if ((code & 0x7f) == 0x7f) {
      assert_true(isnan(found));
    } else {
      assert_true((double)found == (code & 0x80 ? -value : value) && !signbit(found) == !(code & 0x80));
    }
  }
}

/* ---- damage ---- */

/* A change of one part: left out where type is -1; else of this type and shape, all of whose bytes
 * are `fill`. */
struct damage {
  const char *format, *part;
  int type, n_dims;
  int64_t shape[3];
  int fill;
  const char *message;
};

static const struct damage damages[] = {
    {"packed_int4",
     "layer.weight_scale",
     -1,
     0,
     {0},
     0,
     "\"layer.weight_scale\" is missing, which belongs to \"layer.weight_packed\""},
    {"packed_int4", "layer.weight_shape", -1, 0, {0}, 0, "\"layer.weight_shape\" is missing"},
    {"packed_int4", "layer.weight_shape", OMMAI_TENSOR_I64, 1, {3}, 1, "\"layer.weight_shape\": expected shape [2], found [3]"},
    {"packed_int4",
     "layer.weight_shape",
     OMMAI_TENSOR_I64,
     1,
     {2},
     0,
     "expected a matrix of 1 to 16777216 outputs and inputs, found [0, 0]"},
    {"packed_int4", "layer.weight_shape", OMMAI_TENSOR_I64, 1, {2}, 0x7f, "found [9187201950435737471, 9187201950435737471]"},
    {"packed_int4", "layer.weight_shape", OMMAI_TENSOR_I64, 1, {2}, 0xff, "found [-1, -1]"},
    {"packed_int4", "layer.weight_shape", OMMAI_TENSOR_F32, 1, {2}, 0, "expected type I64, found F32"},
    {"packed_int4", "layer.weight_packed", OMMAI_TENSOR_I32, 2, {24, 11}, 0, "expected shape [24, 12], found [24, 11]"},
    {"packed_int4", "layer.weight_packed", OMMAI_TENSOR_U8, 2, {24, 12}, 0, "of type U8: quantization_config gives"},
    {"packed_int4", "layer.weight_packed", OMMAI_TENSOR_I32, 2, {0, 12}, 0, "expected shape [24, 12], found [0, 12]"},
    {"packed_int4", "layer.weight_scale", OMMAI_TENSOR_BF16, 2, {24, 2}, 0, "expected shape [24, 3], found [24, 2]"},
    /* large numbers are numbers */
    {"packed_int4", "layer.weight_scale", OMMAI_TENSOR_BF16, 2, {24, 3}, 0x7f, ""},
    {"packed_int4", "layer.weight_scale", OMMAI_TENSOR_BF16, 2, {24, 3}, 0xff, "72 of its scales are NaN or infinite"},
    {"packed_int4", "layer.weight_scale", OMMAI_TENSOR_BF16, 2, {24, 3}, 0, ""}, /* so is 0 */
    {"packed_int4",
     "layer.weight_scale",
     OMMAI_TENSOR_F8_E4M3,
     2,
     {24, 3},
     0,
     "expected scales of type F32, BF16 or F16, found F8_E4M3"},
    {"packed_int4",
     "layer.weight_zero_point",
     OMMAI_TENSOR_I32,
     2,
     {3, 3},
     0,
     "quantization_config calls these weights symmetric"},
    {"packed_int4",
     "layer.weight",
     OMMAI_TENSOR_BF16,
     2,
     {24, 96},
     0,
     "\"layer.weight\": the same layer is there quantised as well"},
    {"packed_int4",
     "layer.weight_g_idx",
     OMMAI_TENSOR_I32,
     1,
     {96},
     0x01,
     "input 0: expected a group of 0 to 2, found 16843009"},
    /* -1 throughout means none */
    {"packed_int4", "layer.weight_g_idx", OMMAI_TENSOR_I32, 1, {96}, 0xff, ""},
    {"packed_int4", "layer.weight_g_idx", OMMAI_TENSOR_I32, 1, {95}, 0, "expected shape [96], found [95]"},
    {"packed_int4_zeros", "layer.weight_zero_point", -1, 0, {0}, 0, "\"layer.weight_zero_point\" is missing"},
    {"packed_int4_zeros", "layer.weight_zero_point", OMMAI_TENSOR_I32, 2, {24, 3}, 0, "expected shape [3, 3], found [24, 3]"},
    {"int8", "layer.weight_scale", -1, 0, {0}, 0, "\"layer.weight_scale\" is missing"},
    {"int8", "layer.weight", OMMAI_TENSOR_I8, 2, {9, 0}, 0, "found [9, 0]"},
    {"int8", "layer.weight", OMMAI_TENSOR_I8, 3, {9, 4, 10}, 0, "found [9, 4, 10]"},
    {"int8", "layer.weight", OMMAI_TENSOR_I8, 1, {360}, 0, "found [360]"},
    {"float8_channel", "layer.weight_scale", -1, 0, {0}, 0, "\"layer.weight_scale_inv\" is missing"},
    {"float8_channel", "layer.weight_scale", OMMAI_TENSOR_F32, 2, {3, 3}, 0, "expected shape [1, 9, 1], found [3, 3]"},
    {"float8_block", "layer.weight_scale", OMMAI_TENSOR_F32, 2, {3, 2}, 0, "expected shape [1, 3, 3], found [3, 2]"},
    {"fp8", "mlp.experts.gate_up_proj", OMMAI_TENSOR_F8_E4M3, 2, {48, 32}, 0, "found [48, 32]"},
    {"fp8", "mlp.experts.gate_up_proj_scale_inv", -1, 0, {0}, 0, "\"mlp.experts.gate_up_proj_scale_inv\" is missing"},
    {"fp8",
     "layer.weight",
     OMMAI_TENSOR_F8_E5M2,
     2,
     {32, 48},
     0,
     ""}, /* no layer of this format: refused where it is asked for */
    {"awq", "layer.qzeros", -1, 0, {0}, 0, "\"layer.qzeros\" is missing"},
    {"awq", "layer.qweight", OMMAI_TENSOR_I32, 2, {96, 4}, 0, "expected shape [3, 32], found [3, 24]"},
    {"awq", "layer.qweight", OMMAI_TENSOR_I32, 2, {0, 0}, 0, "found [0, 0]"},
    {"awq", "layer.scales", OMMAI_TENSOR_F16, 2, {3, 24}, 0x7b, ""},
    {"awq", "layer.scales", OMMAI_TENSOR_F16, 2, {3, 24}, 0xff, "72 of its scales are NaN or infinite"},
    {"awq_symmetric", "layer.qzeros", OMMAI_TENSOR_I32, 2, {3, 3}, 0, "quantization_config calls these weights symmetric"},
    {"gptq", "layer.qzeros", OMMAI_TENSOR_I32, 2, {3, 3}, 0, "expected shape [3, 4], found [3, 3]"},
    {"gptq", "layer.g_idx", OMMAI_TENSOR_I32, 1, {96}, 0xfe, "input 0: expected a group of 0 to 2, found -16843010"},
    {"gptq", "layer.g_idx", -1, 0, {0}, 0, ""},
    {"gptq", "layer.scales", -1, 0, {0}, 0, "\"layer.scales\" is missing"},
};

static void add_copy(struct ommai_safetensors_writer *writer, const struct ommai_tensor *tensor) {
  struct omma_error error;
  assert_ok(
      ommai_safetensors_writer_add(writer, tensor->name, tensor->type, tensor->n_dims, tensor->shape, tensor->data, &error),
      &error);
}

/* The format's folder with the one change, as a folder of its own. */
static void write_damaged(const struct damage *damage, const char *folder) {
  char from[TEST_PATH_SIZE], path[TEST_PATH_SIZE], config[TEST_PATH_SIZE];
  unsigned char bytes[8192];
  struct omma_error error;
  struct ommai_safetensors *file;
  struct ommai_safetensors_writer *writer;
  test_path(from, FIXTURES, damage->format);
  fixture_copy_file(test_path(path, from, "config.json"), test_path(config, folder, "config.json"));
  assert_ok(ommai_safetensors_open(test_path(path, from, "model.safetensors"), memory, &file, &error), &error);
  assert_ok(ommai_safetensors_writer_create(test_path(config, folder, "model.safetensors"), memory, &writer, &error), &error);
  for (int64_t i = 0; i < ommai_safetensors_count(file); i++) {
    if (strcmp(ommai_safetensors_at(file, i)->name, damage->part) != 0) add_copy(writer, ommai_safetensors_at(file, i));
  }
  memset(bytes, damage->fill, sizeof bytes);
  if (damage->type >= 0) {
    assert_ok(ommai_safetensors_writer_add(writer, damage->part, (enum ommai_tensor_type)damage->type, damage->n_dims,
                                           damage->shape, bytes, &error),
              &error);
  }
  assert_ok(ommai_safetensors_writer_finish(writer, &error), &error);
  ommai_safetensors_writer_destroy(writer);
  ommai_safetensors_close(file);
}

static void read_all(const struct ommai_checkpoint *checkpoint) {
  for (int64_t i = 0; i < ommai_checkpoint_count(checkpoint); i++) {
    (void)ommai_tensor_count_nonfinite(ommai_checkpoint_at(checkpoint, i));
  }
}

static void damage_is_reported(void **state) {
  struct test_folder *fixture = *state;
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    struct ommai_quantization *quantization;
    struct ommai_checkpoint *checkpoint;
    struct omma_error error = {.status = OMMA_OK};
    write_damaged(&damages[i], fixture->folder);
    enum omma_status status = open_folder(fixture->folder, &quantization, &checkpoint, &error);
    if (status == OMMA_OK) {
      if (*damages[i].message) fail_msg("%s, %s: taken, expected: %s", damages[i].format, damages[i].part, damages[i].message);
      read_all(checkpoint);
      ommai_checkpoint_close(checkpoint);
      ommai_quantization_destroy(quantization);
    } else if (!*damages[i].message || !strstr(error.message, damages[i].message)) {
      fail_msg("%s, %s: expected \"%s\", found \"%s\"", damages[i].format, damages[i].part, damages[i].message, error.message);
    }
  }
}

static void long_names_are_refused(void **state) {
  struct test_folder *fixture = *state;
  char name[600], header[1200], path[TEST_PATH_SIZE], from[TEST_PATH_SIZE];
  struct ommai_quantization *quantization;
  struct ommai_checkpoint *checkpoint;
  memset(name, 'x', sizeof name);
  snprintf(name + 500, sizeof name - 500, ".qweight");
  snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}", name);
  test_write_safetensors(test_path(path, fixture->folder, "model.safetensors"), header, 4);
  fixture_copy_file(FIXTURES "/awq/config.json", test_path(from, fixture->folder, "config.json"));
  assert_fails(open_folder(fixture->folder, &quantization, &checkpoint, &fixture->error), OMMA_ERROR_LIMIT,
               "more than the limit of 400 bytes", &fixture->error);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_those_of_the_official_code),
      cmocka_unit_test(eight_bit_floats_are_exact),
      cmocka_unit_test_setup_teardown(damage_is_reported, test_folder_setup, test_folder_teardown),
      cmocka_unit_test_setup_teardown(long_names_are_refused, test_folder_setup, test_folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
