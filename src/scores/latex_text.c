#include "scores/latex_text.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_DEPTH 200

/* Where an alphabet's letters begin: A, a. Some letters lie elsewhere. */
struct alphabet {
  uint32_t capital, small;
};

static const struct alphabet bold = {0x1d400, 0x1d41a}, italic = {0x1d434, 0x1d44e}, script = {0x1d49c, 0x1d4b6},
                             fraktur = {0x1d504, 0x1d51e}, blackboard = {0x1d538, 0x1d552}, sans = {0x1d5a0, 0x1d5ba},
                             typewriter = {0x1d670, 0x1d68a};

static const struct {
  uint32_t computed, real;
} elsewhere[] = {{0x1d455, 0x210e}, {0x1d49d, 0x212c}, {0x1d4a0, 0x2130}, {0x1d4a1, 0x2131}, {0x1d4a3, 0x210b},
                 {0x1d4a4, 0x2110}, {0x1d4a7, 0x2112}, {0x1d4a8, 0x2133}, {0x1d4ad, 0x211b}, {0x1d4ba, 0x212f},
                 {0x1d4bc, 0x210a}, {0x1d4c4, 0x2134}, {0x1d506, 0x212d}, {0x1d50b, 0x210c}, {0x1d50c, 0x2111},
                 {0x1d515, 0x211c}, {0x1d51d, 0x2128}, {0x1d53a, 0x2102}, {0x1d53f, 0x210d}, {0x1d545, 0x2115},
                 {0x1d547, 0x2119}, {0x1d548, 0x211a}, {0x1d549, 0x211d}, {0x1d551, 0x2124}};

/* A command and its text: what it stands for, the combining character of an accent, or what takes
 * the place of an argument that is left out. */
struct command {
  const char *name, *text;
};

static const struct command letters[] = {
    {"alpha", "α"},
    {"beta", "β"},
    {"gamma", "γ"},
    {"delta", "δ"},
    {"epsilon", "ϵ"},
    {"varepsilon", "ε"},
    {"zeta", "ζ"},
    {"eta", "η"},
    {"theta", "θ"},
    {"vartheta", "ϑ"},
    {"iota", "ι"},
    {"kappa", "κ"},
    {"varkappa", "ϰ"},
    {"lambda", "λ"},
    {"mu", "μ"},
    {"nu", "ν"},
    {"xi", "ξ"},
    {"omicron", "ο"},
    {"pi", "π"},
    {"varpi", "ϖ"},
    {"rho", "ρ"},
    {"varrho", "ϱ"},
    {"sigma", "σ"},
    {"varsigma", "ς"},
    {"tau", "τ"},
    {"upsilon", "υ"},
    {"phi", "ϕ"},
    {"varphi", "φ"},
    {"chi", "χ"},
    {"psi", "ψ"},
    {"omega", "ω"},
    {"digamma", "ϝ"},
    {"Alpha", "Α"},
    {"Beta", "Β"},
    {"Gamma", "Γ"},
    {"Delta", "Δ"},
    {"Epsilon", "Ε"},
    {"Zeta", "Ζ"},
    {"Eta", "Η"},
    {"Theta", "Θ"},
    {"Iota", "Ι"},
    {"Kappa", "Κ"},
    {"Lambda", "Λ"},
    {"Mu", "Μ"},
    {"Nu", "Ν"},
    {"Xi", "Ξ"},
    {"Omicron", "Ο"},
    {"Pi", "Π"},
    {"Rho", "Ρ"},
    {"Sigma", "Σ"},
    {"Tau", "Τ"},
    {"Upsilon", "Υ"},
    {"Phi", "Φ"},
    {"Chi", "Χ"},
    {"Psi", "Ψ"},
    {"Omega", "Ω"},
    {"upmu", "μ"},
    {"ell", "ℓ"},
    {"hbar", "ħ"},
    {"hslash", "ℏ"},
    {"aleph", "ℵ"},
    {"beth", "ℶ"},
    {"gimel", "ℷ"},
    {"daleth", "ℸ"},
    {"eth", "ƪ"},
    {"AA", "Å"},
    {"aa", "å"},
    {"AE", "Æ"},
    {"ae", "æ"},
    {"OE", "Œ"},
    {"oe", "œ"},
    {"O", "Ø"},
    {"o", "ø"},
    {"L", "Ł"},
    {"l", "ł"},
    {"ss", "ß"},
    {"i", "ı"},
    {"j", "ȷ"},
    {"DH", "Ð"},
    {"dh", "ð"},
    {"TH", "Þ"},
    {"th", "þ"},
    {"textmu", "µ"},
    {"textohm", "Ω"},
    {"textonehalf", "½"},
    {"textonequarter", "¼"},
    {"textthreequarters", "¾"},
    {"textonesuperior", "¹"},
    {"texttwosuperior", "²"},
    {"textthreesuperior", "³"},
    {"arccos", "arccos"},
    {"arcsin", "arcsin"},
    {"arctan", "arctan"},
    {"cos", "cos"},
    {"cosh", "cosh"},
    {"exp", "exp"},
    {"inf", "inf"},
    {"lim", "lim"},
    {"liminf", "liminf"},
    {"limsup", "limsup"},
    {"ln", "ln"},
    {"log", "log"},
    {"max", "max"},
    {"min", "min"},
    {"sin", "sin"},
    {"sinh", "sinh"},
    {"sup", "sup"},
    {"tan", "tan"},
    {"tanh", "tanh"},
    {"_", "_"},
};
static const struct command accents[] = {
    {"hat", "\u0302"},   {"tilde", "\u0303"}, {"dot", "\u0307"}, {"ddot", "\u0308"}, {"acute", "\u0301"}, {"grave", "\u0300"},
    {"check", "\u030c"}, {"breve", "\u0306"}, {"'", "\u0301"},   {"`", "\u0300"},    {"^", "\u0302"},     {"~", "\u0303"},
    {"\"", "\u0308"},    {"=", "\u0304"},     {".", "\u0307"},   {"u", "\u0306"},    {"v", "\u030c"},     {"H", "\u030b"},
    {"c", "\u0327"},     {"k", "\u0328"},     {"r", "\u030a"},   {"d", "\u0323"},
};
static const struct command replaced[] = {
    {"ref", "ref"}, {"eqref", "ref"},  {"cite", "cit"},     {"label", ""},      {"hspace", ""}, {"vspace", ""},
    {"color", ""},  {"textcolor", ""}, {"xrightarrow", ""}, {"xleftarrow", ""}, {"texttt", ""}, {"mbox", ""},
};

static const struct {
  const char *name;
  const struct alphabet *alphabet;
} alphabets[] = {
    {"mathbf", &bold},      {"mathit", &italic},     {"mathcal", &script}, {"mathscr", &script},
    {"mathfrak", &fraktur}, {"mathbb", &blackboard}, {"mathsf", &sans},    {"mathtt", &typewriter},
};

#define N(table) (sizeof(table) / sizeof *(table))

struct reader {
  const char *at;
  char *out;
  size_t n, capacity, depth, outer; /* outer: what stood when the outermost open group began */
  bool no_memory, cut, stray;
};

static void add(struct reader *reader, const char *text, size_t size) {
  if (reader->n + size + 1 > reader->capacity) {
    size_t capacity = 2 * (reader->n + size + 1);
    char *larger = realloc(reader->out, capacity);
    reader->no_memory |= !larger;
    if (!larger) return;
    reader->out = larger;
    reader->capacity = capacity;
  }
  memcpy(reader->out + reader->n, text, size);
  reader->n += size;
}

static void add_character(struct reader *reader, uint32_t value) {
  char bytes[4];
  add(reader, bytes, (size_t)utf8proc_encode_char((utf8proc_int32_t)value, (utf8proc_uint8_t *)bytes));
}

/* What was added from a place on, for changing; NULL: memory is out. */
static char *take(struct reader *reader, size_t from) {
  char *text = strndup(reader->out ? reader->out + from : "", reader->n - from);
  reader->no_memory |= !text;
  reader->n = from;
  return text;
}

/* What was added from a place on in another alphabet, or with an accent on each character. */
static void change(struct reader *reader, size_t from, const struct alphabet *alphabet, const char *accent) {
  char *text = take(reader, from);
  for (const char *at = text; at && *at;) {
    utf8proc_int32_t value;
    utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)at, -1, &value);
    size_t size = length > 0 ? (size_t)length : 1;
    uint32_t letter = 0;
    if (alphabet && *at >= 'A' && *at <= 'Z') letter = alphabet->capital + (uint32_t)(*at - 'A');
    if (alphabet && *at >= 'a' && *at <= 'z') letter = alphabet->small + (uint32_t)(*at - 'a');
    for (size_t i = 0; i < N(elsewhere); i++) {
      if (letter == elsewhere[i].computed) letter = elsewhere[i].real;
    }
    if (letter) {
      add_character(reader, letter);
    } else {
      add(reader, at, size);
      add(reader, accent, strlen(accent));
    }
    at += size;
  }
  free(text);
}

static void read_one(struct reader *reader);

static void read_until(struct reader *reader, char end) {
  while (*reader->at && *reader->at != end && !reader->cut && !reader->stray && !reader->no_memory) read_one(reader);
}

static void skip_blanks(struct reader *reader) { reader->at += strspn(reader->at, " \t\r\n"); }

static void read_argument(struct reader *reader) {
  skip_blanks(reader);
  if (*reader->at && *reader->at != '}') read_one(reader);
}

/* "[...]", where there is one. */
static void skip_option(struct reader *reader) {
  const char *end = *reader->at == '[' ? strchr(reader->at, ']') : NULL;
  if (end) reader->at = end + 1;
}

static void begin_outer(struct reader *reader) {
  if (!reader->depth++) reader->outer = reader->n;
  reader->cut |= reader->depth > MAX_DEPTH;
}

static void read_group(struct reader *reader) {
  begin_outer(reader);
  reader->at++;
  read_until(reader, '}');
  if (!*reader->at) reader->cut = true;
  if (reader->cut || reader->stray) return;
  reader->at++;
  reader->depth--;
}

/* After \begin or \end. */
static void read_environment(struct reader *reader, bool begins) {
  const char *close = *reader->at == '{' ? strchr(reader->at, '}') : NULL;
  if (!begins || !close) {
    reader->stray |= !begins;
    reader->cut |= begins;
    return;
  }
  char name[32] = "";
  size_t size = (size_t)(close - reader->at - 1);
  if (size < sizeof name) memcpy(name, reader->at + 1, size);
  begin_outer(reader);
  reader->at = close + 1;
  if (strcmp(name, "array") == 0 || strcmp(name, "tabular") == 0) {
    size_t n = reader->n;
    skip_option(reader);
    read_argument(reader);
    reader->n = n;
  }
  while (*reader->at && strncmp(reader->at, "\\end", 4) != 0 && !reader->cut && !reader->stray && !reader->no_memory)
    read_one(reader);
  close = *reader->at ? strchr(reader->at, '}') : NULL;
  if (!close) reader->cut = true;
  if (reader->cut || reader->stray) return;
  reader->at = close + 1;
  reader->depth--;
}

static bool is(const char *name, const char *command, size_t size) {
  return strlen(name) == size && memcmp(name, command, size) == 0;
}

/* The command's argument, if it is one that changes it. */
static void run_command(struct reader *reader, const char *command, size_t size) {
  const char *accent = NULL, *text = NULL;
  const struct alphabet *alphabet = NULL;
  bool fraction = is("frac", command, size) || is("nicefrac", command, size);
  size_t from = reader->n;
  for (size_t i = 0; i < N(accents); i++) accent = is(accents[i].name, command, size) ? accents[i].text : accent;
  for (size_t i = 0; i < N(replaced); i++) text = is(replaced[i].name, command, size) ? replaced[i].text : text;
  for (size_t i = 0; i < N(alphabets); i++) alphabet = is(alphabets[i].name, command, size) ? alphabets[i].alphabet : alphabet;
  if (!accent && !text && !alphabet && !fraction) return;
  begin_outer(reader);
  read_argument(reader);
  if (accent || alphabet) change(reader, from, alphabet, accent ? accent : "");
  if (text) reader->n = from;
  if (text) add(reader, text, strlen(text));
  if (fraction) add(reader, "/", 1);
  if (fraction) read_argument(reader);
  reader->depth -= !reader->cut && !reader->stray;
}

static void read_command(struct reader *reader) {
  const char *command = ++reader->at;
  size_t size = 0;
  while (isalpha((unsigned char)command[size])) size++;
  if (!size) size = *command != '\0';
  reader->at += size;
  if (isalpha((unsigned char)*command)) skip_blanks(reader);
  if (is("begin", command, size) || is("end", command, size)) {
    read_environment(reader, size == 5);
    return;
  }
  if (*command == '\\' || is("sqrt", command, size)) skip_option(reader);
  for (size_t i = 0; i < N(letters); i++) {
    if (!is(letters[i].name, command, size)) continue;
    add(reader, letters[i].text, strlen(letters[i].text));
    return;
  }
  run_command(reader, command, size);
}

static void read_one(struct reader *reader) {
  size_t size = 1;
  switch (*reader->at) {
    case '{': read_group(reader); return;
    case '}': reader->stray = true; return;
    case '\\': read_command(reader); return;
    case '%': reader->at += strcspn(reader->at, "\n"); return;
    case '$':
    case '&':
    case '~': reader->at++; return;
    default:
      while (((unsigned char)reader->at[size] & 0xc0) == 0x80) size++;
      add(reader, reader->at, size);
      reader->at += size;
  }
}

char *ommai_latex_text(const char *latex) {
  struct reader reader = {.at = latex};
  add(&reader, "", 0);
  read_until(&reader, '\0');
  if (reader.cut) reader.n = reader.outer;
  if (reader.stray) reader.n = 0;
  if (reader.no_memory) {
    free(reader.out);
    return NULL;
  }
  reader.out[reader.n] = '\0';
  char *composed = (char *)utf8proc_NFC((const utf8proc_uint8_t *)reader.out);
  free(reader.out);
  return composed;
}
