#include "families/qwen2_files.h"

const struct ommai_processor_defaults ommai_qwen2_processor_defaults = {
    .min_pixels = 56 * 56,
    .max_pixels = 28 * 28 * 1280,
    .mean = {0.48145466f, 0.4578275f, 0.40821073f},
    .std = {0.26862954f, 0.26130258f, 0.27577711f},
    .video_mean = {0.48145466f, 0.4578275f, 0.40821073f},
    .video_std = {0.26862954f, 0.26130258f, 0.27577711f},
};

const struct ommai_media_marks ommai_qwen2_media_marks = {
    .image_begin = "<|vision_start|>",
    .image_end = "<|vision_end|>",
    .image_token = "<|image_pad|>",
    .video_token = "<|video_pad|>",
    .video = OMMAI_VIDEO_WHOLE,
};
