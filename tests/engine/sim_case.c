#include "engine/sim_case.h"

#include <string.h>

#include "support/test.h"

#define SIM_FIELD(name, simplest) {#name, simplest},
const struct sim_field sim_engine_fields[] = {SIM_ENGINE_FIELDS(SIM_FIELD)};
const struct sim_field sim_request_fields[] = {SIM_REQUEST_FIELDS(SIM_FIELD)};
#undef SIM_FIELD
const int sim_n_engine_fields = sizeof sim_engine_fields / sizeof *sim_engine_fields;
const int sim_n_request_fields = sizeof sim_request_fields / sizeof *sim_request_fields;
static const struct sim_field failure_fields[] = {{"call", -1}, {"nth", -1}};

int64_t sim_image_tokens(int64_t index) {
  static const int64_t tokens[SIM_N_IMAGES] = {1, 4, 9, 30, 70, 130};
  return tokens[index % SIM_N_IMAGES];
}

int64_t sim_image_patches(int64_t index) { return 4 * sim_image_tokens(index); }

int64_t sim_prompt_size(const struct sim_request *request) {
  int64_t size = request->shared + request->own;
  for (int64_t i = 0; i < request->images; i++) size += sim_image_tokens(request->image + i);
  return size;
}

/* ---- from a seed ---- */

/* `likely` in two of three cases. */
static int64_t mostly(struct test_random *random, int64_t likely, int64_t low, int64_t high) {
  return test_random_range(random, 0, 2) ? likely : test_random_range(random, low, high);
}

/* Engines from barely enough pages for one request to plenty for all. */
static void make_engine(struct sim_engine *engine, struct test_random *random) {
  static const int64_t chunks[] = {64, 64, 128, 256, 1024}, patches[] = {4, 64, 300, 1024},
                       slots[] = {1, 2, 3, 4, 6, 8, 12, 32};
  static const int64_t rounds_us[] = {10, 300, 2000, 1000000}, repeated[] = {0, 0, 50, 80, 95, 99};
  int64_t *values = (int64_t *)(void *)engine;
  for (int i = 0; i < sim_n_engine_fields; i++) values[i] = sim_engine_fields[i].simplest;
  engine->slots = slots[test_random_range(random, 0, 7)];
  engine->context = test_random_range(random, 100, 640);
  int64_t least = (engine->context + 63) / 64;
  engine->pages = least + mostly(random, test_random_range(random, 0, 3), 0, 8 * engine->slots);
  engine->chunk = chunks[test_random_range(random, 0, 4)];
  engine->patches = patches[test_random_range(random, 0, 3)];
  engine->cache = test_random_range(random, 0, 3) ? test_random_range(random, 8, 3000) : -1;
  engine->queue = mostly(random, 256, 1, 8);
  engine->reserve = mostly(random, -1, 1, 200);
  engine->slice_ms = mostly(random, 1000, 1, 20);
  engine->percent = mostly(random, 50, 1, 90);
  engine->drafts = test_random_range(random, 0, 1) ? 0 : test_random_range(random, 1, 15);
  engine->lookup = test_random_range(random, 1, 4);
  engine->head = test_random_range(random, OMMAI_NO_DRAFTER, OMMAI_DRAFT_MODEL);
  engine->prefix_cache = test_random_range(random, 0, 3) > 0;
  engine->by_priority = test_random_range(random, 0, 3) == 0;
  engine->scheduling = test_random_range(random, 0, 2);
  engine->max_wait_ms = mostly(random, 2000, 1, 300);
  engine->window = mostly(random, 0, 1, 300);
  engine->snapshots = test_random_range(random, 0, 3) == 0;
  engine->repeated = repeated[test_random_range(random, 0, 5)];
  engine->round_us = rounds_us[test_random_range(random, 0, 3)];
  engine->end = test_random_range(random, 0, 9) ? -1 : test_random_range(random, 0, 300);
}

static void make_prompt(struct sim_request *request, int64_t context, bool with_images, struct test_random *random) {
  request->document = test_random_range(random, 0, SIM_N_DOCUMENTS - 1);
  request->shared = test_random_range(random, 0, 2) ? 64 * test_random_range(random, 0, 4) : test_random_range(random, 0, 200);
  request->images = test_random_range(random, 0, with_images ? 0 : 3) ? 0 : test_random_range(random, 1, 3);
  request->image = test_random_range(random, 0, SIM_N_IMAGES - 1);
  request->own = mostly(random, test_random_range(random, 1, 8), 1, 150);
  while (sim_prompt_size(request) >= context) {
    request->images /= 2;
    request->shared /= 2;
    request->own = (request->own + 1) / 2;
  }
}

static void make_request(struct sim_request *request, const struct sim_engine *engine, int64_t at, int64_t longest,
                         struct test_random *random) {
  *request = (struct sim_request){.at = at, .cancel = -1, .refuse = -1};
  make_prompt(request, engine->context, engine->cache >= 0 && engine->cache < 1200, random);
  request->encode = request->images > 0 && test_random_range(random, 0, 7) == 0;
  if (!request->encode && test_random_range(random, 0, 5) == 0) request->read = test_random_range(random, 1, 3);
  request->answer = test_random_range(random, 1, test_random_range(random, 0, 3) ? longest : 150);
  request->min_answer = mostly(random, 0, 0, 20);
  request->priority = test_random_range(random, -2, 2);
  request->whole = test_random_range(random, 0, 1);
  request->stops = mostly(random, 0, 0, 3);
  request->ignore_eos = test_random_range(random, 0, 1);
  request->sampled = mostly(random, 0, 0, 2);
  request->scores = test_random_range(random, 0, 9) == 0;
  request->top = mostly(random, 0, 0, 3);
  if (test_random_range(random, 0, 9) == 0) request->cancel = at + test_random_range(random, 0, 60);
  if (test_random_range(random, 0, 19) == 0) request->refuse = test_random_range(random, 0, 10);
}

void sim_case_make(struct sim_case *made, uint64_t seed) {
  static const int64_t pauses[] = {0, 0, 1, 3, 40};
  struct test_random random = {seed * 0x9e3779b97f4a7c15u};
  memset(made, 0, sizeof *made);
  make_engine(&made->engine, &random);
  made->n_requests =
      test_random_range(&random, 0, 3) ? test_random_range(&random, 1, 40) : test_random_range(&random, 40, SIM_MAX_REQUESTS);
  int64_t at = 0, pause = pauses[test_random_range(&random, 0, 4)], longest = test_random_range(&random, 0, 1) ? 20 : 150;
  for (int64_t i = 0; i < made->n_requests; i++) {
    make_request(&made->requests[i], &made->engine, at, longest, &random);
    made->requests[i].text = i;
    at += test_random_range(&random, 0, 2 * pause);
  }
  made->engine.naps = mostly(&random, 0, 1, 40);
  if (test_random_range(&random, 0, 3)) return;
  made->n_failures = test_random_range(&random, 1, SIM_MAX_FAILURES);
  for (int64_t i = 0; i < made->n_failures; i++) {
    made->failures[i].call = test_random_range(&random, 0, OMMAI_FAKE_CALLS);
    made->failures[i].nth = test_random_range(&random, 0, 10 * made->n_requests);
  }
}

/* ---- as text ---- */

static void print_line(const char *what, const struct sim_field *fields, int n, const int64_t *values, FILE *file) {
  fprintf(file, "%s", what);
  for (int i = 0; i < n; i++) {
    if (values[i] != fields[i].simplest) fprintf(file, " %s=%lld", fields[i].name, (long long)values[i]);
  }
  fprintf(file, "\n");
}

void sim_case_print(const struct sim_case *printed, FILE *file) {
  print_line("engine", sim_engine_fields, sim_n_engine_fields, (const int64_t *)&printed->engine, file);
  for (int64_t i = 0; i < printed->n_requests; i++) {
    print_line("request", sim_request_fields, sim_n_request_fields, (const int64_t *)&printed->requests[i], file);
  }
  for (int64_t i = 0; i < printed->n_failures; i++) {
    print_line("fail", failure_fields, 2, (const int64_t *)&printed->failures[i], file);
  }
}

static bool read_line(char *rest, const struct sim_field *fields, int n, int64_t *values) {
  for (int i = 0; i < n; i++) values[i] = fields[i].simplest;
  for (char *place, *word = strtok_r(rest, " \n", &place); word; word = strtok_r(NULL, " \n", &place)) {
    char name[32];
    long long value;
    int i = 0;
    if (sscanf(word, "%31[a-z_]=%lld", name, &value) != 2) return false;
    while (i < n && strcmp(fields[i].name, name) != 0) i++;
    if (i == n) return false;
    values[i] = value;
  }
  return true;
}

bool sim_case_read(struct sim_case *read, FILE *file) {
  char line[1024];
  memset(read, 0, sizeof *read);
  while (fgets(line, sizeof line, file)) {
    char what[16] = "", *rest = line + strcspn(line, " \n");
    bool fits = true;
    if (line[0] == '#' || line[0] == '\n') continue;
    sscanf(line, "%15s", what);
    if (strcmp(what, "engine") == 0) {
      fits = read_line(rest, sim_engine_fields, sim_n_engine_fields, (int64_t *)&read->engine);
    } else if (strcmp(what, "request") == 0 && read->n_requests < SIM_MAX_REQUESTS) {
      fits = read_line(rest, sim_request_fields, sim_n_request_fields, (int64_t *)&read->requests[read->n_requests++]);
    } else if (strcmp(what, "fail") == 0 && read->n_failures < SIM_MAX_FAILURES) {
      fits = read_line(rest, failure_fields, 2, (int64_t *)&read->failures[read->n_failures++]);
    } else {
      fits = false;
    }
    if (fits) continue;
    fprintf(stderr, "not a line of a script: %s\n", what);
    return false;
  }
  return read->n_requests > 0;
}
