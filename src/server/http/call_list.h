/* The server's list of calls that libmicrohttpd holds. */
#pragma once

struct ommai_http_call;
struct ommai_server;

/* Into the list and out of it; IO thread. Adding numbers the call. */
void ommai_call_list_add(struct ommai_server *server, struct ommai_http_call *call);
void ommai_call_list_remove(struct ommai_server *server, struct ommai_http_call *call);
