/* One problem in many layouts: whatever the strides of each tensor, the type of the borders, and
 * the way the segments are stated, the result has the same bits. */
#include <stdlib.h>

#include "kernels/attention_element.h"
#include "support/guarded.h"

enum { N_HEADS = 6, N_KV_HEADS = 2, DIM = 24, V_DIM = 17, ROWS = 150, KEYS = 190, N_TENSORS = 4 };
enum { Q, K, V, OUT };

static const int64_t n_rows_of[N_TENSORS] = {ROWS, KEYS, KEYS, ROWS},
                     n_heads_of[N_TENSORS] = {N_HEADS, N_KV_HEADS, N_KV_HEADS, N_HEADS},
                     dim_of[N_TENSORS] = {DIM, DIM, V_DIM, V_DIM};

/* Strides of one tensor, its elements from the lowest to the highest address, and the index of row
 * 0 of head 0 among them. */
struct layout {
  int64_t token_stride, head_stride, count, first;
};

/* Logical values, packed [rows, heads, dim]. */
struct values {
  enum omma_dtype dtype;
  size_t size;
  unsigned char *elements[N_TENSORS];
};

static int64_t n_values(int tensor) { return n_rows_of[tensor] * n_heads_of[tensor] * dim_of[tensor]; }

static struct values make_values(enum omma_dtype dtype) {
  struct values values = {.dtype = dtype, .size = ommai_attention_element_size(dtype)};
  struct test_random random = {7};
  for (int tensor = 0; tensor < N_TENSORS; tensor++) {
    values.elements[tensor] = malloc((size_t)n_values(tensor) * values.size);
    for (int64_t i = 0; i < n_values(tensor); i++) {
      ommai_attention_store(values.elements[tensor], i, dtype, test_random_normal(&random));
    }
  }
  return values;
}

static void free_values(struct values *values) {
  for (int tensor = 0; tensor < N_TENSORS; tensor++) free(values->elements[tensor]);
}

/* Heads within tokens or tokens within heads, with room between, forward or backward. */
static struct layout random_layout(struct test_random *random, int tensor) {
  int64_t inner = dim_of[tensor] + test_random_range(random, 0, 3), tokens = n_rows_of[tensor], heads = n_heads_of[tensor];
  struct layout layout = {inner * heads + test_random_range(random, 0, 40), inner, 0, 0};
  if (test_random_range(random, 0, 2) == 0)
    layout = (struct layout){inner, inner * tokens + test_random_range(random, 0, 9), 0, 0};
  layout.count = (tokens - 1) * layout.token_stride + (heads - 1) * layout.head_stride + dim_of[tensor];
  if (test_random_range(random, 0, 3) == 0) {
    layout.first += (tokens - 1) * layout.token_stride;
    layout.token_stride = -layout.token_stride;
  }
  if (test_random_range(random, 0, 3) == 0) {
    layout.first += (heads - 1) * layout.head_stride;
    layout.head_stride = -layout.head_stride;
  }
  return layout;
}

/* Copies between packed values and a layout; what is left of the layout's memory keeps its
 * bytes. */
static void copy_rows(const struct values *values, int tensor, const struct layout *layout, unsigned char *memory, bool out) {
  for (int64_t row = 0; row < n_rows_of[tensor]; row++) {
    for (int64_t head = 0; head < n_heads_of[tensor]; head++) {
      int64_t at = layout->first + row * layout->token_stride + head * layout->head_stride;
      unsigned char *packed =
          values->elements[tensor] + (size_t)((row * n_heads_of[tensor] + head) * dim_of[tensor]) * values->size;
      unsigned char *strided = memory + (size_t)at * values->size;
      memcpy(out ? packed : strided, out ? strided : packed, (size_t)dim_of[tensor] * values->size);
    }
  }
}

static struct omma_attention_context *make_context(void) {
  struct omma_attention_context *context;
  struct omma_error error;
  assert_ok(omma_attention_context_create(NULL, &context, &error), &error);
  return context;
}

static struct omma_attention_spec make_spec(enum omma_dtype dtype, const int64_t *borders, const int64_t *key_borders,
                                            int64_t n_segments) {
  return (struct omma_attention_spec){.dtype = dtype,
                                      .n_heads = N_HEADS,
                                      .n_kv_heads = N_KV_HEADS,
                                      .head_dim = DIM,
                                      .v_head_dim = V_DIM,
                                      .n_tokens = ROWS,
                                      .n_kv_tokens = KEYS,
                                      .index_type = OMMA_INDEX_INT64,
                                      .n_segments = n_segments,
                                      .cu_seqlens = borders,
                                      .cu_seqlens_k = key_borders};
}

/* Runs on tensors in their layouts; the output comes back packed in elements[OUT]. */
static void run(const struct omma_attention_context *context, const struct omma_attention_spec *spec,
                const struct omma_attention_tensors *tensors) {
  struct omma_error error;
  struct omma_attention_plan *plan;
  assert_ok(omma_attention_plan_create(context, spec, &plan, &error), &error);
  size_t size = omma_attention_plan_workspace_size(plan, 1);
  struct guarded workspace = guarded_new((size + 63) / 64 * 64, true);
  assert_ok(omma_attention_run(plan, tensors, workspace.data, size, NULL, &error), &error);
  guarded_free(&workspace);
  omma_attention_plan_destroy(plan);
}

static void run_packed(const struct omma_attention_context *context, const struct omma_attention_spec *spec,
                       const struct values *values) {
  const struct omma_attention_tensors tensors = {
      .q = values->elements[Q], .k = values->elements[K], .v = values->elements[V], .out = values->elements[OUT]};
  memset(values->elements[OUT], 0xff, (size_t)n_values(OUT) * values->size);
  run(context, spec, &tensors);
}

static const int64_t usual_borders[4] = {0, 20, 30, 150}, usual_key_borders[4] = {0, 20, 60, 190};

static void strides_of_each_tensor_do_not_matter(void **state) {
  (void)state;
  struct omma_attention_context *context = make_context();
  for (int dtype = OMMA_F32; dtype <= OMMA_F16; dtype++) {
    struct values values = make_values(dtype);
    struct omma_attention_spec spec = make_spec(dtype, usual_borders, usual_key_borders, 3);
    run_packed(context, &spec, &values);
    unsigned char *expected = malloc((size_t)n_values(OUT) * values.size);
    memcpy(expected, values.elements[OUT], (size_t)n_values(OUT) * values.size);
    for (uint64_t seed = 1; seed <= 40; seed++) {
      struct test_random random = {seed};
      struct layout layout[N_TENSORS];
      struct guarded memory[N_TENSORS];
      for (int i = 0; i < N_TENSORS; i++) {
        layout[i] = random_layout(&random, i);
        memory[i] = guarded_new((size_t)layout[i].count * values.size, test_random_range(&random, 0, 1));
        if (i != OUT) copy_rows(&values, i, &layout[i], memory[i].data, false);
      }
      const struct omma_attention_tensors tensors = {.q = memory[Q].data + (size_t)layout[Q].first * values.size,
                                                     .k = memory[K].data + (size_t)layout[K].first * values.size,
                                                     .v = memory[V].data + (size_t)layout[V].first * values.size,
                                                     .out = memory[OUT].data + (size_t)layout[OUT].first * values.size,
                                                     .q_token_stride = layout[Q].token_stride,
                                                     .q_head_stride = layout[Q].head_stride,
                                                     .k_token_stride = layout[K].token_stride,
                                                     .k_head_stride = layout[K].head_stride,
                                                     .v_token_stride = layout[V].token_stride,
                                                     .v_head_stride = layout[V].head_stride,
                                                     .out_token_stride = layout[OUT].token_stride,
                                                     .out_head_stride = layout[OUT].head_stride};
      run(context, &spec, &tensors);
      copy_rows(&values, OUT, &layout[OUT], memory[OUT].data, true);
      if (memcmp(values.elements[OUT], expected, (size_t)n_values(OUT) * values.size) != 0) {
        fail_msg("type %d, seed %d: other strides, other bits", dtype, (int)seed);
      }
      for (int i = 0; i < N_TENSORS; i++) {
        guarded_check(&memory[i], "tensor");
        guarded_free(&memory[i]);
      }
    }
    free(expected);
    free_values(&values);
  }
  omma_attention_context_destroy(context);
}

/* Two statements of the same segments. */
static void assert_same_result(const struct omma_attention_context *context, const struct omma_attention_spec *a,
                               const struct omma_attention_spec *b, const struct values *values, const char *what) {
  size_t bytes = (size_t)n_values(OUT) * values->size;
  unsigned char *first = malloc(bytes);
  run_packed(context, a, values);
  memcpy(first, values->elements[OUT], bytes);
  run_packed(context, b, values);
  if (memcmp(first, values->elements[OUT], bytes) != 0) fail_msg("%s: other bits", what);
  free(first);
}

/* [b, s, H, D] without borders: each batch row is a segment, of keys as of queries. With borders:
 * they cut the flattened rows. */
static void batches_are_segments_unless_borders_are_given(void **state) {
  (void)state;
  struct omma_attention_context *context = make_context();
  const int64_t rows[11] = {0, 15, 30, 45, 60, 75, 90, 105, 120, 135, 150},
                keys[11] = {0, 19, 38, 57, 76, 95, 114, 133, 152, 171, 190};
  for (int dtype = OMMA_F32; dtype <= OMMA_F16; dtype++) {
    struct values values = make_values(dtype);
    struct omma_attention_spec cut = make_spec(dtype, rows, keys, 10), batched = make_spec(dtype, NULL, NULL, 0);
    batched.batch = 10;
    assert_same_result(context, &cut, &batched, &values, "batch of 10");
    batched.n_segments = 10;
    assert_same_result(context, &cut, &batched, &values, "batch of 10, counted");
    cut = make_spec(dtype, usual_borders, usual_key_borders, 3);
    batched = cut;
    batched.batch = 10;
    assert_same_result(context, &cut, &batched, &values, "borders over a batch");
    const int64_t one[2] = {0, ROWS}, one_of_keys[2] = {0, KEYS};
    cut = make_spec(dtype, one, one_of_keys, 1);
    batched = make_spec(dtype, NULL, NULL, 0);
    assert_same_result(context, &cut, &batched, &values, "no borders, no batch");
    free_values(&values);
  }
  omma_attention_context_destroy(context);
}

static void hints_and_index_types_do_not_matter(void **state) {
  (void)state;
  static const int64_t lengths[] = {-1, 1, 63, 1000000, INT64_MIN, INT64_MAX};
  struct omma_attention_context *context = make_context();
  struct values values = make_values(OMMA_BF16);
  struct omma_attention_spec plain = make_spec(OMMA_BF16, usual_borders, usual_key_borders, 3), other = plain;
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    other.max_seqlen = lengths[i];
    assert_same_result(context, &plain, &other, &values, "max_seqlen");
  }
  int32_t borders[4], key_borders[4];
  unsigned char unaligned[sizeof borders + 1];
  for (int i = 0; i < 4; i++) {
    borders[i] = (int32_t)usual_borders[i];
    key_borders[i] = (int32_t)usual_key_borders[i];
  }
  memcpy(unaligned + 1, borders, sizeof borders);
  other = plain;
  other.index_type = OMMA_INDEX_INT32;
  other.cu_seqlens = unaligned + 1;
  other.cu_seqlens_k = key_borders;
  assert_same_result(context, &plain, &other, &values, "int32 borders at an odd address");
  free_values(&values);
  omma_attention_context_destroy(context);
}

/* Thousands of empty segments before, between and after change nothing. */
static void empty_segments_do_not_matter(void **state) {
  (void)state;
  enum { EMPTY = 3000, COUNT = 3 * EMPTY + 3 };
  int64_t *borders = calloc(2 * (COUNT + 1), sizeof *borders), *key_borders = borders + COUNT + 1;
  for (int i = 0; i <= COUNT; i++) {
    int before = i <= EMPTY ? 0 : i <= 2 * EMPTY + 1 ? 1 : i == 2 * EMPTY + 2 ? 2 : 3;
    borders[i] = usual_borders[before];
    key_borders[i] = usual_key_borders[before];
  }
  struct omma_attention_context *context = make_context();
  struct values values = make_values(OMMA_F32);
  struct omma_attention_spec plain = make_spec(OMMA_F32, usual_borders, usual_key_borders, 3);
  struct omma_attention_spec many = make_spec(OMMA_F32, borders, key_borders, COUNT);
  assert_same_result(context, &plain, &many, &values, "empty segments");
  free_values(&values);
  omma_attention_context_destroy(context);
  free(borders);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strides_of_each_tensor_do_not_matter),
      cmocka_unit_test(batches_are_segments_unless_borders_are_given),
      cmocka_unit_test(hints_and_index_types_do_not_matter),
      cmocka_unit_test(empty_segments_do_not_matter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
