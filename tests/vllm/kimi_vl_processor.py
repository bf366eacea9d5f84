"""A processor for tiny Kimi-VL checkpoints, which carry this file: vLLM takes the model's from its
checkpoint."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer, BatchFeature, ProcessorMixin

PLACEHOLDER = "<|image_pad|>"
PATCH, MERGE = 14, 2


def patches_of(image: Any) -> tuple[torch.Tensor, tuple[int, int]]:
    """Patches [n, 3, 14, 14] row by row and their grid; the image is padded with zeros to whole
    merged patches."""
    values = np.asarray(image.convert("RGB"), np.float32) / 127.5 - 1
    side = PATCH * MERGE
    values = np.pad(values, [(0, -values.shape[0] % side), (0, -values.shape[1] % side), (0, 0)])
    rows, columns = values.shape[0] // PATCH, values.shape[1] // PATCH
    patches = values.reshape(rows, PATCH, columns, PATCH, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, PATCH, PATCH)
    return torch.from_numpy(np.ascontiguousarray(patches)), (rows, columns)


class KimiVLProcessor(ProcessorMixin):
    def __init__(self, tokenizer: Any) -> None:
        super().__init__(tokenizer)
        self.image_token = PLACEHOLDER
        # What vLLM reads of an image processor; no image reaches the limit, above which the
        # released one scales down.
        self.image_processor = SimpleNamespace(patch_size=PATCH, merge_kernel_size=(MERGE, MERGE), in_token_limit=1 << 16)

    @classmethod
    def from_pretrained(cls, folder: str, **_: Any) -> KimiVLProcessor:
        return cls(AutoTokenizer.from_pretrained(folder))

    def __call__(self, text: Any = None, images: Any = None, **_: Any) -> BatchFeature:
        texts = [text] if isinstance(text, str) else list(text)
        if not images:
            return BatchFeature(dict(self.tokenizer(texts)), tensor_type="pt")
        patches, grids = zip(*(patches_of(image) for image in images))
        head, *tails = "".join(texts).split(PLACEHOLDER)
        for (rows, columns), tail in zip(grids, tails, strict=True):
            head += PLACEHOLDER * (rows * columns // MERGE**2) + tail
        return BatchFeature(
            {**self.tokenizer([head]), "pixel_values": torch.cat(patches), "image_grid_hws": torch.tensor(grids)},
            tensor_type="pt",
        )
