/* A new file next to its target, put in place by rename when it is complete: readers see the old
 * file or the whole new one. */
#pragma once

#include <limits.h>
#include <omma/status.h>
#include <stdint.h>

/* Owned by the caller, who commits or discards it. `path` must live until then. */
struct ommai_part_file {
  const char *path; /* the target */
  int fd;           /* -1: none */
  char temporary[PATH_MAX];
};

/* Creates the file. A link at `path` will be replaced, anything else that is not a regular file is
 * refused. Errors: IO with the path. */
enum omma_status ommai_part_file_create(struct ommai_part_file *file, const char *path, struct omma_error *error);

/* Writes `size` bytes after the others. Errors: IO. */
enum omma_status ommai_part_file_write(struct ommai_part_file *file, const void *data, uint64_t size, struct omma_error *error);

/* The same over the bytes at the beginning, which were written before. */
enum omma_status ommai_part_file_rewrite(struct ommai_part_file *file, const void *data, uint64_t size,
                                         struct omma_error *error);

/* Closes the file and renames it. On failure it is removed. Errors: IO. */
enum omma_status ommai_part_file_commit(struct ommai_part_file *file, struct omma_error *error);

/* Removes the file, where there is one. */
void ommai_part_file_discard(struct ommai_part_file *file);
