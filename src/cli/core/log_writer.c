#include "cli/core/log_writer.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/clock.h"

#define POLL_MS 100
#define LAST_NS INT64_C(1000000000)

struct ommai_log_writer {
  int descriptor;
  size_t capacity;
  pthread_t thread;
  char *writing; /* [capacity], the thread's */

  pthread_mutex_t mutex;
  pthread_cond_t changed;
  char *waiting; /* [capacity] whole lines */
  size_t n_waiting;
  long long n_dropped; /* since the last line that was taken */
  bool stop;
  int64_t stop_ns;
};

/* Whether the time for last words is over. */
static bool must_give_up(struct ommai_log_writer *writer) {
  pthread_mutex_lock(&writer->mutex);
  bool over = writer->stop && ommai_clock_ns() - writer->stop_ns > LAST_NS;
  pthread_mutex_unlock(&writer->mutex);
  return over;
}

/* Waits until some bytes can be written without waiting; false when nobody will ever read. A
 * regular file always can. */
static bool wait_for_room(struct ommai_log_writer *writer) {
  struct pollfd poller = {.fd = writer->descriptor, .events = POLLOUT};
  for (;;) {
    int ready = poll(&poller, 1, POLL_MS);
    if (ready > 0) return !(poller.revents & (POLLERR | POLLNVAL));
    if (ready < 0 && errno != EINTR) return false;
    if (must_give_up(writer)) return false;
  }
}

/* Whole lines of at most PIPE_BUF bytes, which a pipe that has room takes in one piece; of a longer
 * line a piece. */
static size_t next_piece(const char *text, size_t size) {
  size_t limit = size < PIPE_BUF ? size : PIPE_BUF;
  const char *end = memrchr(text, '\n', limit);
  return end ? (size_t)(end - text) + 1 : limit;
}

/* Lines that cannot be written are lost: there is no place left to report it. */
static void write_all(struct ommai_log_writer *writer, const char *text, size_t size) {
  while (size) {
    if (!wait_for_room(writer)) return;
    ssize_t written = write(writer->descriptor, text, next_piece(text, size));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
    if (written <= 0) continue;
    text += written;
    size -= (size_t)written;
  }
}

static void *writer_main(void *context) {
  pthread_setname_np(pthread_self(), "omma-log");
  struct ommai_log_writer *writer = context;
  bool stop = false;
  while (!stop) {
    pthread_mutex_lock(&writer->mutex);
    while (!writer->n_waiting && !writer->stop) pthread_cond_wait(&writer->changed, &writer->mutex);
    char *text = writer->waiting;
    size_t size = writer->n_waiting;
    writer->waiting = writer->writing;
    writer->writing = text;
    writer->n_waiting = 0;
    stop = writer->stop && !size;
    pthread_mutex_unlock(&writer->mutex);
    write_all(writer, text, size);
  }
  return NULL;
}

/* Interrupts are the main thread's business. */
static bool start(struct ommai_log_writer *writer) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&writer->thread, NULL, writer_main, writer) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

static void release(struct ommai_log_writer *writer) {
  ommai_release(&ommai_default_allocator, writer->writing, writer->capacity, 1);
  ommai_release(&ommai_default_allocator, writer->waiting, writer->capacity, 1);
  pthread_mutex_destroy(&writer->mutex);
  pthread_cond_destroy(&writer->changed);
  ommai_release(&ommai_default_allocator, writer, 1, sizeof *writer);
}

struct ommai_log_writer *ommai_log_writer_create(int descriptor, size_t capacity) {
  struct ommai_log_writer *writer = ommai_allocate(&ommai_default_allocator, 1, sizeof *writer);
  if (!writer) return NULL;
  writer->descriptor = descriptor;
  writer->capacity = capacity;
  pthread_mutex_init(&writer->mutex, NULL);
  pthread_cond_init(&writer->changed, NULL);
  writer->writing = ommai_allocate(&ommai_default_allocator, capacity, 1);
  writer->waiting = ommai_allocate(&ommai_default_allocator, capacity, 1);
  if (writer->writing && writer->waiting && start(writer)) return writer;
  release(writer);
  return NULL;
}

static bool append(struct ommai_log_writer *writer, const char *line) {
  size_t size = strlen(line);
  if (size >= writer->capacity - writer->n_waiting) return false;
  memcpy(writer->waiting + writer->n_waiting, line, size);
  writer->waiting[writer->n_waiting + size] = '\n';
  writer->n_waiting += size + 1;
  return true;
}

void ommai_log_writer_put(struct ommai_log_writer *writer, const char *line) {
  char lost[64];
  pthread_mutex_lock(&writer->mutex);
  snprintf(lost, sizeof lost, "(%lld lines of the log were lost here)", writer->n_dropped);
  if (writer->n_dropped && append(writer, lost)) writer->n_dropped = 0;
  if (writer->n_dropped || !append(writer, line)) writer->n_dropped++;
  pthread_cond_signal(&writer->changed);
  pthread_mutex_unlock(&writer->mutex);
}

void ommai_log_writer_destroy(struct ommai_log_writer *writer) {
  if (!writer) return;
  pthread_mutex_lock(&writer->mutex);
  writer->stop = true;
  writer->stop_ns = ommai_clock_ns();
  pthread_cond_signal(&writer->changed);
  pthread_mutex_unlock(&writer->mutex);
  pthread_join(writer->thread, NULL);
  release(writer);
}
