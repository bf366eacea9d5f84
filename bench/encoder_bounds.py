#!/usr/bin/env python3
"""Shows that a tower's memory is what was estimated, regardless of what waits: a queue of 303,548
patches, and one image of 62,500.

    bench/encoder_bounds.py --omma build/release/omma

Runs `omma bench encoder` on a tower of Kimi-VL's width (1152) with one block and random weights,
made under build/models where --model gives no other: workspaces do not depend on the number of
blocks, which the estimate of the whole tower is asked to confirm. Exit status 1 when a run took
more than 1.02 of its estimate, or the estimate is over the budget. About three minutes on two
cores, 2.5 GB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from omma_program import add_omma_option

PATCH = 14
TOLERANCE = 1.02
# (rows, columns) of patches: a load of document questions, 36 images in one queue.
QUEUE = [(148, 232), *[(74, 112)] * 30, (72, 74), (56, 74), *[(50, 74)] * 3]
QUEUE_PATCHES = 303_548
LARGE = [(250, 250)]
MAX_PIXELS = 250 * 250 * PATCH * PATCH


def sizes(grids: list[tuple[int, int]]) -> list[str]:
    return [f"{columns * PATCH}x{rows * PATCH}" for rows, columns in grids]


def omma(arguments: argparse.Namespace, *words: str) -> dict:
    command = [arguments.omma, *words, "--max-pixels", str(MAX_PIXELS), "--threads", str(arguments.threads), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def random_model(name: str, depth: int | None) -> Path:
    """A tower with random weights; that of the full depth has none: an estimate needs none."""
    here = Path(__file__).parent
    folder = here.parent / "build" / "models"
    made = folder / (f"{name}-tower" + (f"-depth{depth}" if depth else ""))
    if not (made / "model.safetensors").exists():
        words = [name, "--tower-only", "--out", str(folder), *(["--depth", str(depth)] if depth else [])]
        subprocess.run([sys.executable, str(here / "make_random_model.py"), *words], check=True, stdout=subprocess.DEVNULL)
    return made


def check_workspace(arguments: argparse.Namespace, model: Path) -> bool:
    """The whole tower's estimate asks for the same workspace."""
    whole = random_model("kimi-vl-a3b", None)
    found = [omma(arguments, "plan", "--model", str(folder), *sizes(LARGE))["memory"]["vision_workspace_bytes"]
             for folder in (model, whole)]
    print(f"workspace for {LARGE[0][0] * LARGE[0][1]:,} patches: {found[0] / 2**20:,.1f} MiB here, "
          f"{found[1] / 2**20:,.1f} MiB of the whole tower")
    return found[0] == found[1]


def check(arguments: argparse.Namespace, model: Path, name: str, grids: list[tuple[int, int]]) -> bool:
    result = omma(arguments, "bench", "encoder", "--model", str(model), "--image-size", ",".join(sizes(grids)), "--warmup", "0",
                  "--repeat", "1")
    peak, estimated = result["peak_bytes"], result["estimated_bytes"]
    good = 0 <= peak <= TOLERANCE * estimated and estimated <= arguments.budget * 2**30
    good &= result["n_patches"] == sum(rows * columns for rows, columns in grids)
    print(f"{name}: {result['n_images']} images, {result['n_patches']:,} patches, {result['ms_min'] / 1e3:.1f} s, "
          f"{peak / 2**20:,.1f} MiB besides the weights, estimated {estimated / 2**20:,.1f} ({peak / estimated:.3f}), "
          f"budget {arguments.budget * 1024:,.0f}: {'within' if good else 'OVER'}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_omma_option(parser)
    parser.add_argument("--model", type=Path, help="a Kimi-VL checkpoint")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget", type=float, default=2, help="GiB besides the weights")
    arguments = parser.parse_args()
    assert sum(rows * columns for rows, columns in QUEUE) == QUEUE_PATCHES
    model = arguments.model or random_model("kimi-vl-a3b", 1)
    good = arguments.model is not None or check_workspace(arguments, model)
    good &= check(arguments, model, "queue", QUEUE)
    good &= check(arguments, model, "one image", LARGE)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
