#include <omma/omma.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"

/* Grammars are counted by their users and mean nothing here; a text that begins with "!" is
 * refused. */
struct omma_grammar {
  atomic_int users;
};

enum omma_status omma_grammar_create(const struct omma_model *model, const struct omma_grammar_options *options,
                                     struct omma_grammar **grammar, struct omma_error *error) {
  (void)model;
  if (options->text_size && options->text[0] == '!') {
    return ommai_fail(error, OMMA_ERROR_UNSUPPORTED, "#/x: this key is not supported");
  }
  *grammar = calloc(1, sizeof **grammar);
  if (!*grammar) return ommai_fail_memory(error, "grammar", sizeof **grammar);
  atomic_init(&(*grammar)->users, 1);
  return OMMA_OK;
}

struct omma_grammar *omma_grammar_share(struct omma_grammar *grammar) {
  if (grammar) atomic_fetch_add(&grammar->users, 1);
  return grammar;
}

size_t omma_grammar_bytes(const struct omma_grammar *grammar) { return sizeof *grammar; }

bool omma_grammar_is_shared(const struct omma_grammar *grammar) { return atomic_load(&grammar->users) > 1; }

void omma_grammar_destroy(struct omma_grammar *grammar) {
  if (grammar && atomic_fetch_sub(&grammar->users, 1) == 1) free(grammar);
}
