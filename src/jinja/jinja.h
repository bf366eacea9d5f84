/* Chat templates in Jinja: parsed once, rendered for each conversation. The part of Jinja that chat
 * templates use, as jinja2 with transformers' settings renders it (trim_blocks, lstrip_blocks,
 * loop controls, its tojson, raise_exception), and an error for the rest of it.
 *
 * Both the template and the variables may be hostile: memory, steps, nesting and output are
 * bounded. */
#pragma once

#include <jansson.h>
#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>

struct ommai_jinja;

/* Text of a template. */
#define OMMAI_JINJA_MAX_BYTES ((size_t)1 << 20)

/* Immutable afterwards, for any thread. A call of a function that there is not is UNSUPPORTED,
 * unless the template asks whether it is defined. Errors: FORMAT and UNSUPPORTED ("line N: ..."),
 * LIMIT, MEMORY. */
enum omma_status ommai_jinja_create(const char *text, size_t size, const struct omma_allocator *allocator,
                                    struct ommai_jinja **jinja, struct omma_error *error);
void ommai_jinja_destroy(struct ommai_jinja *jinja);

/* True when the template asks for a variable of this name that it does not set itself everywhere,
 * and does not call it. */
bool ommai_jinja_reads(const struct ommai_jinja *jinja, const char *name);
/* The next such name, from index *at on, which moves; NULL: no more. */
const char *ommai_jinja_next_read(const struct ommai_jinja *jinja, size_t *at, size_t *size);

/* True when `word` stands in the template's text anywhere. */
bool ommai_jinja_mentions(const struct ommai_jinja *jinja, const char *word);

/* Renders with the members of the object `variables`. Texts in it may hold bytes that are not
 * UTF-8; they come out as they are. *text is allocated, with a NUL after it: release (*text, *size
 * + 1, 1). Errors: ARGUMENT with the field "messages" (what the template raises, or what cannot be
 * done with these values), LIMIT (more than max_bytes), MEMORY. */
enum omma_status ommai_jinja_render(const struct ommai_jinja *jinja, const json_t *variables, size_t max_bytes, char **text,
                                    size_t *size, struct omma_error *error);
