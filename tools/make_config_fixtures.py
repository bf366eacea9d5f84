#!/usr/bin/env python3
"""Makes tests/data/rope.json: what transformers computes for text configurations with scaled rotary
positions, and the processor classes' defaults.

    tools/make_config_fixtures.py            write it anew
    tools/make_config_fixtures.py --check    compare with the file that is there

Needs transformers, torch and torchvision; the version used is in the file.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from pathlib import Path
from typing import Any

import transformers
from transformers import DeepseekV3Config, Qwen2VLImageProcessor, Qwen2VLVideoProcessor, Qwen3VLVideoProcessor
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3RotaryEmbedding, yarn_apply_mscale
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLTextConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLRotaryEmbedding
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLTextConfig
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

OUT = Path(__file__).resolve().parent.parent / "tests/data/rope.json"
SIZES = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=64)
KINDS = {
    "qwen2": (Qwen2_5_VLTextConfig, Qwen2_5_VLRotaryEmbedding, dict(hidden_size=256)),
    "qwen3": (Qwen3VLTextConfig, Qwen3VLTextRotaryEmbedding, dict(head_dim=128)),
    "deepseek": (
        DeepseekV3Config,
        DeepseekV3RotaryEmbedding,
        dict(
            kv_lora_rank=32, q_lora_rank=None, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_routed_experts=4,
            num_experts_per_tok=2, n_group=1, topk_group=1, moe_intermediate_size=16, num_key_value_heads=2,
        ),
    ),
}
YARN = {"type": "yarn", "factor": 4, "original_max_position_embeddings": 32768}
# Per case the kind, and the keys of its text configuration besides the sizes.
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("plain", "qwen2", dict(rope_theta=1e6, rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]})),
    ("no rope at all", "qwen2", {}),
    ("no rope at all", "qwen3", {}),
    ("as in the README", "qwen2", dict(rope_theta=1e6, rope_scaling=YARN | {"mrope_section": [16, 24, 24]})),
    ("as in the README", "qwen3", dict(rope_theta=5e6, max_position_embeddings=262144, rope_scaling={
        "rope_type": "yarn", "mrope_section": [24, 20, 20], "mrope_interleaved": True, "factor": 3.0,
        "original_max_position_embeddings": 262144})),
    ("rope_parameters", "qwen3", dict(rope_parameters=YARN | {"rope_theta": 5e6, "mrope_section": [24, 20, 20]})),
    ("rope_scaling before rope_parameters", "qwen2", dict(
        rope_scaling={"rope_type": "linear", "factor": 2.0}, rope_parameters=YARN | {"rope_theta": 5e5})),
    ("rope_theta inside first", "qwen2", dict(rope_theta=1e6, rope_scaling=YARN | {"rope_theta": 1e5})),
    ("rope_type before type", "qwen2", dict(rope_scaling=YARN | {"rope_type": "linear"})),
    ("betas", "qwen2", dict(rope_scaling=YARN | {"beta_fast": 16, "beta_slow": 2.5})),
    ("betas of 0", "qwen2", dict(rope_scaling=YARN | {"beta_fast": 0, "beta_slow": 0})),
    ("equal betas", "qwen2", dict(rope_scaling=YARN | {"beta_fast": 1, "beta_slow": 1, "truncate": False})),
    ("not truncated", "qwen2", dict(rope_scaling=YARN | {"truncate": False})),
    ("attention_factor", "qwen2", dict(rope_scaling=YARN | {"attention_factor": 1.25})),
    ("mscale alone", "qwen2", dict(rope_scaling=YARN | {"mscale": 2.0})),
    ("mscale of both kinds", "qwen2", dict(rope_scaling=YARN | {"mscale": 1.5, "mscale_all_dim": 0.7})),
    ("factor by the lengths", "qwen2", dict(max_position_embeddings=131072, rope_scaling={
        "rope_type": "yarn", "factor": None, "original_max_position_embeddings": 16384})),
    ("no original length", "qwen2", dict(max_position_embeddings=8192, rope_scaling={"type": "yarn", "factor": 2.5})),
    ("a factor below 1", "qwen2", dict(rope_scaling=YARN | {"factor": 0.5})),
    ("a short original length", "qwen2", dict(rope_theta=100.0, rope_scaling=YARN | {"original_max_position_embeddings": 16})),
    ("linear", "qwen2", dict(rope_theta=1e6, rope_scaling={"type": "linear", "factor": 3})),
    ("linear", "qwen3", dict(rope_theta=5e6, rope_scaling={"rope_type": "linear", "factor": 8.0})),
    ("plain", "deepseek", dict(rope_theta=8e5)),
    ("linear", "deepseek", dict(rope_theta=8e5, rope_scaling={"type": "linear", "factor": 4.0})),
    ("yarn", "deepseek", dict(rope_theta=8e5, rope_scaling=YARN | {"original_max_position_embeddings": 4096, "factor": 40})),
    ("yarn with both mscales", "deepseek", dict(rope_theta=1e4, rope_scaling=YARN | {
        "original_max_position_embeddings": 4096, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1})),
    ("yarn with unequal mscales", "deepseek", dict(rope_theta=1e4, rope_scaling=YARN | {"mscale": 0.707, "mscale_all_dim": 1.3})),
)


def make_case(name: str, kind: str, keys: dict[str, Any]) -> dict[str, Any]:
    config_class, rotary_class, more = KINDS[kind]
    text = dict(max_position_embeddings=32768) | SIZES | more | keys
    config = config_class(**copy.deepcopy(text))
    rotary = rotary_class(config)
    score = yarn_apply_mscale(config.rope_parameters, 192**-0.5) if kind == "deepseek" else text["hidden_size"] ** 0
    return {
        "name": name,
        "kind": kind,
        "text": text,
        "frequencies": [float(f"{value:.9g}") for value in rotary.inv_freq.tolist()],
        "scale": rotary.attention_scaling,
        "score_scale": score if kind == "deepseek" else 128**-0.5,
        "section": config.rope_parameters.get("mrope_section", getattr(rotary, "mrope_section", None)),
    }


def make_processor(cls: type) -> dict[str, Any]:
    processor = cls()
    size = processor.size
    return {
        "class": cls.__name__,
        "limits": [size["shortest_edge"], size["longest_edge"]],
        "mean": list(processor.image_mean),
        "std": list(processor.image_std),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    processors = [make_processor(cls) for cls in (Qwen2VLImageProcessor, Qwen2VLVideoProcessor, Qwen3VLVideoProcessor)]
    cases = ",\n".join(json.dumps(make_case(*case)) for case in CASES)
    text = f'{{"made_with": {json.dumps({"transformers": transformers.__version__})},\n'
    text += f'"processors": {json.dumps(processors)},\n"cases": [\n{cases}\n]}}\n'
    if not arguments.check:
        OUT.write_text(text)
        return 0
    same = OUT.exists() and OUT.read_text() == text
    if not same:
        print(f"{OUT}: differs")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
