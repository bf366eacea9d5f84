/* omma_model_verify: every tensor of a checkpoint against what the model wants, its values, and the
 * files besides the weights. */
#include <stdio.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"
#include "families/model_config_read.h"
#include "model/model_open.h"

struct check {
  const struct ommai_checkpoint *checkpoint;
  omma_report report;
  void *context;
  bool *wanted; /* by position in the checkpoint */
  int64_t n_wrong;
};

struct further {
  const struct check *check;
  int64_t count;
};

static void report_finding(struct check *check, bool ok, const char *what, const char *details) {
  if (!ok) check->n_wrong++;
  if (check->report) check->report(check->context, ok, what, details);
}

static enum omma_status check_tensor(void *context, const char *name, int n_dims, const int64_t *shape,
                                     struct omma_error *error) {
  struct check *check = context;
  const struct ommai_tensor *tensor;
  struct omma_error wrong;
  (void)error;
  int64_t position = ommai_checkpoint_position(check->checkpoint, name);
  /* A head that is tied to the embedding asks for the same tensor again. */
  if (position >= 0 && check->wanted[position]) return OMMA_OK;
  if (position >= 0) check->wanted[position] = true;
  if (ommai_checkpoint_require(check->checkpoint, name, n_dims, shape, &tensor, &wrong) != OMMA_OK) {
    report_finding(check, false, name, wrong.message);
    return OMMA_OK;
  }
  int64_t broken = ommai_tensor_count_nonfinite(tensor);
  ommai_checkpoint_release(check->checkpoint, tensor);
  if (broken) {
    char details[80];
    snprintf(details, sizeof details, "%lld values are NaN or infinite", (long long)broken);
    report_finding(check, false, name, details);
  }
  return OMMA_OK;
}

/* Counts what the checkpoint has of the tensors that nothing has asked for. */
static enum omma_status count_further(void *context, const char *name, int n_dims, const int64_t *shape,
                                      struct omma_error *error) {
  struct further *further = context;
  int64_t position = ommai_checkpoint_position(further->check->checkpoint, name);
  (void)n_dims;
  (void)shape;
  (void)error;
  if (position >= 0 && !further->check->wanted[position]) further->count++;
  return OMMA_OK;
}

/* A draft head is loaded for who asks for it, and many checkpoints leave it out: where there is a
 * part of one, all of it is looked at. */
static enum omma_status check_draft_head(struct check *check, const struct omma_model *model, struct omma_error *error) {
  struct ommai_network network = model->network;
  struct ommai_model_config *config = ommai_allocate(&model->allocator, 1, sizeof *config);
  struct ommai_weight_loader loader;
  struct further further = {.check = check};
  struct omma_error refused;
  enum omma_status status = OMMA_OK;
  if (!config) return ommai_fail_memory(error, "verify", sizeof *config);
  *config = *model->network.config;
  network.config = config;
  if (!network.has_decoder || config->text.n_draft_layers || ommai_model_config_take_draft_head(config, &refused) != OMMA_OK) {
    goto done;
  }
  OMMAI_TRY_GOTO(ommai_network_describe(&network, check->checkpoint, count_further, &further, &loader, error), done);
  if (!further.count) goto done;
  OMMAI_TRY_GOTO(ommai_network_describe(&network, check->checkpoint, check_tensor, check, &loader, error), done);
done:
  ommai_release(&model->allocator, config, 1, sizeof *config);
  return status;
}

/* Files that a model may lack that was opened without its weights. */
static void check_files(struct check *check, const struct omma_model *model) {
  struct omma_error missing;
  if (ommai_model_require_processor(model, &missing) != OMMA_OK)
    report_finding(check, false, "preprocessor_config.json", missing.message);
  if (ommai_model_require_tokenizer(model, &missing) != OMMA_OK)
    report_finding(check, false, "tokenizer.json", missing.message);
}

static void check_unused(struct check *check) {
  int64_t count = ommai_checkpoint_count(check->checkpoint);
  for (int64_t i = 0; i < count; i++) {
    if (!check->wanted[i])
      report_finding(check, false, ommai_checkpoint_at(check->checkpoint, i)->name, "the model has no use for this tensor");
  }
}

enum omma_status omma_model_verify(const struct omma_model *model, omma_report report, void *context,
                                   struct omma_error *error) {
  struct ommai_checkpoint *checkpoint = NULL;
  struct check check = {.report = report, .context = context};
  struct ommai_weight_loader loader;
  size_t count = 0;
  enum omma_status status;
  OMMAI_TRY_GOTO(ommai_model_open_checkpoint(model, &checkpoint, error), done);
  count = (size_t)ommai_checkpoint_count(checkpoint);
  check.checkpoint = checkpoint;
  check.wanted = ommai_allocate(&model->allocator, count, sizeof *check.wanted);
  if (!check.wanted) {
    status = ommai_fail_memory(error, "verify", count);
    goto done;
  }
  check_files(&check, model);
  OMMAI_TRY_GOTO(ommai_network_describe(&model->network, checkpoint, check_tensor, &check, &loader, error), done);
  OMMAI_TRY_GOTO(check_draft_head(&check, model, error), done);
  check_unused(&check);
  if (check.n_wrong) {
    status =
        ommai_fail(error, OMMA_ERROR_FORMAT, "%s: %lld tensors or files are wrong", model->directory, (long long)check.n_wrong);
  } else {
    char details[120];
    snprintf(details, sizeof details, "%zu tensors, %llu bytes, all finite", count,
             (unsigned long long)ommai_checkpoint_total_bytes(checkpoint));
    report_finding(&check, true, model->directory, details);
  }
done:
  ommai_release(&model->allocator, check.wanted, count, sizeof *check.wanted);
  ommai_checkpoint_close(checkpoint);
  return status;
}
