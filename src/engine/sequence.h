/* One request while the engine works on it: images, prompt, answer. State alone; the lanes compute.
 *
 * A sequence holds its images from its admission on, and pages and a slot of the runner from when
 * it enters: its images are through the tower by then. A preempted one has given pages and images
 * back, keeps its tokens and its slot, and enters again. */
#pragma once

#include "engine/answer_text.h"
#include "engine/draft_record.h"
#include "engine/repetition.h"
#include "engine/request_queue.h"
#include "engine/resources.h"
#include "request/grammar_matcher.h"
#include "request/request.h"

struct ommai_sequence {
  struct ommai_resources *resources;
  uint64_t id;
  int64_t slot; /* of the runner; -1: it has none yet */
  int64_t priority;
  const struct omma_request *request;
  struct omma_callbacks callbacks;
  enum omma_stage stage; /* QUEUED: it waits for a slot or pages, and for no image */
  int64_t stage_started; /* by the runner's clock */

  /* [n_images] the tower's outputs, a user of each, and their rows; NULL where not needed */
  struct ommai_encoded_image **encoded;
  struct ommai_image_rows **image_rows;
  struct ommai_held_state state;
  int64_t n_prefilled; /* prompt tokens whose keys and values are in the pages */
  int64_t n_reached;   /* the maximum of n_prefilled so far; a preemption sets that to 0 */
  int64_t n_decoded;   /* generated tokens whose keys and values are in the pages */
  int64_t n_to_keep;   /* tokens of a beginning that others may share (beginnings.h); 0: none */
  bool began;          /* such a beginning was looked for */
  int64_t head_end;    /* where the draft head goes on: it has seen all positions before */
  int64_t n_scored;    /* prompt tokens after the first whose log-probabilities the client has */
  bool fails;          /* the pass that its images were in has failed */
  bool ahead;          /* its images are encoded ahead: no slot is free for it */
  bool in_step;        /* of the last decode step's rows, one was its own */
  int64_t waited_ns;   /* in stage DECODE, while others went on */

  int32_t *generated; /* [max_generated] */
  int64_t n_generated, max_generated;
  struct ommai_repetition repetition; /* of `generated` */
  struct ommai_draft_record draft, forced;
  struct ommai_head_draft head_draft;
  uint32_t *mask; /* [mask_words] of the next token, where the request can need one; else NULL */
  struct ommai_answer_text answer;
  struct ommai_grammar_matcher matcher;
  void *read;          /* of a vector or score, what is read off its prompt; else NULL */
  int64_t n_reasoning; /* tokens of `generated` that stand before what the grammar is for */
  struct omma_result result;
};

/* Prepares a sequence for a request, without a slot. Errors: MEMORY; free it in any case. */
enum omma_status ommai_sequence_start(struct ommai_sequence *sequence, struct ommai_resources *resources,
                                      const struct ommai_queued_request *queued, struct omma_error *error);
void ommai_sequence_free(struct ommai_sequence *sequence);

/* Takes the images whose rows are not in pages that earlier prompts have left. Where some are not
 * encoded yet, the stage becomes ENCODE. Errors: MEMORY. */
enum omma_status ommai_sequence_take_images(struct ommai_sequence *sequence, struct omma_error *error);
/* Takes the free slot, and what answers need memory for besides images. Errors: MEMORY. */
enum omma_status ommai_sequence_take_slot(struct ommai_sequence *sequence, int64_t slot, struct omma_error *error);
/* Takes the pages that earlier prompts have left: the stage becomes PREFILL. Its images have just
 * been taken, and none is missing. */
void ommai_sequence_enter(struct ommai_sequence *sequence);
/* Gives pages and images back; the stage becomes QUEUED. */
void ommai_sequence_leave(struct ommai_sequence *sequence);

/* Of one in stage ENCODE: a pass has ended. Where all its images are there, it may enter, and one
 * that is only encoded has ended. */
void ommai_sequence_end_pass(struct ommai_sequence *sequence);
/* The prompt is computed: images are given back, the stage becomes DECODE. */
void ommai_sequence_begin_decode(struct ommai_sequence *sequence);

/* Takes the pages that n_positions still need; false where there are not enough. */
bool ommai_sequence_take_pages(struct ommai_sequence *sequence, int64_t n_positions);
/* Whether the sequence may take over pages of earlier prompts. */
bool ommai_sequence_may_match(const struct ommai_sequence *sequence);
/* Takes over pages that were published since; before a chunk, at a page's border. */
void ommai_sequence_match(struct ommai_sequence *sequence);
/* Copies the keys and values of the prompt's beginning, less than a page, if an earlier prompt left
 * them; before the first chunk. */
void ommai_sequence_take_beginning(struct ommai_sequence *sequence);
/* begin_chunk: a chunk up to `end` begins, whose pages are in place. publish: the chunk is
 * computed; publishes the pages that are full now. */
void ommai_sequence_begin_chunk(struct ommai_sequence *sequence, int64_t end);
void ommai_sequence_publish(struct ommai_sequence *sequence, int64_t n_prefilled);

/* Of a step's n_drafted tokens after the last one, the first n_right were right: the state stands
 * after all of them, or before them, and those that were right are computed again. */
void ommai_sequence_settle_drafts(struct ommai_sequence *sequence, int64_t n_drafted, int64_t n_right);

/* Positions that an admitted sequence of this request is expected to need: the prompt, and of the
 * answer what is asked for, at most sizes->reserve_tokens. None where images are encoded alone. */
int64_t ommai_request_goal(const struct omma_request *request, const struct ommai_engine_sizes *sizes);
/* The same for one that runs, with up to 64 tokens more than it has. */
int64_t ommai_sequence_goal(const struct ommai_sequence *sequence);

/* Whether the next token belongs to what the request's grammar is for. */
bool ommai_sequence_follows_grammar(const struct ommai_sequence *sequence);
/* Whether the second thread of the mask worker has its grammar, so that it cannot go on. */
bool ommai_sequence_sits_out(const struct ommai_sequence *sequence);
/* Whether the mask of its next token is there, or none is needed. */
bool ommai_sequence_can_draw(const struct ommai_sequence *sequence);

/* The draw of the next token from a row. banned: room for OMMAI_SEQUENCE_MAX_BANNED ids. */
enum { OMMAI_SEQUENCE_MAX_BANNED = OMMAI_MAX_STOP_TOKENS + OMMAI_REQUEST_MAX_STOP_TOKENS + OMMA_MAX_BAD_WORDS };
struct ommai_draw ommai_sequence_draw(struct ommai_sequence *sequence, int64_t row, int32_t *banned);

/* Takes a drawn token: notifies the client, and sees whether the answer ends. Errors: FORMAT
 * (logits that are not finite), ARGUMENT (the grammar can go on with no token, or the request's
 * rules leave none). */
enum omma_status ommai_sequence_take_token(struct ommai_sequence *sequence, const struct ommai_draw *draw, bool *done,
                                           struct omma_error *error);

/* Whether prompt tokens of the sequence are still to be scored; then none of its rows may come from
 * the pages of earlier prompts. */
bool ommai_sequence_wants_scores(const struct ommai_sequence *sequence);

/* A sequence's rows of a chunk that is done. */
struct ommai_read_rows {
  struct ommai_sequence *sequence;
  int64_t first_row, n_rows;
};
/* Of requests for vectors and scores. wants_rows: whether rows of the prompt are to be read (the
 * last one, or all). read: reads them (n may be 0; errors: MEMORY). hand_vectors: hands over the
 * result once the prompt is complete, which sets *over (errors: FORMAT). */
bool ommai_sequence_wants_rows(const struct ommai_sequence *sequence);
enum omma_status ommai_sequences_read(const struct ommai_read_rows *rows, int64_t n, struct omma_error *error);
enum omma_status ommai_sequence_hand_vectors(struct ommai_sequence *sequence, bool *over, struct omma_error *error);

/* Hands a request to encode the rows of its images. Errors: MEMORY. */
enum omma_status ommai_sequence_hand_embeddings(struct ommai_sequence *sequence, struct omma_error *error);

/* FORMAT: the model computes what is not a number. */
enum omma_status ommai_sequence_fail_not_finite(const struct ommai_sequence *sequence, struct omma_error *error);

/* Traces how it ended. */
void ommai_sequence_log_end(const struct ommai_sequence *sequence);

/* Calls on_progress. */
void ommai_sequence_report(const struct ommai_sequence *sequence, int64_t done, int64_t total);
/* Books the time since the stage began or was last booked. */
void ommai_sequence_book_time(struct ommai_sequence *sequence);
