#include "engine/policy.h"

#include "base/checked.h"

struct ommai_choice ommai_choose_work(const struct ommai_load *load) {
  bool decode = load->n_streams || load->n_patient, goes_on = load->n_streams || load->n_patient >= OMMAI_FULL_STEP_ROWS;
  struct ommai_choice choice = {.work = decode ? OMMAI_WORK_DECODE : OMMAI_WORK_NONE};
  if (!load->prefill && !load->encode) return choice;
  if (decode && !goes_on && !load->more_rows) return choice;
  int64_t ns = load->slice_ns;
  if (load->prefill && load->encode && load->hurry) ns = ommai_min_i64(ns, OMMAI_SHARED_SLICE_NS);
  if (goes_on) {
    if (load->step_ns == 0) return choice;
    int64_t share = ommai_max_i64(load->step_ns * load->percent / (100 - load->percent), OMMAI_MIN_SLICE_NS);
    ns = ommai_min_i64(load->slice_ns, share) - load->since_step_ns;
    /* The rest of a slice that ended early is used where it is worth while. */
    if (load->since_step_ns > 0 && (ns < OMMAI_MIN_SLICE_NS || 4 * ns < share)) return choice;
  }
  bool encode = load->encode && !(load->prefill && load->hurry && load->encoded_last);
  return (struct ommai_choice){encode ? OMMAI_WORK_ENCODE : OMMAI_WORK_PREFILL, ns};
}
