"""Times vLLM's vision towers with its own attention and with the plugin's, in turns, and prints one row per tower.

python bench_tower.py [--tower NAME] [--layers N] [--side PIXELS] [--repeats N] [--dtype bfloat16|float32]"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from towers import TOWERS, attention_layers, stock_attention, vllm_context

PATCH_SIZE = {"qwen3_vl": 16, "qwen2_5_vl": 14, "kimi_vl": 14}


class Stopwatch:
    """Adds up the time spent in a tower's attention layers."""

    def __init__(self, tower: nn.Module) -> None:
        self.seconds = 0.0
        self._started = 0.0
        for layer in attention_layers(tower):
            layer.register_forward_pre_hook(self._start)
            layer.register_forward_hook(self._stop)

    def _start(self, *_: Any) -> None:
        self._started = time.perf_counter()

    def _stop(self, *_: Any) -> None:
        self.seconds += time.perf_counter() - self._started


def best_times(name: str, layers: int, side: int, repeats: int) -> dict[str, tuple[float, float]]:
    """The best seconds of (attention, whole tower), for vLLM alone and with the plugin."""
    tower = TOWERS[name].build(layers)
    cells = side // (2 * PATCH_SIZE[name]) * 2
    stopwatch = Stopwatch(tower)
    TOWERS[name].run(tower, [(8, 8)])
    best = {"vllm": (float("inf"), float("inf")), "plugin": (float("inf"), float("inf"))}
    for _ in range(repeats):
        for way in best:
            with stock_attention(tower) if way == "vllm" else nullcontext():
                stopwatch.seconds = 0.0
                started = time.perf_counter()
                TOWERS[name].run(tower, [(cells, cells)])
                took = (stopwatch.seconds, time.perf_counter() - started)
            best[way] = (min(best[way][0], took[0]), min(best[way][1], took[1]))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tower", choices=TOWERS, action="append")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    args = parser.parse_args()
    print(f"{args.layers} layers, one image of {args.side} x {args.side}, {args.dtype}, {torch.get_num_threads()} threads")
    print(f"{'tower':12} {'attention, ms per layer':>32} {'tower, ms':>32}")
    for name in args.tower or TOWERS:
        with vllm_context(getattr(torch, args.dtype)):
            best = best_times(name, args.layers, args.side, args.repeats)
        cells = []
        for which, unit in ((0, 1e3 / args.layers), (1, 1e3)):
            before, after = best["vllm"][which] * unit, best["plugin"][which] * unit
            cells.append(f"{before:8.1f} -> {after:8.1f}, {before / after:.2f} x")
        print(f"{name:12} {cells[0]:>32} {cells[1]:>32}", flush=True)


if __name__ == "__main__":
    main()
