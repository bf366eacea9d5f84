/* Bicubic resampling of 8-bit RGB with antialiasing, equal bit for bit to what the official
 * processors run.
 *
 * Two passes, each rounding and clamping to 8 bits; a pass whose size does not change is left out.
 * The kernel is the cubic one with a = -0.5, widened by the scale when shrinking; weights are
 * normalised in double and then rounded to fixed point with p fraction bits. The rules differ in p
 * and in which pass goes first.
 * Source: torchvision's antialiased uint8 interpolate; Image.resize of Pillow 13 (older versions
 * are always horizontal first). */
#pragma once

#include <omma/host.h>
#include <omma/status.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu.h"

enum ommai_resize_rule {
  /* each pass has the largest p <= 22 whose weights still fit int16; horizontal first:
   * torchvision */
  OMMAI_RESIZE_INT16,
  OMMAI_RESIZE_PRECISE22 /* p = 22; vertical first where sh - dh > max(0, 2 (sw - dw)): Pillow */
};

/* Bytes of workspace that a resize from sw x sh to dw x dh pixels needs. Errors: ARGUMENT for a
 * side below 1; LIMIT. */
enum omma_status ommai_resize_workspace(enum ommai_resize_rule rule, int32_t sw, int32_t sh, int32_t dw, int32_t dh,
                                        size_t *size, struct omma_error *error);

/* Resizes src [sh][sw][3] into dst [dh][dw][3], which must not overlap. workspace: at least
 * ommai_resize_workspace bytes, aligned to 64, used by no other running call. team NULL: this
 * thread alone; the result never depends on the team. Allocates nothing. Uses the CPU level that
 * ommai_cpu_select_without_tiles gives. Errors: ARGUMENT, LIMIT, and MEMORY for a workspace that is
 * too small, before anything is written; those of ommai_cpu_select. */
enum omma_status ommai_resize_bicubic(enum ommai_resize_rule rule, const uint8_t *src, int32_t sw, int32_t sh, uint8_t *dst,
                                      int32_t dw, int32_t dh, void *workspace, size_t size, const struct omma_team *team,
                                      struct omma_error *error);

/* The same with the kernels of one CPU level, which this machine must have. The pixels are the same
 * on every level. */
enum omma_status ommai_resize_bicubic_at(enum ommai_cpu_level level, enum ommai_resize_rule rule, const uint8_t *src,
                                         int32_t sw, int32_t sh, uint8_t *dst, int32_t dw, int32_t dh, void *workspace,
                                         size_t size, const struct omma_team *team, struct omma_error *error);
