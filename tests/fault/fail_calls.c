/* A library to preload: one call of the C library fails, as if memory, descriptors or a disk gave
 * out. Counts over all threads, from the start of main.
 *
 *   OMMA_FAIL_CALL    malloc (with calloc, realloc and the aligned ones), read (with pread), write,
 *                     open (with fopen and opendir), mmap, thread;
 *                     descriptor (socket, epoll_create1, eventfd, timerfd_create, dup), watch
 *                     (epoll_ctl); and of sockets accept, receive and send (with sendmsg)
 *   OMMA_FAIL_AT      which call fails, from 1; 0 or none: no call
 *   OMMA_FAIL_REPORT  a file that gets the number of calls when the process ends in order
 *
 * A write to an eventfd never fails: nothing that it needs can give out. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* glibc's own names for what is replaced here. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static atomic_long n_calls;
static atomic_bool counting;
static long fail_at;
static char kind[16];
static int (*program)(int, char **, char **);

/* Counts a call; true where it is to fail. */
static bool fails(const char *name) {
  if (!atomic_load(&counting) || strcmp(kind, name) != 0) return false;
  return atomic_fetch_add(&n_calls, 1) + 1 == fail_at;
}

static void report(void) {
  const char *path = getenv("OMMA_FAIL_REPORT");
  atomic_store(&counting, false);
  int file = path ? creat(path, 0600) : -1;
  if (file < 0) return;
  dprintf(file, "%ld\n", atomic_load(&n_calls));
  close(file);
}

static int counted_main(int n_arguments, char **arguments, char **environment) {
  const char *at = getenv("OMMA_FAIL_AT"), *call = getenv("OMMA_FAIL_CALL");
  fail_at = at ? strtol(at, NULL, 10) : 0;
  snprintf(kind, sizeof kind, "%s", call ? call : "malloc");
  atomic_store(&counting, true);
  int status = program(n_arguments, arguments, environment);
  report();
  return status;
}

/* The functions that are replaced below, found on their first call. ISO C has no cast from an
 * object's pointer to a function's. */
static void find(const char *name, void *function) {
  void *found = dlsym(RTLD_NEXT, name);
  memcpy(function, &found, sizeof found);
}

int __libc_start_main(int (*start)(int, char **, char **), int n_arguments, char **arguments, void (*init)(void),
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end);

int __libc_start_main(int (*start)(int, char **, char **), int n_arguments, char **arguments, void (*init)(void),
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end) {
  int (*next)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
  find("__libc_start_main", &next);
  program = start;
  return next(counted_main, n_arguments, arguments, init, fini, loader_fini, stack_end);
}

static void *no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

void *malloc(size_t size) { return fails("malloc") ? no_memory() : __libc_malloc(size); }

void *calloc(size_t count, size_t size) { return fails("malloc") ? no_memory() : __libc_calloc(count, size); }

void *realloc(void *pointer, size_t size) { return fails("malloc") ? no_memory() : __libc_realloc(pointer, size); }

void *memalign(size_t alignment, size_t size) { return fails("malloc") ? no_memory() : __libc_memalign(alignment, size); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **pointer, size_t alignment, size_t size) {
  void *made = memalign(alignment, size);
  if (!made) return ENOMEM;
  *pointer = made;
  return 0;
}

ssize_t read(int file, void *buffer, size_t size) {
  static ssize_t (*next)(int, void *, size_t);
  if (!next) find("read", &next);
  if (!fails("read")) return next(file, buffer, size);
  errno = EIO;
  return -1;
}

ssize_t pread(int file, void *buffer, size_t size, off_t offset) {
  static ssize_t (*next)(int, void *, size_t, off_t);
  if (!next) find("pread", &next);
  if (!fails("read")) return next(file, buffer, size, offset);
  errno = EIO;
  return -1;
}

static bool is_eventfd(int file) {
  struct stat status;
  return fstat(file, &status) == 0 && (status.st_mode & S_IFMT) == 0;
}

ssize_t write(int file, const void *data, size_t size) {
  static ssize_t (*next)(int, const void *, size_t);
  if (!next) find("write", &next);
  if (is_eventfd(file) || !fails("write")) return next(file, data, size);
  errno = ENOSPC;
  return -1;
}

int open(const char *path, int flags, ...) {
  static int (*next)(const char *, int, mode_t);
  if (!next) find("open", &next);
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (!fails("open")) return next(path, flags, mode);
  errno = EMFILE;
  return -1;
}

FILE *fopen(const char *path, const char *mode) {
  static FILE *(*next)(const char *, const char *);
  if (!next) find("fopen", &next);
  if (!fails("open")) return next(path, mode);
  errno = EMFILE;
  return NULL;
}

DIR *opendir(const char *path) {
  static DIR *(*next)(const char *);
  if (!next) find("opendir", &next);
  if (!fails("open")) return next(path);
  errno = EMFILE;
  return NULL;
}

/* A call that gives a new descriptor, or EMFILE. */
static int no_descriptor(void) {
  errno = EMFILE;
  return -1;
}

int socket(int domain, int type, int protocol) {
  static int (*next)(int, int, int);
  if (!next) find("socket", &next);
  return fails("descriptor") ? no_descriptor() : next(domain, type, protocol);
}

int epoll_create1(int flags) {
  static int (*next)(int);
  if (!next) find("epoll_create1", &next);
  return fails("descriptor") ? no_descriptor() : next(flags);
}

int eventfd(unsigned value, int flags) {
  static int (*next)(unsigned, int);
  if (!next) find("eventfd", &next);
  return fails("descriptor") ? no_descriptor() : next(value, flags);
}

int timerfd_create(int clock, int flags) {
  static int (*next)(int, int);
  if (!next) find("timerfd_create", &next);
  return fails("descriptor") ? no_descriptor() : next(clock, flags);
}

int dup(int file) {
  static int (*next)(int);
  if (!next) find("dup", &next);
  return fails("descriptor") ? no_descriptor() : next(file);
}

int epoll_ctl(int epoll, int operation, int file, struct epoll_event *event) {
  static int (*next)(int, int, int, struct epoll_event *);
  if (!next) find("epoll_ctl", &next);
  if (operation == EPOLL_CTL_DEL || !fails("watch")) return next(epoll, operation, file, event);
  errno = ENOSPC;
  return -1;
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
  static void *(*next)(void *, size_t, int, int, int, off_t);
  if (!next) find("mmap", &next);
  if (!fails("mmap")) return next(address, size, protection, flags, file, offset);
  errno = ENOMEM;
  return MAP_FAILED;
}

int accept4(int socket, struct sockaddr *address, socklen_t *size, int flags) {
  static int (*next)(int, struct sockaddr *, socklen_t *, int);
  if (!next) find("accept4", &next);
  if (!fails("accept")) return next(socket, address, size, flags);
  errno = ENFILE;
  return -1;
}

ssize_t recv(int socket, void *buffer, size_t size, int flags) {
  static ssize_t (*next)(int, void *, size_t, int);
  if (!next) find("recv", &next);
  if (!fails("receive")) return next(socket, buffer, size, flags);
  errno = ECONNRESET;
  return -1;
}

ssize_t send(int socket, const void *buffer, size_t size, int flags) {
  static ssize_t (*next)(int, const void *, size_t, int);
  if (!next) find("send", &next);
  if (!fails("send")) return next(socket, buffer, size, flags);
  errno = EPIPE;
  return -1;
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags) {
  static ssize_t (*next)(int, const struct msghdr *, int);
  if (!next) find("sendmsg", &next);
  if (!fails("send")) return next(socket, message, flags);
  errno = EPIPE;
  return -1;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (!next) find("pthread_create", &next);
  return fails("thread") ? EAGAIN : next(thread, attributes, start, argument);
}
