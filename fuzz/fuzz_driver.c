/* The main program of a fuzz target where libFuzzer is not: replays files, then mutates them for a
 * while. The input that ends the program is written to a file. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fuzz_input.h"

enum { MAX_FILES = 2000, MAX_BYTES = 1 << 16, PATH_SIZE = 1024 };

struct corpus {
  uint8_t *bytes[MAX_FILES];
  size_t size[MAX_FILES];
  int n;
};

/* The input in work, for the handler of a death. */
static const uint8_t *current;
static size_t current_size;

/* Of the sanitizers, where the program is built with them. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void save_current(void) {
  static const char name[] = "fuzz-failure.bin", words[] = "the input is in fuzz-failure.bin\n";
  int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  if (write(file, current, current_size) == (ssize_t)current_size && write(2, words, sizeof words - 1) < 0) _exit(1);
  close(file);
}

static void on_signal(int number) {
  save_current();
  signal(number, SIG_DFL);
  raise(number);
}

static void run(const uint8_t *bytes, size_t size) {
  uint8_t *exact = malloc(size ? size : 1); /* so that reading past the end is seen */
  if (!exact) abort();
  if (size) memcpy(exact, bytes, size);
  current = exact;
  current_size = size;
  LLVMFuzzerTestOneInput(exact, size);
  free(exact);
}

/* ---- files ---- */

static int read_file(const char *path, struct corpus *corpus) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return 2;
  }
  uint8_t *bytes = malloc(MAX_BYTES);
  if (!bytes) abort();
  size_t size = fread(bytes, 1, MAX_BYTES, file);
  fclose(file);
  run(bytes, size);
  if (corpus->n < MAX_FILES) {
    corpus->size[corpus->n] = size;
    corpus->bytes[corpus->n++] = bytes;
  } else {
    free(bytes);
  }
  return 0;
}

/* A file, or the files of a folder. */
static int read_path(const char *path, struct corpus *corpus) {
  struct stat kind;
  if (stat(path, &kind) != 0 || !S_ISDIR(kind.st_mode)) return read_file(path, corpus);
  DIR *folder = opendir(path);
  int status = folder ? 0 : 2;
  for (struct dirent *entry = NULL; folder && (entry = readdir(folder));) {
    char name[PATH_SIZE];
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    if (stat(name, &kind) == 0 && S_ISREG(kind.st_mode) && read_file(name, corpus) != 0) status = 2;
  }
  if (folder) closedir(folder);
  return status;
}

/* ---- mutation ---- */

static uint64_t next_random(uint64_t *state) {
  *state += 0x9e3779b97f4a7c15u;
  uint64_t z = (*state ^ (*state >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static size_t below(uint64_t *state, size_t n) { return n ? (size_t)(next_random(state) % n) : 0; }

/* One change in place; returns the new size. */
static size_t change(uint64_t *state, uint8_t *bytes, size_t size) {
  static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, '"', '{', '[', ',', '\\'};
  size_t at = below(state, size), length = 1 + below(state, 8);
  switch (next_random(state) % 7) {
    case 0:
      if (size) bytes[at] ^= (uint8_t)(1u << below(state, 8));
      return size;
    case 1:
      if (size) bytes[at] = (uint8_t)next_random(state);
      return size;
    case 2:
      if (size) bytes[at] = edges[below(state, sizeof edges)];
      return size;
    case 3: return size > 1 && below(state, 4) == 0 ? at + 1 : size;
    case 4:
      if (at + length >= size) return size;
      memmove(bytes + at, bytes + at + length, size - at - length);
      return size - length;
    case 5:
      if (size + length > MAX_BYTES) return size;
      memmove(bytes + at + length, bytes + at, size - at);
      for (size_t i = 0; i < length; i++) bytes[at + i] = (uint8_t)next_random(state);
      return size + length;
    default:
      if (size > length) memmove(bytes + below(state, size - length), bytes + below(state, size - length), length);
      return size;
  }
}

/* Input `number` of a seed: an input of the corpus with a few changes, or bytes from nothing. */
static size_t make_input(const struct corpus *corpus, uint64_t seed, uint64_t number, uint8_t *bytes) {
  uint64_t state = seed * 0x2545f4914f6cdd1du + number;
  size_t size = below(&state, 200);
  if (corpus->n > 0 && below(&state, 5) > 0) {
    size_t index = below(&state, (size_t)corpus->n);
    size = corpus->size[index];
    memcpy(bytes, corpus->bytes[index], size);
  } else {
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)next_random(&state);
  }
  for (size_t left = 1 + below(&state, 12); left > 0; left--) size = change(&state, bytes, size);
  return size;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void mutate(const struct corpus *corpus, uint64_t seed, double seconds) {
  static uint8_t bytes[MAX_BYTES];
  uint64_t number = 0;
  printf("seed %" PRIu64 ", %g s\n", seed, seconds);
  fflush(stdout);
  for (double end = now() + seconds; now() < end; number++) run(bytes, make_input(corpus, seed, number, bytes));
  printf("%" PRIu64 " inputs\n", number);
}

int main(int argc, char **argv) {
  static struct corpus corpus;
  double seconds = 0.0;
  uint64_t seed = (uint64_t)time(NULL);
  int status = 0;
  signal(SIGABRT, on_signal);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_current);
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      seconds = strtod(argv[++i], NULL);
    } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      seed = strtoull(argv[++i], NULL, 10);
    } else if (argv[i][0] == '-') {
      fprintf(stderr, "usage: %s [--seconds T] [--seed N] [FILE|FOLDER]...\n", argv[0]);
      return 2;
    } else if (read_path(argv[i], &corpus) != 0) {
      status = 2;
    }
  }
  if (seconds > 0.0) mutate(&corpus, seed, seconds);
  for (int i = 0; i < corpus.n; i++) free(corpus.bytes[i]);
  return status;
}
