/* How an answer is drawn, and where it ends: a part of omma/omma.h, which has the calls. */
#ifndef OMMA_SAMPLING_H
#define OMMA_SAMPLING_H

#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct omma_grammar;

#define OMMA_MAX_STOP_STRINGS 16
#define OMMA_MAX_TOP_LOGPROBS 20
#define OMMA_MAX_LOGIT_BIAS 1024
#define OMMA_MAX_BAD_WORDS 128

struct omma_logit_bias {
  int32_t token;
  float bias;
};

/* Ends an answer that repeats itself (OMMA_FINISH_REPETITION): once it has min_tokens, and ends
 * with a pattern of min_pattern_size to max_pattern_size tokens, min_count times in a row. */
struct omma_repetition_detection {
  int64_t max_pattern_size; /* 0: off */
  int64_t min_pattern_size; /* 0: 1 */
  int64_t min_count;        /* at least 2 where it is on */
};

/* For answers that begin with reasoning: the marks around it, and the text that ends it when its
 * budget is used up. */
#define OMMA_MAX_MARK_BYTES 64
struct omma_reasoning {
  const char *begin, *end; /* 1 to OMMA_MAX_MARK_BYTES bytes */
  const char *forced_end;  /* a text that ends with `end`; NULL: `end` */
  /* What the answer may begin with where the end mark is missing, such as the mark of a tool call;
   * it is part of the answer. Not looked for where the answer has a grammar. NULL: nothing. */
  const char *answer_begin;
};
/* The marks of a reasoning parser. The names are vLLM's where it has the parser; the marks are
 * constant strings. Errors: ARGUMENT (field "reasoning_parser": no such name; the message lists
 * all). */
OMMA_API enum omma_status omma_reasoning_find(const char *parser, struct omma_reasoning *reasoning, struct omma_error *error);

/* How the answer is sampled. Zero-initialised: greedy, until the model stops or the context is
 * full. */
struct omma_sampling {
  size_t struct_size;                         /* sizeof this struct, or 0: see omma/omma.h */
  double temperature;                         /* 0: greedy. At most 2 */
  double top_p;                               /* (0, 1]; 0: 1 */
  double min_p;                               /* [0, 1] */
  int64_t top_k;                              /* 0 or -1: all */
  uint64_t seed;                              /* same request, same seed: same answer */
  double repetition_penalty;                  /* over prompt and answer; 0: 1, no penalty */
  double presence_penalty, frequency_penalty; /* [-2, 2], over the answer */
  int64_t max_tokens;                         /* 0: up to the end of the context */
  int64_t min_tokens;                         /* minimum length of the answer */
  const char *const *stop;                    /* end the answer and are removed from it */
  size_t n_stop;
  const int32_t *stop_token_ids;
  size_t n_stop_token_ids;
  bool ignore_eos;
  /* The answer's text keeps the stop string, or the text of the stop token, that ended it. */
  bool include_stop;
  /* Special tokens appear in the answer's text; the one that ends it only with include_stop. */
  bool keep_special_tokens;
  bool logprobs;      /* report the log-probability of the sampled token */
  int n_top_logprobs; /* and of this many likeliest tokens; at most OMMA_MAX_TOP_LOGPROBS */
  /* Report the log-probabilities of the prompt (on_prompt_token). All its rows are then computed,
   * also those that the prefix cache has. */
  bool prompt_logprobs;
  int n_prompt_logprobs;
  /* Added to logits before penalties, within [-100, 100]. Of several for one token the last is
   * used. */
  const struct omma_logit_bias *logit_bias;
  size_t n_logit_bias;              /* at most OMMA_MAX_LOGIT_BIAS */
  const int32_t *allowed_token_ids; /* no other token is ever sampled; NULL: all */
  size_t n_allowed_token_ids;
  /* Words that must not appear. A word gives one or two sequences of tokens: those of the word, and
   * those of the word after a blank, if they are equally many and the first one differs. The last
   * token of a sequence is never sampled directly after the others. At most OMMA_MAX_BAD_WORDS
   * sequences of 1,024 bytes each. */
  const char *const *bad_words;
  size_t n_bad_words;
  /* The format of the answer; NULL: any text. The request keeps a reference to the grammar. An
   * answer that is complete and cannot continue ends, regardless of min_tokens and ignore_eos. An
   * answer that max_tokens or a stop string ends may be incomplete. */
  struct omma_grammar *grammar;
  /* NULL: an answer is one text. Else the answer begins with reasoning, which ends with the end
   * mark; the begin mark is optional. There is no reasoning if the prompt ends with the end mark,
   * or has it in the message that continue_final_message continues. Texts are reported without the
   * marks. A grammar applies to the text after the reasoning; inside the reasoning, no stop token
   * ends an answer that has a grammar. Copied. */
  const struct omma_reasoning *reasoning;
  bool limits_thinking;
  /* With limits_thinking: the maximum number of tokens of the reasoning. After them forced_end is
   * inserted into the answer. */
  int64_t max_thinking_tokens;
  /* No sequence of this many tokens appears twice in the answer: after the first tokens of one that
   * the answer has, the token that followed them is not sampled, unless nothing else is left to
   * sample. The prompt does not count. 0: off. */
  int64_t no_repeat_ngram_size;
  struct omma_repetition_detection repetition_detection;
};

#ifdef __cplusplus
}
#endif

#endif
