/* Fetching by libcurl. Redirects are followed here and not by libcurl, so that each hop's scheme,
 * host and address pass the same checks. The address is checked when libcurl is about to connect
 * to it: a name that resolves differently the next time gains nothing. */
#include "server/media/media_fetch.h"

#include <curl/curl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "server/media/media_address.h"

#define MAX_URL 8192
#define MAX_REDIRECTS 5
#define MAX_OTHER_BYTES 65536 /* of replies that are not an image: redirects and errors */
#define STATUS_OK 200

/* Why a fetch ended, as far as libcurl does not know. */
enum refusal { NOTHING_REFUSED, REFUSED_ADDRESS, REFUSED_SIZE };

struct fetch {
  const struct ommai_fetch_rules *rules;
  const struct ommai_stop *stop;
  CURL *easy;
  CURLU *url;
  struct ommai_text *body;
  size_t body_start;
  size_t other_bytes; /* read and dropped */
  enum refusal refusal;
};

enum omma_status ommai_media_fetch_start(struct omma_error *error) {
  if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) return OMMA_OK;
  return ommai_fail(error, OMMA_ERROR_INTERNAL, "libcurl does not start");
}

void ommai_media_fetch_end(void) { curl_global_cleanup(); }

static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address) {
  struct fetch *fetch = context;
  if (purpose != CURLSOCKTYPE_IPCXN) return CURL_SOCKET_BAD;
  if (!fetch->rules->private_addresses && !ommai_address_is_public(&address->addr)) {
    fetch->refusal = REFUSED_ADDRESS;
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t take_body(char *bytes, size_t size, size_t count, void *context) {
  struct fetch *fetch = context;
  long status = 0;
  size *= count;
  curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &status);
  if (status != STATUS_OK) {
    fetch->other_bytes += size;
    return fetch->other_bytes <= MAX_OTHER_BYTES ? size : 0;
  }
  if (size > fetch->rules->max_bytes - (fetch->body->size - fetch->body_start)) {
    fetch->refusal = REFUSED_SIZE;
    return 0;
  }
  ommai_text_append(fetch->body, bytes, size);
  return fetch->body->failed ? 0 : size;
}

static int look_around(void *context, curl_off_t total, curl_off_t done, curl_off_t up_total, curl_off_t up_done) {
  (void)total;
  (void)done;
  (void)up_total;
  (void)up_done;
  struct fetch *fetch = context;
  return fetch->stop->ask(fetch->stop->context);
}

static bool is_listed(const struct ommai_fetch_rules *rules, const char *host) {
  size_t size = strlen(host);
  if (host[0] == '[') { /* IPv6, listed without the brackets */
    host++;
    size -= 2;
  }
  for (size_t i = 0; i < rules->n_hosts; i++) {
    if (strlen(rules->hosts[i]) == size && !strncasecmp(rules->hosts[i], host, size)) return true;
  }
  return false;
}

static bool has_part(CURLU *url, CURLUPart part) {
  char *text = NULL;
  bool found = curl_url_get(url, part, &text, 0) == CURLUE_OK;
  curl_free(text);
  return found;
}

/* Scheme, credentials and host of the URL that is next; `status` is what a failure counts as. */
static bool check_url(struct fetch *fetch, int status, struct ommai_api_error *error) {
  char *scheme = NULL, *host = NULL;
  bool parsed = curl_url_get(fetch->url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                curl_url_get(fetch->url, CURLUPART_HOST, &host, CURLU_URLDECODE) == CURLUE_OK;
  bool scheme_good = parsed && (!strcasecmp(scheme, "http") || !strcasecmp(scheme, "https"));
  bool host_good = parsed && is_listed(fetch->rules, host);
  curl_free(scheme);
  curl_free(host);
  const char *what = status == 400 ? "The URL of the image" : "A redirect of the image's URL";
  if (!scheme_good) return ommai_api_fail(error, status, "image_url", "%s is not a valid http(s) URL.", what);
  if (has_part(fetch->url, CURLUPART_USER) || has_part(fetch->url, CURLUPART_PASSWORD)) {
    return ommai_api_fail(error, status, "image_url", "%s holds a user name or password, which is not supported.", what);
  }
  if (host_good) return true;
  return ommai_api_fail(error, status, "image_url",
                        "%s names a host that this server fetches no images from (its --allowed-media-domains lists them).",
                        what);
}

static void set_options(struct fetch *fetch) {
  CURL *easy = fetch->easy;
  curl_easy_setopt(easy, CURLOPT_CURLU, fetch->url);
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "omma/" OMMA_VERSION);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, fetch);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, fetch);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, look_around);
  curl_easy_setopt(easy, CURLOPT_XFERINFODATA, fetch);
  curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)fetch->rules->max_bytes);
}

static bool explain(const struct fetch *fetch, CURLcode code, struct ommai_api_error *error) {
  static const char FIELD[] = "image_url";
  if (fetch->body->failed || code == CURLE_OUT_OF_MEMORY) return ommai_api_fail_memory(error);
  if (code == CURLE_COULDNT_CONNECT && fetch->refusal == REFUSED_ADDRESS) {
    return ommai_api_fail(error, 422, FIELD, "The host of the image has an address that this server does not connect to.");
  }
  if (fetch->refusal == REFUSED_SIZE || code == CURLE_FILESIZE_EXCEEDED) {
    return ommai_api_fail(error, 422, FIELD, "The image is larger than this server's limit of %zu bytes.",
                          fetch->rules->max_bytes);
  }
  if (code == CURLE_OPERATION_TIMEDOUT) {
    return ommai_api_fail(error, 422, FIELD, "The image did not arrive within %g seconds, the time for all of a request.",
                          (double)fetch->rules->timeout_ms * 1e-3);
  }
  return ommai_api_fail(error, 422, FIELD, "The image cannot be fetched: %s.", curl_easy_strerror(code));
}

/* One request. *redirected: fetch->url is the next one to ask. */
static bool ask_once(struct fetch *fetch, bool *redirected, struct ommai_api_error *error) {
  int64_t left_ms = (fetch->stop->deadline_ns - ommai_clock_ns()) / 1000000;
  long status = 0;
  char *next = NULL;
  *redirected = false;
  curl_easy_setopt(fetch->easy, CURLOPT_TIMEOUT_MS, left_ms > 1 ? (long)left_ms : 1L);
  CURLcode code = curl_easy_perform(fetch->easy);
  if (code != CURLE_OK) return explain(fetch, code, error);
  curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(fetch->easy, CURLINFO_REDIRECT_URL, &next);
  if (status == STATUS_OK) return true;
  if (!next) return ommai_api_fail(error, 422, "image_url", "The image cannot be fetched: its host answers %ld.", status);
  *redirected = true;
  if (strlen(next) <= MAX_URL && curl_url_set(fetch->url, CURLUPART_URL, next, 0) == CURLUE_OK) return true;
  return ommai_api_fail(error, 422, "image_url", "A redirect of the image's URL is not a valid http(s) URL.");
}

static bool follow(struct fetch *fetch, struct ommai_api_error *error) {
  bool redirected = true;
  for (int hop = 0; hop <= MAX_REDIRECTS; hop++) {
    if (!check_url(fetch, hop ? 422 : 400, error) || !ask_once(fetch, &redirected, error)) return false;
    if (!redirected) return true;
  }
  return ommai_api_fail(error, 422, "image_url", "The URL of the image is redirected more than %d times.", MAX_REDIRECTS);
}

static bool parse(CURLU *parsed, const char *url, size_t url_size) {
  char text[MAX_URL + 1];
  if (url_size > MAX_URL || memchr(url, '\0', url_size)) return false;
  memcpy(text, url, url_size);
  text[url_size] = '\0';
  return curl_url_set(parsed, CURLUPART_URL, text, 0) == CURLUE_OK;
}

bool ommai_media_fetch(const struct ommai_fetch_rules *rules, const char *url, size_t url_size, const struct ommai_stop *stop,
                       struct ommai_text *body, struct ommai_api_error *error) {
  if (!rules->n_hosts) {
    return ommai_api_fail(
        error, 400, "image_url",
        "This server fetches no images: send them as data: URLs, or start it with --allowed-media-domains HOST.");
  }
  struct fetch fetch = {
      .rules = rules, .stop = stop, .easy = curl_easy_init(), .url = curl_url(), .body = body, .body_start = body->size};
  bool done;
  if (!fetch.easy || !fetch.url) {
    done = ommai_api_fail_memory(error);
  } else if (!parse(fetch.url, url, url_size)) {
    done = ommai_api_fail(error, 400, "image_url", "The URL of the image is not a valid http(s) URL.");
  } else {
    set_options(&fetch);
    done = follow(&fetch, error);
  }
  curl_easy_cleanup(fetch.easy);
  curl_url_cleanup(fetch.url);
  return done;
}
