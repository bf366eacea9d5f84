"""Kimi-VL for verify_release.py: transformers' Kimi-K2.5 with a checkpoint's weights, and the
original code's preprocessing and prompt (fixture_kimi.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import tiktoken
import torch
from tiktoken.load import load_tiktoken_bpe

from fixture_kimi import KimiOfficial, load_reference
from fixture_stages import block_order
from fixture_tiktoken import SPLIT
from official_model import Hooks, Qwen, Stages


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


class Kimi(Qwen):
    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        processing = read_json(folder / "preprocessor_config.json")
        self._form = SimpleNamespace(
            patch_size=processing["patch_size"], merge_size=processing["merge_kernel_size"][0], patch_limit=processing["in_token_limit"]
        )
        self._image_token = read_json(folder / "config.json")["media_placeholder_token_id"]
        self._read_tokenizer(folder)
        self.model = load_reference(folder, dtype)
        stops = read_json(folder / "generation_config.json")["eos_token_id"]
        self.model.generation_config.eos_token_id = self.model.generation_config.pad_token_id = stops

    def _read_tokenizer(self, folder: Path) -> None:
        config = read_json(folder / "tokenizer_config.json")
        specials = {entry["content"]: int(token) for token, entry in config["added_tokens_decoder"].items()}
        ranks = load_tiktoken_bpe(str(folder / "tiktoken.model"))
        self._encoding = tiktoken.Encoding("kimi", pat_str=SPLIT, mergeable_ranks=ranks, special_tokens=specials)
        file = folder / "chat_template.jinja"
        self._template = file.read_text(encoding="utf-8") if file.exists() else config["chat_template"]

    def inputs(self, image: Path, prompt: str) -> dict[str, torch.Tensor]:
        content = [{"type": "image", "image": image.name}, {"type": "text", "text": prompt}]
        template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(self._template)
        text = template.render(messages=[{"role": "user", "content": content}], add_generation_prompt=True)
        made = KimiOfficial.preprocess(SimpleNamespace(spec=SimpleNamespace(form=self._form), resize=self._resize), image)
        n_tokens = int(made["grid_thw"].prod()) // self._form.merge_size**2
        ids = [n for token in self._encoding.encode(text, allowed_special="all") for n in [token] * (n_tokens if token == self._image_token else 1)]
        return {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
                "pixel_values": made["pixel_values"], "image_grid_thw": made["grid_thw"][None]}

    def _resize(self, image: Any) -> Any:
        return KimiOfficial.resize(SimpleNamespace(spec=SimpleNamespace(form=self._form)), image)

    @contextmanager
    def recorded(self, inputs: dict[str, torch.Tensor]) -> Iterator[Stages]:
        hooks, tower, language = Hooks(), self.model.model.vision_tower, self.model.model.language_model

        def keep(name: str, rows: torch.Tensor) -> None:
            hooks.store(name)(block_order(rows, inputs["image_grid_thw"], self._form.merge_size))

        for axis in range(3):
            hooks.stages[f"prompt.positions.{axis}"] = torch.arange(inputs["input_ids"].shape[1])
        hooks.on_output(self.model.model.mm_projector, lambda rows: hooks.store("vision.merged")(rows.squeeze(1)))
        hooks.on_output(tower.patch_embed, lambda rows: keep("vision.position_added", rows))
        for index, block in enumerate(tower.layers):
            hooks.on_output(block, lambda rows, index=index: keep(f"vision.block.{index}", rows))
        hooks.language(language)
        try:
            yield hooks.stages
        finally:
            hooks.close()
