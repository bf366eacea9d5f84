#include "server/publish/encoding_body.h"

#include <inttypes.h>
#include <stdint.h>

#include "base/json_writer.h"

/* The header's length is a multiple of this, so that values are aligned. */
enum { LENGTH_BYTES = 8, ALIGNMENT = 64 };

static void add_header(const struct omma_model_info *info, const char *model_name, const struct omma_image_embeddings *image,
                       size_t size, struct ommai_text *out) {
  const int64_t *grid = image->grid_thw;
  ommai_put_begin(out, NULL, "{");
  ommai_put_begin(out, "__metadata__", "{");
  OMMAI_PUT_STRINGS(out, {"producer", "ommatidia"}, {"version", omma_version()}, {"model", model_name},
                    {"fingerprint", info->fingerprint}, {"numeric_mode", info->vision_weights}, {"isa", info->isa});
  ommai_put_format(out, "image_grid_thw", "%" PRId64 ",%" PRId64 ",%" PRId64, grid[0], grid[1], grid[2]);
  ommai_put_end(out, "}");
  ommai_put_begin(out, "ec_cache", "{");
  ommai_put_string(out, "dtype", info->bf16_embeddings ? "BF16" : "F32");
  ommai_put_begin(out, "shape", "[");
  ommai_put_integer(out, NULL, image->n_tokens);
  ommai_put_integer(out, NULL, (1 + image->n_deepstack) * image->width);
  ommai_put_end(out, "]");
  ommai_put_begin(out, "data_offsets", "[");
  ommai_put_integer(out, NULL, 0);
  ommai_put_integer(out, NULL, (int64_t)size);
  ommai_put_end(out, "]}}");
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
