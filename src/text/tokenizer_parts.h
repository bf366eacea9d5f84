/* The inside of a tokenizer, shared by its loader and its use. */
#pragma once

#include <omma/host.h>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/splitter.h"
#include "text/vocabulary.h"

struct ommai_tokenizer {
  struct omma_allocator allocator;
  struct ommai_vocabulary vocabulary;
  struct ommai_bpe bpe;
  struct ommai_added_set added;
  char *added_text; /* [added_text_size], the contents that `added` points into */
  size_t added_text_size;
  struct ommai_splitter *splitter; /* NULL: what lies between added tokens is one piece */
  bool normalize;                  /* to form C */
  /* tokens are spelled as in marked_spaces.h; else in the byte alphabet */
  bool marked_spaces;
  /* a piece that is a token is taken as it is, without merges ("ignore_merges") */
  bool whole_pieces;
  /* The maximum bytes of normalised text that a token covers; 0: without limit, for an added token
   * takes white space along. */
  size_t longest_token;
};
