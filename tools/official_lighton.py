"""LightOnOCR for verify_release.py: transformers' own classes, sides of images cut to whole merge
blocks as vLLM does, the tower's rows in merge-block order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers.image_utils import load_image

from fixture_stages import block_order
from official_model import Hooks, Qwen, Stages


class LightOn(Qwen):
    def inputs(self, image: Path, prompt: str) -> dict[str, torch.Tensor]:
        content = [{"type": "image"}, {"type": "text", "text": prompt}]
        text = self.processor.apply_chat_template([{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True)
        block = self.processor.patch_size * self.processor.spatial_merge_size
        return dict(self.processor(text=[text], images=[load_image(str(image))], images_kwargs={"patch_size": block}, return_tensors="pt"))

    def image_rows(self, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        patch, planes = self.processor.patch_size, inputs["pixel_values"][0]
        rows = planes.unflatten(2, (-1, patch)).unflatten(1, (-1, patch)).permute(1, 3, 0, 2, 4).flatten(2).flatten(0, 1)
        return rows, torch.tensor([1, planes.shape[1] // patch, planes.shape[2] // patch])

    @contextmanager
    def recorded(self, inputs: dict[str, torch.Tensor]) -> Iterator[Stages]:
        hooks, tower, language = Hooks(), self.model.model.vision_encoder, self.model.model.language_model
        grid = self.image_rows(inputs)[1][None]

        def keep(name: str, rows: torch.Tensor) -> None:
            hooks.store(name)(block_order(rows, grid, self.processor.spatial_merge_size))

        for axis in range(3):
            hooks.stages[f"prompt.positions.{axis}"] = torch.arange(inputs["input_ids"].shape[1])
        hooks.on_output(self.model.model.vision_projection, hooks.store("vision.merged"))
        hooks.on_input(tower.transformer, 0, lambda rows: keep("vision.position_added", rows[0]))
        for index, block in enumerate(tower.transformer.layers):
            hooks.on_output(block, lambda rows, index=index: keep(f"vision.block.{index}", rows[0]))
        hooks.language(language)
        try:
            yield hooks.stages
        finally:
            hooks.close()
