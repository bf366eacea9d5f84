#!/usr/bin/env python3
"""Times decoding and preprocessing of JPEG images: Ommatidia compared with the official fast
processor, in turns.

    bench/preprocess_peers.py --omma build/release/omma --model DIR

The peer is transformers' Qwen2VLImageProcessor over torchvision, on an image that torchvision
decoded: resize, normalise, cut into patches. Ours is `omma preprocess`: the same patches in f32.
Both use the same number of threads. Rounds alternate; the best counts, the median is printed next
to it. Exit status 1 when ours is not GOAL times as fast from 2048x2048 on.

    pip install torch torchvision transformers pillow numpy
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("preprocess_peers.py: this Python has no NumPy: pip install numpy")
import torch
import torchvision
from omma_program import add_omma_option
from PIL import Image
from transformers import AutoImageProcessor

GOAL = 3.0
GOAL_FROM = 2048
RUNS_PER_ROUND = 3


def write_image(path: Path, side: int) -> None:
    """Something smooth with some noise, as photographs have it."""
    random = np.random.default_rng(side)
    coarse = random.integers(0, 256, (side // 64, side // 64, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC), dtype=np.int16)
    noisy = smooth + random.integers(-12, 13, smooth.shape, dtype=np.int16)
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)


def official(processor: Any, file: Path) -> tuple[float, float, int]:
    """Milliseconds of decoding and of the rest, and the number of patches."""
    start = time.perf_counter()
    image = torchvision.io.decode_image(torchvision.io.read_file(str(file)))
    decoded = time.perf_counter()
    patches = processor(images=[image], return_tensors="pt")["pixel_values"]
    return (decoded - start) * 1e3, (time.perf_counter() - decoded) * 1e3, patches.shape[0]


def ours(arguments: argparse.Namespace, file: Path) -> list[dict[str, Any]]:
    command = [arguments.omma, "preprocess", *[str(file)] * RUNS_PER_ROUND, "--model", arguments.model, "--threads",
               str(arguments.threads), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["images"]


def compare(arguments: argparse.Namespace, processor: Any, folder: Path, side: int) -> dict[str, Any]:
    file = folder / f"{side}.jpg"
    write_image(file, side)
    times: dict[str, list[tuple[float, float]]] = {"Ommatidia": [], "official": []}
    patches = set()
    for _ in range(arguments.rounds):
        for image in ours(arguments, file):
            times["Ommatidia"].append((image["decode_ms"], image["preprocess_ms"]))
            patches.add(image["n_patches"])
        for _ in range(RUNS_PER_ROUND):
            decode, rest, n_patches = official(processor, file)
            times["official"].append((decode, rest))
            patches.add(n_patches)
    if len(patches) != 1:
        raise SystemExit(f"{side}x{side}: the two cut different numbers of patches: {sorted(patches)}")
    best = {who: tuple(min(column) for column in zip(*pairs)) for who, pairs in times.items()}
    median = {who: tuple(statistics.median(column) for column in zip(*pairs)) for who, pairs in times.items()}
    gain = best["official"][1] / best["Ommatidia"][1]
    for who in times:
        print(f"  {side:5} {who:12}{best[who][0]:10.1f}{median[who][0]:10.1f}{best[who][1]:12.1f}{median[who][1]:10.1f}"
              + (f"{gain:9.2f}x" if who == "official" else ""), flush=True)
    return {"side": side, "n_patches": patches.pop(), "best_ms": best, "median_ms": median, "preprocess_gain": gain}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_omma_option(parser)
    parser.add_argument("--model", required=True, help="a Qwen checkpoint; its weights are not read")
    parser.add_argument("--side", type=int, action="append", help="also several times (default: 1024, 2048, 4096)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    processor = AutoImageProcessor.from_pretrained(arguments.model, backend="torchvision")
    print(f"{type(processor).__name__}, {arguments.threads} threads, milliseconds\n"
          f"  {'side':>5} {'':12}{'decode':>10}{'median':>10}{'preprocess':>12}{'median':>10}{'ours is':>10}")
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(arguments, processor, Path(folder), side) for side in arguments.side or [1024, 2048, 4096]]
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0 if all(result["preprocess_gain"] >= GOAL for result in results if result["side"] >= GOAL_FROM) else 1


if __name__ == "__main__":
    sys.exit(main())
