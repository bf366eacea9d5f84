/* Two questions at once: both answers are written side by side, each the same as if it were asked
 * alone.
 *
 *   ask DIR [IMAGE]     DIR: a Hugging Face checkpoint directory of a supported model */
#include <omma/omma.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* What both questions share: how many answers are not complete yet. */
struct desk {
  pthread_mutex_t mutex;
  pthread_cond_t answered;
  int n_open;
};

struct question {
  struct desk *desk;
  const char *text;
  char answer[4096];
  size_t size;
  struct omma_result result;
};

/* On the engine's thread: quick, and never calling the engine. */
static bool on_token(void *context, const struct omma_token_event *event) {
  struct question *question = context;
  size_t room = sizeof question->answer - question->size, size = event->text_size < room ? event->text_size : room;
  if (size) memcpy(question->answer + question->size, event->text, size);
  question->size += size;
  return true; /* false would cancel the request */
}

static void on_finish(void *context, const struct omma_result *result) {
  struct question *question = context;
  question->result = *result;
  pthread_mutex_lock(&question->desk->mutex);
  question->desk->n_open--;
  pthread_cond_signal(&question->desk->answered);
  pthread_mutex_unlock(&question->desk->mutex);
}

static int fail(const char *what, const struct omma_error *error) {
  fprintf(stderr, "%s: %s\n", what, error->message);
  return 1;
}

/* A message with an image, where there is one, and the question's text. */
static enum omma_status make_request(const struct omma_model *model, const struct omma_image *image, const char *text,
                                     struct omma_request **request, struct omma_error *error) {
  struct omma_part parts[2] = {{.image = image}, {.text = text, .text_size = strlen(text)}};
  const struct omma_message message = {.role = OMMA_ROLE_USER, .parts = image ? parts : parts + 1, .n_parts = image ? 2 : 1};
  const struct omma_request_options options = {.struct_size = sizeof options, .sampling = {.max_tokens = 64}};
  return omma_request_create(model, &message, 1, &options, request, error);
}

static int ask(struct omma_engine *engine, struct question questions[2], struct omma_request *requests[2]) {
  struct desk *desk = questions[0].desk;
  struct omma_error error;
  int code = 0;
  for (int i = 0; i < 2 && code == 0; i++) {
    const struct omma_callbacks callbacks = {.context = &questions[i], .on_token = on_token, .on_finish = on_finish};
    pthread_mutex_lock(&desk->mutex);
    desk->n_open++;
    pthread_mutex_unlock(&desk->mutex);
    if (omma_engine_submit(engine, requests[i], &callbacks, NULL, &error) == OMMA_OK) continue;
    code = fail("submit", &error);
    pthread_mutex_lock(&desk->mutex);
    desk->n_open--;
    pthread_mutex_unlock(&desk->mutex);
  }
  pthread_mutex_lock(&desk->mutex);
  while (desk->n_open) pthread_cond_wait(&desk->answered, &desk->mutex);
  pthread_mutex_unlock(&desk->mutex);
  for (int i = 0; i < 2 && code == 0; i++) {
    if (questions[i].result.finish == OMMA_FINISH_ERROR) return fail("generate", &questions[i].result.error);
    printf("%s\n  %.*s\n  (%lld tokens)\n", questions[i].text, (int)questions[i].size, questions[i].answer,
           (long long)questions[i].result.n_completion_tokens);
  }
  return code;
}

int main(int argc, char **argv) {
  struct desk desk = {.mutex = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};
  struct question questions[2] = {{.desk = &desk, .text = "What is in this picture?"}, {.desk = &desk, .text = "Hello!"}};
  struct omma_model *model = NULL;
  struct omma_engine *engine = NULL;
  struct omma_image *image = NULL;
  struct omma_request *requests[2] = {NULL, NULL};
  struct omma_error error;
  int code = 0;
  if (argc < 2) {
    fprintf(stderr, "usage: ask DIR [IMAGE]\n");
    return 2;
  }
  if (omma_model_open(argv[1], NULL, &model, &error) != OMMA_OK ||
      omma_engine_create(model, NULL, &engine, &error) != OMMA_OK ||
      (argc > 2 && omma_image_load(argv[2], NULL, &image, &error) != OMMA_OK) ||
      make_request(model, image, questions[0].text, &requests[0], &error) != OMMA_OK ||
      make_request(model, NULL, questions[1].text, &requests[1], &error) != OMMA_OK) {
    code = fail(argv[1], &error);
  } else {
    code = ask(engine, questions, requests);
  }
  for (int i = 0; i < 2; i++) omma_request_destroy(requests[i]);
  omma_image_destroy(image);
  omma_engine_destroy(engine);
  omma_model_close(model);
  return code;
}
