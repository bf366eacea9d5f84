/* Writes lines to a file descriptor from a thread of its own, so that nobody who has something to
 * print waits for a slow terminal or pipe. */
#pragma once

#include <stddef.h>

struct ommai_log_writer;

/* Makes a writer that keeps at most `capacity` bytes that are not written yet; NULL when memory or
 * threads are out. */
struct ommai_log_writer *ommai_log_writer_create(int descriptor, size_t capacity);

/* Takes a line, to which a line end is added; each is written whole, in one call where it is short
 * enough for a pipe to take it so. Never waits: a line that finds no room is dropped, and how many
 * were is printed in their place. Any thread. */
void ommai_log_writer_put(struct ommai_log_writer *writer, const char *line);

/* Writes what is left, for a second at most when nobody reads, and ends the thread. NULL is
 * allowed. */
void ommai_log_writer_destroy(struct ommai_log_writer *writer);
