/* Token ids to text as they come, one at a time, in whole characters. */
#pragma once

#include "text/tokenizer.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

/* The bytes that one call may write: every byte of a token and of the beginning of a character
 * before it may be replaced by the 3 bytes of U+FFFD. */
#define OMMAI_DETOKENIZER_MAX_OUTPUT (3 * (OMMAI_VOCABULARY_MAX_TOKEN_BYTES + OMMAI_UTF8_MAX_BYTES))

/* The bytes of a character that is not complete yet. Zero-initialise; a plain value, no memory to
 * give back. One stream of tokens each. All that push and flush wrote, one after the other, is
 * Python's bytes.decode(errors="replace") of the tokens' bytes, and no call leaves a character
 * half written. */
struct ommai_detokenizer {
  char pending[OMMAI_UTF8_MAX_BYTES];
  size_t n_pending;
};

/* Takes one id and writes what is complete by now to out, [OMMAI_DETOKENIZER_MAX_OUTPUT]. Returns
 * its bytes, often 0. Ids without text, and with skip_special those of special tokens, write
 * nothing. */
size_t ommai_detokenizer_push(struct ommai_detokenizer *detokenizer, const struct ommai_tokenizer *tokenizer, int32_t id,
                              bool skip_special, char *out);

/* Ends the stream: an unfinished character becomes U+FFFD. Returns the bytes written to out, at
 * most 3. */
size_t ommai_detokenizer_flush(struct ommai_detokenizer *detokenizer, char *out);
