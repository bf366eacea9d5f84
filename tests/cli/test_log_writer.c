/* The log's writer: it keeps order, never lets a writer wait, and takes a reader that is slow or
 * gone. */
#include "cli/core/log_writer.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/test.h"

enum { N_THREADS = 4, N_LINES = 500, LINE_SIZE = 64 };

/* Everything up to the end of the pipe. */
static char *read_all(int descriptor) {
  size_t size = 0, capacity = 1 << 16;
  char *text = malloc(capacity);
  ssize_t got;
  while ((got = read(descriptor, text + size, capacity - size - 1)) > 0) {
    size += (size_t)got;
    if (capacity - size < 4096) text = realloc(text, capacity *= 2);
  }
  assert_int_equal(got, 0);
  text[size] = '\0';
  return text;
}

struct talker {
  struct ommai_log_writer *writer;
  int number;
};

static void *talk(void *context) {
  const struct talker *talker = context;
  for (int i = 0; i < N_LINES; i++) {
    char line[LINE_SIZE];
    snprintf(line, sizeof line, "thread %d line %d", talker->number, i);
    ommai_log_writer_put(talker->writer, line);
  }
  return NULL;
}

static void *read_in_thread(void *context) { return read_all(*(int *)context); }

static void lines_are_whole_and_in_order(void **state) {
  (void)state;
  int ends[2], next[N_THREADS] = {0};
  pthread_t threads[N_THREADS], reader;
  struct talker talkers[N_THREADS];
  void *result;
  assert_int_equal(pipe(ends), 0);
  struct ommai_log_writer *writer = ommai_log_writer_create(ends[1], 1 << 20);
  assert_non_null(writer);
  assert_int_equal(pthread_create(&reader, NULL, read_in_thread, &ends[0]), 0);
  for (int i = 0; i < N_THREADS; i++) {
    talkers[i] = (struct talker){writer, i};
    assert_int_equal(pthread_create(&threads[i], NULL, talk, &talkers[i]), 0);
  }
  for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
  ommai_log_writer_destroy(writer);
  close(ends[1]);
  pthread_join(reader, &result);
  char *text = result;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    int thread, number;
    assert_int_equal(sscanf(line, "thread %d line %d", &thread, &number), 2);
    assert_true(thread >= 0 && thread < N_THREADS);
    assert_int_equal(number, next[thread]++);
  }
  for (int i = 0; i < N_THREADS; i++) assert_int_equal(next[i], N_LINES);
  free(text);
  close(ends[0]);
}

/* Far more than pipe and buffer hold, before anybody reads: the test ends at all because nobody
 * waits. */
static void what_finds_no_room_is_counted(void **state) {
  (void)state;
  enum { N = 20000 };
  int ends[2], n_lines = 0, n_lost = 0;
  pthread_t reader;
  void *result;
  assert_int_equal(pipe(ends), 0);
  struct ommai_log_writer *writer = ommai_log_writer_create(ends[1], 4096);
  for (int i = 0; i < N; i++) ommai_log_writer_put(writer, "a line of the log that says something about a request");
  assert_int_equal(pthread_create(&reader, NULL, read_in_thread, &ends[0]), 0);
  ommai_log_writer_destroy(writer);
  close(ends[1]);
  pthread_join(reader, &result);
  char *text = result;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    int lost;
    if (sscanf(line, "(%d lines", &lost) == 1) {
      n_lost += lost;
    } else {
      assert_string_equal(line, "a line of the log that says something about a request");
      n_lines++;
    }
  }
  /* The last losses may have had no line after them that could show it. */
  assert_true(n_lines > 0 && n_lines + n_lost <= N);
  free(text);
  close(ends[0]);
}

static void nobody_reading_does_not_keep_the_end(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  struct ommai_log_writer *writer = ommai_log_writer_create(ends[1], 1 << 18);
  for (int i = 0; i < 10000; i++) ommai_log_writer_put(writer, "a line that will never be read by anybody");
  ommai_log_writer_destroy(writer);
  close(ends[0]);
  close(ends[1]);
}

static void a_reader_that_is_gone_and_a_full_descriptor_do_no_harm(void **state) {
  (void)state;
  int ends[2];
  signal(SIGPIPE, SIG_IGN);
  assert_int_equal(pipe(ends), 0);
  close(ends[0]);
  struct ommai_log_writer *writer = ommai_log_writer_create(ends[1], 4096);
  for (int i = 0; i < 100; i++) ommai_log_writer_put(writer, "into a broken pipe");
  ommai_log_writer_destroy(writer);
  close(ends[1]);
  writer = ommai_log_writer_create(ends[1], 4096);
  ommai_log_writer_put(writer, "into a closed descriptor");
  ommai_log_writer_destroy(writer);
  int full = open("/dev/full", O_WRONLY);
  writer = ommai_log_writer_create(full, 4096);
  ommai_log_writer_put(writer, "onto a full disk");
  ommai_log_writer_destroy(writer);
  close(full);
  ommai_log_writer_destroy(NULL);
}

static void a_descriptor_that_does_not_wait_gets_everything(void **state) {
  (void)state;
  int ends[2];
  pthread_t reader;
  void *result;
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  struct ommai_log_writer *writer = ommai_log_writer_create(ends[1], 1 << 20);
  assert_int_equal(pthread_create(&reader, NULL, read_in_thread, &ends[0]), 0);
  for (int i = 0; i < 5000; i++) ommai_log_writer_put(writer, "thirty-one characters and an end");
  ommai_log_writer_destroy(writer);
  close(ends[1]);
  pthread_join(reader, &result);
  assert_int_equal(strlen(result), 5000 * (sizeof "thirty-one characters and an end"));
  free(result);
  close(ends[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_are_whole_and_in_order),
      cmocka_unit_test(what_finds_no_room_is_counted),
      cmocka_unit_test(nobody_reading_does_not_keep_the_end),
      cmocka_unit_test(a_reader_that_is_gone_and_a_full_descriptor_do_no_harm),
      cmocka_unit_test(a_descriptor_that_does_not_wait_gets_everything),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
