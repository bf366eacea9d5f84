/* The client on libcurl's multi interface with its own epoll loop: the loop passes libcurl the
 * sockets are ready, so that an event costs the same with one stream and with a thousand. */
#include <curl/curl.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/allocator.h"
#include "base/clock.h"
#include "bench_client/http_client.h"

#define N_READY 64
#define REASON_SIZE 64
/* Descriptors next to those of connections: standard streams, files, epoll, timer, resolver. */
#define OTHER_DESCRIPTORS 64
#define CONNECT_SECONDS 60

struct ommai_http {
  const struct omma_allocator *allocator;
  struct ommai_http_options options;
  CURLM *multi;
  int epoll, timer;
  int wake;           /* the descriptor in epoll next to the sockets, or -1 */
  double curl_due;    /* when libcurl wants to be called again; 0: not at all */
  struct call *calls; /* those that run, a list */
};

/* A request on its way. */
struct call {
  struct ommai_http *http;
  struct call *next, *previous;
  struct ommai_http_request request;
  CURL *easy;
  struct curl_slist *headers;
  int status;
  char reason[REASON_SIZE];
  double seconds; /* the limit */
  char failure[CURL_ERROR_SIZE];
};

static int on_socket(CURL *easy, curl_socket_t socket, int what, void *context, void *known) {
  struct ommai_http *http = context;
  (void)easy;
  if (what == CURL_POLL_REMOVE) {
    epoll_ctl(http->epoll, EPOLL_CTL_DEL, socket, NULL);
    return 0;
  }
  struct epoll_event event = {.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u),
                              .data.fd = socket};
  int failed = epoll_ctl(http->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event);
  /* A closed descriptor's number comes back for a new socket, of which libcurl thinks that it is
   * known, or not. */
  if (failed && errno == EEXIST) failed = epoll_ctl(http->epoll, EPOLL_CTL_MOD, socket, &event);
  if (failed && errno == ENOENT) failed = epoll_ctl(http->epoll, EPOLL_CTL_ADD, socket, &event);
  if (!known) curl_multi_assign(http->multi, socket, http);
  return failed ? -1 : 0;
}

static int on_timer(CURLM *multi, long milliseconds, void *context) {
  struct ommai_http *http = context;
  (void)multi;
  http->curl_due = milliseconds < 0 ? 0 : ommai_clock_seconds() + (double)milliseconds * 1e-3;
  return 0;
}

/* Makes sure of a descriptor per connection. */
static enum omma_status raise_file_limit(size_t n_parallel, struct omma_error *error) {
  struct rlimit limit;
  rlim_t needed = (rlim_t)n_parallel + OTHER_DESCRIPTORS;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return OMMA_OK;
  rlim_t max_descriptors = limit.rlim_max;
  if (max_descriptors != RLIM_INFINITY && max_descriptors < needed) {
    return ommai_fail(error, OMMA_ERROR_LIMIT,
                      "%zu requests at a time need %llu open files, and the limit is %llu: raise it (ulimit -n) or give "
                      "--max-concurrency %lld",
                      n_parallel, (unsigned long long)needed, (unsigned long long)max_descriptors,
                      (long long)max_descriptors > OTHER_DESCRIPTORS ? (long long)max_descriptors - OTHER_DESCRIPTORS : 1);
  }
  limit.rlim_cur = needed;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_LIMIT, "cannot raise the limit of open files to %llu: %s", (unsigned long long)needed,
                    strerror(errno));
}

static enum omma_status open_multi(struct ommai_http *http, struct omma_error *error) {
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return ommai_fail(error, OMMA_ERROR_INTERNAL, "libcurl does not start");
  http->multi = curl_multi_init();
  if (!http->multi) return ommai_fail_memory(error, "the HTTP client", 0);
  curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
  curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
  curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, on_timer);
  curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
  curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, (long)http->options.n_parallel + 1);
  http->epoll = epoll_create1(EPOLL_CLOEXEC);
  http->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = http->timer};
  if (http->epoll >= 0 && http->timer >= 0 && epoll_ctl(http->epoll, EPOLL_CTL_ADD, http->timer, &event) == 0) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_IO, "cannot prepare for waiting: %s", strerror(errno));
}

enum omma_status ommai_http_create(const struct ommai_http_options *options, const struct omma_allocator *allocator,
                                   struct ommai_http **http, struct omma_error *error) {
  *http = NULL;
  OMMAI_TRY(raise_file_limit(options->n_parallel, error));
  struct ommai_http *made = ommai_allocate(allocator, 1, sizeof *made);
  if (!made) return ommai_fail_memory(error, "the HTTP client", sizeof *made);
  *made = (struct ommai_http){.allocator = allocator, .options = *options, .epoll = -1, .timer = -1, .wake = -1};
  enum omma_status status = open_multi(made, error);
  if (status == OMMA_OK) {
    *http = made;
  } else {
    ommai_http_destroy(made);
  }
  return status;
}

static void release_call(struct call *call) {
  struct ommai_http *http = call->http;
  *(call->previous ? &call->previous->next : &http->calls) = call->next;
  if (call->next) call->next->previous = call->previous;
  curl_multi_remove_handle(http->multi, call->easy);
  curl_easy_cleanup(call->easy);
  curl_slist_free_all(call->headers);
  ommai_release(http->allocator, call, 1, sizeof *call);
}

void ommai_http_destroy(struct ommai_http *http) {
  if (!http) return;
  while (http->calls) release_call(http->calls);
  if (http->multi) curl_multi_cleanup(http->multi);
  if (http->epoll >= 0) close(http->epoll);
  if (http->timer >= 0) close(http->timer);
  curl_global_cleanup();
  ommai_release(http->allocator, http, 1, sizeof *http);
}

/* A status line, "HTTP/1.1 404 Not Found"; other headers are not looked at. */
static size_t on_header(char *bytes, size_t size, size_t count, void *context) {
  struct call *call = context;
  size *= count;
  if (size < 5 || memcmp(bytes, "HTTP/", 5) != 0) return size;
  long status = 0;
  curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
  call->status = (int)status;
  const char *at = memchr(bytes, ' ', size), *end = bytes + size;
  while (end > bytes && (end[-1] == '\r' || end[-1] == '\n')) end--;
  at = at ? memchr(at + 1, ' ', (size_t)(end - at - 1)) : NULL;
  size_t length = at ? (size_t)(end - at - 1) : 0;
  if (length >= REASON_SIZE) length = REASON_SIZE - 1;
  if (length) memcpy(call->reason, at + 1, length);
  call->reason[length] = '\0';
  return size;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *context) {
  struct call *call = context;
  size *= count;
  if (!call->status) {
    long status = 0;
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    call->status = (int)status;
  }
  return call->request.on_data(call->request.context, call->status, bytes, size) ? size : 0;
}

static bool add_header(struct call *call, const char *header) {
  struct curl_slist *longer = curl_slist_append(call->headers, header);
  if (longer) call->headers = longer;
  return longer != NULL;
}

static bool set_headers(struct call *call) {
  const struct ommai_http_request *request = &call->request;
  char line[512];
  bool done = true;
  if (request->body) {
    done = add_header(call, "Content-Type: application/json") && add_header(call, "Expect:");
  }
  for (const char *const *header = request->headers; header && *header && done; header++) done = add_header(call, *header);
  if (request->request_id && done) {
    snprintf(line, sizeof line, "X-Request-Id: %s", request->request_id);
    done = add_header(call, line);
  }
  return done;
}

static void set_options(struct call *call) {
  const struct ommai_http_request *request = &call->request;
  const struct ommai_http_options *options = &call->http->options;
  CURL *easy = call->easy;
  curl_easy_setopt(easy, CURLOPT_URL, request->url);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)fmax(call->seconds * 1e3, 1));
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->failure);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
  if (options->insecure) {
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (request->body) {
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
  }
}

enum omma_status ommai_http_send(struct ommai_http *http, const struct ommai_http_request *request, struct omma_error *error) {
  struct call *call = ommai_allocate(http->allocator, 1, sizeof *call);
  if (!call) return ommai_fail_memory(error, "a request", sizeof *call);
  *call = (struct call){.http = http, .request = *request, .next = http->calls, .easy = curl_easy_init()};
  call->seconds = request->timeout_seconds > 0 ? request->timeout_seconds : http->options.timeout_seconds;
  if (!call->easy || !set_headers(call)) {
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    ommai_release(http->allocator, call, 1, sizeof *call);
    return ommai_fail_memory(error, "a request", sizeof *call);
  }
  set_options(call);
  if (http->calls) http->calls->previous = call;
  http->calls = call;
  CURLMcode code = curl_multi_add_handle(http->multi, call->easy);
  if (code != CURLM_OK) {
    release_call(call);
    return ommai_fail(error, OMMA_ERROR_INTERNAL, "cannot start a request: %s", curl_multi_strerror(code));
  }
  /* A new request is taken up at the next timeout. Doing that here keeps it from waiting behind
   * those that are started next. */
  int running;
  curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
  return OMMA_OK;
}

/* Reports why libcurl ended a call. Its own words hold times and counts where equal failures must
 * read alike. */
static void describe(struct call *call, CURLcode code) {
  curl_off_t connected = 0;
  long number = 0;
  if (code == CURLE_OPERATION_TIMEDOUT) {
    curl_easy_getinfo(call->easy, CURLINFO_PRETRANSFER_TIME_T, &connected);
    bool by_connection = !connected && call->seconds > CONNECT_SECONDS;
    snprintf(call->failure, sizeof call->failure, "no %s within %.10g s", by_connection ? "connection" : "end",
             by_connection ? CONNECT_SECONDS : round(call->seconds * 10) / 10);
  } else if (code == CURLE_COULDNT_CONNECT) {
    curl_easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &number);
    snprintf(call->failure, sizeof call->failure, "cannot connect%s%s", number ? ": " : "",
             number ? strerror((int)number) : "");
  } else if (code == CURLE_PARTIAL_FILE) {
    snprintf(call->failure, sizeof call->failure, "the connection closed before the end of the reply");
  } else if (!call->failure[0]) {
    snprintf(call->failure, sizeof call->failure, "%s", curl_easy_strerror(code));
  }
}

/* Reports the end of a call, which is gone then. The callback may start others. */
static void end_call(struct call *call, const char *failure) {
  struct call ended = *call;
  release_call(call);
  struct ommai_http_end end = {.status = ended.status, .reason = ended.reason, .failure = failure};
  if (failure && !*failure) end.failure = ended.failure;
  ended.request.on_end(ended.request.context, &end);
}

/* Reports what has ended; false when nothing has. */
static bool finish_calls(struct ommai_http *http) {
  int left;
  bool any = false;
  CURLMsg *message;
  while ((message = curl_multi_info_read(http->multi, &left))) {
    char *private;
    if (message->msg != CURLMSG_DONE) continue;
    any = true;
    CURLcode code = message->data.result;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
    struct call *call = (struct call *)(void *)private;
    if (code != CURLE_OK) describe(call, code);
    end_call(call, code == CURLE_OK ? NULL : "");
  }
  return any;
}

void ommai_http_cancel(struct ommai_http *http, const char *why) {
  while (http->calls) end_call(http->calls, why);
}

/* Arms the timer for the earlier of the caller's and libcurl's times. A zero would disarm it. */
static void arm(struct ommai_http *http, double until) {
  double due = http->curl_due > 0 && http->curl_due < until ? http->curl_due : until;
  double left = due - ommai_clock_seconds();
  struct itimerspec time = {0};
  if (left > 1e9) left = 1e9;
  if (left > 0) {
    time.it_value.tv_sec = (time_t)left;
    time.it_value.tv_nsec = (long)((left - (double)time.it_value.tv_sec) * 1e9);
  }
  if (time.it_value.tv_sec == 0 && time.it_value.tv_nsec == 0) time.it_value.tv_nsec = 1;
  timerfd_settime(http->timer, 0, &time, NULL);
}

static void watch(struct ommai_http *http, int wake) {
  if (wake == http->wake) return;
  if (http->wake >= 0) epoll_ctl(http->epoll, EPOLL_CTL_DEL, http->wake, NULL);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = wake};
  if (wake >= 0) epoll_ctl(http->epoll, EPOLL_CTL_ADD, wake, &event);
  http->wake = wake;
}

static void take_ready(struct ommai_http *http, const struct epoll_event *event) {
  int running;
  if (event->data.fd == http->timer || event->data.fd == http->wake) return;
  int what = (event->events & (EPOLLIN | EPOLLHUP | EPOLLRDHUP) ? CURL_CSELECT_IN : 0) |
             (event->events & EPOLLOUT ? CURL_CSELECT_OUT : 0) | (event->events & EPOLLERR ? CURL_CSELECT_ERR : 0);
  curl_multi_socket_action(http->multi, event->data.fd, what, &running);
}

enum omma_status ommai_http_wait(struct ommai_http *http, double until, int wake, struct omma_error *error) {
  struct epoll_event ready[N_READY];
  int running;
  if (finish_calls(http)) return OMMA_OK;
  watch(http, wake);
  arm(http, until);
  int n = epoll_wait(http->epoll, ready, N_READY, -1);
  if (n < 0 && errno != EINTR) return ommai_fail(error, OMMA_ERROR_IO, "cannot wait for replies: %s", strerror(errno));
  for (int i = 0; i < n; i++) take_ready(http, &ready[i]);
  if (http->curl_due > 0 && ommai_clock_seconds() >= http->curl_due) {
    http->curl_due = 0;
    curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
  }
  finish_calls(http);
  return OMMA_OK;
}
