/* Models in GGUF files against the golden checkpoints that they were made from, whose tensors are
 * cut to a few values here: configuration, tokens, names and shapes. Whole models are in
 * tests/cli/test_gguf.py. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/allocator.h"
#include "families/chat_template.h"
#include "families/family.h"
#include "families/gguf_files.h"
#include "families/gguf_model.h"
#include "families/model_config_read.h"
#include "support/golden.h"
#include "support/model_fixture.h"
#include "support/test.h"

static const struct omma_allocator *const memory = &ommai_default_allocator;
static const char *const names[] = {"qwen3_vl_tied",  "qwen2_5_vl_untied", "qwen3_vl_moe", "kimi_vl",  "qwen2_vl_untied",
                                    "qwen3_5_untied", "glm_ocr",           "lighton_ocr",  "dots_ocr", "paddleocr_vl"};
enum { N_NAMES = sizeof names / sizeof *names };

/* The two files of each model, in one folder. */
static char folder[TEST_PATH_SIZE], model_paths[N_NAMES][TEST_PATH_SIZE], mmproj_paths[N_NAMES][TEST_PATH_SIZE];

static int write_models(void **state) {
  (void)state;
  test_folder_create(folder);
  for (int m = 0; m < N_NAMES; m++) {
    char path[1024], name[64];
    size_t size;
    uint32_t first;
    snprintf(path, sizeof path, "%s/../fuzz/corpus/gguf_model/%s.bin", OMMA_TEST_DATA, names[m]);
    unsigned char *bytes = fixture_read(path, &size);
    memcpy(&first, bytes, sizeof first);
    snprintf(name, sizeof name, "%s.gguf", names[m]);
    test_write_file(test_path(model_paths[m], folder, name), bytes + 4, first);
    snprintf(name, sizeof name, "mmproj-%s.gguf", names[m]);
    test_write_file(test_path(mmproj_paths[m], folder, name), bytes + 4 + first, size - 4 - first);
    free(bytes);
  }
  return 0;
}

static int remove_models(void **state) {
  (void)state;
  test_folder_remove(folder);
  return 0;
}

static struct ommai_gguf_model *open_model(int m) {
  struct ommai_gguf_model *model;
  struct omma_error error;
  assert_ok(ommai_gguf_model_open(model_paths[m], mmproj_paths[m], memory, &model, &error), &error);
  return model;
}

/* ---- configuration ---- */

static void read_config(const struct ommai_documents *documents, struct ommai_model_config *config) {
  const struct ommai_family *family;
  struct omma_error error;
  assert_ok(ommai_model_config_read(documents, false, memory, &family, config, &error), &error);
  assert_string_equal(family->model_type, config->model_type);
}

#define SAME(field) assert_true(ours->field == theirs->field)
#define SAME_ARRAY(field) assert_memory_equal(ours->field, theirs->field, sizeof ours->field)

static void expect_same_text(const struct ommai_decoder_config *ours, const struct ommai_decoder_config *theirs) {
  SAME(n_layers), SAME(hidden_size), SAME(n_heads), SAME(n_kv_heads), SAME(head_dim), SAME(v_head_dim);
  SAME(intermediate_size), SAME(vocab_size), SAME(max_positions), SAME(norm_eps), SAME(qkv_bias);
  SAME(qk_norm), SAME(mla.kv_rank), SAME(mla.nope_dim), SAME(mla.rope_dim), SAME(mla.norm_eps);
  SAME(experts.intermediate_size), SAME(experts.shared_size), SAME(experts.router.n_experts), SAME(experts.router.n_chosen);
  SAME(experts.router.n_groups), SAME(experts.router.n_chosen_groups), SAME(experts.router.score);
  SAME(experts.router.normalise), SAME(experts.router.scale), SAME(rope_theta), SAME(rope_scaling.kind);
  SAME(attention_factor), SAME(mrope_interleaved), SAME(rope_1d), SAME(tied_embeddings), SAME(n_deepstack);
  SAME(rotary_dim), SAME(output_gate), SAME(delta.n_key_heads), SAME(delta.n_value_heads), SAME(delta.key_dim);
  SAME(delta.value_dim), SAME(delta.kernel);
  SAME_ARRAY(mrope_section), SAME_ARRAY(layers);
}

static void expect_same_tower(const struct ommai_vision_config *ours, const struct ommai_vision_config *theirs) {
  SAME(depth), SAME(hidden_size), SAME(n_heads), SAME(head_dim), SAME(intermediate_size), SAME(patch_size);
  SAME(temporal_patch_size), SAME(merge_size), SAME(in_channels), SAME(out_hidden_size), SAME(norm), SAME(norm_eps);
  SAME(merger_norm_eps), SAME(final_norm), SAME(gated), SAME(activation), SAME(positions), SAME(position_rows);
  SAME(position_columns), SAME(rope), SAME(rope_theta), SAME(window_size), SAME(n_deepstack);
  SAME_ARRAY(windowed), SAME_ARRAY(deepstack_layers), SAME_ARRAY(deepstack_mergers);
}

static void expect_same_images(const struct ommai_image_config *ours, const struct ommai_image_config *theirs) {
  SAME(sizing), SAME(resize_rule), SAME(min_pixels), SAME(max_pixels), SAME(raster_patches), SAME(published);
  SAME_ARRAY(patches.mean), SAME_ARRAY(patches.std);
}

static void configurations_are_those_of_the_checkpoints(void **state) {
  (void)state;
  static struct ommai_model_config ours, theirs;
  for (int m = 0; m < N_NAMES; m++) {
    char path[1024];
    struct ommai_gguf_model *model = open_model(m);
    golden_path(names[m], NULL, path, sizeof path);
    read_config(&(struct ommai_documents){.directory = path}, &theirs);
    read_config(ommai_gguf_model_documents(model), &ours);
    expect_same_text(&ours.text, &theirs.text);
    expect_same_tower(&ours.vision, &theirs.vision);
    expect_same_images(&ours.image, &theirs.image);
    assert_string_equal(ours.model_type, theirs.model_type);
    assert_int_equal(ours.image_token, theirs.image_token);
    assert_int_equal(ours.video.token, theirs.video.token);
    ommai_gguf_model_close(model);
  }
}

static void chat_templates_are_those_of_the_checkpoints(void **state) {
  (void)state;
  for (int m = 0; m < N_NAMES; m++) {
    struct ommai_gguf_model *model = open_model(m);
    struct ommai_chat_choice choice;
    struct omma_error error;
    static const char *const types[] = {"qwen3_vl", "qwen2_5_vl", "qwen3_vl_moe", "kimi_vl",  "qwen2_vl",
                                        "qwen3_5",  "glm_ocr",    "lighton_ocr",  "dots_ocr", "paddleocr_vl"};
    assert_ok(ommai_chat_template_read(ommai_gguf_model_documents(model), NULL, false, memory, ommai_family_find(types[m]),
                                       &choice, &error),
              &error);
    assert_string_equal(choice.problem, "");
    ommai_chat_choice_free(&choice);
    ommai_gguf_model_close(model);
  }
}

/* ---- tokens ---- */

static void expect_same_ids(const struct ommai_tokenizer *ours, const struct ommai_tokenizer *theirs, const char *text) {
  int32_t ids[2][256];
  size_t counts[2];
  struct omma_error error;
  assert_ok(ommai_tokenizer_encode(ours, text, strlen(text), true, ids[0], 256, &counts[0], &error), &error);
  assert_ok(ommai_tokenizer_encode(theirs, text, strlen(text), true, ids[1], 256, &counts[1], &error), &error);
  assert_int_equal(counts[0], counts[1]);
  assert_memory_equal(ids[0], ids[1], counts[0] * sizeof(int32_t));
}

static void tokens_are_those_of_the_checkpoints(void **state) {
  (void)state;
  static const char *const texts[] = {"Hello world",
                                      " a  b\n\n\tc ",
                                      "don't I'LL 12345",
                                      "e\xcc\x81 \xc3\xa9",
                                      "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e <|im_end|>x<|im_start|><|media_pad|>",
                                      "the circle is orange and the square is not"};
  for (int m = 0; m < N_NAMES; m++) {
    char path[1024];
    struct ommai_gguf_model *model = open_model(m);
    struct ommai_tokenizer *ours, *theirs;
    struct omma_error error;
    golden_path(names[m], NULL, path, sizeof path);
    assert_ok(ommai_tokenizer_load(path, memory, &theirs, &error), &error);
    assert_ok(ommai_gguf_model_tokenizer(model, &ours, &error), &error);
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) expect_same_ids(ours, theirs, texts[t]);
    ommai_tokenizer_destroy(ours);
    ommai_tokenizer_destroy(theirs);
    ommai_gguf_model_close(model);
  }
}

/* ---- tensors ---- */

/* Every tensor of the checkpoint is there under its name, or in parts that the loader knows. */
static void names_are_those_of_the_checkpoints(void **state) {
  (void)state;
  static const struct {
    int model;
    const char *name;
    int n_dims;
    int64_t shape[5];
  } expected[] = {{0, "model.embed_tokens.weight", 2, {544, 4}},
                  {0, "model.layers.2.self_attn.q_norm.weight", 1, {4}},
                  {0, "model.visual.patch_embed.proj.weight", 5, {4, 3, 2, 4, 4}},
                  {0, "model.visual.patch_embed.proj.bias", 1, {4}},
                  {0, "model.visual.deepstack_merger_list.0.norm.weight", 1, {4}},
                  {0, "model.visual.deepstack_merger_list.1.linear_fc2.bias", 1, {4}},
                  {0, "model.visual.blocks.3.attn.qkv.weight", 2, {4, 4}},
                  {1, "lm_head.weight", 2, {4, 4}},
                  {1, "model.layers.0.self_attn.q_proj.bias", 1, {4}},
                  {1, "visual.blocks.3.attn.k.bias", 1, {4}},
                  {1, "visual.merger.mlp.2.weight", 2, {4, 4}},
                  {2, "model.layers.0.mlp.experts.3.down_proj.weight", 2, {4, 4}},
                  {2, "model.layers.0.mlp.gate.weight", 2, {4, 4}},
                  {2, "model.layers.1.mlp.up_proj.weight", 2, {4, 4}},
                  {3, "language_model.model.layers.1.self_attn.kv_b_proj.weight", 2, {4 * 8, 4}},
                  {3, "language_model.model.layers.1.mlp.gate.e_score_correction_bias", 1, {4}},
                  {3, "language_model.model.layers.2.mlp.shared_experts.up_proj.weight", 2, {4, 4}},
                  {3, "vision_tower.patch_embed.pos_emb.weight", 3, {8, 8, 4}},
                  {3, "vision_tower.encoder.blocks.0.wq.weight", 2, {4, 4}},
                  {5, "model.layers.1.self_attn.q_norm.weight", 1, {4}},
                  {5, "model.layers.0.linear_attn.A_log", 1, {4}},
                  {5, "model.layers.0.linear_attn.conv1d.weight", 3, {76, 1, 3}},
                  {5, "model.layers.2.linear_attn.out_proj.weight", 2, {40, 36}},
                  {6, "model.layers.2.self_attn.q_proj.weight", 2, {64, 4}},
                  {6, "model.layers.1.mlp.gate_up_proj.weight", 2, {4, 4}},
                  {6, "model.layers.0.post_mlp_layernorm.weight", 1, {4}},
                  {6, "model.visual.blocks.0.attn.k_norm.weight", 1, {4}},
                  {6, "model.visual.downsample.weight", 4, {4, 4, 2, 2}},
                  {7, "model.vision_encoder.transformer.layers.2.attention.k_proj.weight", 2, {40, 4}},
                  {7, "model.vision_encoder.patch_conv.weight", 4, {4, 3, 4, 4}},
                  {7, "model.vision_projection.patch_merger.merging_layer.weight", 2, {4, 4}},
                  {8, "vision_tower.patch_embed.patchifier.norm.weight", 1, {4}},
                  {8, "vision_tower.blocks.1.mlp.fc3.weight", 2, {4, 4}},
                  {8, "vision_tower.post_trunk_norm.weight", 1, {4}},
                  {8, "model.layers.0.self_attn.v_proj.bias", 1, {4}},
                  {9, "visual.vision_model.embeddings.position_embedding.weight", 2, {64, 4}},
                  {9, "visual.vision_model.encoder.layers.2.self_attn.out_proj.bias", 1, {4}},
                  {9, "mlp_AR.linear_1.weight", 2, {4, 4}}};
  for (int m = 0; m < N_NAMES; m++) {
    struct ommai_gguf_model *model = open_model(m);
    struct ommai_checkpoint *checkpoint;
    struct omma_error error;
    assert_ok(ommai_gguf_model_checkpoint(model, &checkpoint, &error), &error);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
      const struct ommai_tensor *tensor;
      if (expected[i].model != m) continue;
      assert_ok(ommai_checkpoint_require(checkpoint, expected[i].name, expected[i].n_dims, expected[i].shape, &tensor, &error),
                &error);
      ommai_checkpoint_release(checkpoint, tensor);
    }
    assert_null(ommai_checkpoint_find(checkpoint, "blk.1.attn_v_b.weight"));
    assert_null(ommai_checkpoint_find(checkpoint, "v.patch_embd.weight.1"));
    ommai_checkpoint_close(checkpoint);
    ommai_gguf_model_close(model);
  }
}

static void expect_values(const struct ommai_tensor *tensor, int64_t at, const struct ommai_gguf_tensor *from,
                          int64_t from_at) {
  float ours, theirs;
  const struct ommai_gguf_rows rows = {from->format, from->data, from->shape[from->n_dims - 1]};
  assert_true(ommai_tensor_to_f32(tensor, at, 1, &ours));
  ommai_gguf_row_values(&rows, from_at / rows.n_in, from_at % rows.n_in, 1, &theirs);
  assert_true(ours == theirs);
}

/* Both images of a pair side by side: [h, c, 2, p, p] from two of [h, c, p, p]. */
static void patches_are_joined(void **state) {
  (void)state;
  enum { PLANE = 4 * 4 };
  struct ommai_gguf_model *model = open_model(0);
  struct ommai_gguf *file;
  struct ommai_checkpoint *checkpoint;
  struct omma_error error;
  assert_ok(ommai_gguf_model_checkpoint(model, &checkpoint, &error), &error);
  assert_ok(ommai_gguf_open(mmproj_paths[0], memory, &file, &error), &error);
  const struct ommai_tensor *joined = ommai_checkpoint_find(checkpoint, "model.visual.patch_embed.proj.weight");
  const struct ommai_gguf_tensor *halves[2] = {ommai_gguf_find(file, "v.patch_embd.weight"),
                                               ommai_gguf_find(file, "v.patch_embd.weight.1")};
  for (int64_t i = 0; i < joined->n_elements; i++) {
    int64_t plane = i / PLANE;
    expect_values(joined, i, halves[plane % 2], plane / 2 * PLANE + i % PLANE);
  }
  ommai_gguf_close(file);
  ommai_checkpoint_close(checkpoint);
  ommai_gguf_model_close(model);
}

/* The file has value head s of key head k at place s * n_key_heads + k; norms with 1 added; rates
 * for the decays' logarithms. */
static void gated_delta_nets_are_put_back(void **state) {
  (void)state;
  enum { KEY_HEADS = 2, SHARED = 2, QUERIES = 2 * KEY_HEADS * 10, DIM = 9, HEADS = KEY_HEADS * SHARED };
  struct ommai_gguf_model *model = open_model(5);
  struct ommai_gguf *file;
  struct ommai_checkpoint *checkpoint;
  struct omma_error error;
  assert_ok(ommai_gguf_model_checkpoint(model, &checkpoint, &error), &error);
  assert_ok(ommai_gguf_open(model_paths[5], memory, &file, &error), &error);
  const struct ommai_tensor *qkv = ommai_checkpoint_find(checkpoint, "model.layers.0.linear_attn.in_proj_qkv.weight"),
                            *out = ommai_checkpoint_find(checkpoint, "model.layers.0.linear_attn.out_proj.weight"),
                            *decays = ommai_checkpoint_find(checkpoint, "model.layers.0.linear_attn.A_log"),
                            *norm = ommai_checkpoint_find(checkpoint, "model.norm.weight");
  for (int64_t i = 0; i < QUERIES + HEADS * DIM; i++) {
    int64_t head = (i - QUERIES) / DIM, place = head % SHARED * KEY_HEADS + head / SHARED;
    int64_t from = i < QUERIES ? i : QUERIES + place * DIM + (i - QUERIES) % DIM;
    for (int64_t j = 0; j < 4; j++) expect_values(qkv, i * 4 + j, ommai_gguf_find(file, "blk.0.attn_qkv.weight"), from * 4 + j);
    if (i < QUERIES) continue;
    expect_values(out, HEADS * DIM + i - QUERIES, ommai_gguf_find(file, "blk.0.ssm_out.weight"), HEADS * DIM + from - QUERIES);
    float ours, theirs;
    assert_true(ommai_tensor_to_f32(decays, head, 1, &ours));
    memcpy(&theirs, ommai_gguf_find(file, "blk.0.ssm_a")->data + 4 * place, sizeof theirs);
    assert_true(fabsf(expf(ours) + theirs) <= 1e-6f * -theirs);
  }
  float ours, theirs;
  assert_true(ommai_tensor_to_f32(norm, 3, 1, &ours));
  memcpy(&theirs, ommai_gguf_find(file, "output_norm.weight")->data + 12, sizeof theirs);
  assert_true(ours + 1 == theirs);
  ommai_gguf_close(file);
  ommai_checkpoint_close(checkpoint);
  ommai_gguf_model_close(model);
}

/* Rows of a head that rotate together: side by side in one of checkpoint and file, in halves in the
 * other. */
static void expect_rotated(int m, const char *path, const char *shown, const char *stored, int64_t head_dim, bool pairs) {
  struct ommai_gguf_model *model = open_model(m);
  struct ommai_gguf *file;
  struct ommai_checkpoint *checkpoint;
  struct omma_error error;
  assert_ok(ommai_gguf_model_checkpoint(model, &checkpoint, &error), &error);
  assert_ok(ommai_gguf_open(path, memory, &file, &error), &error);
  const struct ommai_tensor *rows = ommai_checkpoint_find(checkpoint, shown);
  for (int64_t i = 0; i < rows->shape[0]; i++) {
    int64_t at = i % head_dim, half = head_dim / 2;
    int64_t from = i - at + (pairs ? at % 2 * half + at / 2 : at % half * 2 + at / half);
    for (int64_t j = 0; j < 4; j++) expect_values(rows, i * 4 + j, ommai_gguf_find(file, stored), from * 4 + j);
  }
  ommai_gguf_close(file);
  ommai_checkpoint_close(checkpoint);
  ommai_gguf_model_close(model);
}

static void rotated_rows_are_put_back(void **state) {
  (void)state;
  expect_rotated(6, model_paths[6], "model.layers.1.self_attn.q_proj.weight", "blk.1.attn_q.weight", 16, true);
  expect_rotated(6, model_paths[6], "model.layers.2.self_attn.k_proj.weight", "blk.2.attn_k.weight", 16, true);
  expect_rotated(7, mmproj_paths[7], "model.vision_encoder.transformer.layers.1.attention.q_proj.weight",
                 "v.blk.1.attn_q.weight", 20, false);
}

/* Of each head the keys' rows, which lie transposed, then the values' rows. */
static void keys_and_values_are_joined(void **state) {
  (void)state;
  enum { HEADS = 4, RANK = 4, KEYS = 4, VALUES = 4 };
  struct ommai_gguf_model *model = open_model(3);
  struct ommai_gguf *file;
  struct ommai_checkpoint *checkpoint;
  struct omma_error error;
  assert_ok(ommai_gguf_model_checkpoint(model, &checkpoint, &error), &error);
  assert_ok(ommai_gguf_open(model_paths[3], memory, &file, &error), &error);
  const struct ommai_tensor *joined =
      ommai_checkpoint_find(checkpoint, "language_model.model.layers.1.self_attn.kv_b_proj.weight");
  const struct ommai_gguf_tensor *keys = ommai_gguf_find(file, "blk.1.attn_k_b.weight"),
                                 *values = ommai_gguf_find(file, "blk.1.attn_v_b.weight");
  for (int64_t head = 0; head < HEADS; head++) {
    for (int64_t i = 0; i < RANK; i++) {
      for (int64_t row = 0; row < KEYS; row++) {
        expect_values(joined, (head * (KEYS + VALUES) + row) * RANK + i, keys, (head * RANK + i) * KEYS + row);
      }
      for (int64_t row = 0; row < VALUES; row++) {
        expect_values(joined, (head * (KEYS + VALUES) + KEYS + row) * RANK + i, values, (head * VALUES + row) * RANK + i);
      }
    }
  }
  ommai_gguf_close(file);
  ommai_checkpoint_close(checkpoint);
  ommai_gguf_model_close(model);
}

/* ---- files ---- */

static void paths_are_distinguished(void **state) {
  (void)state;
  char empty[TEST_PATH_SIZE], golden[1024];
  test_folder_create(empty);
  golden_path("kimi_vl", NULL, golden, sizeof golden);
  assert_true(ommai_gguf_files_meant(model_paths[0]));
  assert_true(ommai_gguf_files_meant(folder));
  assert_false(ommai_gguf_files_meant(empty));
  assert_false(ommai_gguf_files_meant(golden));
  assert_false(ommai_gguf_files_meant("/nowhere/at/all"));
  test_folder_remove(empty);
}

static void expect_refused(const char *path, const char *mmproj, enum omma_status expected, const char *part) {
  struct ommai_gguf_model *model = NULL;
  struct omma_error error;
  assert_fails(ommai_gguf_model_open(path, mmproj, memory, &model, &error), expected, part, &error);
  assert_null(model);
}

static void wrong_files_are_named(void **state) {
  (void)state;
  expect_refused(model_paths[0], NULL, OMMA_ERROR_ARGUMENT, "give it with --mmproj");
  expect_refused(mmproj_paths[0], NULL, OMMA_ERROR_ARGUMENT, "it goes to --mmproj");
  expect_refused(model_paths[0], model_paths[1], OMMA_ERROR_ARGUMENT, "no vision tower");
  expect_refused(model_paths[0], mmproj_paths[1], OMMA_ERROR_UNSUPPORTED, "\"qwen3vl\" with projector \"qwen2.5vl_merger\"");
  expect_refused(folder, NULL, OMMA_ERROR_ARGUMENT, "more than one");
  expect_refused("/nowhere/at/all", NULL, OMMA_ERROR_IO, "/nowhere/at/all");
}

/* With ranks, and with scores. */
static int opened = 3;

static enum omma_status open_with(const struct omma_allocator *allocator, struct omma_error *error) {
  struct ommai_gguf_model *model = NULL;
  struct ommai_checkpoint *checkpoint = NULL;
  struct ommai_tokenizer *tokenizer = NULL;
  enum omma_status status = ommai_gguf_model_open(model_paths[opened], mmproj_paths[opened], allocator, &model, error);
  if (status == OMMA_OK) status = ommai_gguf_model_checkpoint(model, &checkpoint, error);
  if (status == OMMA_OK) status = ommai_gguf_model_tokenizer(model, &tokenizer, error);
  ommai_tokenizer_destroy(tokenizer);
  ommai_checkpoint_close(checkpoint);
  ommai_gguf_model_close(model);
  return status;
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  for (opened = 3; opened <= 9; opened += 6) test_fail_every_allocation(open_with, 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(configurations_are_those_of_the_checkpoints),
      cmocka_unit_test(chat_templates_are_those_of_the_checkpoints),
      cmocka_unit_test(tokens_are_those_of_the_checkpoints),
      cmocka_unit_test(names_are_those_of_the_checkpoints),
      cmocka_unit_test(patches_are_joined),
      cmocka_unit_test(gated_delta_nets_are_put_back),
      cmocka_unit_test(rotated_rows_are_put_back),
      cmocka_unit_test(keys_and_values_are_joined),
      cmocka_unit_test(paths_are_distinguished),
      cmocka_unit_test(wrong_files_are_named),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, write_models, remove_models);
}
