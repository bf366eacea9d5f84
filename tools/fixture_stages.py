"""Records the stages of the official networks with hooks, in the row order and the sample of rows that the fixtures keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

Tensors = dict[str, torch.Tensor]

ROW_STRIDE = 5  # of a stage's rows; odd, so that all four places of a merge block come up


def sample_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Every ROW_STRIDE-th row from the first on, and the last row."""
    rows = list(range(0, len(tensor), ROW_STRIDE))
    if rows[-1] != len(tensor) - 1:
        rows.append(len(tensor) - 1)
    return tensor[rows]


class Recorder:
    """Hooks modules; `stages` fills while the model runs."""

    def __init__(self) -> None:
        self.stages: Tensors = {}
        self.handles: list[Any] = []

    def keep(self, name: str, sampled: bool = True) -> Callable[[torch.Tensor], None]:
        def store(value: torch.Tensor) -> None:
            self.stages[name] = (sample_rows(value) if sampled else value).detach().clone()

        return store

    def on_output(self, module: torch.nn.Module, store: Callable[[Any], None]) -> None:
        self.handles.append(module.register_forward_hook(lambda _module, _args, output: store(output)))

    def on_input(self, module: torch.nn.Module, index: int, store: Callable[[Any], None]) -> None:
        self.handles.append(module.register_forward_pre_hook(lambda _module, args: store(args[index])))

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


def _record_tower(recorder: Recorder, visual: torch.nn.Module, unpermute: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Every block's output of a Qwen tower; `unpermute` brings a block's rows to merge-block order."""
    keep = recorder.keep

    def keep_rotary(output: tuple[torch.Tensor, torch.Tensor]) -> None:
        keep("vision.rotary_cos")(output[0])
        keep("vision.rotary_sin")(output[1])

    def keep_block(name: str) -> Callable[[torch.Tensor], None]:
        return lambda rows: keep(name)(unpermute(rows))

    recorder.on_output(visual.patch_embed, keep("vision.patch_embed"))
    recorder.on_output(visual.rotary_pos_emb, keep_rotary)
    recorder.on_input(visual.blocks[0], 0, keep_block("vision.position_added"))
    for index, block in enumerate(visual.blocks):
        recorder.on_output(block, keep_block(f"vision.block.{index}"))


def record_language(recorder: Recorder, language: torch.nn.Module) -> None:
    """Every layer's output; what comes between two layers (the deepstack addition) counts as the first one's."""
    entries = [recorder.keep("language.embeddings")]
    entries += [recorder.keep(f"language.layer.{index}") for index in range(len(language.layers))]
    for module, store in zip([*language.layers, language.norm], entries, strict=True):
        recorder.on_input(module, 0, lambda hidden, store=store: store(hidden[0]))
    recorder.on_output(language.norm, lambda hidden: recorder.keep("language.norm")(hidden[0]))


def window_order(visual: torch.nn.Module, grid_thw: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The order that a windowed tower takes the merged tokens in, and where its windows end, counted in patches."""
    from transformers.vision_utils import get_vision_window_index

    index, ends = get_vision_window_index(grid_thw, visual.spatial_merge_size, visual.window_size, visual.patch_size)
    return index, ends[1:].long()


@contextmanager
def recorded_qwen(model: torch.nn.Module, grid_thw: torch.Tensor | None, full: bool) -> Iterator[Tensors]:
    """Records one forward pass of a Qwen model over pictures or videos of these grids."""
    recorder = Recorder()
    visual, language = model.model.visual, model.model.language_model
    unpermute: Callable[[torch.Tensor], torch.Tensor] = lambda rows: rows
    if hasattr(visual, "window_size") and grid_thw is not None:
        index, ends = window_order(visual, grid_thw)
        back = torch.argsort(index)
        recorder.stages |= {"vision.window_index": index, "vision.window_ends": ends}
        unpermute = lambda rows: rows.unflatten(0, (len(back), -1))[back].flatten(0, 1)
    recorder.on_output(visual, lambda output: recorder.keep("vision.merged")(output.pooler_output))
    for index, merger in enumerate(getattr(visual, "deepstack_merger_list", ())):
        recorder.on_output(merger, recorder.keep(f"vision.deepstack.{index}"))
    keep_positions = recorder.keep("language.position_ids", sampled=False)
    recorder.on_input(language.rotary_emb, 1, lambda ids: keep_positions(ids[:, 0]))
    if full:
        _record_tower(recorder, visual, unpermute)
        record_language(recorder, language)
    try:
        yield recorder.stages
    finally:
        recorder.close()


@contextmanager
def router_margins(model: torch.nn.Module) -> Iterator[list[float]]:
    """Collects, for each router and pass, the least difference between the last chosen expert's score and the next one's."""
    margins: list[float] = []

    def collect(router: torch.nn.Module, output: tuple[torch.Tensor, ...]) -> None:
        scores = output[0].softmax(-1)
        if hasattr(router, "e_score_correction_bias"):
            scores = output[0].sigmoid() + router.e_score_correction_bias
        best = scores.topk(router.top_k + 1).values
        margins.append((best[:, -2] - best[:, -1]).min().item())

    routers = [module for module in model.modules() if hasattr(module, "top_k") and hasattr(module, "num_experts")]
    handles = [router.register_forward_hook(lambda module, _args, output: collect(module, output)) for router in routers]
    try:
        yield margins
    finally:
        for handle in handles:
            handle.remove()
