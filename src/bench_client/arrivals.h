/* When requests are sent: fixed, Poisson or gamma spacing, or a rate that rises over the run. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum ommai_ramp { OMMAI_RAMP_NONE, OMMAI_RAMP_LINEAR, OMMAI_RAMP_EXPONENTIAL };

struct ommai_arrivals {
  double rate; /* requests per second, above 0; INFINITY: all at once */
  /* shape of the gamma distribution of the gaps; 1: a Poisson process; INFINITY: equal gaps */
  double burstiness;
  enum ommai_ramp ramp;
  /* with a ramp, instead of `rate`; start_rate <= end_rate, above 0 for an exponential ramp */
  double start_rate, end_rate;
  uint32_t seed;
};

/* The rate at request `index` of `n`. */
double ommai_arrivals_rate(const struct ommai_arrivals *arrivals, size_t index, size_t n);

/* delays[n]: seconds from the start of the run to each request, never falling. The gaps are gamma
 * distributed with shape = burstiness and mean 1 / rate; without a ramp they are then scaled so
 * that the last delay is n / rate exactly, as vLLM's client does, whose draws these are. A ramp
 * that begins at rate 0 is refused by the caller: its first gap would have no end. */
void ommai_arrivals_delays(const struct ommai_arrivals *arrivals, double *delays, size_t n);
