/* What a Redis answers: a reply is found with the same end whether its bytes come at once or one by
 * one, lies within them, and its value in the room that there is. */
#include "fuzz_input.h"
#include "server/publish/redis_reply.h"

static void check(const struct ommai_redis_reply *reply, const char *bytes, size_t size, size_t room) {
  FUZZ_CHECK(reply->kind >= OMMAI_REDIS_PART && reply->kind <= OMMAI_REDIS_FOREIGN);
  if (reply->kind == OMMAI_REDIS_PART || reply->kind == OMMAI_REDIS_FOREIGN) {
    FUZZ_CHECK(!reply->data && reply->size == 0);
    FUZZ_CHECK(reply->kind != OMMAI_REDIS_PART || size < room + OMMAI_REDIS_LINE);
    return;
  }
  FUZZ_CHECK(reply->data > bytes && reply->used <= size);
  FUZZ_CHECK(reply->size <= (size_t)(bytes + reply->used - reply->data));
  FUZZ_CHECK(reply->size <= (reply->kind == OMMAI_REDIS_VALUE ? room : OMMAI_REDIS_LINE));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
  if (size < 1) return 0;
  const char *bytes = (const char *)input + 1;
  size_t room = input[0], n = size - 1;
  struct ommai_redis_reply whole = ommai_redis_reply_parse(bytes, n, room), part = {.kind = OMMAI_REDIS_PART};
  check(&whole, bytes, n, room);
  for (size_t i = 0; i <= n && part.kind == OMMAI_REDIS_PART; i++) part = ommai_redis_reply_parse(bytes, i, room);
  check(&part, bytes, n, room);
  FUZZ_CHECK(part.kind == whole.kind && part.used == whole.used && part.size == whole.size);
  return 0;
}
