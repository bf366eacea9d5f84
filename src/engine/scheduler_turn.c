/* What a turn of the scheduler computes: a slice of the tower or of prompts, or a step of the
 * answers. */
#include <string.h>

#include "base/checked.h"
#include "base/debug.h"
#include "base/error.h"
#include "engine/scheduler.h"

/* Until new requests are looked for while all wait for masks. */
#define LATE_WAIT_NS INT64_C(2000000)
/* Of the steps of streams that carry others' rows, one in this number carries none. */
enum { STEPS_OF_OWN = 32 };

/* ---- slices and steps ---- */

static struct ommai_sequence *first_in(const struct ommai_scheduler *scheduler, enum omma_stage stage) {
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    if (scheduler->live[i]->stage == stage) return scheduler->live[i];
  }
  return NULL;
}

/* Hands a drawn token to its sequence; true when that has ended. */
static bool take_token(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence, const struct ommai_draw *draw) {
  struct omma_error error;
  bool done = false;
  if (ommai_sequence_take_token(sequence, draw, &done, &error) != OMMA_OK) {
    ommai_scheduler_fail(scheduler, sequence, &error);
    return true;
  }
  if (done) ommai_scheduler_finish(scheduler, sequence);
  return done;
}

/* Whether it can have a token in this step. */
static bool decodes(const struct ommai_sequence *sequence) {
  return sequence->stage == OMMA_STAGE_DECODE && !ommai_sequence_sits_out(sequence);
}

/* Whether the answer may wait for others. */
static bool is_patient(const struct ommai_scheduler *scheduler, const struct ommai_sequence *sequence) {
  const struct ommai_engine_sizes *sizes = &scheduler->resources->sizes;
  bool may =
      sizes->scheduling == OMMA_SCHEDULING_AUTO ? sequence->request->whole : sizes->scheduling == OMMA_SCHEDULING_THROUGHPUT;
  return may && sequence->waited_ns < sizes->max_wait_ms * 1000000;
}

/* Who is in the next step: all streams, and as many whole answers as it carries, in order. */
static void choose_rows(struct ommai_scheduler *scheduler) {
  int64_t n_left = ommai_choose_carried(&scheduler->load);
  scheduler->n_carried = 0;
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    struct ommai_sequence *sequence = scheduler->live[i];
    bool patient = is_patient(scheduler, sequence);
    sequence->in_step = decodes(sequence) && (!patient || scheduler->n_carried < n_left);
    scheduler->n_carried += sequence->in_step && patient;
  }
}

/* The sequences of the next step, their pages in place, into the lane's entries; how many. */
static int64_t collect_entries(struct ommai_scheduler *scheduler) {
  int64_t n = 0;
  choose_rows(scheduler);
  for (int64_t i = 0; i < scheduler->n_live; i++) { /* may preempt those after */
    struct ommai_sequence *sequence = scheduler->live[i];
    if (!sequence->in_step || !decodes(sequence)) continue;
    (void)ommai_scheduler_take_pages(scheduler, sequence, (int64_t)sequence->request->n_tokens + sequence->n_generated);
  }
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    struct ommai_sequence *sequence = scheduler->live[i];
    if (sequence->in_step && decodes(sequence)) scheduler->decode.entries[n++].sequence = sequence;
  }
  return n;
}

/* Draws for the entries from `first` to before `end`: a token for every sequence, then for those
 * whose next one was a draft token, and so on. Returns how many tokens. */
static int64_t draw_tokens(struct ommai_scheduler *scheduler, int64_t first, int64_t end) {
  struct ommai_decode_lane *lane = &scheduler->decode;
  struct omma_error error;
  int64_t n_drawn = 1, n_all = 0;
  for (int64_t round = 0; n_drawn > 0; round++) {
    enum omma_status status = ommai_decode_lane_draw(lane, first, end, round, &n_drawn, &error);
    n_all += n_drawn;
    for (int64_t i = 0; i < n_drawn; i++) {
      struct ommai_decode_entry *entry = &lane->entries[lane->drawn[i]];
      bool ended = true;
      if (status == OMMA_OK) {
        ended = take_token(scheduler, entry->sequence, &lane->draws[i]);
      } else {
        ommai_scheduler_fail(scheduler, entry->sequence, &error);
      }
      ommai_decode_lane_close(lane, entry, round, lane->draws[i].token, ended);
    }
  }
  return n_all;
}

/* What a step of streams takes by itself, and each row that it carries. */
static void learn_step(struct ommai_scheduler *scheduler) {
  struct ommai_load *load = &scheduler->load;
  if (!load->n_streams) return;
  if (scheduler->n_carried == 0) {
    bool same = load->own_step_ns && scheduler->own_streams == load->n_streams;
    load->own_step_ns = same ? ommai_learn_own_step(load->own_step_ns, load->step_ns) : load->step_ns;
    load->measure_own = false;
    scheduler->own_streams = load->n_streams;
    scheduler->steps_since_own = 0;
    return;
  }
  int64_t row_ns = ommai_max_i64(load->step_ns - load->own_step_ns, 0) / scheduler->n_carried;
  load->row_ns = load->row_ns ? (3 * load->row_ns + row_ns) / 4 : row_ns;
  load->measure_own = ++scheduler->steps_since_own >= STEPS_OF_OWN;
}

/* Whole answers that were not in the work of the last `took` nanoseconds. */
static void count_wait(struct ommai_scheduler *scheduler, int64_t took) {
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    struct ommai_sequence *sequence = scheduler->live[i];
    if (sequence->stage == OMMA_STAGE_DECODE && !(scheduler->load.n_streams && sequence->in_step)) sequence->waited_ns += took;
  }
}

/* For all that go on. A draft that fails is handled like a step that fails. */
static void draft_next(struct ommai_scheduler *scheduler, int64_t n, int64_t n_tokens, int64_t ns) {
  struct ommai_decode_lane *lane = &scheduler->decode;
  struct omma_error error;
  if (ommai_decode_lane_draft(lane, n, n_tokens, ns, &error) == OMMA_OK) return;
  for (int64_t i = 0; i < n; i++) {
    if (!lane->entries[i].ended) ommai_scheduler_fail(scheduler, lane->entries[i].sequence, &error);
  }
}

static void decode_step(struct ommai_scheduler *scheduler) {
  struct ommai_decode_lane *lane = &scheduler->decode;
  struct omma_engine_stats *stats = &scheduler->resources->stats;
  struct omma_error error;
  int64_t start = ommai_resources_now(scheduler->resources), n_all = collect_entries(scheduler), n_tokens = 0;
  int64_t n = ommai_decode_lane_sort(lane, n_all);
  if (n == 0) {
    ommai_decode_lane_end(lane, n_all);
    return;
  }
  if (n != scheduler->logged_decoding) OMMAI_DEBUG(&scheduler->resources->model->log, "decode: batch of %lld", (long long)n);
  scheduler->logged_decoding = n;
  if (ommai_decode_lane_step(lane, n, &error) != OMMA_OK) {
    for (int64_t i = 0; i < n; i++) ommai_scheduler_fail(scheduler, lane->entries[i].sequence, &error);
    return;
  }
  stats->decode_model_seconds += (double)(ommai_resources_now(scheduler->resources) - start) * 1e-9;
  for (int64_t first = 0, end; first < n; first = end) {
    end = ommai_decode_lane_group(lane, first, n);
    n_tokens += draw_tokens(scheduler, first, end);
  }
  ommai_decode_lane_end(lane, n_all);
  ommai_resources_count_step(scheduler->resources, n_tokens);
  draft_next(scheduler, n, n_tokens, ommai_resources_now(scheduler->resources) - start);
  scheduler->load.step_ns = lane->step_ns = ommai_resources_now(scheduler->resources) - start;
  scheduler->load.since_step_ns = 0;
  learn_step(scheduler);
  if (scheduler->load.n_streams) count_wait(scheduler, scheduler->load.step_ns);
  stats->decode_seconds += (double)scheduler->load.step_ns * 1e-9;
  stats->decode_steps++;
}

/* Sequences whose prompts end in a chunk, and their last rows. */
struct ended {
  struct ommai_sequence *sequences[OMMAI_MAX_CHUNK_PIECES];
  int64_t last_rows[OMMAI_MAX_CHUNK_PIECES], n;
};

static void draw_first(struct ommai_scheduler *scheduler, struct ended *drawn) {
  struct ommai_decode_lane *lane = &scheduler->decode;
  struct omma_error error;
  int64_t n_left = 0;
  enum omma_status status = ommai_decode_lane_first(lane, drawn->sequences, drawn->last_rows, drawn->n, &error);
  for (int64_t i = 0; i < drawn->n; i++) {
    if (status != OMMA_OK) {
      ommai_scheduler_fail(scheduler, drawn->sequences[i], &error);
      continue;
    }
    ommai_sequence_begin_decode(drawn->sequences[i]);
    if (take_token(scheduler, drawn->sequences[i], &lane->draws[i])) continue;
    drawn->sequences[n_left] = drawn->sequences[i];
    drawn->last_rows[n_left++] = drawn->last_rows[i];
  }
  if (ommai_decode_lane_draft_first(lane, drawn->sequences, drawn->last_rows, n_left, &error) == OMMA_OK) return;
  for (int64_t i = 0; i < n_left; i++) ommai_scheduler_fail(scheduler, drawn->sequences[i], &error);
}

/* Ends the sequences whose prompts are over. */
static void read_rows(struct ommai_scheduler *scheduler, const struct ommai_read_rows *rows, int64_t n) {
  struct omma_error error;
  const enum omma_status read = ommai_sequences_read(rows, n, &error);
  for (int64_t i = 0; i < n; i++) {
    bool over = false;
    enum omma_status status = read == OMMA_OK ? ommai_sequence_hand_vectors(rows[i].sequence, &over, &error) : read;
    if (status != OMMA_OK) ommai_scheduler_fail(scheduler, rows[i].sequence, &error);
    if (over) ommai_scheduler_finish(scheduler, rows[i].sequence);
  }
}

/* The chunk's rows are there. After a preemption a sequence has tokens that were drawn before. */
static void end_parts(struct ommai_scheduler *scheduler, int64_t end_ns) {
  struct ommai_prefill_lane *lane = &scheduler->prefill;
  struct ended drawn = {.n = 0};
  struct ommai_read_rows read[OMMAI_MAX_CHUNK_PIECES];
  int64_t n_taken = 0, n_read = 0;
  for (int64_t i = 0; i < lane->n_parts; i++) {
    struct ommai_prefill_part *part = &lane->parts[i];
    struct omma_error error;
    bool done;
    if (!part->sequence) continue;
    enum omma_status status = ommai_prefill_lane_score(part, end_ns, &done, &error);
    if (status != OMMA_OK) ommai_scheduler_fail(scheduler, part->sequence, &error);
    if (status != OMMA_OK || !done) continue;
    struct ommai_sequence *sequence = ommai_prefill_lane_take(lane, part);
    n_taken += part->n_rows;
    int64_t n_tokens = (int64_t)sequence->request->n_tokens;
    ommai_sequence_report(sequence, sequence->n_prefilled, n_tokens);
    bool reads = ommai_sequence_wants_rows(sequence);
    if (reads) read[n_read++] = (struct ommai_read_rows){sequence, part->first_row, part->n_rows};
    if (reads || sequence->n_prefilled < n_tokens || sequence->n_generated) continue;
    drawn.sequences[drawn.n] = sequence;
    drawn.last_rows[drawn.n++] = part->first_row + part->n_rows - 1;
  }
  if (n_taken) ommai_resources_count_step(scheduler->resources, n_taken + drawn.n);
  read_rows(scheduler, read, n_read);
  if (drawn.n) draw_first(scheduler, &drawn);
}

static enum omma_status advance_chunk(struct ommai_scheduler *scheduler, int64_t ns, struct omma_error *error) {
  int64_t end_ns = ommai_resources_now(scheduler->resources) + ns;
  bool done;
  OMMAI_TRY(ommai_prefill_lane_advance(&scheduler->prefill, ns, &done, error));
  if (done) end_parts(scheduler, end_ns);
  return OMMA_OK;
}

/* Everybody in the chunk gets the error. */
static void fail_chunk(struct ommai_scheduler *scheduler, const struct omma_error *error) {
  const struct ommai_prefill_lane *lane = &scheduler->prefill;
  for (int64_t i = 0; i < lane->n_parts; i++) {
    if (lane->parts[i].sequence) ommai_scheduler_fail(scheduler, lane->parts[i].sequence, error);
  }
}

/* After a preemption: tokens that were drawn before, until the sequence stands where it stood. */
static enum omma_status replay(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence, struct omma_error *error) {
  int64_t n = ommai_decode_lane_replay_count(sequence);
  if (n && !ommai_scheduler_take_pages(scheduler, sequence, (int64_t)sequence->request->n_tokens + sequence->n_decoded + n))
    return OMMA_OK;
  if (n) OMMAI_TRY(ommai_decode_lane_replay(&scheduler->decode, sequence, error));
  if (ommai_decode_lane_replay_count(sequence) == 0) ommai_sequence_begin_decode(sequence);
  return OMMA_OK;
}

/* The next chunk of the first sequence that waits for its prompt, and of others that fit in. */
static enum omma_status begin_chunk(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence,
                                    struct omma_error *error) {
  ommai_sequence_match(sequence);
  ommai_sequence_take_beginning(sequence);
  if (!ommai_scheduler_take_pages(scheduler, sequence, ommai_prefill_lane_end(&scheduler->prefill, sequence))) return OMMA_OK;
  return ommai_prefill_lane_begin(&scheduler->prefill, sequence, scheduler->live, scheduler->n_live, scheduler->load.hurry,
                                  error);
}

/* Of a request to encode: the images are through the tower, and that is all. */
static void hand_over(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence) {
  struct omma_error error;
  if (ommai_sequence_hand_embeddings(sequence, &error) == OMMA_OK) {
    ommai_scheduler_finish(scheduler, sequence);
  } else {
    ommai_scheduler_fail(scheduler, sequence, &error);
  }
}

/* What a sequence in stage PREFILL waits for where no chunk is in progress: its images alone,
 * tokens that it lost, or its prompt. */
static enum omma_status begin_prefill(struct ommai_scheduler *scheduler, struct ommai_sequence *sequence,
                                      struct omma_error *error) {
  if (sequence->request->kind == OMMA_REQUEST_ENCODE) {
    hand_over(scheduler, sequence);
    return OMMA_OK;
  }
  if (sequence->n_prefilled < (int64_t)sequence->request->n_tokens) return begin_chunk(scheduler, sequence, error);
  if (replay(scheduler, sequence, error) != OMMA_OK) ommai_scheduler_fail(scheduler, sequence, error);
  return OMMA_OK;
}

/* Goes on with a chunk, or begins one. It ends with the chunk at the latest, so that cancellations
 * are seen. */
static void prefill_slice(struct ommai_scheduler *scheduler, int64_t ns) {
  struct ommai_prefill_lane *lane = &scheduler->prefill;
  struct omma_error error;
  enum omma_status status = OMMA_OK;
  if (!lane->n_parts) status = begin_prefill(scheduler, first_in(scheduler, OMMA_STAGE_PREFILL), &error);
  if (status == OMMA_OK && lane->n_parts) status = advance_chunk(scheduler, ns, &error);
  if (status != OMMA_OK) fail_chunk(scheduler, &error);
}

/* What the pass in progress is for gets the error, the rest of the engine goes on. */
static void fail_pass(struct ommai_scheduler *scheduler, enum omma_status status, const struct omma_error *error) {
  struct ommai_encode_lane *lane = &scheduler->encode;
  if (lane->running_call) {
    scheduler->events.finish_encode(scheduler->events.context, ommai_encode_lane_take_call(lane), status, error);
    return;
  }
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    scheduler->live[i]->fails = ommai_encode_lane_serves(lane, scheduler->live[i]);
  }
  ommai_encode_lane_end(lane, false);
  for (int64_t i = scheduler->n_live; i-- > 0;) {
    if (scheduler->live[i]->fails) ommai_scheduler_fail(scheduler, scheduler->live[i], error);
  }
}

static void report_pass(const struct ommai_scheduler *scheduler) {
  const struct ommai_encode_lane *lane = &scheduler->encode;
  const struct ommai_encode_call *call = lane->running_call;
  int64_t done, total;
  ommai_encode_lane_progress(lane, &done, &total);
  if (call && call->progress) call->progress(call->progress_context, done, total);
  for (int64_t i = 0; i < scheduler->n_live && !call; i++) {
    if (ommai_encode_lane_serves(lane, scheduler->live[i])) ommai_sequence_report(scheduler->live[i], done, total);
  }
}

static void end_pass(struct ommai_scheduler *scheduler) {
  struct ommai_encode_lane *lane = &scheduler->encode;
  struct ommai_encode_call *call = lane->running_call;
  ommai_encode_lane_end(lane, true);
  if (call && call->first == call->n_images) {
    scheduler->events.finish_encode(scheduler->events.context, ommai_encode_lane_take_call(lane), OMMA_OK, NULL);
  }
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    if (scheduler->live[i]->stage == OMMA_STAGE_ENCODE) ommai_sequence_end_pass(scheduler->live[i]);
  }
  ommai_scheduler_enter_waiting(scheduler);
}

static void encode_slice(struct ommai_scheduler *scheduler, int64_t ns) {
  struct ommai_encode_lane *lane = &scheduler->encode;
  struct omma_error error;
  bool done = false;
  enum omma_status status = OMMA_OK;
  if (!lane->running) {
    status = ommai_encode_lane_begin(lane, scheduler->live, scheduler->n_live, scheduler->load.hurry, &error);
  }
  if (status == OMMA_OK) status = ommai_encode_lane_advance(lane, ns, &done, &error);
  if (status != OMMA_OK) {
    fail_pass(scheduler, status, &error);
    return;
  }
  report_pass(scheduler);
  if (done) end_pass(scheduler);
}

/* ---- turns ---- */

bool ommai_scheduler_has_work(const struct ommai_scheduler *scheduler) {
  return scheduler->n_live > 0 || scheduler->encode.running || scheduler->encode.calls;
}

/* Who waits for images without a slot to go on to. */
static void mark_ahead(struct ommai_scheduler *scheduler) {
  int64_t n_free = 0;
  for (int64_t i = 0; i < scheduler->resources->sizes.limits.max_sequences; i++) n_free += !scheduler->slot_used[i];
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    struct ommai_sequence *sequence = scheduler->live[i];
    bool needs = sequence->slot < 0 && sequence->request->kind != OMMA_REQUEST_ENCODE;
    sequence->ahead = needs && sequence->stage == OMMA_STAGE_ENCODE && n_free <= 0;
    n_free -= needs;
  }
}

static void count_waiting(struct ommai_scheduler *scheduler) {
  struct ommai_load *load = &scheduler->load;
  bool ahead = false;
  load->n_streams = load->n_patient = 0;
  load->prefill = load->more_rows = false;
  load->encode = load->hurry = scheduler->encode.running_call || scheduler->encode.calls;
  for (int64_t i = 0; i < scheduler->n_live; i++) {
    const struct ommai_sequence *sequence = scheduler->live[i];
    bool patient = is_patient(scheduler, sequence);
    if (sequence->stage == OMMA_STAGE_DECODE) {
      if (!decodes(sequence)) continue;
      *(patient ? &load->n_patient : &load->n_streams) += 1;
    } else if (sequence->ahead) {
      ahead = true;
    } else if (sequence->stage != OMMA_STAGE_QUEUED) {
      *(sequence->stage == OMMA_STAGE_PREFILL ? &load->prefill : &load->encode) = true;
      load->more_rows = true;
      load->hurry |= !patient;
    }
  }
  load->encode |= scheduler->encode.running || (ahead && !load->prefill);
  load->measure_own |= load->n_streams != scheduler->own_streams;
}

/* Late masks that are made; one that is too hard ends its request. Others belong to their worker:
 * nothing of theirs is looked at. */
static void take_back_masks(struct ommai_scheduler *scheduler) {
  struct omma_error error;
  ommai_mask_worker_reap(&scheduler->decode.mask_worker);
  for (int64_t i = scheduler->n_live; i-- > 0;) {
    struct ommai_sequence *sequence = scheduler->live[i];
    if (ommai_sequence_sits_out(sequence) || !sequence->matcher.too_hard) continue;
    ommai_fail_field(
        &error, OMMA_ERROR_LIMIT, "structured_outputs",
        "after %lld tokens it takes too much work to find those that the grammar allows: use smaller bounds, fewer "
        "alternatives",
        (long long)sequence->n_generated);
    ommai_scheduler_fail(scheduler, sequence, &error);
  }
}

void ommai_scheduler_turn(struct ommai_scheduler *scheduler) {
  struct ommai_load *load = &scheduler->load;
  take_back_masks(scheduler);
  ommai_scheduler_enter_waiting(scheduler);
  mark_ahead(scheduler);
  count_waiting(scheduler);
  struct ommai_choice choice = ommai_choose_work(load);
  int64_t start = ommai_resources_now(scheduler->resources);
  switch (choice.work) {
    case OMMAI_WORK_NONE: ommai_mask_worker_wait_late(&scheduler->decode.mask_worker, LATE_WAIT_NS); return;
    case OMMAI_WORK_DECODE: decode_step(scheduler); return;
    case OMMAI_WORK_PREFILL: prefill_slice(scheduler, choice.ns); break;
    case OMMAI_WORK_ENCODE: encode_slice(scheduler, choice.ns); break;
  }
  load->encoded_last = choice.work == OMMAI_WORK_ENCODE;
  int64_t took = ommai_resources_now(scheduler->resources) - start;
  load->since_step_ns += took;
  count_wait(scheduler, took);
}
