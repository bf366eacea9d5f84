/* preprocessor_config.json and video_preprocessor_config.json: the same form in all families. */
#ifndef OMMAI_MODELS_PICTURE_CONFIG_H
#define OMMAI_MODELS_PICTURE_CONFIG_H

#include "models/model_config.h"

/* Reads preprocessor_config.json (or the image_processor part of processor_config.json, as newer writers store it) and checks that it
 * fits the tower. picture->sizing and resize_rule are the family's and set before. Both spellings of the
 * area limits are taken: size.shortest_edge/longest_edge and min_pixels/max_pixels; a limit of patches is in_token_limit. Where there
 * is no file, `published` stands for it and picture->published is set; published NULL: that is an error. */
enum omma_status ommai_picture_config_read(const char *directory, const struct omma_allocator *allocator,
                                           const struct ommai_published_processor *published,
                                           const struct ommai_vision_config *vision, struct ommai_picture_config *picture,
                                           struct omma_error *error);

/* Reads video_preprocessor_config.json; where it is missing, the video_processor part of processor_config.json, or what pictures
 * have. config's vision, picture and video.area_of_all_frames are set before; frames must be cut and normalised as pictures are. */
enum omma_status ommai_video_config_read(const char *directory, const struct omma_allocator *allocator,
                                         const struct ommai_published_processor *published, struct ommai_model_config *config,
                                         struct omma_error *error);

#endif
