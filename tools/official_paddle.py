"""PaddleOCR-VL for verify_release.py: transformers' own classes, the tower's rows in merge-block
order (fixture_paddle_official.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor

from fixture_stages import block_order
from official_model import Hooks, Qwen, Stages


class Paddle(Qwen):
    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.processor = AutoProcessor.from_pretrained(folder)
        config = AutoConfig.from_pretrained(folder)
        # The class does not pass a released file's flat tie_word_embeddings to its language model.
        written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        tied = written.get("tie_word_embeddings", written.get("text_config", {}).get("tie_word_embeddings"))
        if tied is not None:
            config.tie_word_embeddings = config.text_config.tie_word_embeddings = tied
        self.model = AutoModelForImageTextToText.from_pretrained(
            folder, config=config, dtype=dtype, attn_implementation="eager"
        ).eval()

    @contextmanager
    def recorded(self, inputs: dict[str, torch.Tensor]) -> Iterator[Stages]:
        hooks, tower, language = Hooks(), self.model.model.visual.vision_model, self.model.model.language_model
        merge_size = self.processor.image_processor.merge_size

        def keep(name: str, rows: torch.Tensor) -> None:
            hooks.store(name)(block_order(rows, inputs["image_grid_thw"], merge_size))

        hooks.on_output(self.model.model.projector, hooks.store("vision.merged"))
        hooks.on_input(language.rotary_emb, 1, lambda ids: self._keep_positions(hooks, ids))
        hooks.on_output(tower.embeddings, lambda rows: keep("vision.position_added", rows))
        for index, block in enumerate(tower.encoder.layers):
            hooks.on_output(block, lambda rows, index=index: keep(f"vision.block.{index}", rows))
        hooks.language(language)
        try:
            yield hooks.stages
        finally:
            hooks.close()
