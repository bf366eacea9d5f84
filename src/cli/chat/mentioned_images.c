#include "cli/chat/mentioned_images.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "cli/core/diagnostics.h"
#include "cli/core/pasted_paths.h"
#include "cli/core/paths.h"
#include "cli/model/image_sources.h"

static const char blanks[] = " \t\r\n";
static const char separators[] = " \t\r\n,;:";

/* What a word can be; of two readings of a word the later kind counts. */
enum kind {
  WORD,       /* of the sentence */
  NOT_HERE,   /* a name that may be meant as an image's */
  NO_IMAGE,   /* a file that is there and stays a word */
  ON_NETWORK, /* the address of an image */
  MISSING,    /* a path that is meant as an image's */
  IMAGE       /* a file that is there */
};

/* A word of a question: text[begin, end), and the path that it spells. */
struct mention {
  enum kind kind;
  size_t begin, end;
  char path[OMMAI_MAX_PATH];
};

static bool begins_path(const char *word) {
  static const char *const beginnings[] = {"/", "./", "../", "~/", "file://"};
  for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
    if (strncasecmp(word, beginnings[i], strlen(beginnings[i])) == 0) return true;
  }
  return false;
}

/* Whether it ends as an image's name does, and has a letter or digit before that. */
static bool names_image(const char *path) {
  const char *name = ommai_path_name(path), *dot = strrchr(name, '.');
  if (!dot || !ommai_ends_as_image(name)) return false;
  while (name < dot && !isalnum((unsigned char)*name) && !((unsigned char)*name & 0x80)) name++;
  return name < dot;
}

static bool is_file(const char *path) { return strpbrk(path, "/.") && ommai_file_exists(path); }

/* Takes a mark of punctuation off the end of what a word spells. */
static bool cut_mark(const char *text, struct mention *mention) {
  size_t size = strlen(mention->path);
  char last = size > 1 ? mention->path[size - 1] : '/';
  if (!ispunct((unsigned char)last) || last == '/' || text[mention->end - 1] != last) return false;
  mention->path[size - 1] = '\0';
  mention->end--;
  return true;
}

/* Takes marks off until the word spells a file. */
static bool find_file(const char *text, struct mention *mention) {
  bool found = is_file(mention->path);
  while (!found && cut_mark(text, mention)) found = is_file(mention->path);
  return found;
}

static enum kind classify(const char *text, struct mention *mention) {
  const char *word = text + mention->begin;
  bool path = begins_path(mention->path), file = find_file(text, mention), image = names_image(mention->path);
  if (file && (image || path)) return image || ommai_holds_image(mention->path) ? IMAGE : NO_IMAGE;
  if (image && strncasecmp(mention->path, "http", 4) == 0 && strstr(mention->path, "://")) return ON_NETWORK;
  if (strncasecmp(word, "file://", 7) == 0 || (image && path)) return MISSING;
  return image ? NOT_HERE : WORD;
}

/* The word as a shell reads it: quotes and backslashes are resolved. A quoted sentence is none. */
static void read_pasted(const char *text, struct mention *mention) {
  const char *at = text + mention->begin;
  if (ommai_pasted_path(&at, mention->path, sizeof mention->path) != OMMAI_WORD_FOUND) return;
  mention->end = (size_t)(at - text);
  if (strpbrk(mention->path, blanks) && !begins_path(mention->path)) return;
  mention->kind = classify(text, mention);
}

/* The word as it is, without opening brackets and quotes. */
static void read_plain(const char *text, struct mention *mention) {
  mention->begin += strspn(text + mention->begin, "([{<\"'`");
  size_t size = strcspn(text + mention->begin, blanks);
  mention->end = mention->begin + size;
  if (!ommai_literal_path(text + mention->begin, size, mention->path, sizeof mention->path)) return;
  mention->kind = classify(text, mention);
}

/* A path whose blanks stand as they are, up to the first word that makes it an image's; another
 * path ends it. */
static void read_with_blanks(const char *text, struct mention *mention) {
  if (!begins_path(text + mention->begin)) return;
  for (size_t end = mention->begin; mention->kind != IMAGE && text[end];) {
    end += strspn(text + end, blanks);
    if (end > mention->begin && begins_path(text + end)) return;
    end += strcspn(text + end, blanks);
    mention->end = end;
    if (!ommai_literal_path(text + mention->begin, end - mention->begin, mention->path, sizeof mention->path)) return;
    while (cut_mark(text, mention)) {
    }
    if (names_image(mention->path) && is_file(mention->path)) mention->kind = IMAGE;
  }
}

/* Takes the next mention from text + *at on, and moves *at after it. False at the end. */
static bool next_mention(const char *text, size_t *at, struct mention *mention) {
  static void (*const readings[])(const char *, struct mention *) = {read_pasted, read_plain, read_with_blanks};
  for (; text[ *at += strspn(text + *at, blanks)]; *at += strcspn(text + *at, blanks)) {
    mention->kind = WORD;
    for (size_t i = 0; i < sizeof readings / sizeof *readings && mention->kind != IMAGE; i++) {
      struct mention reading = {.kind = WORD, .begin = *at};
      readings[i](text, &reading);
      if (reading.kind > mention->kind) *mention = reading;
    }
    if (mention->kind == WORD) continue;
    *at = mention->end;
    return true;
  }
  return false;
}

/* Says what is remarkable about a mention. Returns an exit code. */
static int report(const char *command, const char *way_out, const struct mention *mention) {
  switch (mention->kind) {
    case NOT_HERE: ommai_note("%s: %s: no such file: it stays a word of the question", command, mention->path); break;
    case NO_IMAGE: ommai_note("%s: %s: not an image: it stays a word of the question", command, mention->path); break;
    case ON_NETWORK:
      return ommai_failed("%s: %s: images are not fetched from the network: download it first (%s)", command, mention->path,
                          way_out);
    case MISSING: return ommai_failed("%s: %s: no such file (%s)", command, mention->path, way_out);
    case WORD:
    case IMAGE: break;
  }
  return OMMAI_EXIT_DONE;
}

/* Where an image's path stands in a question. */
struct span {
  size_t begin, end;
};

static bool only_separators(const char *text, size_t begin, size_t end) {
  return strspn(text + begin, separators) >= end - begin;
}

/* Whether a sentence ends before text[at], but for blanks. */
static bool begins_sentence(const char *text, size_t at) {
  while (at && strchr(blanks, text[at - 1])) {
    if (text[--at] == '\n') return true;
  }
  return at == 0 || strchr(".?!:;,", text[at - 1]);
}

/* What is asked: the question without the paths before and after it; of others the file's name. */
static bool write_question(const char *text, const struct span *spans, struct ommai_mentioned *found) {
  size_t n = found->n_images, first = 0, last = n, size = strlen(text), at = 0, length;
  FILE *out = open_memstream(&found->question, &length);
  if (!out) return false;
  for (; first < n && only_separators(text, at, spans[first].begin); first++) at = spans[first].end;
  if (first) at += strspn(text + at, separators);
  size_t end = size;
  for (; last > first && only_separators(text, spans[last - 1].end, end); last--) end = spans[last - 1].begin;
  if (!begins_sentence(text, end)) {
    last = n;
    end = size;
  }
  for (size_t i = first; i < last; i++) {
    fprintf(out, "%.*s%s", (int)(spans[i].begin - at), text + at, ommai_path_name(found->images[i]));
    at = spans[i].end;
  }
  while (end > at && last < n && strchr(blanks, text[end - 1])) end--;
  if (end > at) fprintf(out, "%.*s", (int)(end - at), text + at);
  bool lost = ferror(out) != 0;
  return fclose(out) == 0 && !lost;
}

int ommai_mentioned_images(const char *command, const char *way_out, const char *question, struct ommai_mentioned *found) {
  struct span spans[OMMAI_MAX_MENTIONED];
  struct mention mention;
  int code = OMMAI_EXIT_DONE;
  *found = (struct ommai_mentioned){0};
  for (size_t at = 0; next_mention(question, &at, &mention);) {
    int reported = report(command, way_out, &mention);
    if (reported != OMMAI_EXIT_DONE) code = reported;
    if (mention.kind != IMAGE) continue;
    if (found->n_images == OMMAI_MAX_MENTIONED)
      return ommai_failed("%s: at most %d images go with one question", command, OMMAI_MAX_MENTIONED);
    spans[found->n_images] = (struct span){mention.begin, mention.end};
    char *path = strdup(mention.path);
    if (!path) return ommai_failed("%s: out of memory: a path", command);
    found->images[found->n_images++] = path;
  }
  if (code == OMMAI_EXIT_DONE && !write_question(question, spans, found))
    return ommai_failed("%s: out of memory: a question of %zu bytes", command, strlen(question));
  return code;
}

bool ommai_mentions_image(const char *question, char *path, size_t size) {
  struct mention mention;
  size_t at = 0;
  bool found = false;
  while (!found && next_mention(question, &at, &mention)) found = mention.kind == IMAGE;
  if (found) snprintf(path, size, "%s", mention.path);
  return found;
}

void ommai_mentioned_release(struct ommai_mentioned *found) {
  for (size_t i = 0; i < found->n_images; i++) free(found->images[i]);
  free(found->question);
  *found = (struct ommai_mentioned){0};
}
