/* omma serve: the OpenAI-compatible server. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/diagnostics.h"
#include "cli/interrupt.h"
#include "cli/serving.h"
#include "cli/show.h"
#include "cli/vllm_flags.h"
#include "server/server.h"

struct values {
  struct ommai_serving serving;
  const char *host;
  int64_t port;
  const char *api_key;
};

static void log_line(void *context, const char *line) {
  (void)context;
  ommai_note("serve: %s", line);
}

static void tell_sampling(const struct omma_model *model) {
  struct omma_model_info info;
  char text[320];
  omma_model_get_info(model, &info);
  if (!ommai_show_sampling(&info, text, sizeof text)[0]) return;
  ommai_note(
      "serve: requests that do not say it are sampled as generation_config.json says: %s (--generation-config vllm: not so)",
      text);
}

static int serve(const struct values *values, const struct omma_server_options *options, struct omma_model *model,
                 struct omma_engine *engine) {
  struct ommai_server *server;
  struct omma_error error;
  int code = OMMAI_EXIT_DONE;
  if (ommai_server_create(options, model, engine, &server, &error) != OMMA_OK) return ommai_failed_call(&error);
  tell_sampling(model);
  bool bracket = strchr(values->host, ':') != NULL;
  ommai_note("serving at http://%s%s%s:%d/v1 (Ctrl-C ends it)", bracket ? "[" : "", values->host, bracket ? "]" : "",
             ommai_server_port(server));
  if (ommai_server_run(server, ommai_interrupt_descriptor(), &error) != OMMA_OK) code = ommai_failed_call(&error);
  if (ommai_interrupted()) ommai_note("stopping: running requests may finish for some seconds; again Ctrl-C ends at once");
  ommai_server_destroy(server);
  return code;
}

static int run_serve(const void *given, const struct ommai_strings *arguments) {
  const struct values *values = given;
  struct omma_server_options options = {
      .host = values->host, .port = (int)values->port, .api_key = values->api_key, .log = log_line};
  struct omma_model *model;
  struct omma_engine *engine;
  int code = ommai_serving_read("serve", &values->serving, &options);
  if (code != OMMAI_EXIT_DONE) return code;
  /* A client that hangs up must not end the program. */
  signal(SIGPIPE, SIG_IGN);
  code = ommai_serving_open("serve", &values->serving, arguments, &model, &engine);
  if (code != OMMAI_EXIT_DONE) return code;
  ommai_interrupt_defer();
  code = serve(values, &options, model, engine);
  ommai_interrupt_resume();
  omma_engine_destroy(engine);
  omma_model_close(model);
  return code;
}

#define AT(field) offsetof(struct values, field)

static const struct ommai_option table[] = {
    {.name = "host",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(host),
     .value = "ADDRESS",
     .initial = "127.0.0.1",
     .help = "address or name to listen on; 0.0.0.0 for all of this machine's"},
    {.name = "port",
     .type = OMMAI_OPTION_INTEGER,
     .offset = AT(port),
     .value = "N",
     .low = 0,
     .high = 65535,
     .initial = "8000",
     .help = "port to listen on; 0: any free one"},
    {.name = "api-key",
     .type = OMMAI_OPTION_STRING,
     .offset = AT(api_key),
     .value = "KEY",
     .help = "key that clients must send on /v1",
     .otherwise = "none is asked for"},
};
static const struct ommai_option_group options = {"Server", table, sizeof table / sizeof *table};

const struct ommai_command ommai_command_serve = {
    .name = "serve",
    .summary = "OpenAI-compatible HTTP server",
    .arguments = "[DIR]",
    .details =
        "Serves a model over HTTP with the endpoints of OpenAI's API (/v1/chat/completions and others). DIR is the model, as "
        "--model. Ctrl-C ends the server after running requests. Flags of `vllm serve` that change "
        "no answer (scheduling, devices, logs, caches) are accepted with a warning each, those that would change one are "
        "refused "
        "with the reason.",
    .example = "omma serve models/my-model --port 8000 --max-model-len 8192",
    .groups = {&options, &ommai_serving_options, &ommai_picture_options, &ommai_model_options, &ommai_weight_options,
               &ommai_engine_options, &ommai_machine_options},
    .ignored = ommai_vllm_flags,
    .ignored_of = "vLLM",
    .values_size = sizeof(struct values),
    .max_arguments = 1,
    .run = run_serve,
};
