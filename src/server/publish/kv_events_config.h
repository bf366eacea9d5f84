/* The value of vLLM's flag --kv-events-config: a JSON object of where KV events are published and
 * replayed. */
#pragma once

#include <omma/status.h>
#include <stdbool.h>
#include <stdint.h>

#define OMMAI_KV_EVENTS_TEXT 512

struct ommai_kv_events_config {
  bool enabled;                               /* else nothing of the rest means anything */
  char endpoint[OMMAI_KV_EVENTS_TEXT];        /* default: port 5557 of all addresses */
  char replay_endpoint[OMMAI_KV_EVENTS_TEXT]; /* empty, the default: nothing is replayed */
  char topic[OMMAI_KV_EVENTS_TEXT];           /* empty */
  int64_t buffer_steps;                       /* 10000, batches that can be replayed */
  int64_t hwm;                                /* 100000, batches that wait for one subscriber */
  int64_t max_queue_size;                     /* 100000, events that wait for the publisher */
};

/* Defaults are vLLM's. Unknown keys are refused. Errors: FORMAT, ARGUMENT (field
 * "kv_events_config"), MEMORY. */
enum omma_status ommai_kv_events_config_parse(const char *text, struct ommai_kv_events_config *config,
                                              struct omma_error *error);

/* As in vLLM: an endpoint with a wildcard and a path is listened at, another one is connected
 * to. */
bool ommai_kv_events_config_binds(const char *endpoint);
