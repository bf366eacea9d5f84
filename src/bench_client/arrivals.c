#include "bench_client/arrivals.h"

#include <math.h>

#include "bench_client/mersenne.h"

double ommai_arrivals_rate(const struct ommai_arrivals *arrivals, size_t index, size_t n) {
  double progress = n > 1 ? (double)index / (double)(n - 1) : 0;
  switch (arrivals->ramp) {
    case OMMAI_RAMP_LINEAR: return arrivals->start_rate + (arrivals->end_rate - arrivals->start_rate) * progress;
    case OMMAI_RAMP_EXPONENTIAL: return arrivals->start_rate * pow(arrivals->end_rate / arrivals->start_rate, progress);
    case OMMAI_RAMP_NONE: break;
  }
  return arrivals->rate;
}

void ommai_arrivals_delays(const struct ommai_arrivals *arrivals, double *delays, size_t n) {
  struct ommai_mersenne mersenne;
  double sum = 0;
  ommai_mersenne_init_numpy(&mersenne, arrivals->seed);
  for (size_t i = 0; i < n; i++) {
    double rate = ommai_arrivals_rate(arrivals, i, n);
    if (isinf(arrivals->burstiness)) {
      sum += 1 / rate;
    } else if (!isinf(rate)) {
      sum += ommai_mersenne_gamma(&mersenne, arrivals->burstiness) / (rate * arrivals->burstiness);
    }
    delays[i] = sum;
  }
  if (arrivals->ramp != OMMAI_RAMP_NONE || sum == 0) return;
  double scale = (double)n / arrivals->rate / sum;
  for (size_t i = 0; i < n; i++) delays[i] *= scale;
}
