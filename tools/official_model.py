"""transformers' side of verify_release.py: a checkpoint run with hooks, by the names and in the
order of rows that omma_stages has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForImageTextToText, AutoProcessor
from transformers.image_utils import load_image

from fixture_stages import Recorder

Stages = dict[str, torch.Tensor]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def versions() -> dict[str, str]:
    return {"torch": torch.__version__, "transformers": transformers.__version__}


class Hooks(Recorder):
    """Keeps all rows of a stage in f32."""

    def store(self, name: str) -> Callable[[torch.Tensor], None]:
        def keep(value: torch.Tensor) -> None:
            self.stages[name] = value.detach().float().clone()

        return keep

    def language(self, language: torch.nn.Module) -> None:
        """A layer's output is the next one's input: what comes between (deepstack) is the
        first one's."""
        for index, module in enumerate([*language.layers[1:], language.norm]):
            store = self.store(f"language.layer.{index}")
            self.on_input(module, 0, lambda hidden, store=store: store(hidden[0]))


class Qwen:
    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.processor = AutoProcessor.from_pretrained(folder)
        self.model = AutoModelForImageTextToText.from_pretrained(
            folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager"
        ).eval()

    def image_rows(self, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """The image's patches [n, values], and its time, rows and columns of them."""
        return inputs["pixel_values"].flatten(1), inputs["image_grid_thw"][0]

    def inputs(self, image: Path, prompt: str) -> dict[str, torch.Tensor]:
        content = [{"type": "image"}, {"type": "text", "text": prompt}]
        text = self.processor.apply_chat_template([{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True)
        return dict(self.processor(text=[text], images=[load_image(str(image))], return_tensors="pt"))

    @contextmanager
    def recorded(self, inputs: dict[str, torch.Tensor]) -> Iterator[Stages]:
        hooks, visual, language = Hooks(), self.model.model.visual, self.model.model.language_model
        hooks.on_input(visual.blocks[0], 0, hooks.store("vision.position_added"))
        for index, block in enumerate(visual.blocks):
            hooks.on_output(block, hooks.store(f"vision.block.{index}"))
        hooks.on_output(visual, lambda output: hooks.store("vision.merged")(output.pooler_output))
        for index, merger in enumerate(getattr(visual, "deepstack_merger_list", ())):
            hooks.on_output(merger, hooks.store(f"vision.deepstack.{index}"))
        hooks.on_input(language.rotary_emb, 1, lambda ids: self._keep_positions(hooks, ids))
        hooks.language(language)
        try:
            yield hooks.stages
        finally:
            hooks.close()

    @staticmethod
    def _keep_positions(hooks: Hooks, ids: torch.Tensor) -> None:
        for axis, values in enumerate(ids[-3:, 0]):
            hooks.store(f"prompt.positions.{axis}")(values)

    @torch.no_grad()
    def run(self, image: Path, prompt: str, n_tokens: int) -> tuple[Stages, list[int], list[float]]:
        """Stages of the prompt; greedy tokens; the margin between the two best at each."""
        inputs = self.inputs(image, prompt)
        pixels, grid = self.image_rows(inputs)
        inputs["pixel_values"] = inputs["pixel_values"].to(self.model.dtype)
        with self.recorded(inputs) as stages:
            stages["language.logits"] = self.model(**inputs, logits_to_keep=1).logits[0, -1].float()
        stages |= {"prompt.ids": inputs["input_ids"][0], "image.grid_thw": grid, "image.pixel_values": pixels}
        output = self.model.generate(
            **inputs, do_sample=False, repetition_penalty=1.0, temperature=None, top_p=None, top_k=None, max_new_tokens=n_tokens,
            output_logits=True, return_dict_in_generate=True,
        )
        tokens = output.sequences[0, inputs["input_ids"].shape[1] :].tolist()
        best = torch.cat(output.logits).float().topk(2).values
        return stages, tokens, (best[:, 0] - best[:, 1]).tolist()


def load_official(family: str, folder: Path, dtype: str) -> Qwen:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if family == "kimi_vl":
        from official_kimi import Kimi

        return Kimi(folder, DTYPES[dtype])
    if family == "lighton_ocr":
        from official_lighton import LightOn

        return LightOn(folder, DTYPES[dtype])
    if family == "paddleocr_vl":
        from official_paddle import Paddle

        return Paddle(folder, DTYPES[dtype])
    return Qwen(folder, DTYPES[dtype])
