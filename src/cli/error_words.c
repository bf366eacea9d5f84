#include "cli/error_words.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct words {
  const char *field, *option;
};

/* Names that are no words of a sentence. */
static const struct words names[] = {
    {"allowed_media_domains", "--allowed-media-domains"},
    {"encoder_cache_bytes", "--encoder-cache-bytes"},
    {"encoder_cache_url", "--encoder-cache-url"},
    {"frequency_penalty", "--frequency-penalty"},
    {"kv_cache", "--kv-cache-dtype"},
    {"kv_cache_bytes", "--kv-cache-bytes"},
    {"max_model_len", "--max-model-len"},
    {"max_pixels", "--max-pixels"},
    {"max_sequences", "--max-num-seqs"},
    {"max_tokens", "--max-tokens"},
    {"max_wait_ms", "--max-wait-ms"},
    {"min_p", "--min-p"},
    {"min_pixels", "--min-pixels"},
    {"min_tokens", "--min-tokens"},
    {"queue_bytes", "--max-queued-bytes"},
    {"queue_limit", "--max-queued-requests"},
    {"prefill_chunk", "--max-num-batched-tokens"},
    {"presence_penalty", "--presence-penalty"},
    {"repetition_penalty", "--repetition-penalty"},
    {"root_path", "--root-path"},
    {"served_model_names", "--served-model-name"},
    {"scheduling", "--scheduling"},
    {"slice_percent", "--prefill-percent"},
    {"ssl_ca_certs", "--ssl-ca-certs"},
    {"ssl_cert_reqs", "--ssl-cert-reqs"},
    {"ssl_certfile", "--ssl-certfile"},
    {"ssl_keyfile", "--ssl-keyfile"},
    {"top_k", "--top-k"},
    {"top_p", "--top-p"},
    {0},
};

/* Only where a message begins with one and a colon. */
static const struct words plain_words[] = {
    {"fps", "--fps"},
    {"mmproj", "--mmproj"},
    {"port", "--port"},
    {"quantization", "--quantization"},
    {"temperature", "--temperature"},
    {"threads", "--threads"},
    {"uds", "--uds"},
    {0},
};

static bool is_part_of_name(char c) { return isalnum((unsigned char)c) || (c && strchr("_-./\"", c)); }

/* The length of the word that begins here, letters and underscores; 0 inside of another, of a path
 * or of quotes. */
static size_t word_at(const char *text, size_t at) {
  size_t size = 0;
  if (at && is_part_of_name(text[at - 1])) return 0;
  while (islower((unsigned char)text[at + size]) || text[at + size] == '_') size++;
  return is_part_of_name(text[at + size]) ? 0 : size;
}

static const char *option_of(const struct words *list, const char *word, size_t size) {
  while (list->field && (strlen(list->field) != size || memcmp(list->field, word, size) != 0)) list++;
  return list->option;
}

const char *ommai_error_words(const struct omma_error *error, char *out, size_t size) {
  const char *text = error->message[0] ? error->message : omma_status_name(error->status);
  bool of_options = error->status == OMMA_ERROR_ARGUMENT || error->status == OMMA_ERROR_LIMIT;
  size_t used = 0;
  out[0] = '\0';
  for (size_t at = 0; text[at] && used + 1 < size;) {
    size_t n = word_at(text, at);
    bool in_front = at == 0 && n && text[n] == ':';
    const char *option = n && (of_options || in_front) ? option_of(names, text + at, n) : NULL;
    if (in_front && !option) option = option_of(plain_words, text, n);
    if (!n) n = 1;
    int added = snprintf(out + used, size - used, "%.*s", (int)(option ? strlen(option) : n), option ? option : text + at);
    used += added > 0 ? (size_t)added : 0;
    at += n;
  }
  return out;
}
