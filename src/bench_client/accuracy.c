#include "bench_client/accuracy.h"

#include <stdbool.h>
#include <string.h>

#include "base/allocator.h"
#include "base/error.h"

#define FEW_ANSWERS 3

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *const articles[] = {"a", "an", "the", NULL};
static const char *const number_words[] = {"none", "one",   "two",   "three", "four", "five",
                                           "six",  "seven", "eight", "nine",  "ten",  NULL};
static const char *const contractions[] = {
    "ain't",   "aren't",   "can't",    "could've", "couldn't", "didn't", "doesn't",  "don't",     "hadn't",
    "hasn't",  "haven't",  "he'd",     "he's",     "how'd",    "how'll", "how's",    "i'd've",    "i'm",
    "i've",    "isn't",    "it'd",     "it'll",    "let's",    "ma'am",  "mightn't", "might've",  "mustn't",
    "must've", "needn't",  "not've",   "o'clock",  "oughtn't", "shan't", "she'd've", "should've", "shouldn't",
    "that'd",  "that's",   "there'd",  "there're", "there's",  "they'd", "they'll",  "they're",   "they've",
    "wasn't",  "we've",    "weren't",  "what'll",  "what're",  "what's", "what've",  "when's",    "where'd",
    "where's", "where've", "who'd",    "who'll",   "who's",    "who've", "why'll",   "why're",    "why's",
    "won't",   "would've", "wouldn't", "y'all",    "you'd",    "you'll", "you're",   "you've",    NULL};

static bool equals(const char *word, size_t size, const char *other) {
  return strlen(other) == size && memcmp(word, other, size) == 0;
}

/* `word` is `contraction` without its apostrophes. */
static bool is_bare(const char *word, size_t size, const char *contraction) {
  size_t at = 0;
  for (; *contraction; contraction++) {
    if (*contraction == '\'') continue;
    if (at == size || word[at++] != *contraction) return false;
  }
  return at == size;
}

/* What stands for a word: itself, nothing for an article, digits for a number, the spelt
 * contraction. */
static const char *replace_word(const char *word, size_t size, size_t *new_size) {
  static const char *const digits[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"};
  const char *found = NULL;
  for (int i = 0; articles[i] && !found; i++) {
    if (equals(word, size, articles[i])) found = "";
  }
  if (equals(word, size, "zero")) found = "0";
  for (int i = 0; number_words[i] && !found; i++) {
    if (equals(word, size, number_words[i])) found = digits[i];
  }
  for (int i = 0; contractions[i] && !found; i++) {
    if (is_bare(word, size, contractions[i])) found = contractions[i];
  }
  *new_size = found ? strlen(found) : size;
  return found ? found : word;
}

/* Lower case and without punctuation, into out[size]; points between digits stay. Returns the new
 * size. */
static size_t strip_marks(const char *text, size_t size, char *out) {
  static const char marks[] = ";/[]\"{}()=+\\_-><@`,?!.:*#&%$|~^";
  size_t n = 0;
  for (size_t i = 0; i < size; i++) {
    char c = text[i];
    bool decimal = c == '.' && i + 1 < size && is_digit(text[i + 1]);
    bool thousands = c == ',' && i > 0 && i + 1 < size && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
    if (thousands) continue;
    out[n++] = c && strchr(marks, c) && !decimal ? ' ' : c;
  }
  return n;
}

/* A normalised text in new memory of `capacity` bytes. */
struct normal {
  char *text;
  size_t size, capacity;
};

static bool normalise(const char *text, size_t size, const struct omma_allocator *allocator, struct normal *normal) {
  /* A contraction grows by its apostrophes, at most by half; after the result stands the stripped
   * text. */
  normal->capacity = 3 * size + 16;
  normal->text = ommai_allocate(allocator, normal->capacity, 1);
  normal->size = 0;
  if (!normal->text) return false;
  char *stripped = normal->text + 2 * size + 16;
  size_t n = strip_marks(text, size, stripped);
  for (size_t at = 0; at < n;) {
    while (at < n && is_space(stripped[at])) at++;
    size_t end = at, new_size;
    while (end < n && !is_space(stripped[end])) end++;
    const char *word = replace_word(stripped + at, end - at, &new_size);
    if (new_size) {
      if (normal->size) normal->text[normal->size++] = ' ';
      memcpy(normal->text + normal->size, word, new_size);
      normal->size += new_size;
    }
    at = end;
  }
  return true;
}

static double vqa_score(size_t matches, size_t n) {
  if (n <= FEW_ANSWERS) return matches ? 1 : 0;
  double with = (double)(matches ? matches - 1 : 0) / 3, without = (double)matches / 3;
  if (with > 1) with = 1;
  if (without > 1) without = 1;
  return ((double)matches * with + (double)(n - matches) * without) / (double)n;
}

enum omma_status ommai_accuracy_add(struct ommai_accuracy *accuracy, const char *text, size_t size, const json_t *answers,
                                    const struct omma_allocator *allocator, struct omma_error *error) {
  struct normal given, accepted;
  size_t matches = 0, n = 0, i;
  json_t *answer;
  if (!normalise(text, size, allocator, &given)) return ommai_fail_memory(error, "an answer", size);
  bool complete = true;
  json_array_foreach(answers, i, answer) {
    if (json_is_object(answer)) answer = json_object_get(answer, "answer");
    if (!json_is_string(answer)) continue;
    complete = normalise(json_string_value(answer), json_string_length(answer), allocator, &accepted);
    if (!complete) break;
    matches += given.size == accepted.size && memcmp(given.text, accepted.text, given.size) == 0;
    n++;
    ommai_release(allocator, accepted.text, accepted.capacity, 1);
  }
  ommai_release(allocator, given.text, given.capacity, 1);
  if (!complete) return ommai_fail_memory(error, "an answer", size);
  if (n == 0) return OMMA_OK;
  accuracy->n++;
  accuracy->exact += matches > 0;
  accuracy->vqa += vqa_score(matches, n);
  return OMMA_OK;
}
