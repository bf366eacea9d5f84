#include "engine/policy.h"

#include "base/checked.h"

/* Of the time between two steps of the streams, what is for others. */
static int64_t others_share(const struct ommai_load *load) {
  int64_t own = load->n_streams && load->own_step_ns ? load->own_step_ns : load->step_ns;
  return ommai_max_i64(own * load->percent / (100 - load->percent), OMMAI_MIN_SLICE_NS);
}

static int64_t row_share(const struct ommai_load *load) {
  return ommai_max_i64(ommai_max_i64(load->row_ns, load->own_step_ns / OMMAI_FREE_ROWS), 1);
}

int64_t ommai_choose_carried(const struct ommai_load *load) {
  if (!load->n_streams) return load->n_patient;
  if (!load->own_step_ns || load->measure_own) return 0;
  int64_t room = others_share(load) / (load->prefill || load->encode ? 2 : 1);
  return ommai_min_i64(load->n_patient, ommai_max_i64(room / row_share(load), 1));
}

/* What the rows of whole answers in the next step leave of it, or the last step where it was
 * longer; a quarter at least. */
static int64_t slice_share(const struct ommai_load *load) {
  int64_t share = others_share(load), taken = 0;
  if (load->n_streams) taken = ommai_choose_carried(load) * row_share(load);
  if (load->n_streams && load->own_step_ns) taken = ommai_max_i64(taken, load->step_ns - load->own_step_ns);
  return ommai_max_i64(share - taken, ommai_max_i64(share / 4, OMMAI_MIN_SLICE_NS));
}

int64_t ommai_learn_own_step(int64_t own_step_ns, int64_t step_ns) {
  return ommai_min_i64(step_ns, own_step_ns + own_step_ns / OMMAI_OWN_STEP_RISE);
}

struct ommai_choice ommai_choose_work(const struct ommai_load *load) {
  bool decode = load->n_streams || load->n_patient, goes_on = load->n_streams || load->n_patient >= OMMAI_FULL_STEP_ROWS;
  struct ommai_choice choice = {.work = decode ? OMMAI_WORK_DECODE : OMMAI_WORK_NONE};
  if (!load->prefill && !load->encode) return choice;
  if (decode && !goes_on && !load->more_rows) return choice;
  int64_t ns = load->slice_ns;
  if (load->prefill && load->encode && load->hurry) ns = ommai_min_i64(ns, OMMAI_SHARED_SLICE_NS);
  if (goes_on) {
    if (load->step_ns == 0) return choice;
    int64_t share = slice_share(load);
    ns = ommai_min_i64(load->slice_ns, share) - load->since_step_ns;
    /* The rest of a slice that ended early is used where it is worth while. */
    if (load->since_step_ns > 0 && (ns < OMMAI_MIN_SLICE_NS || 4 * ns < share)) return choice;
  }
  bool encode = load->encode && !(load->prefill && load->hurry && load->encoded_last);
  return (struct ommai_choice){encode ? OMMAI_WORK_ENCODE : OMMAI_WORK_PREFILL, ns};
}
