/* The calls around a model: facts, checking weights, kernels, text, tensors as files. */
#include <math.h>
#include <stdlib.h>

#include "base/allocator.h"
#include "base/error.h"
#include "families/weight_policy.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

struct findings {
  int n_good, n_bad;
  char last[512]; /* what and details of the last bad one, or the last good one */
};

static void note(void *context, bool ok, const char *what, const char *details) {
  struct findings *findings = context;
  assert_true(what[0] != '\0');
  if (ok) {
    findings->n_good++;
  } else {
    findings->n_bad++;
  }
  if (!ok || findings->n_bad == 0) snprintf(findings->last, sizeof findings->last, "%s: %s", what, details);
}

/* Opens a folder without its weights and checks them. */
static enum omma_status verify(const char *folder, struct findings *findings, struct omma_error *error) {
  struct omma_model *model;
  const struct omma_model_options options = {.config_only = true, .n_threads = 1};
  *findings = (struct findings){0};
  assert_ok(omma_model_open(folder, &options, &model, error), error);
  enum omma_status status = omma_model_verify(model, note, findings, error);
  assert_int_equal(omma_model_verify(model, NULL, NULL, error), status); /* nobody has to listen */
  omma_model_close(model);
  return status;
}

static void sound_weights_are_verified(void **state) {
  (void)state;
  for (size_t m = 0; golden_models[m]; m++) {
    char path[1024];
    struct findings findings;
    struct omma_error error;
    golden_path(golden_models[m], NULL, path, sizeof path);
    assert_ok(verify(path, &findings, &error), &error);
    assert_int_equal(findings.n_good, 1);
    assert_int_equal(findings.n_bad, 0);
    assert_non_null(strstr(findings.last, "all finite"));
  }
}

/* A copy of a golden model in a folder of its own; the bytes of its weights, which lie at path. */
static unsigned char *copy_weights(const char *model, char folder[TEST_PATH_SIZE], char path[TEST_PATH_SIZE], size_t *size) {
  fixture_copy_checkpoint(model, folder);
  return fixture_read(test_path(path, folder, "model.safetensors"), size);
}

static void unsound_weights_are_reported(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  struct findings findings;
  struct omma_error error;
  size_t size;
  unsigned char *bytes = copy_weights("qwen3_vl_tied", folder, path, &size);
  const unsigned char nan[2] = {0xc0, 0x7f}, last[2] = {bytes[size - 2], bytes[size - 1]};
  memcpy(bytes + size - 2, nan, 2);
  test_write_file(path, bytes, size);
  assert_fails(verify(folder, &findings, &error), OMMA_ERROR_FORMAT, "1 tensors or files are wrong", &error);
  assert_int_equal(findings.n_bad, 1);
  assert_non_null(strstr(findings.last, "1 values are NaN or infinite"));
  memcpy(bytes + size - 2, last, 2);
  unsigned char *name = memmem(bytes, size, "model.visual.merger.norm.bias", 29);
  assert_non_null(name);
  name[28] = 'z';
  test_write_file(path, bytes, size);
  assert_fails(verify(folder, &findings, &error), OMMA_ERROR_FORMAT, "2 tensors or files are wrong", &error);
  assert_int_equal(findings.n_bad, 2); /* one is missing, one has no use */
  test_write_file(path, bytes, size / 2);
  assert_fails(verify(folder, &findings, &error), OMMA_ERROR_FORMAT, "model.safetensors", &error);
  free(bytes);
  test_folder_remove(folder);
}

/* A head that is left out is none's want; of one that is there, everything is. */
static void draft_heads_are_verified_where_they_are(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  struct findings findings;
  struct omma_error error;
  size_t size;
  unsigned char *bytes = copy_weights("qwen3_5_tied", folder, path, &size);
  unsigned char *name = memmem(bytes, size, "\"mtp.norm.weight", 16);
  assert_non_null(name);
  name[15] = 'x';
  test_write_file(path, bytes, size);
  assert_fails(verify(folder, &findings, &error), OMMA_ERROR_FORMAT, "2 tensors or files are wrong", &error);
  int n_names = 0;
  for (name = bytes; (name = memmem(name, size - (size_t)(name - bytes), "\"mtp.", 5)); n_names++) name[1] = 'x';
  test_write_file(path, bytes, size);
  assert_fails(verify(folder, &findings, &error), OMMA_ERROR_FORMAT, "tensors or files are wrong", &error);
  assert_int_equal(findings.n_bad, n_names); /* without a use, all of them, and none is missing */
  free(bytes);
  test_folder_remove(folder);
}

struct check {
  int n_calls;
  enum omma_status verdict;
  int64_t n_tokens, kv_cache_tokens;
};

static enum omma_status check_model(void *context, const struct omma_model *opening, struct omma_error *error) {
  struct check *check = context;
  const struct omma_part part = {.text = "hello", .text_size = 5};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = &part, .n_parts = 1};
  struct omma_memory_estimate estimate;
  check->n_calls++;
  assert_ok(omma_count_prompt_tokens(opening, &message, 1, NULL, &check->n_tokens, error), error);
  assert_ok(omma_estimate_memory(opening, NULL, 0, &estimate, error), error);
  check->kv_cache_tokens = estimate.kv_cache_tokens;
  return check->verdict == OMMA_OK ? OMMA_OK : ommai_fail(error, check->verdict, "not this one");
}

/* The check runs once, before the first byte of weights is packed, and its refusal is the
 * opening's. */
static void a_check_runs_before_the_weights(void **state) {
  (void)state;
  char path[1024];
  struct check check = {.verdict = OMMA_ERROR_LIMIT};
  struct omma_model_options options = {
      .n_threads = 1, .max_model_len = 777, .before_weights = check_model, .before_weights_context = &check};
  struct omma_model *opened = NULL;
  struct omma_error error;
  golden_path("qwen3_vl_tied", NULL, path, sizeof path);
  assert_fails(omma_model_open(path, &options, &opened, &error), OMMA_ERROR_LIMIT, "not this one", &error);
  assert_null(opened);
  assert_int_equal(check.n_calls, 1);
  assert_true(check.n_tokens > 5 && check.kv_cache_tokens == OMMA_DEFAULT_FULL_SEQUENCES * 832);
  check.verdict = OMMA_OK;
  opened = fixture_model("qwen3_vl_tied", &options);
  assert_int_equal(check.n_calls, 2);
  omma_model_close(opened);
}

static void facts_are_those_of_the_files(void **state) {
  (void)state;
  const struct omma_model_options options = {.config_only = true,
                                             .n_threads = 3,
                                             .weights = OMMA_WEIGHTS_BF16,
                                             .vision_weights = OMMA_WEIGHTS_F32,
                                             .max_model_len = 777,
                                             .isa = "scalar"};
  struct omma_model *bare = fixture_model("qwen3_vl_tied", &options);
  struct omma_model_info info;
  omma_model_get_info(bare, &info);
  assert_string_equal(info.model_type, "qwen3_vl");
  assert_string_equal(info.isa, "scalar");
  assert_string_equal(info.weights, "bf16");
  assert_string_equal(info.vision_weights, "f32");
  assert_int_equal(info.n_threads, 3);
  assert_int_equal(info.max_model_len, 777);
  assert_int_equal(info.patch_dim, 3 * 2 * 16 * 16);
  assert_int_equal(info.vision_head_dim, 72);
  assert_int_equal(info.n_deepstack, 2);
  /* The parameters are the elements of the file: the table counts once. */
  struct ommai_safetensors *file;
  struct omma_error error;
  char path[1024];
  golden_path("qwen3_vl_tied", "model.safetensors", path, sizeof path);
  assert_ok(ommai_safetensors_open(path, &ommai_default_allocator, &file, &error), &error);
  int64_t elements = 0;
  for (int64_t i = 0; i < ommai_safetensors_count(file); i++) elements += ommai_safetensors_at(file, i)->n_elements;
  assert_int_equal(info.n_parameters, elements);
  assert_in_range(info.n_vision_parameters, 1, info.n_parameters - 1);
  ommai_safetensors_close(file);
  omma_model_close(bare);
}

/* Parameters are the same, their bytes fewer; the language model has no int8. */
static void int8_is_for_the_tower(void **state) {
  (void)state;
  char path[1024];
  struct omma_error error;
  struct omma_model *model;
  struct omma_model_info info[2];
  struct omma_model_options options = {.config_only = true, .weights = OMMA_WEIGHTS_INT8};
  golden_path("qwen3_vl_tied", NULL, path, sizeof path);
  assert_fails(omma_model_open(path, &options, &model, &error), OMMA_ERROR_UNSUPPORTED,
               "int8 is for the vision tower (vision_weights), and for the language model by quantization", &error);
  for (int i = 0; i < 2; i++) {
    options = (struct omma_model_options){.config_only = true, .vision_weights = i ? OMMA_WEIGHTS_INT8 : OMMA_WEIGHTS_F32};
    assert_ok(omma_model_open(path, &options, &model, &error), &error);
    omma_model_get_info(model, &info[i]);
    assert_string_equal(info[i].vision_weights, i ? "int8" : "f32");
    omma_model_close(model);
  }
  assert_int_equal(info[0].n_parameters, info[1].n_parameters);
  assert_true(info[1].weight_bytes < info[0].weight_bytes);
}

struct progress {
  int64_t done, total;
  int n_calls;
};

static void follow(void *context, int64_t done, int64_t total) {
  struct progress *progress = context;
  assert_true(done >= progress->done && done <= total);
  *progress = (struct progress){done, total, progress->n_calls + 1};
}

/* Also where the embedding table is only mapped, or read twice. */
static void progress_counts_to_the_end(void **state) {
  (void)state;
  for (size_t m = 0; golden_models[m]; m++) {
    struct progress progress = {0};
    const struct omma_model_options options = {.n_threads = 1, .progress = follow, .progress_context = &progress};
    omma_model_close(fixture_model(golden_models[m], &options));
    assert_true(progress.n_calls > 10);
    assert_true(progress.total > 0 && progress.done == progress.total);
  }
  omma_model_close(NULL);
}

static void kernels_are_described_and_tested(void **state) {
  (void)state;
  struct findings findings = {0};
  struct omma_error error;
  assert_ok(omma_describe_kernels("scalar", note, &findings, &error), &error);
  assert_true(findings.n_good > 10 && findings.n_bad == 0);
  assert_ok(omma_describe_kernels(NULL, NULL, NULL, &error), &error);
  assert_fails(omma_describe_kernels("mmx", note, &findings, &error), OMMA_ERROR_ARGUMENT, "mmx", &error);
  assert_fails(omma_self_test("mmx", note, &findings, &error), OMMA_ERROR_ARGUMENT, "mmx", &error);
  struct omma_machine machine;
  assert_ok(omma_measure_machine("scalar", 1, &machine, &error), &error);
  assert_true(machine.f32_gflops > 0 && machine.n_threads == 1);
  assert_fails(omma_measure_machine(NULL, -1, &machine, &error), OMMA_ERROR_ARGUMENT, "threads", &error);
  double gbps;
  assert_ok(omma_measure_read(1, &gbps, &error), &error);
  assert_true(gbps > 0.01 && gbps < 1e5);
  assert_fails(omma_measure_read(-1, &gbps, &error), OMMA_ERROR_ARGUMENT, "threads", &error);
}

/* Computing in f32 loses nothing of weights in bf16, so that they stay what they are; an estimate
 * gives the same as the open model. */
static void weights_are_kept_as_stored(void **state) {
  (void)state;
  static const struct {
    const char *model, *kept;
  } models[] = {{"qwen3_vl_untied", "bf16"}, {"qwen3_vl_heads", "f32"}, {"qwen3_vl_wide", "f32"}};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    struct omma_model_info info[2];
    for (int config_only = 0; config_only <= 1; config_only++) {
      const struct omma_model_options options = {.weights = OMMA_WEIGHTS_F32, .n_threads = 1, .config_only = config_only};
      struct omma_model *model = fixture_model(models[i].model, &options);
      omma_model_get_info(model, &info[config_only]);
      assert_string_equal(info[config_only].weights, "f32");
      assert_string_equal(info[config_only].kept_weights, models[i].kept);
      omma_model_close(model);
    }
    assert_int_equal(info[0].weight_bytes, info[1].weight_bytes);
  }
}

/* What a quantised model reports of itself before it has weights holds afterwards. */
static void quantised_models_are_known_before_their_weights(void **state) {
  (void)state;
  static const struct {
    const char *method, *kept;
    int64_t group;
  } methods[] = {{"none", "bf16", 0}, {"int8", "int8", 0}, {"int4", "int4", OMMA_INT4_GROUP}, {"int4-g128", "int4", 128}};
  for (size_t m = 0; golden_models[m]; m++) {
    int64_t before = INT64_MAX;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
      struct omma_model_info info[2];
      struct omma_text_cost cost[2];
      struct omma_error error;
      for (int config_only = 0; config_only <= 1; config_only++) {
        const struct omma_model_options options = {.quantization = methods[i].method, .config_only = config_only};
        struct omma_model *model = fixture_model(golden_models[m], &options);
        omma_model_get_info(model, &info[config_only]);
        assert_ok(omma_model_text_cost(model, 1, &cost[config_only], &error), &error);
        assert_true(strcmp(info[config_only].kept_weights, methods[i].kept) == 0 || i == 0);
        assert_int_equal(info[config_only].kept_group, methods[i].group);
        omma_model_close(model);
      }
      assert_true(i == 0 || info[0].weight_bytes == info[1].weight_bytes);
      assert_true(i == 0 || cost[0].step_weight_bytes == cost[1].step_weight_bytes);
      assert_true(cost[0].step_weight_bytes <= before);
      before = cost[0].step_weight_bytes;
    }
  }
}

static void unknown_methods_are_refused(void **state) {
  (void)state;
  char path[1024];
  struct omma_error error;
  struct omma_model *model;
  const struct omma_model_options options = {.config_only = true, .quantization = "bitsandbytes"};
  golden_path("qwen3_vl_tied", NULL, path, sizeof path);
  assert_fails(omma_model_open(path, &options, &model, &error), OMMA_ERROR_ARGUMENT,
               "quantization: bitsandbytes is not supported", &error);
  assert_string_equal(error.field, "quantization");
  const struct omma_model_options declared = {.config_only = true, .quantization = "awq_marlin"};
  assert_fails(omma_model_open(path, &declared, &model, &error), OMMA_ERROR_UNSUPPORTED,
               "quantization: awq_marlin: this checkpoint is not quantised", &error);
  const struct {
    const char *name, *checkpoint; /* is that */
    const char *refused;           /* NULL: taken */
  } cases[] = {{"awq", "awq: 4-bit integers in groups of 128", NULL},
               {"gptq_marlin", "gptq: 4-bit integers", NULL},
               {"gguf", "gguf", NULL},
               {"fp8", "awq: 4-bit integers", "quantised otherwise, awq: 4-bit integers"},
               {"int4", "fp8: E4M3 in blocks", "quantised already, fp8: E4M3 in blocks"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct ommai_weight_kind dense = ommai_weight_kind_dense(OMMA_BF16);
    struct ommai_weight_kind kind;
    enum omma_status status = ommai_weight_kind_quantize(cases[i].name, cases[i].checkpoint, dense, &kind, &error);
    if (cases[i].refused) {
      assert_fails(status, OMMA_ERROR_UNSUPPORTED, cases[i].refused, &error);
    } else {
      assert_ok(status, &error);
      assert_int_equal(kind.format, OMMAI_FORMAT_BF16);
    }
  }
}

/* The KV cache is bf16 at every CPU level unless f32 was named, for the arithmetic or for it. */
static void keys_and_values_are_kept_as_asked(void **state) {
  (void)state;
  static const struct {
    enum omma_weight_type weights;
    enum omma_kv_cache_type kv_cache;
    const char *kept; /* NULL: refused */
  } cases[] = {{OMMA_WEIGHTS_AUTO, OMMA_KV_CACHE_AUTO, "bf16"}, {OMMA_WEIGHTS_F32, OMMA_KV_CACHE_AUTO, "f32"},
               {OMMA_WEIGHTS_BF16, OMMA_KV_CACHE_AUTO, "bf16"}, {OMMA_WEIGHTS_F32, OMMA_KV_CACHE_F32, "f32"},
               {OMMA_WEIGHTS_F32, OMMA_KV_CACHE_BF16, "bf16"},  {OMMA_WEIGHTS_BF16, OMMA_KV_CACHE_F32, NULL},
               {OMMA_WEIGHTS_F32, OMMA_KV_CACHE_INT8, "int8"},  {OMMA_WEIGHTS_BF16, OMMA_KV_CACHE_INT8, "int8"}};
  char path[1024];
  struct omma_error error;
  struct omma_model *model;
  golden_path("qwen3_vl_tied", NULL, path, sizeof path);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct omma_model_options options = {
        .config_only = true, .n_threads = 1, .weights = cases[i].weights, .kv_cache = cases[i].kv_cache};
    enum omma_status status = omma_model_open(path, &options, &model, &error);
    if (!cases[i].kept) {
      assert_fails(status, OMMA_ERROR_UNSUPPORTED, "keys and values are bf16 where the language model computes in bf16",
                   &error);
      assert_string_equal(error.field, "kv_cache");
      continue;
    }
    struct omma_model_info info;
    struct omma_text_cost cost;
    assert_ok(status, &error);
    omma_model_get_info(model, &info);
    assert_string_equal(info.kv_cache, cases[i].kept);
    assert_ok(omma_model_text_cost(model, 1, &cost, &error), &error);
    int64_t head_bytes = info.head_dim * 4;
    if (strcmp(cases[i].kept, "bf16") == 0) head_bytes = info.head_dim * 2;
    if (strcmp(cases[i].kept, "int8") == 0) head_bytes = info.head_dim + 4;
    assert_int_equal(cost.step_kv_bytes, 2 * info.n_layers * info.n_kv_heads * head_bytes);
    omma_model_close(model);
  }
  const struct omma_model_options wrong = {.config_only = true, .kv_cache = (enum omma_kv_cache_type)9};
  assert_fails(omma_model_open(path, &wrong, &model, &error), OMMA_ERROR_ARGUMENT, "kv_cache: no such type: 9", &error);
  const struct omma_model_options compressed = {.config_only = true, .kv_cache = OMMA_KV_CACHE_INT8};
  golden_path("kimi_vl", NULL, path, sizeof path);
  assert_fails(omma_model_open(path, &compressed, &model, &error), OMMA_ERROR_UNSUPPORTED,
               "kv_cache: kimi_vl keeps compressed rows (MLA), which are not kept in int8", &error);
  assert_string_equal(error.field, "kv_cache");
}

/* Elements of matrices that a token goes through, by hand from the checkpoints' config.json. */
static void work_is_that_of_the_shapes(void **state) {
  (void)state;
  static const struct {
    const char *model;
    int64_t layers, routers, lm_head; /* elements */
    int64_t pair;                     /* operations for a token and one that it sees, all layers */
    int64_t kept;                     /* elements of a token's keys and values, all layers */
  } shapes[] = {
      /* 2 layers: qkv 56 x (2 + 1 + 1) 64, o 128 x 56, feed-forward 3 x 56 x 96; 4 x 2 heads x
       * 64 */
      {"qwen3_vl_untied", 2 * (14336 + 7168 + 16128), 0, 56 * 544, 2 * 4 * 2 * 64, 2 * 2 * 64},
      /* 3 layers: qkv 48 x (4 + 2 + 2) 16, o 64 x 48; one dense, 3 x 48 x 72; two with 2 experts of
       * 3 x 48 x 20, router 8 x 48 */
      {"qwen3_vl_moe", 3 * (6144 + 3072) + 10368 + 2 * 2 * 2880, 2 * 384, 48 * 544, 3 * 4 * 4 * 16, 3 * 2 * 2 * 16},
      /* 3 layers: q and compressed row 48 x (4 x 24 + 24 + 8), heads 4 x 24 x (16 + 12), o 4 x 12 x
       * 48; one dense, 3 x 48 x 72; two with 3 experts of 3 x 48 x 20 and a shared part of 3 x 48
       * x 40; a key has 24 values, a value 12 */
      {"kimi_vl", 3 * (6144 + 2688 + 2304) + 10368 + 2 * (3 * 2880 + 5760), 2 * 384, 48 * 576, 3 * 2 * (24 + 12) * 4, 3 * 32},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    for (int way = 0; way < 3; way++) { /* f32, bf16, bf16 without products of it */
      bool bf16 = way > 0;
      const struct omma_model_options options = {.config_only = true,
                                                 .n_threads = 1,
                                                 .weights = bf16 ? OMMA_WEIGHTS_BF16 : OMMA_WEIGHTS_F32,
                                                 .isa = way == 2 ? "scalar" : NULL,
                                                 .max_model_len = 100};
      struct omma_model *bare = fixture_model(shapes[i].model, &options);
      struct omma_text_cost cost;
      struct omma_error error;
      int64_t kept = bf16 ? 2 : 4, packed = 2, /* as in the checkpoint */
          through = shapes[i].layers + shapes[i].routers;
      assert_ok(omma_model_text_cost(bare, 5, &cost, &error), &error); /* 1 + 2 + 3 + 4 + 5 pairs */
      assert_true(cost.prompt_flops == (double)(5 * 2 * through + 15 * shapes[i].pair + 2 * shapes[i].lm_head));
      assert_int_equal(cost.step_weight_bytes, (shapes[i].layers + shapes[i].lm_head) * packed + shapes[i].routers * 4);
      assert_int_equal(cost.step_kv_bytes, 5 * shapes[i].kept * kept);
      assert_ok(omma_model_text_cost(bare, 100, &cost, &error), &error);
      assert_fails(omma_model_text_cost(bare, 101, &cost, &error), OMMA_ERROR_ARGUMENT, "expected 1 to 100, found 101", &error);
      assert_fails(omma_model_text_cost(bare, 0, &cost, &error), OMMA_ERROR_ARGUMENT, "n_tokens", &error);
      omma_model_close(bare);
    }
  }
}

static void text_goes_there_and_back(void **state) {
  (void)state;
  const struct omma_model_options options = {.config_only = true, .n_threads = 1};
  struct omma_model *bare = fixture_model("qwen3_vl_tied", &options);
  struct omma_error error;
  const char text[] = "<|im_start|>caf\xc3\xa9 \xe2\x82\xac<|im_end|>";
  int32_t tokens[64];
  char back[128];
  size_t n = 0, size = 0;
  assert_ok(omma_tokenize(bare, text, sizeof text - 1, NULL, 0, &n, &error), &error);
  assert_in_range(n, 3, 64);
  assert_ok(omma_tokenize(bare, text, sizeof text - 1, tokens, 64, &n, &error), &error);
  assert_int_equal(tokens[0], 521);
  assert_int_equal(tokens[n - 1], 522);
  assert_ok(omma_detokenize(bare, tokens, n, false, NULL, 0, &size, &error), &error);
  assert_int_equal(size, sizeof text - 1);
  memset(back, '#', sizeof back);
  assert_ok(omma_detokenize(bare, tokens, n, false, back, size, &size, &error), &error);
  assert_memory_equal(back, text, size);
  assert_int_equal(back[size], '#');
  assert_ok(omma_detokenize(bare, tokens, n, true, back, sizeof back, &size, &error), &error);
  assert_int_equal(size, sizeof "caf\xc3\xa9 \xe2\x82\xac" - 1);
  assert_ok(omma_detokenize(bare, NULL, 0, true, back, sizeof back, &size, &error), &error);
  assert_int_equal(size, 0);
  tokens[1] = 544;
  size = 99;
  assert_fails(omma_detokenize(bare, tokens, n, true, back, sizeof back, &size, &error), OMMA_ERROR_ARGUMENT,
               "tokens[1]: expected 0 to 543, found 544", &error);
  assert_int_equal(size, 99);
  n = 77;
  assert_fails(omma_tokenize(bare, text, sizeof text - 1, tokens, 2, &n, &error), OMMA_ERROR_ARGUMENT, "ids: room for 2, needs",
               &error);
  assert_string_equal(error.field, "ids");
  assert_in_range(n, 3, 64);
  assert_ok(omma_detokenize(bare, tokens, 1, false, back, 2, &size, &error), &error);
  assert_int_equal(size, sizeof "<|im_start|>" - 1);
  assert_fails(omma_tokenize(bare, "ab\xff", 3, tokens, 64, &n, &error), OMMA_ERROR_FORMAT, "2", &error);
  omma_model_close(bare);
}

static void tensors_are_saved_as_they_are(void **state) {
  (void)state;
  char folder[TEST_PATH_SIZE], path[TEST_PATH_SIZE];
  struct omma_error error;
  const float values[6] = {1, -2, NAN, INFINITY, 0.5f, 1e-40f};
  const int64_t numbers[2] = {INT64_MIN, 7};
  const struct omma_tensor tensors[] = {{"b.values", OMMA_TENSOR_F32, 2, {2, 3}, values},
                                        {"a.numbers", OMMA_TENSOR_I64, 1, {2}, numbers}};
  test_folder_create(folder);
  assert_ok(omma_save_tensors(test_path(path, folder, "out.safetensors"), tensors, 2, &error), &error);
  assert_int_equal(test_folder_count(folder), 1);
  struct ommai_safetensors *file;
  assert_ok(ommai_safetensors_open(path, &ommai_default_allocator, &file, &error), &error);
  const struct ommai_tensor *found = ommai_safetensors_find(file, "b.values");
  assert_non_null(found);
  assert_int_equal(found->shape[1], 3);
  assert_memory_equal(found->data, values, sizeof values);
  found = ommai_safetensors_find(file, "a.numbers");
  assert_non_null(found);
  assert_memory_equal(found->data, numbers, sizeof numbers);
  ommai_safetensors_close(file);
  const struct omma_tensor twice[] = {tensors[0], tensors[0]};
  assert_int_not_equal(omma_save_tensors(path, twice, 2, &error), OMMA_OK);
  assert_int_equal(omma_save_tensors("/nowhere/at/all/x.safetensors", tensors, 2, &error), OMMA_ERROR_IO);
  /* the good one is still there, and no half of another */
  assert_int_equal(test_folder_count(folder), 1);
  assert_ok(ommai_safetensors_open(path, &ommai_default_allocator, &file, &error), &error);
  assert_int_equal(ommai_safetensors_count(file), 2);
  ommai_safetensors_close(file);
  test_folder_remove(folder);
}

/* Of layers with windows, no more is planned than sequences reach, and what a token reads shrinks
 * likewise; whatever is asked for is not exceeded. */
static void windows_take_what_they_reach(void **state) {
  (void)state;
  const struct omma_model_options options = {.n_threads = 1, .config_only = true, .max_model_len = 32768};
  const char *const names[] = {"qwen2_5_vl_tied", "qwen2_5_vl_sliding"};
  for (int i = 0; i < 2; i++) {
    struct omma_model *model = fixture_model(names[i], &options);
    struct omma_memory_estimate estimate;
    struct omma_text_cost near_cost, far_cost;
    struct omma_error error;
    assert_ok(omma_estimate_memory(model, NULL, 0, &estimate, &error), &error);
    int64_t n_pages = estimate.kv_cache_tokens / 64, whole = n_pages * estimate.kv_page_bytes;
    assert_int_equal(n_pages, OMMA_DEFAULT_FULL_SEQUENCES * 32768 / 64);
    if (i == 0) assert_int_equal(estimate.kv_cache_bytes, whole);
    if (i == 1) assert_true(3 * estimate.kv_cache_bytes > whole && 5 * estimate.kv_cache_bytes < 2 * whole);
    for (int64_t bytes = estimate.kv_page_bytes; bytes < whole; bytes = 3 * bytes + 1) {
      const struct omma_engine_options limited = {.kv_cache_bytes = bytes};
      assert_ok(omma_estimate_memory(model, &limited, 0, &estimate, &error), &error);
      assert_true(estimate.kv_cache_bytes <= bytes && estimate.kv_cache_bytes + estimate.kv_page_bytes > bytes);
    }
    assert_ok(omma_model_text_cost(model, 100, &near_cost, &error), &error);
    assert_ok(omma_model_text_cost(model, 10000, &far_cost, &error), &error);
    /* one of three layers sees all */
    int64_t growth = i ? near_cost.step_kv_bytes / 3 : near_cost.step_kv_bytes;
    assert_int_equal(far_cost.step_kv_bytes - near_cost.step_kv_bytes, 99 * growth);
    omma_model_close(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sound_weights_are_verified),
      cmocka_unit_test(unsound_weights_are_reported),
      cmocka_unit_test(draft_heads_are_verified_where_they_are),
      cmocka_unit_test(a_check_runs_before_the_weights),
      cmocka_unit_test(facts_are_those_of_the_files),
      cmocka_unit_test(int8_is_for_the_tower),
      cmocka_unit_test(progress_counts_to_the_end),
      cmocka_unit_test(kernels_are_described_and_tested),
      cmocka_unit_test(weights_are_kept_as_stored),
      cmocka_unit_test(quantised_models_are_known_before_their_weights),
      cmocka_unit_test(unknown_methods_are_refused),
      cmocka_unit_test(keys_and_values_are_kept_as_asked),
      cmocka_unit_test(work_is_that_of_the_shapes),
      cmocka_unit_test(text_goes_there_and_back),
      cmocka_unit_test(tensors_are_saved_as_they_are),
      cmocka_unit_test(windows_take_what_they_reach),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
