/* The line editor by libedit. */
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/chat/line_completion.h"
#include "cli/chat/line_editor.h"
#include "cli/core/diagnostics.h"
#include "cli/core/history_file.h"
#include "cli/core/interrupt.h"
#include "cli/core/plain_text.h"

#define REPLACEMENT_CHARACTER 0xfffd
#define MAX_LISTED 100
/* Characters of one paste; what is beyond them is left out. */
#define MAX_PASTED ((size_t)1 << 20)

/* What the terminal sends around a paste, once it was asked to (xterm's mode 2004). */
static const char paste_begin[] = "\\e[200~";
static const wchar_t paste_end[] = L"\x1b[201~";
static const char brackets_on[] = "\x1b[?2004h", brackets_off[] = "\x1b[?2004l";

struct ommai_line_editor {
  EditLine *line;
  History *history;
  const char *prompt;
  const char *path; /* of the history's file; NULL: none */
  bool typed;       /* the line that is read has something in it, or had when a signal came */
  locale_t utf8;    /* what people type is UTF-8, regardless of the environment */
};

static struct ommai_line_editor *editor_of(EditLine *line) {
  struct ommai_line_editor *editor = NULL;
  el_get(line, EL_CLIENTDATA, &editor);
  return editor;
}

static char *show_prompt(EditLine *line) { return (char *)editor_of(line)->prompt; }

/* Left alone, libedit shows the prompt before it takes the terminal over, and a Ctrl-D in between
 * would be lost. */
static void take_terminal(EditLine *line) {
  el_set(line, EL_PREP_TERM, 1);
  fputs(brackets_on, stdout);
  fflush(stdout);
}

/* Notes whether anything is typed, and puts the cursor after it, where the terminal goes on after a
 * signal. */
static void leave_line(EditLine *line) {
  const LineInfoW *info = el_wline(line);
  if (info->lastchar > info->buffer) editor_of(line)->typed = true;
  el_cursor(line, (int)(info->lastchar - info->cursor));
  el_set(line, EL_REFRESH);
}

/* False when a signal came. A shell that had the terminal in between has changed it. */
static bool wait_for_key(EditLine *line) {
  enum ommai_wait wait;
  while ((wait = ommai_interrupt_wait_for(STDIN_FILENO)) == OMMAI_WAIT_RESUMED) {
    el_set(line, EL_PREP_TERM, 0);
    take_terminal(line);
    el_set(line, EL_REFRESH);
  }
  return wait == OMMAI_WAIT_READY;
}

/* libedit's own reader would not come back at a signal that another thread of the program got. */
static int read_character(EditLine *line, wchar_t *character) {
  mbstate_t state = {0};
  size_t length;
  do {
    char byte;
    if (!wait_for_key(line)) {
      leave_line(line);
      return -1;
    }
    ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got != 1) return (int)got;
    length = mbrtowc(character, &byte, 1, &state);
  } while (length == (size_t)-2);
  if (length == (size_t)-1) *character = REPLACEMENT_CHARACTER;
  el_resize(line);
  return 1;
}

/* What all ways to go on have in common. */
struct matches {
  size_t count;
  char common[OMMAI_MAX_PATH];
  bool print;
};

static void take_match(void *context, const char *name, const char *rest) {
  struct matches *matches = context;
  if (matches->print) {
    if (matches->count < MAX_LISTED) {
      if (matches->count) fputs("  ", stdout);
      ommai_print_plain(stdout, name, 0);
    }
  } else if (matches->count == 0) {
    snprintf(matches->common, sizeof matches->common, "%s", rest);
  } else {
    size_t same = 0;
    while (rest[same] && rest[same] == matches->common[same]) same++;
    while (same && ((unsigned char)rest[same] & 0xc0) == 0x80) same--;
    matches->common[same] = '\0';
  }
  matches->count++;
}

/* Tab: writes what is certain; a second one, where nothing is, lists what is possible. */
static unsigned char complete(EditLine *line, int key) {
  (void)key;
  const LineInfo *info = el_line(line);
  char *typed = strndup(info->buffer, (size_t)(info->cursor - info->buffer));
  if (!typed) return CC_ERROR;
  struct matches matches = {.print = false};
  unsigned char result = CC_REFRESH;
  ommai_complete_line(typed, take_match, &matches);
  if (!matches.count || (matches.common[0] && el_insertstr(line, matches.common) != 0)) {
    result = CC_ERROR;
  } else if (!matches.common[0]) {
    matches = (struct matches){.print = true};
    putchar('\n');
    ommai_complete_line(typed, take_match, &matches);
    puts(matches.count > MAX_LISTED ? "  ..." : "");
    result = CC_REDISPLAY;
  }
  free(typed);
  return result;
}

/* A paste while it comes in, ended by a NUL. */
struct paste {
  wchar_t *text; /* [capacity] */
  size_t size, capacity;
};

static bool add_pasted(struct paste *paste, wchar_t character) {
  if (paste->size + 1 >= paste->capacity) {
    size_t capacity = paste->capacity ? 2 * paste->capacity : 4096;
    wchar_t *text = realloc(paste->text, capacity * sizeof *text);
    if (!text) return false;
    paste->text = text;
    paste->capacity = capacity;
  }
  paste->text[paste->size++] = character;
  paste->text[paste->size] = L'\0';
  return true;
}

/* Reads a paste and the brackets after it. Line ends become '\n'; control characters, and what may
 * begin the brackets, are left out. False when the terminal or memory fails. */
static bool read_paste(EditLine *line, struct paste *paste) {
  wchar_t character = 0, before;
  for (size_t matched = 0; paste_end[matched];) {
    before = character;
    if (el_wgetc(line, &character) != 1) return false;
    matched = character == paste_end[matched] ? matched + 1 : character == paste_end[0];
    bool second_half = character == L'\n' && before == L'\r';
    wchar_t shown = character == L'\r' ? L'\n' : character;
    bool is_control = (shown < 0x20 && shown != L'\n' && shown != L'\t') || shown == 0x7f;
    if (matched || second_half || is_control || paste->size >= MAX_PASTED) continue;
    if (!add_pasted(paste, shown)) return false;
  }
  return true;
}

/* A terminal's bracketed paste: its text goes into the line as it is, line ends too. */
static unsigned char take_paste(EditLine *line, int key) {
  (void)key;
  struct paste paste = {.text = NULL};
  bool whole = read_paste(line, &paste);
  bool inserted = whole && (!paste.size || el_winsertstr(line, paste.text) == 0);
  if (!whole && paste.size) editor_of(line)->typed = true;
  free(paste.text);
  return inserted ? CC_REFRESH : whole ? CC_ERROR : CC_EOF;
}

/* Keys that terminals send and libedit does not know by itself. */
static void bind_keys(EditLine *line) {
  static const char *const keys[][2] = {
      {paste_begin, "omma-paste"},   {"^I", "omma-complete"},           {"^R", "em-inc-search-prev"},
      {"^W", "ed-delete-prev-word"}, {"\\e[3~", "ed-delete-next-char"}, {"\\e[1~", "ed-move-to-beg"},
      {"\\e[4~", "ed-move-to-end"},  {"\\e[H", "ed-move-to-beg"},       {"\\e[F", "ed-move-to-end"},
      {"\\eOH", "ed-move-to-beg"},   {"\\eOF", "ed-move-to-end"},       {"\\e[1;5C", "em-next-word"},
      {"\\e[1;5D", "ed-prev-word"},
  };
  /* The narrow form of these leaks. */
  el_wset(line, EL_ADDFN, L"omma-paste", L"Take a pasted text", take_paste);
  el_wset(line, EL_ADDFN, L"omma-complete", L"Complete a path or a command", complete);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) el_set(line, EL_BIND, keys[i][0], keys[i][1], NULL);
}

static void enter(void *context, const char *line) {
  struct ommai_line_editor *editor = context;
  HistEvent event;
  if (mbstowcs(NULL, line, 0) != (size_t)-1) history(editor->history, &event, H_ENTER, line);
}

static bool start_history(struct ommai_line_editor *editor) {
  HistEvent event;
  editor->history = history_init();
  if (!editor->history) return false;
  history(editor->history, &event, H_SETSIZE, OMMAI_HISTORY_LINES);
  history(editor->history, &event, H_SETUNIQUE, 1);
  el_set(editor->line, EL_HIST, history, editor->history);
  if (editor->path && !ommai_history_load(editor->path, enter, editor)) editor->path = NULL;
  return true;
}

static bool start(struct ommai_line_editor *editor) {
  const char *terminal = NULL;
  editor->line = el_init("omma", stdin, stdout, stderr);
  if (!editor->line || el_get(editor->line, EL_TERMINAL, &terminal) != 0) return false;
  if (!terminal || strcmp(terminal, "dumb") == 0 || !ommai_interrupt_watch_resume()) return false;
  el_set(editor->line, EL_CLIENTDATA, editor);
  el_set(editor->line, EL_PROMPT, show_prompt);
  el_set(editor->line, EL_GETCFN, read_character);
  el_set(editor->line, EL_EDITOR, "emacs");
  /* "\r\n" in a paste is one line end */
  el_set(editor->line, EL_SETTY, "-d", "-icrnl", "-inlcr", NULL);
  bind_keys(editor->line);
  el_source(editor->line, NULL); /* the user's own ~/.editrc */
  return start_history(editor);
}

struct ommai_line_editor *ommai_line_editor_create(const char *history) {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) return NULL;
  struct ommai_line_editor *editor = calloc(1, sizeof *editor);
  if (!editor) return NULL;
  *editor = (struct ommai_line_editor){.prompt = "", .path = history};
  editor->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
  locale_t before = editor->utf8 ? uselocale(editor->utf8) : NULL;
  bool started = editor->utf8 && start(editor);
  if (before) uselocale(before);
  if (started) return editor;
  ommai_line_editor_destroy(editor);
  return NULL;
}

enum ommai_line_end ommai_line_editor_read(struct ommai_line_editor *editor, const char *prompt, char **line) {
  int count = 0;
  locale_t before = uselocale(editor->utf8);
  editor->prompt = prompt;
  editor->typed = false;
  take_terminal(editor->line);
  const char *typed = el_gets(editor->line, &count);
  fputs(brackets_off, stdout);
  fflush(stdout);
  uselocale(before);
  *line = NULL;
  if (ommai_interrupted()) return editor->typed ? OMMAI_LINE_CLEARED : OMMAI_LINE_INTERRUPTED;
  if (!typed || count <= 0) return OMMAI_LINE_END_OF_INPUT;
  size_t size = strlen(typed);
  while (size && (typed[size - 1] == '\n' || typed[size - 1] == '\r')) size--;
  *line = strndup(typed, size);
  return *line ? OMMAI_LINE_READ : OMMAI_LINE_END_OF_INPUT;
}

void ommai_line_editor_remember(struct ommai_line_editor *editor, const char *line) {
  HistEvent newest;
  if (history(editor->history, &newest, H_FIRST) >= 0 && strcmp(newest.str, line) == 0) return;
  locale_t before = uselocale(editor->utf8);
  enter(editor, line);
  uselocale(before);
  bool one_line = !strchr(line, '\n');
  if (one_line && editor->path && !ommai_history_append(editor->path, line)) editor->path = NULL;
}

void ommai_line_editor_destroy(struct ommai_line_editor *editor) {
  if (!editor) return;
  if (editor->history) history_end(editor->history);
  if (editor->line) el_end(editor->line);
  if (editor->utf8) freelocale(editor->utf8);
  free(editor);
}
