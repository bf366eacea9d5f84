/* A name for the weights of a checkpoint, by which programs that load it elsewhere know whether
 * they have the same. */
#pragma once

#include "weights/checkpoint.h"

#define OMMAI_FINGERPRINT_SIZE 65 /* hexadecimal digits and a NUL */

/* The exclusive or, over all tensors in whatever order, of the 256-bit BLAKE2b of: name, NUL, type
 * ("BF16"), NUL, the sizes of its dimensions as 64-bit numbers (little-endian), its first KiB.
 * Reads no more of the tensors than that. Those that are stored quantised count by name, type and
 * sizes. */
void ommai_checkpoint_fingerprint(const struct ommai_checkpoint *checkpoint, char out[OMMAI_FINGERPRINT_SIZE]);
