/* Files: whole files into memory with a limit, and read-only maps. */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stdbool.h>
#include <stddef.h>

/* Joins a directory, with a slash at its end or without, and a file name. False when it does not
 * fit into `size` bytes. */
bool ommai_path_join(char *out, size_t size, const char *directory, const char *name);

/* What stands after a path's last slash. */
const char *ommai_path_name(const char *path);

/* True when a path or file name has this ending. */
bool ommai_path_ends_with(const char *path, const char *end);

/* True when a regular file (or a link to one) is there. */
bool ommai_file_exists(const char *path);

/* True when a directory has an entry whose name has this ending. */
bool ommai_directory_has(const char *directory, const char *end);

/* DIRECTORY/NAME into `path`, and whether something is there. What is there and is not a regular
 * file, nor a link to one (a directory, a named pipe, a link that leads nowhere), is an error: it
 * was meant to be read. Errors: ARGUMENT (the path is too long), IO. */
enum omma_status ommai_file_find(char *path, size_t size, const char *directory, const char *name, bool *found,
                                 struct omma_error *error);

/* Reads a whole regular file of at most `limit` bytes. *data gets *size bytes and a NUL after them;
 * release with ommai_release(allocator, data, size + 1, 1). Errors: IO, LIMIT, MEMORY, with the
 * path in the message. */
enum omma_status ommai_file_read(const char *path, size_t limit, const struct omma_allocator *allocator, char **data,
                                 size_t *size, struct omma_error *error);

/* The same of an open file, which the caller closes; `name` is for messages. */
enum omma_status ommai_file_read_open(int descriptor, const char *name, size_t limit, const struct omma_allocator *allocator,
                                      char **data, size_t *size, struct omma_error *error);

/* Writes all of it, however often it takes. False where it cannot, with the cause in errno. */
bool ommai_file_write_all(int descriptor, const char *bytes, size_t size);

/* A file mapped read-only. Pages are the kernel's (page cache), not the process's. */
struct ommai_file_map {
  const unsigned char *data;
  size_t size;
};
enum omma_status ommai_file_map_open(const char *path, struct ommai_file_map *map, struct omma_error *error);
/* Informs the kernel that the pages inside [offset, offset + size) are not needed any more; they
 * can still be read. */
void ommai_file_map_release_pages(const struct ommai_file_map *map, size_t offset, size_t size);
void ommai_file_map_close(struct ommai_file_map *map);
