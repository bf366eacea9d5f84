"""Times one call of vLLM's encoder attention layer on next to no work: what a call costs whatever
it computes.

python bench_calls.py [--segments N]... [--calls N]"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from towers import vllm_context
from vllm.model_executor.layers.attention import MMEncoderAttention

HEADS, HEAD_DIM = 16, 64
BLOCKS = 7


def microseconds(call: Callable[[], object], calls: int) -> float:
    """The median over blocks of a call's mean time."""
    block = max(1, calls // BLOCKS)
    means = []
    for _ in range(BLOCKS):
        started = time.perf_counter()
        for _ in range(block):
            call()
        means.append((time.perf_counter() - started) / block * 1e6)
    return sorted(means)[BLOCKS // 2]


def times(n_segments: int, calls: int) -> tuple[float, float, float]:
    """Microseconds of (vLLM's own layer, the plugin's with the hook's handle, the plugin's without
    it); segments of one token."""
    layer = MMEncoderAttention(HEADS, HEAD_DIM)
    borders = np.arange(n_segments + 1, dtype=np.int32)
    handle = MMEncoderAttention.maybe_compute_seq_lens(layer.attn_backend, borders, torch.device("cpu"))
    cu_seqlens = torch.from_numpy(borders)
    fused = torch.randn(1, n_segments, 3, HEADS, HEAD_DIM).to(torch.bfloat16)
    q, k, v = fused.unbind(dim=2)
    q, k = q.contiguous(), k.contiguous()
    ways: tuple[Callable[[], object], ...] = (
        lambda: MMEncoderAttention.forward_cpu(layer, q, k, v, cu_seqlens, None, None),
        lambda: layer(q, k, v, cu_seqlens, None, handle),
        lambda: layer(q, k, v, cu_seqlens, None, None),
    )
    found = []
    for way in ways:
        microseconds(way, calls // 4)
        found.append(microseconds(way, calls))
    return found[0], found[1], found[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, action="append")
    parser.add_argument("--calls", type=int, default=700)
    args = parser.parse_args()
    print(f"segments of one token, {HEADS} heads of {HEAD_DIM}, bfloat16, {torch.get_num_threads()} threads; us per call")
    print(f"{'segments':>8} {'vLLM':>9} {'plugin':>9} {'without the hook':>17}")
    with vllm_context(torch.bfloat16):
        for n_segments in args.segments or (1, 81):
            own, with_handle, without = times(n_segments, args.calls)
            print(f"{n_segments:8} {own:9.1f} {with_handle:9.1f} {without:17.1f}", flush=True)


if __name__ == "__main__":
    main()
