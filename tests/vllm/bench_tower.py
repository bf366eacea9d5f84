"""Times vLLM's vision towers with its own attention, with the plugin's, and libomma's towers in
their place, in turns, and prints one row per tower.

python bench_tower.py [--tower NAME] [--layers N] [--side PIXELS] [--repeats N] [--dtype
bfloat16|float32]"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from towers import TOWERS, attention_layers, libomma_tower, project, stock_attention, vllm_context


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
    """The best seconds of (attention, whole tower), for vLLM alone, with the plugin's attention,
    and of libomma's tower."""
    own = TOWERS[name].build(layers)
    libomma = libomma_tower(name, own)
    cells = side // (2 * TOWERS[name].patch_size) * 2
    stopwatch = Stopwatch(own)
    for tower in (own, libomma):
        TOWERS[name].run(tower, [(8, 8)])
    best = {way: (float("inf"), float("inf")) for way in ("vllm", "attention", "tower")}
    for _ in range(repeats):
        for way in best:
            with stock_attention(own) if way == "vllm" else nullcontext():
                stopwatch.seconds = 0.0
                started = time.perf_counter()
                if way == "tower":
                    TOWERS[name].run(libomma, [(cells, cells)])
                else:
                    project(own, TOWERS[name].run(own, [(cells, cells)]))
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
    print(f"{'':12} {'attention, ms per layer':>30} {'tower, ms: vLLM':>16} {'attention':>18} {'libomma':>18}")
    for name in args.tower or TOWERS:
        with vllm_context(getattr(torch, args.dtype)):
            best = best_times(name, args.layers, args.side, args.repeats)
        before, after = (best[way][0] * 1e3 / args.layers for way in ("vllm", "attention"))
        cells = [f"{before:8.1f} -> {after:8.1f}, {before / after:.2f} x".rjust(30), f"{best['vllm'][1] * 1e3:16.0f}"]
        for way in ("attention", "tower"):
            seconds = best[way][1]
            cells.append(f"{seconds * 1e3:.0f}, {best['vllm'][1] / seconds:.2f} x".rjust(18))
        print(f"{name:12} {' '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
