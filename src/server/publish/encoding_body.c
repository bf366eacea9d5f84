#include "server/publish/encoding_body.h"

#include <inttypes.h>
#include <stdint.h>

/* The header's length is a multiple of this, so that values are aligned. */
enum { LENGTH_BYTES = 8, ALIGNMENT = 64 };

static void add_field(struct ommai_text *out, const char *key, const char *value) {
  ommai_text_format(out, "\"%s\":", key);
  ommai_text_json_string(out, value);
  ommai_text_add(out, ",");
}

static void add_header(const struct omma_model_info *info, const char *model_name, const struct omma_image_embeddings *image,
                       size_t size, struct ommai_text *out) {
  const int64_t *grid = image->grid_thw;
  ommai_text_add(out, "{\"__metadata__\":{");
  add_field(out, "producer", "ommatidia");
  add_field(out, "version", omma_version());
  add_field(out, "model", model_name);
  add_field(out, "fingerprint", info->fingerprint);
  add_field(out, "numeric_mode", info->vision_weights);
  add_field(out, "isa", info->isa);
  ommai_text_format(out, "\"image_grid_thw\":\"%" PRId64 ",%" PRId64 ",%" PRId64 "\"},", grid[0], grid[1], grid[2]);
  ommai_text_format(out, "\"ec_cache\":{\"dtype\":\"%s\",\"shape\":[%" PRId64 ",%" PRId64 "],\"data_offsets\":[0,%zu]}}",
                    info->bf16_embeddings ? "BF16" : "F32", image->n_tokens, (1 + image->n_deepstack) * image->width, size);
}

bool ommai_encoding_body_write(const struct omma_model_info *info, const char *model_name,
                               const struct omma_embeddings *embeddings, size_t index, struct ommai_text *out) {
  static const char blanks[ALIGNMENT] = "                                                               ";
  struct omma_image_embeddings image;
  struct ommai_text header;
  char length[LENGTH_BYTES];
  omma_embeddings_get(embeddings, index, &image);
  size_t width = (size_t)((1 + image.n_deepstack) * image.width);
  size_t size = (size_t)image.n_tokens * width * (info->bf16_embeddings ? sizeof(uint16_t) : sizeof(float));
  ommai_text_init(&header, out->allocator);
  add_header(info, model_name, &image, size, &header);
  size_t padding = (ALIGNMENT - (LENGTH_BYTES + header.size) % ALIGNMENT) % ALIGNMENT;
  ommai_text_append(&header, blanks, padding);
  for (size_t i = 0; i < sizeof length; i++) length[i] = (char)((uint64_t)header.size >> (8 * i));
  bool good = !header.failed && ommai_text_reserve(out, sizeof length + header.size + size);
  if (good) {
    ommai_text_append(out, length, sizeof length);
    ommai_text_append(out, header.data, header.size);
    omma_embeddings_copy_rows(embeddings, index, info->bf16_embeddings ? OMMA_BF16 : OMMA_F32, out->data + out->size);
    out->size += size;
  }
  ommai_text_free(&header);
  return good;
}
