#include "families/qwen2_files.h"

const struct ommai_processor_defaults ommai_qwen2_processor_defaults = {
    .min_pixels = 56 * 56,
    .max_pixels = 28 * 28 * 1280,
    .mean = OMMAI_CLIP_MEAN,
    .std = OMMAI_CLIP_STD,
    .video_mean = OMMAI_CLIP_MEAN,
    .video_std = OMMAI_CLIP_STD,
};

const struct ommai_media_marks ommai_qwen2_media_marks = {
    .image_begin = "<|vision_start|>",
    .image_end = "<|vision_end|>",
    .image_token = "<|image_pad|>",
    .video_token = "<|video_pad|>",
    .video = OMMAI_VIDEO_WHOLE,
};
