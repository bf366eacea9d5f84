#!/usr/bin/env python3
"""Compares the tower of the Kimi-VL fixture with vLLM's MoonViT and projector: a second,
independent reference.

    tools/fixture_moonvit.py tests/golden/kimi_vl

Run it with a Python that has vLLM for CPUs. The largest difference of a row, relative to the row,
is printed per case; the exit status is 1 if one is above 1e-5.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import torch
from safetensors.torch import load_file
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.model_executor.models.kimi_vl import KimiVLMultiModalProjector
from vllm.model_executor.models.moonvit import MoonVitPretrainedModel
from vllm.transformers_utils.configs.kimi_vl import KimiVLConfig

BOUND = 1e-5


def load(module: torch.nn.Module, tensors: dict[str, torch.Tensor], prefix: str) -> torch.nn.Module:
    """Copies the tensors under a prefix into a module; every one must fit and none may be
    missing."""
    own = {name.removeprefix(prefix): tensor.float() for name, tensor in tensors.items() if name.startswith(prefix)}
    module.float().load_state_dict(own, strict=True)
    for part in module.modules():
        if hasattr(part, "quant_method"):
            part.quant_method.process_weights_after_loading(part)
    return module.eval()


def patches_of(pixels: torch.Tensor, patch: int) -> torch.Tensor:
    planes = (pixels.permute(2, 0, 1).float() / 255 - 0.5) / 0.5
    return planes.unflatten(2, (-1, patch)).unflatten(1, (-1, patch)).permute(1, 3, 0, 2, 4).flatten(0, 1)


@torch.no_grad()
def check(folder: Path) -> bool:
    config = KimiVLConfig(**json.loads((folder / "config.json").read_text()))
    tensors = load_file(folder / "model.safetensors")
    tower = load(MoonVitPretrainedModel(config.vision_config), tensors, "vision_tower.")
    projector = load(KimiVLMultiModalProjector(config), tensors, "multi_modal_projector.")
    manifest = json.loads((folder / "golden.json").read_text())
    images = load_file(folder / manifest["image_tensors_file"])
    good = True
    for case in manifest["cases"]:
        if not case["images"]:
            continue
        pixels = [images[f"image.{name}.pixels_u8"] for name in case["images"]]
        grids = torch.stack([images[f"image.{name}.grid_thw"][1:] for name in case["images"]])
        patches = torch.cat([patches_of(one, config.vision_config.patch_size) for one in pixels])
        merged = projector(torch.cat(tower(patches, grids)))
        rows = list(range(0, len(merged), manifest["row_stride"]))
        rows += [len(merged) - 1] if rows[-1] != len(merged) - 1 else []
        expected = load_file(folder / case["tensors_file"])["vision.merged"]
        error = ((merged[rows] - expected).norm(dim=1) / expected.norm(dim=1)).max().item()
        print(f"{case['name']}: {math.prod(expected.shape)} values, worst row off by {error:.1e}")
        good &= error <= BOUND
    return good


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: fixture_moonvit.py KIMI_FIXTURE_FOLDER", file=sys.stderr)
        return 2
    with set_current_vllm_config(VllmConfig()), tempfile.NamedTemporaryFile() as meeting_point:
        init_distributed_environment(1, 0, f"file://{meeting_point.name}", 0, "gloo")
        initialize_model_parallel()
        return 0 if check(Path(sys.argv[1])) else 1


if __name__ == "__main__":
    sys.exit(main())
