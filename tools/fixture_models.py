"""The tiny checkpoints of the golden tests: their shapes, their random weights and their files."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    GenerationConfig,
    GlmOcrForConditionalGeneration,
    LightOnOcrForConditionalGeneration,
    PaddleOCRVLForConditionalGeneration,
)

import fixture_dots
import fixture_glm
import fixture_kimi
from fixture_draft import add_draft_head
import fixture_lighton
import fixture_paddle
from fixture_configs import MODEL_CLASSES, QWEN2_FAMILIES, make_config, released_config
from fixture_tiktoken import SPECIAL_IDS, write_tiktoken
from fixture_tokenizer import added_token_id, write_tokenizer

PROCESSOR_CLASSES = {
    "qwen2_vl": "Qwen2VLProcessor",
    "qwen2_5_vl": "Qwen2_5_VLProcessor",
    "qwen3_vl": "Qwen3VLProcessor",
    "qwen3_vl_moe": "Qwen3VLProcessor",
    "qwen3_5": "Qwen3VLProcessor",
    "qwen3_5_moe": "Qwen3VLProcessor",
}
# Families whose checkpoints are written alike: the module with their files, and the official class.
DOCUMENT_FAMILIES = {
    "dots_ocr": (fixture_dots, fixture_dots.DotsModel),
    "glm_ocr": (fixture_glm, GlmOcrForConditionalGeneration),
    "lighton_ocr": (fixture_lighton, LightOnOcrForConditionalGeneration),
}
# Families with gated delta nets, whose norms multiply by 1 + weight.
HYBRID_FAMILIES = ("qwen3_5", "qwen3_5_moe")


@dataclass(frozen=True)
class ImageForm:
    """How a model's images become patches. Qwen's limits are the edges, which are areas in pixels
    despite the names; Kimi's is patch_limit."""

    name: str
    patch_size: int
    merge_size: int
    shortest_edge: int = 0
    longest_edge: int = 0
    patch_limit: int = 0
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)


WIDE_FORM = ImageForm("patch16", patch_size=16, merge_size=2, shortest_edge=4096, longest_edge=40_000)
SMALL_FORM = ImageForm("patch8", patch_size=8, merge_size=1, shortest_edge=1024, longest_edge=3072)
CLIP_FORM = ImageForm("patch14", patch_size=14, merge_size=2, shortest_edge=3136, longest_edge=20_000,
                        mean=(0.48145466, 0.4578275, 0.40821073), std=(0.26862954, 0.26130258, 0.27577711))
# The smallest image is shorter than a merge block.
RASTER_FORM = ImageForm("raster14", patch_size=14, merge_size=2, shortest_edge=3136, longest_edge=20_000)
# The limits hold for the two frames that an image counts as.
FRAMES_FORM = ImageForm("frames14", patch_size=14, merge_size=2, shortest_edge=6272, longest_edge=40_000,
                        mean=CLIP_FORM.mean, std=CLIP_FORM.std)
# The side shrinks the two largest images; longest_edge is that side.
EDGE_FORM = ImageForm("edge14", patch_size=14, merge_size=2, longest_edge=160, mean=CLIP_FORM.mean, std=CLIP_FORM.std)
# No time axis.
STILL_FORM = ImageForm("still14", patch_size=14, merge_size=2, shortest_edge=3136, longest_edge=20_000,
                       mean=CLIP_FORM.mean, std=CLIP_FORM.std)
# The limit shrinks the largest image.
PADDED_FORM = ImageForm("padded14", patch_size=14, merge_size=2, patch_limit=96)


@dataclass(frozen=True)
class ModelSpec:
    """One checkpoint; `released` writes config.json as the released files have it, otherwise
    save_pretrained does."""

    name: str
    seed: int
    dtype: torch.dtype
    vision: dict[str, Any]
    text: dict[str, Any]
    tied: bool
    mrope_section: tuple[int, int, int] = (0, 0, 0)
    family: str = "qwen3_vl"
    # a question whose greedy answer ends by itself; None: no such case
    stop_question: str | None = None
    released: bool = False
    # tensors named as the modules of transformers, not as in the released files
    module_names: bool = False
    shard_bytes: int | None = None
    form: ImageForm = WIDE_FORM
    n_positions: int = 64
    video: bool = False
    partial_rotary: float = 0.25  # of hybrid families
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
        video=True,
        released=True,
        shard_bytes=400_000,
    ),
    ModelSpec(
        name="qwen3_vl_wide",
        seed=29,
        dtype=torch.float32,
        vision=dict(depth=3, hidden_size=20, num_heads=1, intermediate_size=53, deepstack_visual_indexes=[0, 1, 2]),
        text=dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=3, head_dim=128,
                  intermediate_size=48),
        mrope_section=(24, 20, 20),
        tied=True,
        stop_question="Count to 65.",
    ),
    # Several heads of the released width: hidden size 144 is affordable only with small patches and
    # without merging, since a merger is a square matrix of hidden_size * merge_size^2.
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
        case_names=("one_image", "two_images", "three_images", "text_only", "one_patch_high", "one_patch_wide"),
    ),
    # Windows of 4 x 4 merged tokens in blocks 0 and 2.
    ModelSpec(
        name="qwen2_5_vl_untied",
        seed=48,
        dtype=torch.bfloat16,
        vision=dict(depth=4, hidden_size=40, num_heads=2, intermediate_size=55, window_size=112,
                    fullatt_block_indexes=[1, 3]),
        text=dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=96),
        mrope_section=(2, 3, 3),
        tied=False,
        family="qwen2_5_vl",
        stop_question="Count to 67.",
        released=True,
        shard_bytes=300_000,
        form=CLIP_FORM,
    ),
    # Windows of 2 x 2 merged tokens in block 1; the released head width.
    ModelSpec(
        name="qwen2_5_vl_tied",
        seed=38,
        dtype=torch.float16,
        vision=dict(depth=3, hidden_size=80, num_heads=1, intermediate_size=45, window_size=56,
                    fullatt_block_indexes=[0, 2]),
        text=dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                  intermediate_size=64),
        mrope_section=(2, 4, 6),
        tied=True,
        family="qwen2_5_vl",
        module_names=True,
        video=True,
        form=CLIP_FORM,
        case_names=("one_image", "two_images", "three_images", "text_only"),
    ),
    # A tower without windows, with mlp_ratio as its inner width; config and tensor names as
    # released.
    ModelSpec(
        name="qwen2_vl_untied",
        seed=62,
        dtype=torch.bfloat16,
        vision=dict(depth=3, embed_dim=40, num_heads=2, mlp_ratio=3),
        text=dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=80),
        mrope_section=(2, 2, 2),
        tied=False,
        family="qwen2_vl",
        stop_question="Count to 84.",
        released=True,
        shard_bytes=300_000,
        form=CLIP_FORM,
    ),
    # The released head width, and videos, whose time goes by temporal patches whatever their rate.
    ModelSpec(
        name="qwen2_vl_tied",
        seed=65,
        dtype=torch.float16,
        vision=dict(depth=2, embed_dim=80, num_heads=1, mlp_ratio=1),
        text=dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                  intermediate_size=64),
        mrope_section=(2, 4, 6),
        tied=True,
        family="qwen2_vl",
        module_names=True,
        video=True,
        form=CLIP_FORM,
        case_names=("one_image", "two_images", "three_images", "text_only"),
    ),
    # Layers from the second on see 100 tokens; config as released.
    ModelSpec(
        name="qwen2_5_vl_sliding",
        seed=72,
        dtype=torch.bfloat16,
        vision=dict(depth=2, hidden_size=40, num_heads=2, intermediate_size=55, window_size=112,
                    fullatt_block_indexes=[1]),
        text=dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=64, use_sliding_window=True, sliding_window=100, max_window_layers=1),
        mrope_section=(2, 2, 2),
        tied=True,
        family="qwen2_5_vl",
        released=True,
        form=CLIP_FORM,
        case_names=("two_images", "three_images", "long_text"),
    ),
    # Layers that see 40 tokens, and one between them that sees all.
    ModelSpec(
        name="qwen2_vl_sliding",
        seed=72,
        dtype=torch.bfloat16,
        vision=dict(depth=2, embed_dim=40, num_heads=2, mlp_ratio=2),
        text=dict(hidden_size=48, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1,
                  intermediate_size=64, use_sliding_window=True, sliding_window=40, max_window_layers=0,
                  layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"]),
        mrope_section=(2, 4, 6),
        tied=True,
        family="qwen2_vl",
        form=CLIP_FORM,
        case_names=("two_images", "three_images", "long_text"),
    ),
    # Layer 1 is dense, the others have experts.
    ModelSpec(
        name="qwen3_vl_moe",
        seed=44,
        dtype=torch.bfloat16,
        vision=dict(depth=3, hidden_size=32, num_heads=2, intermediate_size=45, deepstack_visual_indexes=[0, 2]),
        text=dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                  intermediate_size=72, moe_intermediate_size=20, num_experts=8, num_experts_per_tok=2,
                  decoder_sparse_step=1, mlp_only_layers=[1]),
        mrope_section=(4, 2, 2),
        tied=False,
        family="qwen3_vl_moe",
        stop_question="Count to 39.",
        released=True,
        shard_bytes=300_000,
    ),
    # Three gated delta nets and a full layer; as many value heads as key heads; half of a head
    # turns.
    ModelSpec(
        name="qwen3_5_tied",
        seed=88,
        dtype=torch.bfloat16,
        vision=dict(depth=2, hidden_size=40, num_heads=2, intermediate_size=51),
        text=dict(hidden_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=24,
                  intermediate_size=64, linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=16,
                  linear_value_head_dim=32, linear_conv_kernel_dim=4),
        partial_rotary=0.5,
        mrope_section=(2, 2, 2),
        tied=True,
        family="qwen3_5",
    ),
    # Two value heads to a key head, of odd widths; full layers by their interval, config as
    # released.
    ModelSpec(
        name="qwen3_5_untied",
        seed=80,
        dtype=torch.bfloat16,
        vision=dict(depth=2, hidden_size=32, num_heads=2, intermediate_size=45),
        text=dict(hidden_size=40, num_hidden_layers=5, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
                  intermediate_size=56, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=10,
                  linear_value_head_dim=9, linear_conv_kernel_dim=3, full_attention_interval=2),
        mrope_section=(2, 1, 1),
        tied=False,
        family="qwen3_5",
        video=True,
        released=True,
        shard_bytes=300_000,
        case_names=("one_image", "two_images", "three_images", "text_only", "long_text"),
    ),
    # Four value heads to a key head; layer_types in an order of its own; a gated shared expert.
    ModelSpec(
        name="qwen3_5_moe",
        seed=89,
        dtype=torch.bfloat16,
        vision=dict(depth=2, hidden_size=32, num_heads=2, intermediate_size=45),
        text=dict(hidden_size=40, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2, head_dim=16,
                  moe_intermediate_size=20, shared_expert_intermediate_size=28, num_experts=8, num_experts_per_tok=2,
                  linear_num_key_heads=1, linear_num_value_heads=4, linear_key_head_dim=24, linear_value_head_dim=16,
                  layer_types=["full_attention", "linear_attention", "linear_attention", "full_attention"]),
        partial_rotary=0.5,
        mrope_section=(2, 1, 1),
        tied=False,
        family="qwen3_5_moe",
    ),
    # 8 x 8 positions, fewer and more than the images' grids have.
    ModelSpec(
        name="kimi_vl",
        seed=51,
        dtype=torch.bfloat16,
        vision=dict(num_hidden_layers=3, hidden_size=40, num_attention_heads=2, intermediate_size=53),
        text=dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=72,
                  moe_intermediate_size=20, n_shared_experts=2, n_routed_experts=8, num_experts_per_tok=3,
                  first_k_dense_replace=1, kv_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12),
        tied=False,
        family="kimi_vl",
        stop_question="Count to 63.",
        form=PADDED_FORM,
    ),
    # 8 x 8 positions, of which image_size gives the number; config and tensor names as released.
    ModelSpec(
        name="paddleocr_vl",
        seed=83,
        dtype=torch.bfloat16,
        vision=dict(num_hidden_layers=3, hidden_size=40, num_attention_heads=2, intermediate_size=53),
        text=dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=1, head_dim=16,
                  intermediate_size=80),
        mrope_section=(2, 3, 3),
        tied=False,
        family="paddleocr_vl",
        stop_question="Count to 13.",
        released=True,
        shard_bytes=300_000,
        form=RASTER_FORM,
    ),
    # The released width of heads; config with text_config, tensors named as the modules.
    ModelSpec(
        name="paddleocr_vl_saved",
        seed=95,
        dtype=torch.float16,
        vision=dict(num_hidden_layers=2, hidden_size=72, num_attention_heads=1, intermediate_size=45),
        text=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=32,
                  intermediate_size=48),
        mrope_section=(4, 6, 6),
        tied=True,
        family="paddleocr_vl",
        module_names=True,
        form=RASTER_FORM,
        case_names=("one_image", "two_images", "three_images", "text_only"),
    ),
    # Config as released: heads of their own width, an output wider than the tower.
    ModelSpec(
        name="glm_ocr",
        seed=114,
        dtype=torch.bfloat16,
        vision=dict(depth=3, hidden_size=40, num_heads=2, intermediate_size=53),
        text=dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                  intermediate_size=72),
        mrope_section=(2, 3, 3),
        tied=False,
        family="glm_ocr",
        stop_question="Count to 48.",
        released=True,
        shard_bytes=300_000,
        form=FRAMES_FORM,
    ),
    # Heads of hidden_size / num_attention_heads; config as transformers saves it.
    ModelSpec(
        name="glm_ocr_saved",
        seed=110,
        dtype=torch.bfloat16,
        vision=dict(depth=2, hidden_size=64, num_heads=1, intermediate_size=45),
        text=dict(hidden_size=40, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                  intermediate_size=56),
        mrope_section=(2, 4, 4),
        tied=True,
        family="glm_ocr",
        form=FRAMES_FORM,
        case_names=("one_image", "two_images", "three_images", "text_only"),
    ),
    # Config as released; the projector's inner width differs from the tower's.
    ModelSpec(
        name="lighton_ocr",
        seed=120,
        dtype=torch.bfloat16,
        vision=dict(num_hidden_layers=3, hidden_size=40, num_attention_heads=2, intermediate_size=53),
        text=dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                  intermediate_size=72),
        tied=False,
        family="lighton_ocr",
        stop_question="Count to 10.",
        released=True,
        shard_bytes=300_000,
        form=EDGE_FORM,
    ),
    # The released width of the tower's heads; config as transformers saves it.
    ModelSpec(
        name="lighton_ocr_saved",
        seed=120,
        dtype=torch.float16,
        vision=dict(num_hidden_layers=2, hidden_size=64, num_attention_heads=1, intermediate_size=45),
        text=dict(hidden_size=40, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=24,
                  intermediate_size=56),
        tied=True,
        family="lighton_ocr",
        form=EDGE_FORM,
        case_names=("one_image", "two_images", "three_images", "text_only"),
    ),
    # Config and tensor names as released; the released width of heads.
    ModelSpec(
        name="dots_ocr",
        seed=122,
        dtype=torch.bfloat16,
        vision=dict(num_hidden_layers=3, embed_dim=40, num_attention_heads=2, intermediate_size=53),
        text=dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                  intermediate_size=80),
        tied=False,
        family="dots_ocr",
        stop_question="Count to 51.",
        released=True,
        shard_bytes=300_000,
        form=STILL_FORM,
    ),
)


def randomise(model: torch.nn.Module, spec: ModelSpec) -> None:
    """Fills every parameter so that signals neither die nor explode, and so that the image
    matters."""
    generator = torch.Generator().manual_seed(spec.seed)
    # a tied model with large embeddings only repeats its last token
    vocabulary_std = 0.25 if spec.tied else 0.5
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        hybrid_norm = spec.family in HYBRID_FAMILIES and ".language_model." in name and "linear_attn" not in name
        if name.endswith("A_log"):
            value = 0.7 * noise - 1
        elif name.endswith(("pos_embed.weight", "position_embedding.weight")):
            value = 0.3 * noise
        elif name.endswith(("embed_tokens.weight", "lm_head.weight")):
            value = vocabulary_std * noise
        elif name.endswith("bias"):
            value = 0.1 * noise
        elif name.endswith(("q_norm.weight", "k_norm.weight")):
            value = 1.5 - hybrid_norm + 0.15 * noise
        elif "norm" in name or name.endswith("ln_pre.weight"):
            value = 1 - hybrid_norm + 0.15 * noise
        elif ".experts." in name:  # [experts, out, in]
            value = 1.3 / math.sqrt(parameter.shape[-1]) * noise
        else:
            value = 1.3 / math.sqrt(parameter[0].numel()) * noise
        parameter.data.copy_(value)


def write_json(path: Path, value: Any) -> None:
    """Indented JSON with a final newline, non-ASCII text readable and a list of integers on one
    line."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    text = re.sub(r"\[\n\s+(\d+(?:,\n\s+\d+)*)\n\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    path.write_text(text + "\n", encoding="utf-8")


def write_preprocessor(folder: Path, spec: ModelSpec) -> None:
    """preprocessor_config.json; the released files name fewer fields than save_pretrained
    writes."""
    form = spec.form
    if spec.family in QWEN2_FAMILIES and spec.released:
        limits: dict[str, Any] = {"min_pixels": form.shortest_edge, "max_pixels": form.longest_edge}
    else:
        limits = {"size": {"longest_edge": form.longest_edge, "shortest_edge": form.shortest_edge}}
    config = limits | {
        "patch_size": form.patch_size,
        "temporal_patch_size": 2,
        "merge_size": form.merge_size,
        "image_mean": list(form.mean),
        "image_std": list(form.std),
        "processor_class": PROCESSOR_CLASSES[spec.family],
        "image_processor_type": "Qwen2VLImageProcessor" if spec.family in QWEN2_FAMILIES else "Qwen2VLImageProcessorFast",
    }
    if not spec.released:
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


def write_video_preprocessor(folder: Path, spec: ModelSpec) -> None:
    """video_preprocessor_config.json; Qwen3-VL's limits hold for all frames together, those of the
    others for each."""
    form = spec.form
    config = {
        "size": {"longest_edge": form.longest_edge * (1 if spec.family in QWEN2_FAMILIES else 8),
                 "shortest_edge": form.shortest_edge},
        "patch_size": form.patch_size,
        "temporal_patch_size": 2,
        "merge_size": form.merge_size,
        "image_mean": list(form.mean),
        "image_std": list(form.std),
        "fps": 2,
        "min_frames": 4,
        "max_frames": 768,
        "processor_class": PROCESSOR_CLASSES[spec.family],
        "video_processor_type": "Qwen2VLVideoProcessor" if spec.family in QWEN2_FAMILIES else "Qwen3VLVideoProcessor",
    }
    write_json(folder / "video_preprocessor_config.json", config)


def transpose_experts(folder: Path) -> None:
    """Turns fused experts from [experts, out, in], as transformers holds them, to [experts, in,
    out] as released."""
    for path in folder.glob("*.safetensors"):
        tensors = load_file(path)
        for name in tensors:
            if ".mlp.experts." in name:
                tensors[name] = tensors[name].transpose(1, 2).contiguous()
        save_file(tensors, path, metadata={"format": "pt"})


def write_kimi_checkpoint(spec: ModelSpec, folder: Path) -> None:
    """Writes a complete checkpoint directory in Kimi-VL's released form."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = fixture_kimi.random_tensors(spec)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", fixture_kimi.released_config(spec))
    write_json(folder / "preprocessor_config.json", fixture_kimi.preprocessor_config(spec))
    write_json(folder / "generation_config.json", {"eos_token_id": SPECIAL_IDS["<|im_end|>"], "max_length": 131_072})
    write_tiktoken(folder)


def write_paddle_checkpoint(spec: ModelSpec, folder: Path) -> None:
    """Writes a complete checkpoint directory. Of tokens that are no text only </s> is likely to
    be the best."""
    folder.mkdir(parents=True, exist_ok=True)
    model = PaddleOCRVLForConditionalGeneration(fixture_paddle.official_config(spec))
    randomise(model, spec)
    rows = model.lm_head.weight.data
    rows[fixture_paddle.EOS_ID + 1 : len(fixture_paddle.PIECES)] *= 0.1
    rows[fixture_paddle.added_id(fixture_paddle.ADDED_TOKENS[0]) :] *= 0.1
    model.generation_config = GenerationConfig(eos_token_id=fixture_paddle.EOS_ID, pad_token_id=0)
    shards = {"max_shard_size": spec.shard_bytes} if spec.shard_bytes else {}
    model.to(spec.dtype).save_pretrained(folder, **shards)
    if spec.module_names:
        tensors = {name: tensor for name, tensor in model.state_dict().items() if not (spec.tied and "lm_head" in name)}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if spec.released:
        write_json(folder / "config.json", fixture_paddle.released_config(spec))
    fixture_paddle.write_tokenizer(folder)
    write_json(folder / "preprocessor_config.json", fixture_paddle.preprocessor_config(spec))


def write_document_checkpoint(spec: ModelSpec, folder: Path) -> None:
    """Writes a complete checkpoint directory. Of tokens that are no text only those that end an
    answer are likely to be the best."""
    folder.mkdir(parents=True, exist_ok=True)
    files, model_class = DOCUMENT_FAMILIES[spec.family]
    model = model_class(files.make_config(spec))
    randomise(model, spec)
    for text in files.ADDED_TOKENS:
        if files.added_id(text) not in files.stop_ids():
            model.lm_head.weight.data[files.added_id(text)] *= 0.1
    model.generation_config = GenerationConfig(eos_token_id=files.stop_ids(), pad_token_id=files.stop_ids()[0])
    shards = {"max_shard_size": spec.shard_bytes} if spec.shard_bytes else {}
    model.to(spec.dtype).save_pretrained(folder, **shards)
    if spec.released:
        write_json(folder / "config.json", files.released_config(spec))
    files.write_tokenizer(folder)
    write_json(folder / "preprocessor_config.json", files.preprocessor_config(spec))


def write_checkpoint(spec: ModelSpec, folder: Path) -> None:
    """Writes a complete checkpoint directory."""
    if spec.family in DOCUMENT_FAMILIES:
        write_document_checkpoint(spec, folder)
        return
    if spec.family == "paddleocr_vl":
        write_paddle_checkpoint(spec, folder)
        return
    if spec.family == "kimi_vl":
        write_kimi_checkpoint(spec, folder)
        return
    folder.mkdir(parents=True, exist_ok=True)
    config = make_config(spec)
    model = MODEL_CLASSES[spec.family](config)
    randomise(model, spec)
    model.generation_config = GenerationConfig(
        eos_token_id=[added_token_id("<|im_end|>"), added_token_id("<|endoftext|>")],
        pad_token_id=added_token_id("<|endoftext|>"),
    )
    shards = {"max_shard_size": spec.shard_bytes} if spec.shard_bytes else {}
    model.to(spec.dtype).save_pretrained(folder, **shards)
    if spec.family == "qwen3_vl_moe":
        transpose_experts(folder)
    if spec.module_names:
        tensors = {name: tensor for name, tensor in model.state_dict().items() if not (spec.tied and "lm_head" in name)}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if spec.released:
        write_json(folder / "config.json", released_config(spec, config))
    if spec.family in HYBRID_FAMILIES:
        add_draft_head(spec, config, folder)
    write_tokenizer(folder, default_system=spec.family in QWEN2_FAMILIES, marks=spec.family in HYBRID_FAMILIES)
    write_preprocessor(folder, spec)
    if spec.video:
        write_video_preprocessor(folder, spec)
