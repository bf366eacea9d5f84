/* What the files of an encoder node take in a directory, and the removal of the oldest:
 * KEY/encoder_cache.safetensors. Nothing else in the directory is touched, and no link is
 * followed. */
#pragma once

#include <omma/host.h>
#include <stdbool.h>
#include <stdint.h>

#define OMMAI_ENCODING_FILE "encoder_cache.safetensors"
/* The end of the name under which a file is written, after a dot and random digits. */
#define OMMAI_ENCODING_PART ".part"

/* The folder of a key within the directory, open; with `make` it is made where it is missing. -1
 * with errno set: ELOOP or ENOTDIR for a link. */
int ommai_encoding_disk_folder(int directory, const char *key, bool make);

/* Looks at all files, whoever wrote them, and removes the oldest until at most `room` bytes are
 * left; *bytes becomes what is left. Parts that a program left an hour ago are removed too. False
 * with errno set: the directory cannot be read or memory is out, and nothing was removed. */
bool ommai_encoding_disk_make_room(int directory, int64_t room, const struct omma_allocator *allocator, int64_t *bytes);
