#include <msgpack.h>
#include <sodium.h>
#include <string.h>

#include "server/publish/kv_event_message.h"

enum { PAGE = OMMA_ATTENTION_PAGE_TOKENS };
/* The tier that requests compute from, by the name that it has in vLLM on CPUs too; and the one
 * group of layers. */
#define MEDIUM "GPU"
#define GROUP 0

static int pack_text(msgpack_packer *packer, const char *text) {
  size_t size = strlen(text);
  return msgpack_pack_str(packer, size) | msgpack_pack_str_body(packer, text, size);
}

static int pack_hash(msgpack_packer *packer, const struct omma_kv_page_key *key) {
  uint64_t hash = 0;
  for (size_t i = sizeof key->bytes - sizeof hash; i < sizeof key->bytes; i++) hash = hash << 8 | key->bytes[i];
  return msgpack_pack_uint64(packer, hash);
}

static bool same_key(const struct omma_kv_page_key *a, const struct omma_kv_page_key *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

/* How many events from this one on are sent as one. */
static size_t run_of(const struct ommai_kv_event *event) {
  size_t n = 1;
  for (const struct ommai_kv_event *next = event->next; next && next->stored == event->stored; next = next->next, n++) {
    if (next->stored && !(next->has_parent && same_key(&next->parent, &event->key))) break;
    event = next;
  }
  return n;
}

static int pack_hashes(msgpack_packer *packer, const struct ommai_kv_event *event, size_t n) {
  int failed = pack_text(packer, "block_hashes") | msgpack_pack_array(packer, n);
  for (; n; n--, event = event->next) failed |= pack_hash(packer, &event->key);
  return failed;
}

/* Of one page: pairs of an image and where it begins, and the salt; nil where there is neither. */
static int pack_extra_keys(msgpack_packer *packer, const struct ommai_kv_event *event) {
  char name[2 * sizeof event->images[0].key + 1];
  size_t n = (size_t)event->n_images + event->has_salt;
  if (n == 0) return msgpack_pack_nil(packer);
  int failed = msgpack_pack_array(packer, n);
  for (int64_t i = 0; i < event->n_images; i++) {
    sodium_bin2hex(name, sizeof name, event->images[i].key, sizeof event->images[i].key);
    failed |=
        msgpack_pack_array(packer, 2) | pack_text(packer, name) | msgpack_pack_int64(packer, event->images[i].first_token);
  }
  return event->has_salt ? failed | pack_text(packer, ommai_kv_event_salt(event)) : failed;
}

static int pack_stored(msgpack_packer *packer, const struct ommai_kv_event *event, size_t n) {
  const struct ommai_kv_event *at = event;
  int failed = msgpack_pack_map(packer, 10) | pack_text(packer, "type") | pack_text(packer, "BlockStored");
  failed |= pack_hashes(packer, event, n) | pack_text(packer, "parent_block_hash");
  failed |= event->has_parent ? pack_hash(packer, &event->parent) : msgpack_pack_nil(packer);
  failed |= pack_text(packer, "token_ids") | msgpack_pack_array(packer, n * PAGE);
  for (size_t i = 0; i < n; i++, at = at->next) {
    for (size_t j = 0; j < PAGE; j++) failed |= msgpack_pack_int32(packer, at->tokens[j]);
  }
  failed |= pack_text(packer, "block_size") | msgpack_pack_int(packer, PAGE);
  failed |= pack_text(packer, "lora_id") | msgpack_pack_nil(packer);
  failed |= pack_text(packer, "medium") | pack_text(packer, MEDIUM);
  failed |= pack_text(packer, "lora_name") | msgpack_pack_nil(packer);
  failed |= pack_text(packer, "extra_keys") | msgpack_pack_array(packer, n);
  at = event;
  for (size_t i = 0; i < n; i++, at = at->next) failed |= pack_extra_keys(packer, at);
  return failed | pack_text(packer, "group_idx") | msgpack_pack_int(packer, GROUP);
}

static int pack_removed(msgpack_packer *packer, const struct ommai_kv_event *event, size_t n) {
  int failed = msgpack_pack_map(packer, 4) | pack_text(packer, "type") | pack_text(packer, "BlockRemoved");
  failed |= pack_hashes(packer, event, n) | pack_text(packer, "medium") | pack_text(packer, MEDIUM);
  return failed | pack_text(packer, "group_idx") | msgpack_pack_int(packer, GROUP);
}

static int pack_events(msgpack_packer *packer, const struct ommai_kv_event *events, bool cleared) {
  size_t n = cleared;
  for (const struct ommai_kv_event *event = events; event; n++) {
    for (size_t i = run_of(event); i; i--) event = event->next;
  }
  int failed = msgpack_pack_array(packer, n);
  if (cleared) failed |= msgpack_pack_map(packer, 1) | pack_text(packer, "type") | pack_text(packer, "AllBlocksCleared");
  while (events) {
    size_t run = run_of(events);
    failed |= events->stored ? pack_stored(packer, events, run) : pack_removed(packer, events, run);
    for (; run; run--) events = events->next;
  }
  return failed;
}

bool ommai_kv_event_message(const struct ommai_kv_event *events, bool cleared, int rank, double seconds, char **data,
                            size_t *size) {
  msgpack_sbuffer buffer;
  msgpack_packer packer;
  msgpack_sbuffer_init(&buffer);
  msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
  int failed = msgpack_pack_array(&packer, 3) | msgpack_pack_double(&packer, seconds) | pack_events(&packer, events, cleared) |
               msgpack_pack_int(&packer, rank);
  *size = buffer.size;
  *data = msgpack_sbuffer_release(&buffer);
  if (!failed) return true;
  free(*data);
  return false;
}
