/* Three images of different size in one call of the operator. Build against an installed library:
 *   cc -std=c11 attention.c $(pkg-config --cflags --libs libomma-attention) -o attention */
#include <omma/attention.h>
#include <omma/team.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 16, DIM = 72, WIDTH = HEADS * DIM, TOKENS = 1488 };

int main(void) {
  /* [TOKENS, 3, HEADS, DIM], [TOKENS, HEADS, DIM] */
  static float qkv[TOKENS * 3 * WIDTH], out[TOKENS * WIDTH];
  for (int i = 0; i < TOKENS * 3 * WIDTH; i++) qkv[i] = (float)(i * 7919LL % 2003) / 1000.0f - 1.0f;
  const int32_t borders[] = {0, 1024, 1088, TOKENS};
  const struct omma_attention_spec spec = {
      .dtype = OMMA_F32, .n_heads = HEADS, .head_dim = DIM, .n_tokens = TOKENS, .n_segments = 3, .cu_seqlens = borders};
  struct omma_attention_tensors tensors = {.q = qkv, .k = qkv + WIDTH, .v = qkv + 2 * WIDTH, .out = out};
  tensors.q_token_stride = tensors.k_token_stride = tensors.v_token_stride = 3 * WIDTH;
  struct omma_error error;
  struct omma_attention_context *context = NULL;
  struct omma_attention_plan *plan = NULL;
  const struct omma_team *team = NULL;
  void *workspace = NULL;
  enum omma_status status = omma_attention_context_create(NULL, &context, &error);
  if (!status) status = omma_attention_plan_create(context, &spec, &plan, &error);
  if (!status) status = omma_team_create(omma_team_cpu_count(), true, NULL, &team, &error);
  if (!status) {
    size_t size = (omma_attention_plan_workspace_size(plan, team->n_workers) + 63) / 64 * 64;
    workspace = aligned_alloc(64, size);
    status = omma_attention_run(plan, &tensors, workspace, size, team, &error);
  }
  if (!status) printf("%s, workers: %d, out[0] = %.4f\n", omma_attention_context_isa(context), team->n_workers, (double)out[0]);
  if (status) fprintf(stderr, "%s\n", error.message);
  free(workspace);
  omma_team_destroy(team);
  omma_attention_plan_destroy(plan);
  omma_attention_context_destroy(context);
  return status != OMMA_OK;
}
