/* A chat in the making, out of the JSON of another interface: what the two have in common is
 * shared, not copied. */
#pragma once

#include "server/api/chat_request.h"

struct ommai_chat_draft {
  json_t *original;
  json_t *chat, *messages, *locations;
  json_t *reasoning; /* that comes before the assistant's next message; NULL: none */
  bool failed;       /* memory ran out */
};

/* Begins with the members of `original`, whose reference is taken over, but for those that chats
 * alone have and for `own` (ends in NULL), whose meaning differs. */
void ommai_chat_draft_begin(struct ommai_chat_draft *draft, json_t *original, const char *const *own);

/* Each takes its value's reference over; NULL: memory ran out while it was made. */
void ommai_chat_draft_set(struct ommai_chat_draft *draft, const char *key, json_t *value);
/* The tools of a chat, each made out of one of `tools`. */
void ommai_chat_draft_set_tools(struct ommai_chat_draft *draft, const json_t *tools, json_t *(*convert)(const json_t *tool));
void ommai_chat_draft_add_message(struct ommai_chat_draft *draft, json_t *message, const char *location);

/* More reasoning before the assistant's next message; dropped when the next message is another
 * role's. */
void ommai_chat_draft_add_reasoning(struct ommai_chat_draft *draft, const json_t *text);

/* Makes the last message, where it is one of the assistant, the beginning of the answer. */
void ommai_chat_draft_continue(struct ommai_chat_draft *draft);

/* Adds a call to the last message where that is the assistant's, else to a new one. `call` is taken
 * over. */
void ommai_chat_draft_add_call(struct ommai_chat_draft *draft, json_t *call, const char *location);

/* Hands everything to `source` when `good`, else drops it. False where not, or when memory ran out
 * (with *error filled). */
bool ommai_chat_draft_end(struct ommai_chat_draft *draft, bool good, struct ommai_chat_source *source,
                          struct ommai_api_error *error);
