/* What the command line prints to people on stderr, and the exit codes that go with it. */
#pragma once

#include <stddef.h>

#include <omma/status.h>
#include <stdarg.h>

/* OMMAI_EXIT_SIGNAL and its number, when a signal ended the work: 130 after Ctrl-C. */
enum ommai_exit { OMMAI_EXIT_DONE = 0, OMMAI_EXIT_FAILED = 1, OMMAI_EXIT_USAGE = 2, OMMAI_EXIT_SIGNAL = 128 };

/* Leaves the function with the exit code of `expression`, where that is not OMMAI_EXIT_DONE. For
 * functions that own nothing yet. */
#define OMMAI_TRY_CODE(expression)                      \
  do {                                                  \
    int ommai_code_ = (expression);                     \
    if (ommai_code_ != OMMAI_EXIT_DONE) return ommai_code_; \
  } while (0)

/* From now on the text of an error that is printed, without the program's name, replaces the one in
 * `out` too, cut to size - 1 bytes. NULL ends that. One thread at a time. */
void ommai_failures_to(char *out, size_t size);

/* Prints `omma: message` as one line, as plain_text.h makes it, and returns OMMAI_EXIT_FAILED. */
int ommai_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The library's errors name members of its structs, such as max_model_len. From now on the option
 * that the function finds for a name (NULL: none) stands in its place, --max-model-len: in front of
 * a message where it is the error's field, elsewhere where it is no word of a sentence and the
 * error is about an argument or a limit. */
void ommai_diagnostics_of(const char *(*name_of_option)(const char *name, size_t size));

/* The same for an error of the library. */
int ommai_failed_call(const struct omma_error *error);

/* The same for a wrong command line; returns OMMAI_EXIT_USAGE. */
int ommai_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* `omma: warning: message`, and `omma: message`. */
void ommai_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ommai_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on notes and warnings begin with the time, as lines of a log do. */
void ommai_show_times(void);

/* Puts /dev/null in the place of each of stdin, stdout and stderr that is closed, so that no file
 * that is opened later takes its number and what is printed goes into it. The first two fail all
 * the same where they are used. Called first of all. Returns an exit code. */
int ommai_fill_standard_files(void);

/* Flushes stdout: OMMAI_EXIT_DONE, or OMMAI_EXIT_FAILED with a message when something written to it
 * was lost. */
int ommai_finish_output(void);
