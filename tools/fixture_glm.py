"""GLM-OCR: the files of a tiny checkpoint in the released form, and the official classes, run on
it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import Glm46VProcessor, GlmOcrConfig, GlmOcrForConditionalGeneration, PreTrainedTokenizerFast
from transformers.models.glm46v.image_processing_glm46v import Glm46VImageProcessor
from transformers.models.glm46v.video_processing_glm46v import Glm46VVideoProcessor

from fixture_qwen import QwenOfficial
from fixture_tokenizer import SPLIT, VOCAB_SIZE, train

if TYPE_CHECKING:
    from fixture_models import ModelSpec

MODEL_VOCAB_SIZE = 544  # the tokenizer knows fewer
ADDED_TOKENS = (
    "<|endoftext|>",
    "[MASK]",
    "[gMASK]",
    "[sMASK]",
    "<sop>",
    "<eop>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|observation|>",
    "<|begin_of_image|>",
    "<|end_of_image|>",
    "<|begin_of_video|>",
    "<|end_of_video|>",
    "<|image|>",
    "<|video|>",
)
SPLIT_THREE_DIGITS = SPLIT.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
# Turns as in the family's templates.
CHAT_TEMPLATE = """\
[gMASK]<sop>
{%- for message in messages -%}
    <|{{ message.role }}|>{{ '\\n' }}
    {%- if message.content is string -%}{{ message.content }}
    {%- else -%}
        {%- for part in message.content -%}
            {%- if part.type == 'image' -%}<|begin_of_image|><|image|><|end_of_image|>
            {%- elif part.type == 'text' -%}{{ part.text }}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{{ '\\n' }}{%- endif -%}
"""


def added_id(text: str) -> int:
    """Id of one of ADDED_TOKENS: they follow the learned tokens in order."""
    return VOCAB_SIZE + ADDED_TOKENS.index(text)


def stop_ids() -> list[int]:
    return [added_id("<|endoftext|>"), added_id("<|user|>")]


def write_tokenizer(folder: Path) -> None:
    """Writes tokenizer.json, tokenizer_config.json and chat_template.jinja."""
    train(SPLIT_THREE_DIGITS, ADDED_TOKENS, normalizer=None).save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        "additional_special_tokens": list(ADDED_TOKENS),
        "clean_up_tokenization_spaces": False,
        "do_lower_case": False,
        "eos_token": "<|endoftext|>",
        "model_max_length": 128000,
        "pad_token": "<|endoftext|>",
        "padding_side": "left",
        "remove_space": False,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)


def make_config(spec: ModelSpec) -> GlmOcrConfig:
    """The official configuration object."""
    return GlmOcrConfig(
        vision_config=dict(patch_size=spec.form.patch_size, spatial_merge_size=spec.form.merge_size,
                           out_hidden_size=spec.text["hidden_size"], **spec.vision),
        text_config=dict(
            eos_token_id=stop_ids(), pad_token_id=added_id("<|endoftext|>"), tie_word_embeddings=spec.tied,
            rope_parameters=dict(rope_type="default", rope_theta=10_000.0, partial_rotary_factor=1.0,
                                 mrope_section=list(spec.mrope_section)),
            vocab_size=MODEL_VOCAB_SIZE, **spec.text),
        image_token_id=added_id("<|image|>"),
        video_token_id=added_id("<|video|>"),
        image_start_token_id=added_id("<|begin_of_image|>"),
        image_end_token_id=added_id("<|end_of_image|>"),
        video_start_token_id=added_id("<|begin_of_video|>"),
        video_end_token_id=added_id("<|end_of_video|>"),
        tie_word_embeddings=spec.tied,
    )


def released_config(spec: ModelSpec) -> dict[str, Any]:
    """config.json as the released file has it."""
    return {
        "architectures": ["GlmOcrForConditionalGeneration"],
        "image_end_token_id": added_id("<|end_of_image|>"),
        "image_start_token_id": added_id("<|begin_of_image|>"),
        "image_token_id": added_id("<|image|>"),
        "model_type": "glm_ocr",
        "text_config": {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "dtype": str(spec.dtype).removeprefix("torch."),
            "eos_token_id": stop_ids(),
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "max_position_embeddings": 131_072,
            "model_type": "glm_ocr_text",
            "num_nextn_predict_layers": 1,
            "pad_token_id": added_id("<|endoftext|>"),
            "rms_norm_eps": 1e-5,
            "rope_parameters": {
                "mrope_section": list(spec.mrope_section),
                "partial_rotary_factor": 1.0,
                "rope_theta": 10_000,
                "rope_type": "default",
            },
            "tie_word_embeddings": spec.tied,
            "use_cache": True,
            "vocab_size": MODEL_VOCAB_SIZE,
            **spec.text,
        },
        "tie_word_embeddings": spec.tied,
        "transformers_version": "5.0.1dev0",
        "video_end_token_id": added_id("<|end_of_video|>"),
        "video_start_token_id": added_id("<|begin_of_video|>"),
        "video_token_id": added_id("<|video|>"),
        "vision_config": {
            "attention_bias": True,
            "attention_dropout": 0.0,
            "hidden_act": "silu",
            "image_size": 336,
            "in_channels": 3,
            "initializer_range": 0.02,
            "model_type": "glm_ocr_vision",
            "out_hidden_size": spec.text["hidden_size"],
            "patch_size": spec.form.patch_size,
            "rms_norm_eps": 1e-5,
            "spatial_merge_size": spec.form.merge_size,
            "temporal_patch_size": 2,
            **spec.vision,
        },
    }


def preprocessor_config(spec: ModelSpec) -> dict[str, Any]:
    """preprocessor_config.json as the released file has it."""
    return {
        "do_convert_rgb": True,
        "do_rescale": True,
        "image_mean": list(spec.form.mean),
        "image_processor_type": "Glm46VImageProcessor",
        "image_std": list(spec.form.std),
        "merge_size": spec.form.merge_size,
        "patch_size": spec.form.patch_size,
        "processor_class": "Glm46VProcessor",
        "size": {"longest_edge": spec.form.longest_edge, "shortest_edge": spec.form.shortest_edge},
        "temporal_patch_size": 2,
    }


class GlmOfficial(QwenOfficial):
    """The official model in float32 and its processor, loaded from a checkpoint directory."""

    stamps_videos = False
    resize_options = {"temporal_factor": 2}
    forbidden = [added_id(text) for text in ADDED_TOKENS]

    def __init__(self, spec: ModelSpec, folder: Path, images: Path) -> None:
        self.images = images
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(folder / "tokenizer.json"), eos_token="<|endoftext|>", pad_token="<|endoftext|>",
            extra_special_tokens={"image_token": "<|image|>", "video_token": "<|video|>"}, clean_up_tokenization_spaces=False,
        )
        template = (folder / "chat_template.jinja").read_text()
        self.processor = Glm46VProcessor(Glm46VImageProcessor.from_pretrained(folder), tokenizer, Glm46VVideoProcessor(), template)
        self.model, loading = GlmOcrForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
        if any(loading.values()):
            raise RuntimeError(f"{folder.name}: the official class does not find its tensors: {loading}")
        self.model.eval()
        self.image_processor = type(self.processor.image_processor).__name__
        self.stops = self.model.generation_config.eos_token_id
