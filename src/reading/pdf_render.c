#include "reading/pdf_render.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "base/error.h"

#define MAX_INFO 65536 /* of what pdfinfo prints */
#define NOT_STARTED 127
#define LOOK_MS 200 /* between two questions whether to stop */
#define OPEN_FILE "/proc/self/fd/0"

struct process {
  pid_t id;
  int out, errors; /* its standard output and error */
  char said[4096]; /* the beginning of its errors */
  size_t n_said;
  double until; /* when its time is over */
  bool late, stopped;
};

/* In the new process: nothing but calls that are safe after fork. */
static _Noreturn void become(char *const *command, int in, int out, int errors, const struct ommai_pdf_limits *limits) {
  static char *const environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=/nonexistent", NULL};
  const struct rlimit memory = {(rlim_t)limits->max_bytes, (rlim_t)limits->max_bytes}, none = {0, 0},
                      time = {(rlim_t)limits->seconds, (rlim_t)limits->seconds + 1};
  if (in < 0) in = open("/dev/null", O_RDONLY);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (in >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(errors, 2) == 2 && setrlimit(RLIMIT_AS, &memory) == 0 &&
      setrlimit(RLIMIT_CPU, &time) == 0 && setrlimit(RLIMIT_CORE, &none) == 0 && setrlimit(RLIMIT_FSIZE, &none) == 0) {
    sigset_t signals;
    sigemptyset(&signals);
    sigprocmask(SIG_SETMASK, &signals, NULL);
    /* A list of fonts that is out of date is written anew where it may be: that fails, and is no
     * reason to end. */
    signal(SIGXFSZ, SIG_IGN);
    execvpe(command[0], command, environment);
  }
  _exit(NOT_STARTED);
}

/* The program's standard input is the file where it is open. */
static enum omma_status start(char *const *command, const struct ommai_pdf_file *file, const struct ommai_pdf_limits *limits, struct process *process,
                              struct omma_error *error) {
  int out[2] = {-1, -1}, errors[2] = {-1, -1};
  *process = (struct process){.id = -1, .until = ommai_clock_seconds() + limits->seconds};
  bool piped = pipe2(out, O_CLOEXEC) == 0 && pipe2(errors, O_CLOEXEC) == 0;
  process->id = piped ? fork() : -1;
  if (process->id == 0) become(command, file->path ? -1 : file->descriptor, out[1], errors[1], limits);
  int reason = errno;
  if (out[1] >= 0) close(out[1]);
  if (errors[1] >= 0) close(errors[1]);
  process->out = out[0];
  process->errors = errors[0];
  if (process->id > 0) return OMMA_OK;
  if (out[0] >= 0) close(out[0]);
  if (errors[0] >= 0) close(errors[0]);
  return ommai_fail(error, OMMA_ERROR_IO, "%s cannot be started: %s", command[0], strerror(reason));
}

/* Reads what it says, and up to `size` bytes of its output; returns their number, less only at its
 * end, when its time is over or it is to stop. */
static size_t read_output(struct process *process, const struct ommai_pdf_limits *limits, uint8_t *data, size_t size) {
  size_t got = 0;
  char ignored[512];
  while (got < size) {
    struct pollfd files[2] = {{.fd = process->out, .events = POLLIN}, {.fd = process->errors, .events = POLLIN}};
    double left = process->until - ommai_clock_seconds();
    process->late = left <= 0;
    process->stopped = limits->stop && limits->stop(limits->context);
    if (process->late || process->stopped) break;
    if (poll(files, 2, limits->stop && left * 1000 > LOOK_MS ? LOOK_MS : (int)(left * 1000) + 1) <= 0) continue;
    if (files[1].revents) {
      bool room = process->n_said < sizeof process->said - 1;
      ssize_t n = read(process->errors, room ? process->said + process->n_said : ignored,
                       room ? sizeof process->said - 1 - process->n_said : sizeof ignored);
      if (n > 0 && room) process->n_said += (size_t)n;
      if (n <= 0 && process->errors >= 0) {
        close(process->errors);
        process->errors = -1;
      }
    }
    if (!files[0].revents) continue;
    ssize_t n = read(process->out, data + got, size - got);
    if (n == 0) break;
    if (n > 0) got += (size_t)n;
  }
  return got;
}

/* Ends it where it still runs. Whether it ended well by itself. */
static bool finish(struct process *process, bool wanted) {
  int status = 0;
  if (!wanted || process->late || process->stopped) kill(process->id, SIGKILL);
  close(process->out);
  if (process->errors >= 0) close(process->errors);
  while (waitpid(process->id, &status, 0) < 0 && errno == EINTR) continue;
  process->said[process->n_said] = '\0';
  if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_STARTED) memcpy(process->said, "not installed", 14);
  /* A page that does not fit becomes one pixel, and the program ends well. */
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 && !strstr(process->said, "memory");
}

static enum omma_status explain(const struct process *process, const char *program, const struct ommai_pdf_limits *limits,
                                struct omma_error *error) {
  const char *said = process->said;
  if (strcmp(said, "not installed") == 0) {
    return ommai_fail(error, OMMA_ERROR_IO, "%s is not installed: PDF files need poppler's programs (package poppler-utils)",
                      program);
  }
  if (process->stopped) return ommai_fail(error, OMMA_ERROR_CANCELLED, "was given up");
  if (process->late) return ommai_fail(error, OMMA_ERROR_LIMIT, "takes longer than %d s", limits->seconds);
  if (strcasestr(said, "password")) return ommai_fail(error, OMMA_ERROR_FORMAT, "is encrypted and needs a password");
  if (!*said || strcasestr(said, "memory")) {
    return ommai_fail(error, OMMA_ERROR_LIMIT, "needs more than %" PRId64 " MiB or %d s (%s)", limits->max_bytes >> 20,
                      limits->seconds, program);
  }
  return ommai_fail(error, OMMA_ERROR_FORMAT, "cannot be read: %.*s", (int)strcspn(said, "\r\n"), said);
}

enum omma_status ommai_pdf_count_pages(const struct ommai_pdf_file *file, const struct ommai_pdf_limits *limits, int64_t *n_pages,
                                       struct omma_error *error) {
  char *command[] = {"pdfinfo", "--", file->path ? (char *)file->path : OPEN_FILE, NULL};
  char info[MAX_INFO + 1];
  struct process process;
  if (file->path && access(file->path, R_OK) != 0) return ommai_fail(error, OMMA_ERROR_IO, "cannot be read: %s", strerror(errno));
  OMMAI_TRY(start(command, file, limits, &process, error));
  size_t size = read_output(&process, limits, (uint8_t *)info, MAX_INFO);
  info[size] = '\0';
  bool good = finish(&process, size < MAX_INFO);
  const char *line = strstr(info, "\nPages:");
  *n_pages = line ? strtoll(line + 7, NULL, 10) : 0;
  if (!good) return explain(&process, command[0], limits, error);
  if (*n_pages > 0) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_FORMAT, "has no pages");
}

static bool runs(const char *program) {
  static const struct ommai_pdf_limits limits = {.max_bytes = (int64_t)1 << 30, .seconds = 10};
  char *command[] = {(char *)program, "-v", NULL};
  uint8_t version[256];
  struct process process;
  if (start(command, &(struct ommai_pdf_file){.path = program}, &limits, &process, NULL) != OMMA_OK) return false;
  read_output(&process, &limits, version, sizeof version);
  finish(&process, true);
  return strcmp(process.said, "not installed") != 0;
}

bool ommai_pdf_is_installed(void) { return runs("pdfinfo") && runs("pdftoppm"); }

/* A number of the PPM's head and the blank after it. */
static bool read_number(struct process *process, const struct ommai_pdf_limits *limits, int64_t *value) {
  uint8_t byte;
  for (*value = 0; read_output(process, limits, &byte, 1) == 1;) {
    if (isspace(byte)) return *value > 0;
    if (!isdigit(byte) || *value > INT32_MAX) return false;
    *value = *value * 10 + (byte - '0');
  }
  return false;
}

static enum omma_status read_page(struct process *process, const struct ommai_pdf_limits *limits, struct ommai_image **image,
                                  bool *whole, struct omma_error *error) {
  const struct omma_allocator *allocator = &ommai_default_allocator;
  uint8_t mark[3];
  int64_t width, height, largest;
  *whole = read_output(process, limits, mark, 3) == 3 && memcmp(mark, "P6\n", 3) == 0 && read_number(process, limits, &width) &&
           read_number(process, limits, &height) && read_number(process, limits, &largest) && largest == 255;
  if (!*whole) return OMMA_OK;
  if (width > limits->max_pixels / height) {
    return ommai_fail(error, OMMA_ERROR_LIMIT,
                      "has %" PRId64 " x %" PRId64 " pixels: at most %" PRId64 " are allowed (--dpi, --max-page-pixels)", width,
                      height, limits->max_pixels);
  }
  size_t size = (size_t)(width * height * 3);
  struct ommai_image *made = ommai_allocate(allocator, 1, sizeof *made);
  uint8_t *pixels = made ? ommai_allocate_uninitialised(allocator, size, 1) : NULL;
  if (!pixels) {
    ommai_release(allocator, made, 1, sizeof *made);
    return ommai_fail_memory(error, "a page", size);
  }
  *made = (struct ommai_image){(int32_t)width, (int32_t)height, pixels, OMMAI_IMAGE_UNKNOWN, *allocator};
  *image = made;
  *whole = read_output(process, limits, pixels, size) == size;
  return OMMA_OK;
}

enum omma_status ommai_pdf_render(const struct ommai_pdf_file *file, int64_t page, int dpi, const struct ommai_pdf_limits *limits,
                                  struct ommai_image **image, struct omma_error *error) {
  char number[24], resolution[16];
  char *command[] = {"pdftoppm", "-r", resolution, "-f", number, "-l", number, "--",
                     file->path ? (char *)file->path : OPEN_FILE, NULL};
  struct process process;
  bool whole = false;
  snprintf(number, sizeof number, "%" PRId64, page);
  snprintf(resolution, sizeof resolution, "%d", dpi);
  *image = NULL;
  OMMAI_TRY(start(command, file, limits, &process, error));
  enum omma_status status = read_page(&process, limits, image, &whole, error);
  bool good = finish(&process, whole && status == OMMA_OK) && whole;
  if (status == OMMA_OK && !good) status = explain(&process, command[0], limits, error);
  if (status == OMMA_OK) return status;
  ommai_image_destroy(*image);
  *image = NULL;
  return status;
}
