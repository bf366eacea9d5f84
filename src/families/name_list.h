/* Names of layers as configurations list them, each with a value: spelled out, or as regular
 * expressions that a name must begin with a match of (Python's re.match). Expressions are foreign:
 * their size is limited, and the steps of all matches of a list are taken from one account. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>

#define OMMAI_NAME_LIST_MAX_NAMES 65536
#define OMMAI_NAME_LIST_MAX_EXPRESSIONS 1024
#define OMMAI_NAME_LIST_MAX_PATTERN 1024 /* bytes of an expression */
/* of the matcher, all matches together: a second or two */
#define OMMAI_NAME_LIST_STEPS (INT64_C(1) << 27)

/* Not thread-safe. */
struct ommai_name_list;

enum omma_status ommai_name_list_create(const struct omma_allocator *allocator, struct ommai_name_list **list,
                                        struct omma_error *error);
/* NULL is allowed. */
void ommai_name_list_destroy(struct ommai_name_list *list);

/* Adds a name, or the expression `text`. The text is copied; `value` is at least 0. `where` begins
 * the message. Errors: FORMAT for what does not compile, LIMIT, MEMORY. */
enum omma_status ommai_name_list_add(struct ommai_name_list *list, const char *where, const char *text, bool is_expression,
                                     int value, struct omma_error *error);

/* The value of the name as it is spelled out; -1 where it is not. Of equal names the first one
 * counts. */
int ommai_name_list_find(struct ommai_name_list *list, const char *name);

/* The value of the first expression, in the order of their texts, that the name begins with a match
 * of; -1 where there is none. Errors: LIMIT when the steps are used up, MEMORY. */
enum omma_status ommai_name_list_match(struct ommai_name_list *list, const char *name, int *value, struct omma_error *error);
