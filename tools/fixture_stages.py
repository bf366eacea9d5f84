"""Records the stages of the official networks with hooks, and the sample of their rows that the
fixtures keep."""

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
        """The index-th argument, those by name after the others."""
        self.handles.append(module.register_forward_pre_hook(
            lambda _module, args, named: store([*args, *named.values()][index]), with_kwargs=True))

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


def block_order(rows: torch.Tensor, grids: torch.Tensor, merge: int) -> torch.Tensor:
    """Brings the patches of images laid end to end from raster order to merge-block order."""
    parts, start = [], 0
    for _, height, width in grids.tolist():
        part = rows[start : start + height * width]
        part = part.unflatten(0, (height // merge, merge, width // merge, merge)).transpose(1, 2)
        parts.append(part.flatten(0, 3))
        start += height * width
    return torch.cat(parts)


def keep_raster(recorder: Recorder, grids: torch.Tensor, merge: int) -> Callable[[str], Callable[[torch.Tensor], None]]:
    """As the recorder's keep, for rows in raster order."""
    return lambda name: lambda rows: recorder.keep(name)(block_order(rows, grids, merge))


def record_language(recorder: Recorder, language: torch.nn.Module) -> None:
    """Every layer's output; what comes between two layers (the deepstack addition) counts as the
    first one's."""
    entries = [recorder.keep("language.embeddings")]
    entries += [recorder.keep(f"language.layer.{index}") for index in range(len(language.layers))]
    for module, store in zip([*language.layers, language.norm], entries, strict=True):
        recorder.on_input(module, 0, lambda hidden, store=store: store(hidden[0]))
    recorder.on_output(language.norm, lambda hidden: recorder.keep("language.norm")(hidden[0]))


@contextmanager
def router_margins(model: torch.nn.Module) -> Iterator[list[float]]:
    """Collects, for each router and pass, the least difference between the last chosen expert's
    score and the next."""
    margins: list[float] = []

    def collect(router: torch.nn.Module, _args: Any, output: tuple[torch.Tensor, ...]) -> None:
        scores = output[0].softmax(-1)
        if hasattr(router, "e_score_correction_bias"):
            scores = output[0].sigmoid() + router.e_score_correction_bias
        best = scores.topk(router.top_k + 1).values
        margins.append((best[:, -2] - best[:, -1]).min().item())

    routers = [module for module in model.modules() if hasattr(module, "top_k") and hasattr(module, "num_experts")]
    handles = [router.register_forward_hook(collect) for router in routers]
    try:
        yield margins
    finally:
        for handle in handles:
            handle.remove()
