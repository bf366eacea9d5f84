/* preprocessor_config.json and video_preprocessor_config.json: the same form in all families. */
#pragma once

#include "families/model_config.h"

/* Reads the image_processor part of processor_config.json, as newer writers store it, or
 * preprocessor_config.json where that has none, and checks that it fits the tower. image->sizing
 * and resize_rule are the family's and set before. Both spellings of the area limits are taken:
 * size.shortest_edge/longest_edge and min_pixels/max_pixels; a limit of patches is in_token_limit.
 * Limits, mean and std that are missing are `defaults`. Where there is no file, `published` stands
 * for it and image->published is set; published NULL: that is an error. */
enum omma_status ommai_image_config_read(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                         const struct ommai_default_processor *published,
                                         const struct ommai_processor_defaults *defaults,
                                         const struct ommai_vision_config *vision, struct ommai_image_config *image,
                                         struct omma_error *error);

/* Reads the video_processor part of processor_config.json, else video_preprocessor_config.json,
 * else preprocessor_config.json. config's vision, image and video.area_of_all_frames are set
 * before; frames must be cut and normalised as images are. */
enum omma_status ommai_video_config_read(const struct ommai_documents *documents, const struct omma_allocator *allocator,
                                         const struct ommai_default_processor *published,
                                         const struct ommai_processor_defaults *defaults, struct ommai_model_config *config,
                                         struct omma_error *error);
