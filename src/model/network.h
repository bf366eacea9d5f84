/* What a checkpoint computes: a vision tower, and a decoder where there is to be one. Every way to
 * open a model goes through read, plan and pack, so that each kind of mistake is found before the
 * next step takes time or memory. Immutable afterwards. */
#pragma once

#include <omma/omma.h>
#include <omma/team.h>

#include "families/family.h"
#include "families/quantization.h"
#include "kernels/cpu.h"
#include "weights/checkpoint.h"

struct ommai_network {
  /* large_allocator: of weights and other things of many pages */
  struct omma_allocator allocator, large_allocator;
  enum ommai_cpu_level level;
  int n_threads; /* of an engine */
  int n_teams;   /* of n_threads each, that compute with it at the same time */
  bool packed;
  bool has_decoder; /* false: the decoder below is a description, without weights */
  bool text_only;   /* the same of the tower; set before anything is read */
  const struct ommai_family *family;
  const struct ommai_model_config *config; /* the owner's */
  bool is_copy;                            /* its quantization is another network's */
  struct ommai_quantization *quantization; /* NULL: no document says that it is quantised */
  const char *declared;                    /* how it is quantised, for people; NULL: not */
  struct omma_attention_context *attention;
  struct ommai_linear_context *linear_context;
  struct ommai_weight_policy policy;
  struct ommai_vision_tower tower;
  struct ommai_decoder decoder;
  struct ommai_linear_spec main_weights; /* how most of the decoder's matrices are kept */
  int64_t n_parameters, n_vision_parameters, weight_bytes;
  int64_t step_weight_bytes;    /* that a generated token reads */
  int64_t linear_scratch_bytes; /* of all threads of all teams; taken with the weights */
};

/* Configuration, CPU level, threads and types. `network` is zeroed; *config is filled and must stay
 * while the network does. encoder_only asks for no decoder; config_only lets the family's published
 * values replace a missing file. Errors: ARGUMENT, IO, FORMAT, UNSUPPORTED, MEMORY; here and below,
 * what was made stays for ommai_network_free. */
enum omma_status ommai_network_read(struct ommai_network *network, const struct ommai_documents *documents,
                                    const struct omma_model_options *options, struct ommai_model_config *config,
                                    struct omma_error *error);

/* Makes a zeroed network that ommai_network_read made like this, up to where it is planned, for
 * another copy of the weights. The two share documents and configuration: the other must stay, and
 * one call at a time may use either. */
void ommai_network_like(const struct ommai_network *other, struct ommai_network *network);

/* Chooses formats and counts parameters and bytes. declared: how the checkpoint is quantised, where
 * no document says it. checkpoint: where it is open already, sizes follow from the types that its
 * tensors have. Either may be NULL. Errors: ARGUMENT, UNSUPPORTED, MEMORY, FORMAT. */
enum omma_status ommai_network_plan(struct ommai_network *network, const struct omma_model_options *options,
                                    const char *declared, const struct ommai_checkpoint *checkpoint, struct omma_error *error);

/* Checks that the checkpoint has every tensor in its shape, counts again by their types, and packs
 * on the team, with options->progress. A decoder reads embedding rows from the checkpoint later, so
 * it stays open as long as the network; without a decoder it may be closed. Errors: FORMAT,
 * MEMORY. */
enum omma_status ommai_network_pack(struct ommai_network *network, struct ommai_checkpoint *checkpoint,
                                    const struct omma_team *team, const struct omma_model_options *options,
                                    struct omma_error *error);

/* Takes zeroed and half-opened networks. */
void ommai_network_free(struct ommai_network *network);

/* Shows every tensor that the network wants to `visit` (NULL: nobody), and counts them into the
 * loader. Where names come in dialects, those that `checkpoint` has; NULL: those of the released
 * files. */
enum omma_status ommai_network_describe(const struct ommai_network *network, const struct ommai_checkpoint *checkpoint,
                                        ommai_tensor_visitor visit, void *context, struct ommai_weight_loader *loader,
                                        struct omma_error *error);
