/* A trace of what the library does, for those who look for a fault: omma_model_options.log. */
#ifndef OMMA_LOG_H
#define OMMA_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

/* DEBUG: a step of the loading, of a request, of the engine's scheduler or of a cache. It is the
 * only level so far; an error goes to whoever made the call. */
enum omma_log_level { OMMA_LOG_DEBUG = 0 };

/* The longest line, with its NUL; a longer one is cut. */
#define OMMA_LOG_LINE_SIZE 512

/* Receives lines. `text` is one line without a line end and lives during the call. It has numbers,
 * constant words and names of the model, never the text of a prompt or an answer, nor tokens. What
 * lines there are may change with every version.
 *
 * Any thread of the library may call it, several at a time, also between two steps of the engine:
 * it must be thread-safe and quick, and must not call the library. It does not return a result and
 * cannot fail a call. */
struct omma_log {
  void *context;
  void (*line)(void *context, enum omma_log_level level, const char *text);
};

#ifdef __cplusplus
}
#endif

#endif
