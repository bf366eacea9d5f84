/* Three pictures of different size in one call of the operator. Build against an installed library:
 *
 *   cc -std=c11 attention.c $(pkg-config --cflags --libs libomma-attention) -o attention */
#include <omma/attention.h>
#include <omma/team.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 16, HEAD_DIM = 72, ROW = 3 * HEADS * HEAD_DIM, TOKENS = 1488 };

int main(void) {
  static float qkv[TOKENS * ROW], out[TOKENS * HEADS * HEAD_DIM]; /* [TOKENS, 3, HEADS, HEAD_DIM], [TOKENS, HEADS, HEAD_DIM] */
  for (int i = 0; i < TOKENS * ROW; i++) qkv[i] = (float)(i * 7919LL % 2003) / 1000.0f - 1.0f;
  const int32_t cu_seqlens[] = {0, 1024, 1088, TOKENS};

  struct omma_error error;
  struct omma_attention_context *context = NULL;
  struct omma_attention_plan *plan = NULL;
  const struct omma_team *team = NULL;
  const struct omma_attention_spec spec = {
      .dtype = OMMA_F32, .n_heads = HEADS, .head_dim = HEAD_DIM, .n_tokens = TOKENS, .n_segments = 3, .cu_seqlens = cu_seqlens};
  if (omma_attention_context_create(NULL, &context, &error) || omma_attention_plan_create(context, &spec, &plan, &error) ||
      omma_team_create(omma_team_cpu_count(), true, NULL, &team, &error)) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }

  size_t size = (omma_attention_plan_workspace_size(plan, team->n_workers) + 63) / 64 * 64;
  void *workspace = aligned_alloc(64, size);
  const struct omma_attention_tensors tensors = {.q = qkv,
                                                 .k = qkv + HEADS * HEAD_DIM,
                                                 .v = qkv + 2 * HEADS * HEAD_DIM,
                                                 .out = out,
                                                 .q_token_stride = ROW,
                                                 .k_token_stride = ROW,
                                                 .v_token_stride = ROW};
  enum omma_status status = omma_attention_run(plan, &tensors, workspace, size, team, &error);
  if (status == OMMA_OK) {
    printf("%s, %d workers, out[0] = %.4f\n", omma_attention_context_isa(context), team->n_workers, (double)out[0]);
  } else {
    fprintf(stderr, "%s\n", error.message);
  }

  free(workspace);
  omma_team_destroy(team);
  omma_attention_plan_destroy(plan);
  omma_attention_context_destroy(context);
  return status != OMMA_OK;
}
