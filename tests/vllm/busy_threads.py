"""Prints, as JSON, which threads of this process work in a matrix product of PyTorch and which in
the attention operator."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import ommatidia
import torch

# CPU time of all threads together, so that a busy machine only makes it take longer; and a bound on
# that.
SECONDS = 3.0
WALL_SECONDS = 120.0
# Threads that spent a smaller part have only been woken.
WORKED_PART = 0.03


def spent() -> dict[str, float]:
    """CPU seconds of each thread of this process so far."""
    tick = os.sysconf("SC_CLK_TCK")
    stats = {path.name: (path / "stat").read_text().rpartition(")")[2].split() for path in Path("/proc/self/task").iterdir()}
    return {thread: (int(fields[11]) + int(fields[12])) / tick for thread, fields in stats.items()}


def busy_threads(work: Callable[[], object]) -> list[str]:
    before, end = spent(), time.monotonic() + WALL_SECONDS
    taken: dict[str, float] = {}
    while sum(taken.values()) < SECONDS and time.monotonic() < end:
        work()
        taken = {thread: total - before.get(thread, 0.0) for thread, total in spent().items()}
    return sorted(thread for thread, seconds in taken.items() if seconds > WORKED_PART * sum(taken.values()))


def loaded_runtimes() -> list[str]:
    """The OpenMP runtimes in this process."""
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    names = {Path(path).name for path in paths}
    return sorted(name for name in names if name.startswith(("libgomp", "libiomp5", "libomp.")))


def main() -> None:
    tokens = torch.randn(1, 2048, 8, 64, dtype=torch.bfloat16)
    square = torch.randn(1024, 1024)
    print(json.dumps({
        "n_threads": torch.get_num_threads(),
        "runtimes": loaded_runtimes(),
        "product": busy_threads(lambda: torch.mm(square, square)),
        "attention": busy_threads(lambda: ommatidia.attention(tokens, tokens, tokens, team="openmp")),
    }))


if __name__ == "__main__":
    main()
