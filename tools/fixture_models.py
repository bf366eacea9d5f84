"""The tiny checkpoints of the golden tests: their shapes, their random weights and their files."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from fixture_tokenizer import added_token_id, write_tokenizer

VOCAB_SIZE = 544  # the tokenizer knows fewer: the last rows are padding
ROPE_THETA = 5_000_000.0
MAX_POSITIONS = 32_768


@dataclass(frozen=True)
class PictureForm:
    """How a model's pictures become patches; the edges are areas in pixels, despite the names."""

    patch_size: int
    merge_size: int
    shortest_edge: int
    longest_edge: int


SHARED_FORM = PictureForm(patch_size=16, merge_size=2, shortest_edge=4096, longest_edge=40_000)
SMALL_FORM = PictureForm(patch_size=8, merge_size=1, shortest_edge=1024, longest_edge=3072)


@dataclass(frozen=True)
class ModelSpec:
    """One checkpoint; `released` writes config.json as the released files have it, otherwise save_pretrained does."""

    name: str
    seed: int
    dtype: torch.dtype
    vision: dict[str, Any]
    text: dict[str, Any]
    mrope_section: tuple[int, int, int]
    tied: bool
    stop_question: str | None = None  # a question whose greedy answer ends by itself; None: no such case
    released: bool = False
    shard_bytes: int | None = None
    form: PictureForm = SHARED_FORM
    n_positions: int = 64
    case_names: tuple[str, ...] = ()  # the cases to make; empty: all


MODELS = (
    ModelSpec(
        name="qwen3_vl_tied",
        seed=11,
        dtype=torch.bfloat16,
        vision=dict(depth=4, hidden_size=72, num_heads=1, intermediate_size=107, deepstack_visual_indexes=[0, 2]),
        text=dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
                  intermediate_size=96),
        mrope_section=(6, 5, 5),
        tied=True,
        stop_question="Count to 47.",
    ),
    ModelSpec(
        name="qwen3_vl_untied",
        seed=27,
        dtype=torch.bfloat16,
        vision=dict(depth=3, hidden_size=64, num_heads=2, intermediate_size=99, deepstack_visual_indexes=[1]),
        text=dict(hidden_size=56, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=64,
                  intermediate_size=96),
        mrope_section=(12, 10, 10),
        tied=False,
        stop_question="Count to 12.",
        released=True,
        shard_bytes=400_000,
    ),
    ModelSpec(
        name="qwen3_vl_wide",
        seed=13,
        dtype=torch.float32,
        vision=dict(depth=3, hidden_size=40, num_heads=2, intermediate_size=53, deepstack_visual_indexes=[0, 1, 2]),
        text=dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=3, head_dim=128,
                  intermediate_size=48),
        mrope_section=(24, 20, 20),
        tied=True,
        stop_question="Count to 16.",
    ),
    # Several heads of the released width: hidden size 144 is affordable only with small patches and without merging,
    # since a merger is a square matrix of hidden_size * merge_size^2.
    ModelSpec(
        name="qwen3_vl_heads",
        seed=17,
        dtype=torch.float16,
        vision=dict(depth=3, hidden_size=144, num_heads=2, intermediate_size=119, deepstack_visual_indexes=[1]),
        text=dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=16,
                  intermediate_size=80),
        mrope_section=(4, 2, 2),
        tied=False,
        form=SMALL_FORM,
        n_positions=36,
        case_names=("one_image", "two_images", "three_images", "text_only"),
    ),
)


def make_config(spec: ModelSpec) -> Qwen3VLConfig:
    """The official configuration object for a spec."""
    vision = dict(
        hidden_act="gelu_pytorch_tanh",
        in_channels=3,
        num_position_embeddings=spec.n_positions,
        out_hidden_size=spec.text["hidden_size"],
        patch_size=spec.form.patch_size,
        spatial_merge_size=spec.form.merge_size,
        temporal_patch_size=2,
        **spec.vision,
    )
    text = dict(
        attention_bias=False,
        hidden_act="silu",
        max_position_embeddings=MAX_POSITIONS,
        rms_norm_eps=1e-6,
        rope_parameters=dict(
            rope_type="default",
            rope_theta=ROPE_THETA,
            mrope_section=list(spec.mrope_section),
            mrope_interleaved=True,
        ),
        tie_word_embeddings=spec.tied,
        vocab_size=VOCAB_SIZE,
        **spec.text,
    )
    return Qwen3VLConfig(
        vision_config=vision,
        text_config=text,
        image_token_id=added_token_id("<|image_pad|>"),
        video_token_id=added_token_id("<|video_pad|>"),
        vision_start_token_id=added_token_id("<|vision_start|>"),
        vision_end_token_id=added_token_id("<|vision_end|>"),
        tie_word_embeddings=spec.tied,
    )


def released_config(spec: ModelSpec, config: Qwen3VLConfig) -> dict[str, Any]:
    """config.json in the dialect of the released checkpoints."""
    dtype = str(spec.dtype).removeprefix("torch.")
    text = config.text_config
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "image_token_id": config.image_token_id,
        "model_type": "qwen3_vl",
        "text_config": {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": added_token_id("<|endoftext|>"),
            "eos_token_id": added_token_id("<|im_end|>"),
            "head_dim": text.head_dim,
            "hidden_act": "silu",
            "hidden_size": text.hidden_size,
            "initializer_range": 0.02,
            "intermediate_size": text.intermediate_size,
            "max_position_embeddings": MAX_POSITIONS,
            "model_type": "qwen3_vl_text",
            "num_attention_heads": text.num_attention_heads,
            "num_hidden_layers": text.num_hidden_layers,
            "num_key_value_heads": text.num_key_value_heads,
            "rms_norm_eps": 1e-06,
            "rope_scaling": {
                "mrope_interleaved": True,
                "mrope_section": list(spec.mrope_section),
                "rope_type": "default",
            },
            "rope_theta": int(ROPE_THETA),
            "torch_dtype": dtype,
            "use_cache": True,
            "vocab_size": VOCAB_SIZE,
        },
        "tie_word_embeddings": spec.tied,
        "torch_dtype": dtype,
        "transformers_version": "4.57.0.dev0",
        "video_token_id": config.video_token_id,
        "vision_config": {
            "deepstack_visual_indexes": list(config.vision_config.deepstack_visual_indexes),
            "depth": config.vision_config.depth,
            "hidden_act": "gelu_pytorch_tanh",
            "hidden_size": config.vision_config.hidden_size,
            "in_channels": 3,
            "initializer_range": 0.02,
            "intermediate_size": config.vision_config.intermediate_size,
            "model_type": "qwen3_vl",
            "num_heads": config.vision_config.num_heads,
            "num_position_embeddings": config.vision_config.num_position_embeddings,
            "out_hidden_size": config.vision_config.out_hidden_size,
            "patch_size": config.vision_config.patch_size,
            "spatial_merge_size": config.vision_config.spatial_merge_size,
            "temporal_patch_size": 2,
        },
        "vision_end_token_id": config.vision_end_token_id,
        "vision_start_token_id": config.vision_start_token_id,
    }


def randomise(model: torch.nn.Module, spec: ModelSpec) -> None:
    """Fills every parameter so that signals neither die nor explode, and so that the picture matters."""
    generator = torch.Generator().manual_seed(spec.seed)
    vocabulary_std = 0.25 if spec.tied else 0.5  # a tied model with large embeddings only repeats its last token
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("pos_embed.weight"):
            value = 0.3 * noise
        elif name.endswith(("embed_tokens.weight", "lm_head.weight")):
            value = vocabulary_std * noise
        elif name.endswith("bias"):
            value = 0.1 * noise
        elif name.endswith(("q_norm.weight", "k_norm.weight")):
            value = 1.5 + 0.15 * noise
        elif "norm" in name:
            value = 1 + 0.15 * noise
        else:
            value = 1.3 / math.sqrt(parameter[0].numel()) * noise
        parameter.data.copy_(value)


def write_json(path: Path, value: Any) -> None:
    """Indented JSON with a final newline, non-ASCII text readable and a list of integers on one line."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    text = re.sub(r"\[\n\s+(\d+(?:,\n\s+\d+)*)\n\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    path.write_text(text + "\n", encoding="utf-8")


def write_preprocessor(folder: Path, form: PictureForm, released: bool) -> None:
    """preprocessor_config.json; the released files name fewer fields than save_pretrained writes."""
    config: dict[str, Any] = {
        "size": {"longest_edge": form.longest_edge, "shortest_edge": form.shortest_edge},
        "patch_size": form.patch_size,
        "temporal_patch_size": 2,
        "merge_size": form.merge_size,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "processor_class": "Qwen3VLProcessor",
        "image_processor_type": "Qwen2VLImageProcessorFast",
    }
    if not released:
        config |= {
            "do_convert_rgb": True,
            "do_normalize": True,
            "do_rescale": True,
            "do_resize": True,
            "image_processor_type": "Qwen2VLImageProcessor",
            "resample": 3,
            "rescale_factor": 1 / 255,
        }
    write_json(folder / "preprocessor_config.json", config)


def write_checkpoint(spec: ModelSpec, folder: Path) -> None:
    """Writes a complete checkpoint directory."""
    folder.mkdir(parents=True, exist_ok=True)
    config = make_config(spec)
    model = Qwen3VLForConditionalGeneration(config)
    randomise(model, spec)
    model.generation_config = GenerationConfig(
        eos_token_id=[added_token_id("<|im_end|>"), added_token_id("<|endoftext|>")],
        pad_token_id=added_token_id("<|endoftext|>"),
    )
    shards = {"max_shard_size": spec.shard_bytes} if spec.shard_bytes else {}
    model.to(spec.dtype).save_pretrained(folder, **shards)
    if spec.released:
        write_json(folder / "config.json", released_config(spec, config))
    write_tokenizer(folder)
    write_preprocessor(folder, spec.form, spec.released)
