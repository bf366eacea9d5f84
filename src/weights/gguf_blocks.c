#include "weights/gguf_blocks.h"

#include <stddef.h>
#include <string.h>

#include "base/checked.h"
#include "base/half.h"

static uint16_t load_u16(const unsigned char *bytes) {
  uint16_t value;
  memcpy(&value, bytes, sizeof value);
  return value;
}

static float load_f16(const unsigned char *bytes) { return ommai_f16_to_f32(load_u16(bytes)); }

/* 32 values of 4 bits: byte j holds value j in its low half and value j + 16 in its high half. */
static void split_halves(const unsigned char *bytes, int8_t q[32]) {
  for (int j = 0; j < 16; j++) {
    q[j] = (int8_t)(bytes[j] & 15);
    q[j + 16] = (int8_t)(bytes[j] >> 4);
  }
}

/* A fifth bit for each of 32 values, bit j of the word for value j. */
static void add_fifth_bits(const unsigned char *bytes, int8_t q[32]) {
  uint32_t bits;
  memcpy(&bits, bytes, sizeof bits);
  for (int j = 0; j < 32; j++) q[j] = (int8_t)(q[j] | (int)((bits >> j & 1u) << 4));
}

/* ---- blocks of 32 ---- */

/* f16 d; u8 q[16]: d * (q - 8). */
static void q4_0_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  (void)group;
  out->scale = load_f16(block);
  split_halves(block + 2, out->q);
  for (int j = 0; j < 32; j++) out->q[j] = (int8_t)(out->q[j] - 8);
}

/* f16 d, m; u8 q[16]: d * q + m. */
static void q4_1_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  (void)group;
  out->scale = load_f16(block);
  out->minimum = -load_f16(block + 2);
  split_halves(block + 4, out->q);
}

/* f16 d; u32 fifth bits; u8 q[16]: d * (q - 16). */
static void q5_0_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  (void)group;
  out->scale = load_f16(block);
  split_halves(block + 6, out->q);
  add_fifth_bits(block + 2, out->q);
  for (int j = 0; j < 32; j++) out->q[j] = (int8_t)(out->q[j] - 16);
}

/* f16 d, m; u32 fifth bits; u8 q[16]: d * q + m. */
static void q5_1_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  (void)group;
  out->scale = load_f16(block);
  out->minimum = -load_f16(block + 2);
  split_halves(block + 8, out->q);
  add_fifth_bits(block + 4, out->q);
}

/* f16 d; i8 q[32]: d * q. */
static void q8_0_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  (void)group;
  out->scale = load_f16(block);
  memcpy(out->q, block + 2, 32);
}

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void look_up(const int8_t table[16], int8_t q[32]) {
  for (int j = 0; j < 32; j++) q[j] = table[q[j]];
}

/* f16 d; u8 q[16]: d * table[q]. */
static void iq4_nl_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  (void)group;
  out->scale = load_f16(block);
  split_halves(block + 2, out->q);
  look_up(iq4_values, out->q);
}

/* u8 e; u8 q[16]: 2^(e - 127) times the 4-bit float q, here twice that float times half that
 * power. */
static void mxfp4_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  (void)group;
  uint32_t exponent = block[0];
  out->scale = ommai_f32_from_bits(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
  split_halves(block + 1, out->q);
  look_up(doubled, out->q);
}

/* ---- blocks of 256 ---- */

/* The six-bit scale and minimum of each 32 values, packed into 12 bytes. */
static void unpack_scales(const unsigned char *bytes, int64_t group, int *scale, int *minimum) {
  if (group < 4) {
    *scale = bytes[group] & 63;
    *minimum = bytes[group + 4] & 63;
  } else {
    *scale = (bytes[group + 4] & 15) | (bytes[group - 4] >> 6) << 4;
    *minimum = (bytes[group + 4] >> 4) | (bytes[group] >> 6) << 4;
  }
}

static void set_scales(struct ommai_gguf_group *out, float scale, int scale_code, float minimum, int minimum_code) {
  out->factors = (struct ommai_scale_factors){scale, minimum, (int8_t)scale_code, (int8_t)minimum_code};
  out->scale = scale * (float)scale_code;
  out->minimum = minimum * (float)minimum_code;
}

static void load_scales(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  int scale, minimum;
  unpack_scales(block + 4, group, &scale, &minimum);
  set_scales(out, load_f16(block), scale, load_f16(block + 2), minimum);
}

/* Group g's 2 bits, 16 values: of 128 values there are 32 bytes, four times 32 values from the
 * lowest bits on. */
static void load_pairs(const unsigned char *bytes, int64_t group, int8_t q[16]) {
  const unsigned char *from = bytes + group / 8 * 32 + group % 2 * 16;
  for (int j = 0; j < 16; j++) q[j] = (int8_t)(from[j] >> group % 8 / 2 * 2 & 3);
}

/* u8 scales[16], of which the high half is the minimum's; u8 q[64]; f16 d, m: d * scale * q - m *
 * minimum, 16 values a group. */
static void q2_k_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  set_scales(out, load_f16(block + 80), block[group] & 15, load_f16(block + 82), block[group] >> 4);
  load_pairs(block + 16, group, out->q);
}

/* u8 third bits[32], bit g / 2 for group g; u8 q[64]; u8 scales[12]; f16 d: d * (scale - 32) * q,
 * 16 values a group, q less 4 where the third bit is not set. A scale's low four bits are a half of
 * the first eight bytes, its high two are in the other four. */
static void q3_k_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  const unsigned char *scales = block + 96, *third = block + group % 2 * 16;
  int low = scales[group % 8] >> group / 8 * 4 & 15, high = scales[8 + group % 4] >> group / 4 * 2 & 3;
  set_scales(out, load_f16(block + 108), (low | high << 4) - 32, 0, 0);
  load_pairs(block + 32, group, out->q);
  for (int j = 0; j < 16; j++) out->q[j] = (int8_t)(out->q[j] - (third[j] >> group / 2 & 1 ? 0 : 4));
}

/* Group g's 4 bits: low halves of 32 bytes for even groups, the high halves of the same bytes for
 * the next. */
static void load_nibbles(const unsigned char *bytes, int64_t group, int8_t q[32]) {
  const unsigned char *from = bytes + group / 2 * 32;
  int shift = group % 2 ? 4 : 0;
  for (int j = 0; j < 32; j++) q[j] = (int8_t)(from[j] >> shift & 15);
}

/* f16 d, m; u8 scales[12]; u8 q[128]: d * scale * q - m * minimum. */
static void q4_k_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  load_scales(block, group, out);
  load_nibbles(block + 16, group, out->q);
}

/* f16 d, m; u8 scales[12]; u8 fifth bits[32], bit g for group g; u8 q[128]. */
static void q5_k_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  load_scales(block, group, out);
  load_nibbles(block + 48, group, out->q);
  for (int j = 0; j < 32; j++) out->q[j] = (int8_t)(out->q[j] | (block[16 + j] >> group & 1) << 4);
}

/* u8 low[128]; u8 high[64]; i8 scales[16]; f16 d: d * scale * (q - 32), 16 values a group. A half
 * of 128 values has 64 bytes of low bits, whose 64 low halves come first, and 32 bytes of high
 * bits, two for each 32 values. */
static void q6_k_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  int half = (int)group / 8, part = (int)group % 8 / 2, offset = (int)group % 2 * 16;
  const unsigned char *low = block + half * 64 + part % 2 * 32 + offset, *high = block + 128 + half * 32 + offset;
  set_scales(out, load_f16(block + 208), (int8_t)block[192 + group], 0, 0);
  for (int j = 0; j < 16; j++) {
    int bits = (low[j] >> part / 2 * 4 & 15) | (high[j] >> part * 2 & 3) << 4;
    out->q[j] = (int8_t)(bits - 32);
  }
}

/* f16 d; u16 high bits of the scales; u8 low bits of the scales[4]; u8 q[128]: d * (scale - 32) *
 * table[q]. */
static void iq4_xs_group(const unsigned char *block, int64_t group, struct ommai_gguf_group *out) {
  int low = block[4 + group / 2] >> (group % 2 ? 4 : 0) & 15, high = load_u16(block + 2) >> 2 * group & 3;
  set_scales(out, load_f16(block), (low | high << 4) - 32, 0, 0);
  split_halves(block + 8 + group * 16, out->q);
  look_up(iq4_values, out->q);
}

/* ---- all types ---- */

#define PLAIN(text, type, bytes) \
  { .name = text, .plain = type, .block_size = 1, .block_bytes = bytes }
#define BLOCKS(text, size, bytes, group, n_bits, minimums, function) \
  { text, OMMAI_TENSOR_QUANTISED, size, bytes, group, n_bits, minimums, false, function }
#define HALF_BLOCKS(text, bytes, n_bits, minimums, function) \
  { text, OMMAI_TENSOR_QUANTISED, 32, bytes, 32, n_bits, minimums, true, function }
#define UNREAD(text) \
  { .name = text }

/* By ggml's enum ggml_type. Of those that are not read there is only the name; the gaps are types
 * that ggml took back. */
static const struct ommai_gguf_format formats[] = {
    [0] = PLAIN("F32", OMMAI_TENSOR_F32, 4),
    [1] = PLAIN("F16", OMMAI_TENSOR_F16, 2),
    [2] = HALF_BLOCKS("Q4_0", 18, 4, false, q4_0_group),
    [3] = HALF_BLOCKS("Q4_1", 20, 4, true, q4_1_group),
    [6] = HALF_BLOCKS("Q5_0", 22, 6, false, q5_0_group),
    [7] = HALF_BLOCKS("Q5_1", 24, 6, true, q5_1_group),
    [8] = HALF_BLOCKS("Q8_0", 34, 8, false, q8_0_group),
    [9] = UNREAD("Q8_1"),
    [10] = BLOCKS("Q2_K", 256, 84, 16, 4, true, q2_k_group),
    [11] = BLOCKS("Q3_K", 256, 110, 16, 4, false, q3_k_group),
    [12] = BLOCKS("Q4_K", 256, 144, 32, 4, true, q4_k_group),
    [13] = BLOCKS("Q5_K", 256, 176, 32, 6, true, q5_k_group),
    [14] = BLOCKS("Q6_K", 256, 210, 16, 6, false, q6_k_group),
    [15] = UNREAD("Q8_K"),
    [16] = UNREAD("IQ2_XXS"),
    [17] = UNREAD("IQ2_XS"),
    [18] = UNREAD("IQ3_XXS"),
    [19] = UNREAD("IQ1_S"),
    [20] = HALF_BLOCKS("IQ4_NL", 18, 8, false, iq4_nl_group),
    [21] = UNREAD("IQ3_S"),
    [22] = UNREAD("IQ2_S"),
    [23] = BLOCKS("IQ4_XS", 256, 136, 32, 8, false, iq4_xs_group),
    [24] = UNREAD("I8"),
    [25] = UNREAD("I16"),
    [26] = UNREAD("I32"),
    [27] = UNREAD("I64"),
    [28] = UNREAD("F64"),
    [29] = UNREAD("IQ1_M"),
    [30] = PLAIN("BF16", OMMAI_TENSOR_BF16, 2),
    [34] = UNREAD("TQ1_0"),
    [35] = UNREAD("TQ2_0"),
    [39] = BLOCKS("MXFP4", 32, 17, 32, 8, false, mxfp4_group),
    [40] = UNREAD("NVFP4"),
    [41] = UNREAD("Q1_0"),
    [42] = UNREAD("Q2_0"),
};

static const struct ommai_gguf_format *find(uint32_t type) {
  return type < sizeof formats / sizeof *formats && formats[type].name ? &formats[type] : NULL;
}

const struct ommai_gguf_format *ommai_gguf_format(uint32_t type) {
  const struct ommai_gguf_format *format = find(type);
  return format && format->block_size ? format : NULL;
}

const char *ommai_gguf_type_name(uint32_t type) {
  const struct ommai_gguf_format *format = find(type);
  return format ? format->name : "an unknown type";
}

/* ---- rows ---- */

static const unsigned char *row_start(const struct ommai_gguf_rows *rows, int64_t row) {
  return rows->data + row * (rows->n_in / rows->format->block_size) * rows->format->block_bytes;
}

static void plain_values(const struct ommai_gguf_rows *rows, int64_t row, int64_t first, int64_t n, float *out) {
  const unsigned char *at = row_start(rows, row) + first * rows->format->block_bytes;
  if (rows->format->plain == OMMAI_TENSOR_F32) {
    memcpy(out, at, (size_t)n * sizeof *out);
  } else if (rows->format->plain == OMMAI_TENSOR_BF16) {
    for (int64_t i = 0; i < n; i++) out[i] = ommai_bf16_to_f32(load_u16(at + 2 * i));
  } else {
    for (int64_t i = 0; i < n; i++) out[i] = load_f16(at + 2 * i);
  }
}

/* Group `group` of a row, counted over all its blocks. */
static void read_group(const struct ommai_gguf_rows *rows, int64_t row, int64_t group, struct ommai_gguf_group *out) {
  const struct ommai_gguf_format *format = rows->format;
  int64_t per_block = format->block_size / format->group_size;
  out->minimum = 0;
  format->read_group(row_start(rows, row) + group / per_block * format->block_bytes, group % per_block, out);
}

static void quantised_values(const struct ommai_gguf_rows *rows, int64_t row, int64_t first, int64_t n, float *out) {
  int64_t size = rows->format->group_size;
  for (int64_t done = 0; done < n;) {
    struct ommai_gguf_group group;
    int64_t skip = (first + done) % size, count = ommai_min_i64(size - skip, n - done);
    read_group(rows, row, (first + done) / size, &group);
    for (int64_t i = 0; i < count; i++) {
      float product = group.scale * (float)group.q[skip + i];
      out[done + i] = rows->format->has_minimums ? product - group.minimum : product;
    }
    done += count;
  }
}

void ommai_gguf_row_values(const struct ommai_gguf_rows *rows, int64_t row, int64_t first, int64_t n, float *out) {
  if (rows->format->plain == OMMAI_TENSOR_QUANTISED) {
    quantised_values(rows, row, first, n, out);
  } else {
    plain_values(rows, row, first, n, out);
  }
}

static void stored_values(const void *context, int64_t output, int64_t first, int64_t n, float *out) {
  quantised_values(context, output, first, n, out);
}

/* Four bits without minimums are -8 .. 7 here and 0 .. 15 less a zero of 8 in a stored matrix; six
 * likewise. */
static int zero_of(const struct ommai_gguf_format *format) {
  return format->bits == 8 || format->has_minimums ? 0 : 1 << (format->bits - 1);
}

static void stored_integers(const void *context, int64_t output, int64_t group, int8_t *q, float *scale, float *minimum) {
  const struct ommai_gguf_rows *rows = context;
  struct ommai_gguf_group read;
  read_group(rows, output, group, &read);
  for (int64_t j = 0; j < rows->format->group_size; j++) q[j] = (int8_t)(read.q[j] + zero_of(rows->format));
  *scale = read.scale;
  *minimum = read.minimum;
}

static void stored_factors(const void *context, int64_t output, int64_t group, struct ommai_scale_factors *out) {
  struct ommai_gguf_group read;
  read_group(context, output, group, &read);
  *out = read.factors;
}

struct ommai_stored_matrix ommai_gguf_stored_matrix(const struct ommai_gguf_rows *rows) {
  const struct ommai_gguf_format *format = rows->format;
  return (struct ommai_stored_matrix){.context = rows,
                                      .values = stored_values,
                                      .bits = format->bits,
                                      .group = format->group_size,
                                      .has_minimums = format->has_minimums,
                                      .zero = zero_of(format),
                                      .integers = stored_integers,
                                      .shared = format->block_size > format->group_size ? format->block_size : 0,
                                      .factors = stored_factors,
                                      .has_half_scales = format->has_half_scales};
}
