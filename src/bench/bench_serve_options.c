/* The options of omma bench serve: the names, defaults and meanings of vLLM's client. */
#include <math.h>

#include "bench/bench_serve.h"
#include "cli/model/sampling_options.h"

/* Of a prompt, its prefix or an answer of random data. */
#define MAX_TOKENS 10000000

#define OMMAI_VALUES struct ommai_bench_serve_values

const char *const ommai_bench_serve_backends[] = {"openai", "vllm", "openai-chat", NULL};
static const char *const data_names[] = {"random", "random-mm", "custom_image", "sharegpt", "hf", NULL};
static const char *const tokenizer_modes[] = {"auto", "hf", NULL};
static const char *const ramp_names[] = {"linear", "exponential", NULL};

static const struct ommai_option server_table[] = {
    OMMAI_CHOICE("backend", backend, "NAME", ommai_bench_serve_backends,
                 "API to use: openai-chat sends chat completions, openai and vllm send completions", .initial = "openai"),
    OMMAI_STRING("base-url", base_url, "URL", "address of the server", .otherwise = "http://HOST:PORT"),
    OMMAI_STRING("host", host, "HOST", "the server's host", .initial = "127.0.0.1"),
    OMMAI_INTEGER("port", port, "PORT", 1, 65535, "the server's port", .initial = "8000"),
    OMMAI_STRING("endpoint", endpoint, "PATH", "path of the API",
                 .otherwise = "/v1/chat/completions with openai-chat, else /v1/completions"),
    OMMAI_STRING("model", model, "NAME", "the model's name or directory", .letter = 'm',
                 .otherwise = "the first that the server lists"),
    OMMAI_STRING("served-model-name", served_model_name, "NAME", "the model's name in requests", .otherwise = "as --model",
                 .elsewhere = "-a --alias", .errors = "served_model_names"),
    OMMAI_STRING("tokenizer", tokenizer, "DIR", "directory with the tokenizer that counts tokens and makes random prompts",
                 .otherwise = "as --model"),
    OMMAI_CHOICE("tokenizer-mode", ignored_choice, "NAME", tokenizer_modes, "accepted; the files of the directory decide",
                 .initial = "auto"),
    OMMAI_FLAG("skip-tokenizer-init", skip_tokenizer, "use no tokenizer: all counts are the server's"),
    OMMAI_WORDS("header", headers, "KEY=VALUE", "headers of every request, such as \"Authorization=Bearer KEY\""),
    OMMAI_FLAG("insecure", insecure, "do not check the server's certificate"),
    OMMAI_INTEGER("request-timeout-sec", timeout, "SECONDS", 1, 31536000, "seconds after which a request counts as failed",
                  .initial = "21600"),
    OMMAI_INTEGER("ready-check-timeout-sec", ready_timeout, "SECONDS", 0, 31536000,
                  "wait until one request succeeds, for this many seconds at most; 0: no check", .initial = "0"),
    OMMAI_INTEGER("num-warmups", n_warmups, "N", 0, 1000000, "number of requests before the run that are not measured",
                  .initial = "0"),
};

static const struct ommai_option data_table[] = {
    OMMAI_CHOICE("dataset-name", data, "NAME", data_names, "data set of the requests", .initial = "random"),
    OMMAI_STRING("dataset-path", path, "PATH",
                 "custom_image: a JSONL file; sharegpt: a JSON file; hf: a directory with JSONL files"),
    OMMAI_INTEGER("num-prompts", n_prompts, "N", 0, 10000000, "number of requests; 0: all lines of custom_image",
                  .initial = "1000"),
    OMMAI_INTEGER("seed", seed, "N", 0, UINT32_MAX, "seed of the data, its order and the arrival times", .initial = "0",
                  .elsewhere = "-s"),
    OMMAI_INTEGER("input-len", input_len, "N", 0, MAX_TOKENS, "the same as --random-input-len"),
    OMMAI_INTEGER("output-len", output_len, "N", 0, MAX_TOKENS, "output tokens, for any data set"),
    OMMAI_FLAG("disable-shuffle", keep_order, "keep the order of the file"),
    OMMAI_FLAG("no-oversample", no_oversample, "do not repeat entries when a file has fewer than --num-prompts"),
    OMMAI_INTEGER("custom-output-len", custom_output_len, "N", -1, INT64_MAX,
                  "output tokens of custom_image; -1: each line's output_tokens", .initial = "256"),
    OMMAI_FLAG("custom-ensure-client-side-data", inline_images,
               "send the images of custom_image themselves instead of their paths"),
    OMMAI_INTEGER("sharegpt-output-len", sharegpt_output_len, "N", 0, INT64_MAX, "output tokens of sharegpt",
                  .otherwise = "as long as the answer in the data"),
    OMMAI_INTEGER("hf-output-len", hf_output_len, "N", 0, INT64_MAX, "output tokens of hf", .otherwise = "128"),
    OMMAI_STRING("hf-name", ignored_text, "NAME", "accepted; the layout of the rows decides"),
    OMMAI_STRING("hf-split", ignored_text, "NAME", "accepted; all files of the directory are read"),
    OMMAI_STRING("hf-subset", ignored_text, "NAME", "accepted; all files of the directory are read"),
    OMMAI_FLAG("no-stream", ignored, "accepted; files are always read as a whole"),
    OMMAI_FLAG("trust-remote-code", ignored, "accepted; no code is loaded"),
    OMMAI_FLAG("enable-multimodal-chat", ignored, "accepted; requests have that form anyway"),
};

static const struct ommai_option random_table[] = {
    OMMAI_INTEGER("random-input-len", random_input_len, "N", 0, MAX_TOKENS, "input tokens per request", .initial = "1024"),
    OMMAI_INTEGER("random-output-len", random_output_len, "N", 1, MAX_TOKENS, "output tokens per request", .initial = "128"),
    OMMAI_STRING("random-range-ratio", range_ratio, "R",
                 "spread R of both lengths, uniform in N*(1-R) to N*(1+R): a number below 1, or {\"input\": R, \"output\": R}",
                 .initial = "0.0"),
    OMMAI_INTEGER("random-prefix-len", prefix_len, "N", 0, MAX_TOKENS, "tokens of a prefix that all prompts share, in addition",
                  .initial = "0"),
    OMMAI_INTEGER("random-mm-base-items-per-request", images, "N", 0, 1000, "random-mm: images per request", .initial = "1"),
    OMMAI_NUMBER("random-mm-num-mm-items-range-ratio", images_ratio, "R", 0, 1, "random-mm: spread of the number of images",
                 .initial = "0"),
    OMMAI_STRING("random-mm-limit-mm-per-prompt", image_limit, "JSON", "random-mm: maximum number of images per request",
                 .initial = "{\"image\": 255, \"video\": 1}"),
    OMMAI_STRING("random-mm-bucket-config", buckets, "DICT", "random-mm: sizes (height, width, 1) with weights",
                 .initial = "{(256, 256, 1): 0.5, (720, 1280, 1): 0.5, (720, 1280, 16): 0.0}"),
};

static const struct ommai_option traffic_table[] = {
    OMMAI_NUMBER("request-rate", rate, "RATE", 0, INFINITY, "requests per second; inf sends all at once", .initial = "inf",
                 .above_minimum = true),
    OMMAI_NUMBER(
        "burstiness", burstiness, "X", 0, INFINITY,
        "shape of the gamma distribution of arrival gaps: 1 is a Poisson process, below 1 is more bursty, above 1 more even",
        .initial = "1.0", .above_minimum = true),
    OMMAI_INTEGER("max-concurrency", max_parallel, "N", 1, 1000000, "maximum number of requests at the same time",
                  .otherwise = "no limit"),
    OMMAI_CHOICE("ramp-up-strategy", ramp, "NAME", ramp_names,
                 "change the request rate over the run, instead of a constant --request-rate"),
    OMMAI_INTEGER("ramp-up-start-rps", ramp_start, "RATE", 0, 1000000, "requests per second at the start of the ramp"),
    OMMAI_INTEGER("ramp-up-end-rps", ramp_end, "RATE", 0, 1000000, "requests per second at its end"),
};

static const struct ommai_option request_table[] = {
    OMMAI_FLAG("ignore-eos", ignore_eos, "ask for answers of full length; always on for random data"),
    OMMAI_TEMPERATURE_OPTION(temperature, 100, .otherwise = "the server's", .elsewhere = "--temp"),
    OMMAI_TOP_P_OPTION(top_p, .otherwise = "the server's"),
    OMMAI_TOP_K_OPTION(top_k, .otherwise = "the server's"),
    OMMAI_MIN_P_OPTION(min_p, .otherwise = "the server's"),
    OMMAI_FREQUENCY_PENALTY_OPTION(frequency_penalty, 10, .otherwise = "the server's"),
    OMMAI_PRESENCE_PENALTY_OPTION(presence_penalty, 10, .otherwise = "the server's"),
    OMMAI_REPETITION_PENALTY_OPTION(repetition_penalty, 10, .otherwise = "the server's", .elsewhere = "--repeat-penalty"),
    OMMAI_INTEGER("logprobs", logprobs, "K", 0, 1000, "number of log probabilities per token, with completions"),
    OMMAI_STRING("extra-body", extra_body, "JSON", "more fields for every request"),
    OMMAI_STRING("request-id-prefix", request_id_prefix, "TEXT", "beginning of the header x-request-id",
                 .otherwise = "bench-<8 hex digits>-"),
};

static const struct ommai_option report_table[] = {
    OMMAI_STRING(
        "percentile-metrics", metrics, "LIST",
        "metrics to report, separated by commas: ttft, tpot, itl, e2el, client_queue_time, e2el_including_client_queue",
        .initial = "ttft,tpot,itl"),
    OMMAI_STRING("metric-percentiles", percentiles, "LIST", "percentiles of these metrics, separated by commas",
                 .initial = "99"),
    OMMAI_WORDS("goodput", goodput, "KEY:MS", "limits in ms that a good request keeps, such as ttft:500 tpot:50 e2el:5000"),
    OMMAI_FLAG("save-result", save, "write the result as a JSON file"),
    OMMAI_FLAG("save-detailed", detailed, "save every request's times, text and error too"),
    OMMAI_FLAG("append-result", append, "append to the result file instead of replacing it"),
    OMMAI_WORDS("metadata", metadata, "KEY=VALUE", "more keys for the result"),
    OMMAI_STRING("label", label, "TEXT", "beginning of the result file's name", .otherwise = "the backend"),
    OMMAI_STRING("result-dir", result_dir, "DIR", "directory of the result file; made if missing",
                 .otherwise = "the current one"),
    OMMAI_STRING("result-filename", result_file, "NAME", "name of the result file",
                 .otherwise = "LABEL-RATEqps-MODEL-DATE.json"),
    OMMAI_STRING("plot", plot, "OUT.svg|OUT.png", "plot time to first token, inter-token latency and the requests over time"),
    OMMAI_FLAG("json", json, "print the result as one JSON object instead of the table"),
    OMMAI_FLAG("disable-tqdm", no_progress, "show no progress"),
};

/* First what changes nothing: the data sets here are not rendered by a chat template, nothing draws
 * thresholds, and vLLM's client does nothing with beam search. Then what would change what is
 * measured, or leaves a file. */
const struct ommai_foreign_option ommai_bench_serve_ignored[] = {
    {.name = "use-beam-search"},
    {.name = "skip-chat-template"},
    {.name = "chat-template-kwargs", .kind = OMMAI_FOREIGN_VALUE},
    {.name = "timeline-itl-thresholds", .kind = OMMAI_FOREIGN_VALUE},
    {.name = "lora-assignment", .kind = OMMAI_FOREIGN_VALUE},
    {.name = "lora-modules",
     .kind = OMMAI_FOREIGN_WORDS,
     .refused = "requests name one model: give an adapter's name with --model"},
    {.name = "profile", .refused = "the server's profiler is not started and stopped from here"},
    {.name = "probe-request-rate", .kind = OMMAI_FOREIGN_VALUE, .refused = "no requests are sent next to the measured ones"},
    {.name = "self-timed", .refused = "requests are sent by --request-rate or a ramp, not at times from a data set"},
    {.name = "plot-timeline", .refused = "there is no HTML drawing: --plot OUT.svg draws the requests over time"},
    {.name = "plot-dataset-stats", .refused = "lengths are not drawn: --save-result --save-detailed keeps them"},
    {.name = NULL},
};

const struct ommai_option_group ommai_bench_serve_options[OMMAI_BENCH_SERVE_GROUPS] = {
    OMMAI_OPTION_GROUP("Server", server_table),      OMMAI_OPTION_GROUP("Data", data_table),
    OMMAI_OPTION_GROUP("Random data", random_table), OMMAI_OPTION_GROUP("Traffic", traffic_table),
    OMMAI_OPTION_GROUP("Requests", request_table),   OMMAI_OPTION_GROUP("Results", report_table),
};
