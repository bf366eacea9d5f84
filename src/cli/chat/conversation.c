#include "cli/chat/conversation.h"

#include <string.h>

#include "base/allocator.h"
#include "cli/chat/attachments.h"
#include "cli/core/diagnostics.h"

static void release_parts(struct omma_part *parts, size_t n_parts) {
  if (!parts) return;
  for (size_t i = 0; i < n_parts; i++) {
    if (parts[i].text) ommai_release(&ommai_default_allocator, (char *)parts[i].text, parts[i].text_size + 1, 1);
    ommai_attachment_release(&parts[i]);
  }
  ommai_release(&ommai_default_allocator, parts, n_parts, sizeof *parts);
}

static bool grow(struct ommai_conversation *conversation) {
  if (conversation->count < conversation->capacity) return true;
  size_t capacity = conversation->capacity ? 2 * conversation->capacity : 8;
  struct omma_message *messages = ommai_allocate(&ommai_default_allocator, capacity, sizeof *messages);
  if (!messages) return false;
  if (conversation->count) memcpy(messages, conversation->messages, conversation->count * sizeof *messages);
  ommai_release(&ommai_default_allocator, conversation->messages, conversation->capacity, sizeof *messages);
  conversation->messages = messages;
  conversation->capacity = capacity;
  return true;
}

int ommai_conversation_add(struct ommai_conversation *conversation, enum omma_role role, struct omma_part *attachments,
                           size_t n_attachments, const char *text, size_t text_size) {
  size_t n_parts = n_attachments + (text_size > 0);
  struct omma_part *parts = ommai_allocate(&ommai_default_allocator, n_parts, sizeof *parts);
  if (!parts) {
    for (size_t i = 0; i < n_attachments; i++) ommai_attachment_release(&attachments[i]);
    return ommai_failed("out of memory: a message of %zu parts", n_parts);
  }
  if (n_attachments) memcpy(parts, attachments, n_attachments * sizeof *parts);
  bool made = grow(conversation);
  if (made && text_size > 0) {
    struct omma_part *part = &parts[n_attachments];
    part->text = ommai_duplicate(&ommai_default_allocator, text, text_size);
    part->text_size = text_size;
    made = part->text != NULL;
  }
  if (!made) {
    release_parts(parts, n_parts);
    return ommai_failed("out of memory: a message of %zu bytes", text_size);
  }
  conversation->messages[conversation->count++] = (struct omma_message){.role = role, .parts = parts, .n_parts = n_parts};
  return OMMAI_EXIT_DONE;
}

void ommai_conversation_truncate(struct ommai_conversation *conversation, size_t count) {
  while (conversation->count > count) {
    struct omma_message *last = &conversation->messages[--conversation->count];
    release_parts((struct omma_part *)last->parts, last->n_parts);
  }
}

size_t ommai_conversation_take_back(struct ommai_conversation *conversation, struct omma_part *attachments) {
  struct omma_message *last = &conversation->messages[conversation->count - 1];
  struct omma_part *parts = (struct omma_part *)last->parts;
  size_t n_attachments = 0;
  for (size_t i = 0; i < last->n_parts; i++) {
    if (!parts[i].image && !parts[i].video) continue;
    attachments[n_attachments++] = parts[i];
    parts[i] = (struct omma_part){0};
  }
  ommai_conversation_truncate(conversation, conversation->count - 1);
  return n_attachments;
}

void ommai_conversation_release(struct ommai_conversation *conversation) {
  ommai_conversation_truncate(conversation, 0);
  ommai_release(&ommai_default_allocator, conversation->messages, conversation->capacity, sizeof *conversation->messages);
  *conversation = (struct ommai_conversation){0};
}
