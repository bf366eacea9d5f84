#include "server/http/call_list.h"

#include "base/assert.h"
#include "server/http/http_call.h"
#include "server/state/server_state.h"

void ommai_call_list_add(struct ommai_server *server, struct ommai_http_call *call) {
  pthread_mutex_lock(&server->list_lock);
  call->number = server->next_number++;
  LIST_INSERT_HEAD(&server->calls, call, listed);
  server->n_listed++;
  pthread_mutex_unlock(&server->list_lock);
}

void ommai_call_list_remove(struct ommai_server *server, struct ommai_http_call *call) {
  pthread_mutex_lock(&server->list_lock);
  LIST_REMOVE(call, listed);
  OMMAI_ASSERT(server->n_listed > 0);
  server->n_listed--;
  pthread_cond_broadcast(&server->list_changed);
  pthread_mutex_unlock(&server->list_lock);
}
