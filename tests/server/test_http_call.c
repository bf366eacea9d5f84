/* What a call takes for its client while it lasts, and after its end. */
#include "server/http/http_call.h"

#include <string.h>

#include "base/allocator.h"
#include "server/core/protocol.h"
#include "server/state/server_state.h"
#include "support/test.h"

static struct ommai_server server;

static struct ommai_http_call *make_call(const struct ommai_protocol *protocol) {
  memset(&server, 0, sizeof server);
  server.config.allocator = &ommai_default_allocator;
  server.config.max_pending_bytes = server.config.max_total_pending_bytes = 1000;
  pthread_mutex_init(&server.list_lock, NULL);
  pthread_cond_init(&server.list_changed, NULL);
  struct ommai_http_call *call = ommai_http_call_create(&server);
  call->protocol = protocol;
  assert_true(ommai_http_call_push(call, "event", 5));
  return call;
}

static void nothing_is_taken_after_the_end(void **state) {
  (void)state;
  void (*const ends[])(struct ommai_http_call *) = {ommai_http_call_end, ommai_http_call_leave};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    struct ommai_http_call *call = make_call(&ommai_protocol_openai);
    ends[i](call);
    size_t pending = atomic_load(&server.pending_bytes);
    assert_false(ommai_http_call_push(call, "late", 4));
    assert_int_equal(atomic_load(&server.pending_bytes), pending);
    ommai_http_call_release(call);
    assert_int_equal(atomic_load(&server.pending_bytes), 0);
  }
}

/* Other protocols end with an event of the answer. */
static void one_protocol_has_a_last_event(void **state) {
  (void)state;
  static const struct ommai_protocol *const protocols[] = {&ommai_protocol_openai, &ommai_protocol_messages,
                                                           &ommai_protocol_responses};
  for (size_t i = 0; i < sizeof protocols / sizeof protocols[0]; i++) {
    struct ommai_http_call *call = make_call(protocols[i]);
    ommai_http_call_end(call);
    const struct ommai_event *last = call->head->next;
    assert_true((last != NULL) == (i == 0));
    if (last) assert_memory_equal(last->data, "data: [DONE]\n\n", last->size);
    ommai_http_call_release(call);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_taken_after_the_end),
      cmocka_unit_test(one_protocol_has_a_last_event),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
