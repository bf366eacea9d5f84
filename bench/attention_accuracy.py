#!/usr/bin/env python3
"""How far rows of the operator, and of PyTorch on the same inputs, are from double precision.

Normal random inputs, segments of 2 to 2,046 keys, head dimensions of the vision towers. Prints for
each case the worst row (relative L2) of both, and in the end the worst of all and how many rows
were looked at.

    make python && PYTHONPATH=build/python bench/attention_accuracy.py --seeds 5

Needs NumPy and PyTorch.
"""

import argparse
import itertools
import sys

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("attention_accuracy.py: this Python has no NumPy: pip install numpy")
import ommatidia
import torch
from torch.nn.functional import scaled_dot_product_attention

HEADS = 8
LENGTHS = {
    torch.float32: ([2] * 400, [3] * 300, [5] * 200, [8] * 128, [16] * 64, [64] * 32, [300] * 6, [1024] * 2),
    torch.bfloat16: ([16] * 128, [64] * 64, [256] * 11, [1024] * 3, [100, 333, 7, 2046, 50, 2]),
}


def per_segment(q, k, v, borders, dtype):
    """PyTorch, one call for each segment, computing in dtype."""
    out = torch.empty(q.shape, dtype=dtype)
    for first, last in itertools.pairwise(borders):
        rows = [x[first:last].transpose(0, 1)[None].to(dtype) for x in (q, k, v)]
        out[first:last] = scaled_dot_product_attention(*rows)[0].transpose(0, 1)
    return out


def worst_row(out, exact) -> float:
    return ((out.double() - exact).norm(dim=-1) / exact.norm(dim=-1)).max().item()


def run_case(head_dim: int, lengths: list[int], dtype, generator) -> tuple[float, float, int]:
    borders = np.cumsum([0, *lengths]).astype(np.int32)
    q, k, v = (torch.randn(sum(lengths), HEADS, head_dim, generator=generator).to(dtype) for _ in range(3))
    exact = per_segment(q, k, v, borders, torch.float64)
    ours = worst_row(ommatidia.attention(q, k, v, cu_seqlens=borders), exact)
    return ours, worst_row(per_segment(q, k, v, borders, dtype), exact), sum(lengths) * HEADS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, help="runs of all cases, each with its own inputs (default: 1)")
    arguments = parser.parse_args()
    for dtype, cases in LENGTHS.items():
        worst, worst_ratio, n_rows = 0.0, 0.0, 0
        for seed, head_dim, lengths in itertools.product(range(arguments.seeds), (64, 72, 80, 128), cases):
            generator = torch.Generator().manual_seed(seed)
            ours, theirs, rows = run_case(head_dim, lengths, dtype, generator)
            print(f"{dtype} D {head_dim:3} {len(lengths):3} segments from {lengths[0]:4} keys: "
                  f"ours {ours:.2e}, PyTorch {theirs:.2e}, {ours / theirs:.2f}")
            worst, worst_ratio, n_rows = max(worst, ours), max(worst_ratio, ours / theirs), n_rows + rows
        print(f"{dtype}: worst of {n_rows} rows {worst:.2e}, over PyTorch's in the same case at most {worst_ratio:.2f}")


if __name__ == "__main__":
    main()
