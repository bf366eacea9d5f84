"""Tiny checkpoints with random weights whose answers depend on the picture: the stored ones, and a Qwen2.5-VL made here."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import torch
from transformers import GenerationConfig, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

SEED = 5


def weights_only(checkpoint: Path, folder: Path) -> Path:
    """The checkpoint alone: vLLM would load every .safetensors file in its folder as weights."""
    folder.mkdir()
    for path in checkpoint.iterdir():
        if path.suffix != ".safetensors" or path.name.startswith("model"):
            (folder / path.name).symlink_to(path)
    return folder


def make_config(tokens: dict[str, int]) -> Qwen2_5_VLConfig:
    """Windows of 4 x 4 merged patches in three layers of four, heads of 80 as in the released models."""
    return Qwen2_5_VLConfig(
        vision_config=dict(
            depth=4, hidden_size=160, num_heads=2, intermediate_size=96, patch_size=14, spatial_merge_size=2,
            temporal_patch_size=2, window_size=112, fullatt_block_indexes=[2], out_hidden_size=64, hidden_act="silu",
            in_channels=3,
        ),
        text_config=dict(
            hidden_size=64, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, intermediate_size=96,
            vocab_size=544, max_position_embeddings=32768, rms_norm_eps=1e-6, tie_word_embeddings=False,
            rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[4, 6, 6]),
        ),
        image_token_id=tokens["<|image_pad|>"],
        video_token_id=tokens["<|video_pad|>"],
        vision_start_token_id=tokens["<|vision_start|>"],
        vision_end_token_id=tokens["<|vision_end|>"],
        tie_word_embeddings=False,
    )


def randomise(model: torch.nn.Module) -> None:
    """Signals neither die nor explode, and the picture matters; weights near zero would make all answers alike."""
    generator = torch.Generator().manual_seed(SEED)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith(("embed_tokens.weight", "lm_head.weight")):
            value = 0.5 * noise
        elif name.endswith("bias"):
            value = 0.1 * noise
        elif parameter.dim() == 1:
            value = 1 + 0.15 * noise
        else:
            value = 1.3 / math.sqrt(parameter[0].numel()) * noise
        parameter.data.copy_(value)


def write_qwen2_5_vl(folder: Path, tokenizer_folder: Path) -> None:
    """Writes a complete checkpoint directory; the tokenizer and the chat template are those of another one."""
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(tokenizer_folder / name, folder)
    added = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    tokens = {token["content"]: token["id"] for token in added}
    model = Qwen2_5_VLForConditionalGeneration(make_config(tokens))
    randomise(model)
    model.generation_config = GenerationConfig(eos_token_id=tokens["<|im_end|>"], pad_token_id=tokens["<|endoftext|>"])
    model.save_pretrained(folder)
    preprocessor = {
        "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor",
        "size": {"shortest_edge": 3136, "longest_edge": 50_000}, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
        "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor), encoding="utf-8")
