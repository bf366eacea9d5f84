/* From the command line of omma bench serve to the settings of its client. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/allocator.h"
#include "base/file.h"
#include "bench/bench_serve.h"
#include "bench_client/bench_plot.h"
#include "cli/core/diagnostics.h"

static int wrong(const char *option, const char *value, const char *why) {
  return ommai_usage_error("bench serve: --%s '%s': %s", option, value, why);
}

static int make_urls(const struct ommai_bench_serve_values *values, struct ommai_bench_serve_settings *settings) {
  const char *backend = ommai_bench_serve_backends[values->backend];
  settings->chat = strcmp(backend, "openai-chat") == 0;
  const char *endpoint = values->endpoint ? values->endpoint : settings->chat ? "/v1/chat/completions" : "/v1/completions";
  const char *end = settings->chat ? "chat/completions" : "completions";
  if (!ommai_path_ends_with(endpoint, end)) {
    return ommai_usage_error("bench serve: --endpoint '%s': must end in %s with --backend %s", endpoint, end, backend);
  }
  size_t size;
  if (values->base_url) {
    size = (size_t)snprintf(settings->base_url, sizeof settings->base_url, "%s", values->base_url);
    while (size > 1 && size < sizeof settings->base_url && settings->base_url[size - 1] == '/')
      settings->base_url[--size] = '\0';
  } else {
    bool is_v6 = strchr(values->host, ':') && values->host[0] != '[';
    size = (size_t)snprintf(settings->base_url, sizeof settings->base_url, "http://%s%s%s:%lld", is_v6 ? "[" : "", values->host,
                            is_v6 ? "]" : "", (long long)values->port);
  }
  size_t all = (size_t)snprintf(settings->url, sizeof settings->url, "%s%s", settings->base_url, endpoint);
  if (size >= sizeof settings->base_url || all >= sizeof settings->url) {
    return ommai_usage_error("bench serve: the server's address is too long");
  }
  return OMMAI_EXIT_DONE;
}

/* KEY=VALUE to "KEY: VALUE", blanks around both removed. */
static char *header_line(const char *word) {
  const char *equals = strchr(word, '='), *value = equals + 1, *key_end = equals;
  while (isspace((unsigned char)*word)) word++;
  while (key_end > word && isspace((unsigned char)key_end[-1])) key_end--;
  while (isspace((unsigned char)*value)) value++;
  int key_size = (int)(key_end - word);
  size_t room = (size_t)key_size + strlen(value) + 3;
  char *line = malloc(room);
  if (line) snprintf(line, room, "%.*s: %s", key_size, word, value);
  return line;
}

static int make_headers(const struct ommai_bench_serve_values *values, struct ommai_bench_serve_settings *settings) {
  size_t n = values->headers.count;
  settings->headers = ommai_allocate(&ommai_default_allocator, n + 1, sizeof *settings->headers);
  if (!settings->headers) return ommai_failed("bench serve: out of memory: headers");
  settings->n_headers = n;
  for (size_t i = 0; i < n; i++) {
    const char *word = values->headers.items[i];
    if (!strchr(word, '=') || word[0] == '=') return wrong("header", word, "must be KEY=VALUE");
    settings->headers[i] = header_line(word);
    if (!settings->headers[i]) return ommai_failed("bench serve: out of memory: headers");
  }
  return OMMAI_EXIT_DONE;
}

static bool read_ratio(const json_t *object, const char *key, double *ratio) {
  const json_t *value = json_object_get(object, key);
  *ratio = json_number_value(value);
  return json_is_number(value);
}

/* A number, or {"input": R, "output": R}. */
static int read_range_ratio(const char *text, struct ommai_data_settings *data) {
  char *end;
  double ratio = strtod(text, &end);
  bool valid = *text && !*end;
  data->input.ratio = data->output.ratio = ratio;
  if (!valid) {
    json_t *object = json_loads(text, 0, NULL);
    valid = read_ratio(object, "input", &data->input.ratio) && read_ratio(object, "output", &data->output.ratio);
    json_decref(object);
  }
  valid = valid && data->input.ratio >= 0 && data->input.ratio < 1 && data->output.ratio >= 0 && data->output.ratio < 1;
  return valid ? OMMAI_EXIT_DONE
               : wrong("random-range-ratio", text, "must be a number from 0 to below 1, or {\"input\": R, \"output\": R}");
}

/* Reads what sscanf would with blanks allowed: advances *at after `mark`. */
static bool skip_mark(const char **at, char mark) {
  while (isspace((unsigned char)**at)) (*at)++;
  if (**at != mark) return false;
  (*at)++;
  return true;
}

static bool read_number(const char **at, double *number) {
  char *end;
  *number = strtod(*at, &end);
  bool read = end != *at;
  *at = end;
  return read;
}

/* One entry `(H, W, T): WEIGHT`, the key also in quotes as JSON needs them. */
static bool read_bucket(const char **at, double size[3], double *weight) {
  bool quoted = skip_mark(at, '"') || skip_mark(at, '\'');
  if (!skip_mark(at, '(') || !read_number(at, &size[0]) || !skip_mark(at, ',') || !read_number(at, &size[1]) ||
      !skip_mark(at, ',') || !read_number(at, &size[2]) || !skip_mark(at, ')')) {
    return false;
  }
  if (quoted && !skip_mark(at, '"') && !skip_mark(at, '\'')) return false;
  return skip_mark(at, ':') && read_number(at, weight);
}

static int read_buckets(const char *text, struct ommai_data_settings *data) {
  static const char form[] =
      "must be {(HEIGHT, WIDTH, 1): WEIGHT, ...} with whole sizes from 1 to 65500 and weights of 0 or more";
  const char *at = text;
  double size[3], weight;
  if (!skip_mark(&at, '{')) return wrong("random-mm-bucket-config", text, form);
  while (!skip_mark(&at, '}')) {
    if (!read_bucket(&at, size, &weight) || !(weight >= 0) || isinf(weight))
      return wrong("random-mm-bucket-config", text, form);
    for (int i = 0; i < 3; i++) {
      if (!(size[i] >= 1 && size[i] <= 65500 && size[i] == floor(size[i]))) return wrong("random-mm-bucket-config", text, form);
    }
    if (weight > 0 && size[2] != 1) return wrong("random-mm-bucket-config", text, "videos are not made: frames must be 1");
    if (weight > 0 && data->n_buckets == OMMAI_MAX_IMAGE_BUCKETS) {
      return wrong("random-mm-bucket-config", text, "too many sizes");
    }
    if (weight > 0) data->buckets[data->n_buckets++] = (struct ommai_image_bucket){(int32_t)size[0], (int32_t)size[1], weight};
    skip_mark(&at, ',');
  }
  while (isspace((unsigned char)*at)) at++;
  if (*at || data->n_buckets == 0) return wrong("random-mm-bucket-config", text, form);
  return OMMAI_EXIT_DONE;
}

static int read_image_limit(const char *text, struct ommai_data_settings *data) {
  json_t *object = json_loads(text, 0, NULL);
  const json_t *image = json_object_get(object, "image");
  data->image_limit = json_integer_value(image);
  bool valid = json_is_integer(image) && data->image_limit >= 0;
  json_decref(object);
  return valid ? OMMAI_EXIT_DONE : wrong("random-mm-limit-mm-per-prompt", text, "must be JSON such as {\"image\": 3}");
}

/* Output tokens of a file's requests; negative: left to the data. */
static int64_t file_output_len(const struct ommai_bench_serve_values *values) {
  switch ((enum ommai_data_kind)values->data) {
    case OMMAI_DATA_CUSTOM_IMAGE: return ommai_integer_or(values->output_len, values->custom_output_len);
    case OMMAI_DATA_SHAREGPT: return ommai_integer_or(values->output_len, ommai_integer_or(values->sharegpt_output_len, -1));
    case OMMAI_DATA_HF: return ommai_integer_or(values->output_len, ommai_integer_or(values->hf_output_len, -1));
    case OMMAI_DATA_RANDOM:
    case OMMAI_DATA_RANDOM_MM: break;
  }
  return -1;
}

static int check_data(const struct ommai_bench_serve_values *values, bool chat) {
  bool random = values->data == OMMAI_DATA_RANDOM || values->data == OMMAI_DATA_RANDOM_MM;
  bool images =
      values->data == OMMAI_DATA_RANDOM_MM || values->data == OMMAI_DATA_CUSTOM_IMAGE || values->data == OMMAI_DATA_HF;
  if (random && values->path)
    return wrong("dataset-path", values->path, "random data needs none: name the kind with --dataset-name");
  if (!random && !values->path) return ommai_usage_error("bench serve: --dataset-path is missing: where is the data set?");
  if (images && !chat) return ommai_usage_error("bench serve: images need --backend openai-chat");
  if (values->n_prompts == 0 && values->data != OMMAI_DATA_CUSTOM_IMAGE) return wrong("num-prompts", "0", "must be 1 or more");
  if (random && values->skip_tokenizer) {
    return ommai_usage_error("bench serve: --skip-tokenizer-init: random prompts need a tokenizer");
  }
  return OMMAI_EXIT_DONE;
}

static int make_data(const struct ommai_bench_serve_values *values, struct ommai_bench_serve_settings *settings) {
  OMMAI_TRY_CODE(check_data(values, settings->chat));
  struct ommai_data_settings *data = &settings->data;
  *data = (struct ommai_data_settings){
      .kind = (enum ommai_data_kind)values->data,
      .path = values->path,
      .n_requests = values->n_prompts,
      .seed = (uint32_t)values->seed,
      .keep_order = values->keep_order,
      .no_oversample = values->no_oversample,
      .inline_images = values->inline_images,
      .output_len = file_output_len(values),
      .input.mean = ommai_integer_or(values->input_len, values->random_input_len),
      .output.mean = ommai_integer_or(values->output_len, values->random_output_len),
      .prefix_len = values->prefix_len,
      .images = values->images,
      .images_ratio = values->images_ratio,
  };
  settings->ignore_eos = values->ignore_eos || data->kind == OMMAI_DATA_RANDOM || data->kind == OMMAI_DATA_RANDOM_MM;
  int code = read_range_ratio(values->range_ratio, data);
  if (code == OMMAI_EXIT_DONE) code = read_buckets(values->buckets, data);
  return code == OMMAI_EXIT_DONE ? read_image_limit(values->image_limit, data) : code;
}

static int make_arrivals(const struct ommai_bench_serve_values *values, struct ommai_arrivals *arrivals) {
  *arrivals = (struct ommai_arrivals){.rate = values->rate,
                                      .burstiness = values->burstiness,
                                      .ramp = (enum ommai_ramp)(ommai_integer_or(values->ramp, -1) + 1),
                                      .start_rate = (double)values->ramp_start.value,
                                      .end_rate = (double)values->ramp_end.value,
                                      .seed = (uint32_t)values->seed};
  if (arrivals->ramp == OMMAI_RAMP_NONE) {
    if (!values->ramp_start.given && !values->ramp_end.given) return OMMAI_EXIT_DONE;
    return ommai_usage_error("bench serve: --ramp-up-%s-rps needs --ramp-up-strategy linear or exponential",
                             values->ramp_start.given ? "start" : "end");
  }
  if (!isinf(values->rate)) return ommai_usage_error("bench serve: --request-rate and --ramp-up-strategy: give one of them");
  if (!values->ramp_start.given || !values->ramp_end.given) {
    return ommai_usage_error("bench serve: --ramp-up-strategy needs --ramp-up-start-rps and --ramp-up-end-rps");
  }
  if (values->ramp_start.value == 0)
    return wrong("ramp-up-start-rps", "0", "must be 1 or more: at rate 0 the first request never comes");
  if (values->ramp_start.value > values->ramp_end.value) {
    return ommai_usage_error("bench serve: --ramp-up-start-rps %lld: must not be above --ramp-up-end-rps %lld",
                             (long long)values->ramp_start.value, (long long)values->ramp_end.value);
  }
  return OMMAI_EXIT_DONE;
}

/* Sampling fields, and those of --extra-body, which win. */
static int make_extra(const struct ommai_bench_serve_values *values, struct ommai_bench_serve_settings *settings) {
  const struct {
    const char *key;
    struct ommai_optional_number number;
  } numbers[] = {{"top_p", values->top_p},
                 {"min_p", values->min_p},
                 {"temperature", values->temperature},
                 {"frequency_penalty", values->frequency_penalty},
                 {"presence_penalty", values->presence_penalty},
                 {"repetition_penalty", values->repetition_penalty}};
  settings->extra = json_object();
  int failed = 0;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    if (!numbers[i].number.given) continue;
    failed |= json_object_set_new(settings->extra, numbers[i].key, json_real(numbers[i].number.value));
  }
  if (values->top_k.given) failed |= json_object_set_new(settings->extra, "top_k", json_integer(values->top_k.value));
  if (values->extra_body) {
    json_error_t error;
    json_t *more = json_loads(values->extra_body, 0, &error);
    if (!json_is_object(more)) {
      json_decref(more);
      return wrong("extra-body", values->extra_body, more ? "must be a JSON object" : error.text);
    }
    failed |= json_object_update(settings->extra, more);
    json_decref(more);
  }
  return failed ? ommai_failed("bench serve: out of memory: fields of requests") : OMMAI_EXIT_DONE;
}

static int read_percentiles(const char *text, struct ommai_bench_serve_settings *settings) {
  const char *at = text;
  do {
    double value;
    if (settings->n_percentiles == OMMAI_MAX_PERCENTILES) return wrong("metric-percentiles", text, "at most 16 are printed");
    if (!read_number(&at, &value) || !(value >= 0 && value <= 100)) {
      return wrong("metric-percentiles", text, "must be numbers from 0 to 100 with commas between them");
    }
    settings->percentiles[settings->n_percentiles++] = value;
  } while (skip_mark(&at, ','));
  return *at ? wrong("metric-percentiles", text, "must be numbers from 0 to 100 with commas between them") : OMMAI_EXIT_DONE;
}

/* The metric with this key, or -1. */
static int find_metric(const char *key, size_t size) {
  for (int i = 0; i < OMMAI_METRIC_COUNT; i++) {
    if (strlen(ommai_metric_names[i].key) == size && memcmp(ommai_metric_names[i].key, key, size) == 0) return i;
  }
  return -1;
}

static int read_metrics(const char *text, struct ommai_bench_serve_settings *settings) {
  for (const char *at = text;; at++) {
    size_t size = strcspn(at, ",");
    int metric = find_metric(at, size);
    if (metric < 0) {
      return wrong("percentile-metrics", text,
                   "must be among ttft, tpot, itl, e2el, client_queue_time, e2el_including_client_queue, with commas");
    }
    settings->selected[metric] = true;
    at += size;
    if (!*at) return OMMAI_EXIT_DONE;
  }
}

static int read_goodput(const struct ommai_strings *words, struct ommai_bench_serve_settings *settings) {
  for (int i = 0; i < OMMAI_METRIC_COUNT; i++) settings->goodput[i] = NAN;
  for (size_t i = 0; i < words->count; i++) {
    const char *word = words->items[i], *colon = strchr(word, ':');
    int metric = colon ? find_metric(word, (size_t)(colon - word)) : -1;
    char *end;
    double milliseconds = colon ? strtod(colon + 1, &end) : 0;
    bool known = metric == OMMAI_METRIC_TTFT || metric == OMMAI_METRIC_TPOT || metric == OMMAI_METRIC_E2EL;
    if (!known || end == colon + 1 || *end || !(milliseconds >= 0)) {
      return wrong("goodput", word, "must be ttft:MS, tpot:MS or e2el:MS with milliseconds of 0 or more");
    }
    settings->goodput[metric] = milliseconds / 1e3;
  }
  return OMMAI_EXIT_DONE;
}

static bool has_ending(const char *path, const char *ending) {
  size_t size = strlen(path), tail = strlen(ending);
  return size >= tail && strcasecmp(path + size - tail, ending) == 0;
}

static int check_plot(const char *path, bool *is_png) {
  *is_png = has_ending(path, ".png");
  if (*is_png && !ommai_bench_plot_has_png()) {
    return wrong("plot", path, "there is no librsvg here: use a name that ends in .svg");
  }
  return *is_png || has_ending(path, ".svg") ? OMMAI_EXIT_DONE : wrong("plot", path, "the name must end in .svg or .png");
}

static int check_results(const struct ommai_bench_serve_values *values, struct ommai_bench_serve_settings *settings) {
  for (size_t i = 0; i < values->metadata.count; i++) {
    const char *word = values->metadata.items[i];
    if (!strchr(word, '=') || word[0] == '=') return wrong("metadata", word, "must be KEY=VALUE");
  }
  if (values->detailed && !values->save && !values->append && !values->json) {
    ommai_warn("bench serve: --save-detailed writes no file without --save-result");
  }
  return values->plot ? check_plot(values->plot, &settings->plot_is_png) : OMMAI_EXIT_DONE;
}

int ommai_bench_serve_settings_make(const struct ommai_bench_serve_values *values,
                                    struct ommai_bench_serve_settings *settings) {
  *settings = (struct ommai_bench_serve_settings){0};
  int code = make_urls(values, settings);
  if (code == OMMAI_EXIT_DONE) code = make_headers(values, settings);
  if (code == OMMAI_EXIT_DONE) code = make_data(values, settings);
  if (code == OMMAI_EXIT_DONE) code = make_arrivals(values, &settings->arrivals);
  if (code == OMMAI_EXIT_DONE) code = make_extra(values, settings);
  if (code == OMMAI_EXIT_DONE) code = read_percentiles(values->percentiles, settings);
  if (code == OMMAI_EXIT_DONE) code = read_metrics(values->metrics, settings);
  if (code == OMMAI_EXIT_DONE) code = read_goodput(&values->goodput, settings);
  return code == OMMAI_EXIT_DONE ? check_results(values, settings) : code;
}

void ommai_bench_serve_settings_release(struct ommai_bench_serve_settings *settings) {
  for (size_t i = 0; i < settings->n_headers; i++) free((char *)settings->headers[i]);
  ommai_release(&ommai_default_allocator, settings->headers, settings->n_headers + 1, sizeof *settings->headers);
  json_decref(settings->extra);
}
