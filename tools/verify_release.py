#!/usr/bin/env python3
"""Compares omma with the official code of transformers on a checkpoint, stage by stage: a released
one with its real weights, where you have them.

    python3 -m venv environment
    environment/bin/pip install torch==2.13.0 torchvision transformers==5.23.0 tiktoken Pillow
    make TESTS=ON
    environment/bin/python tools/verify_release.py --model DIR --report report.json

Preprocessing, each block of the tower, merged tokens, prompt ids and positions, each layer of the
language model, the first logits, and greedy tokens. omma runs first and ends before transformers
starts, so memory holds one of them at a time; what it takes is printed before. Exit status 0: all
agree; 1: something differs, and the first stage that does is named; 2: it could not be run.

The limits were tried on small checkpoints with random weights only (docs/verified.md). Those of
bf16 are estimates for deep models and those with experts: a difference there is a reason to look,
not yet an error."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "kimi_vl", "paddleocr_vl", "glm_ocr",
            "lighton_ocr")
# Relative L2 of a stage, and of the worst of its rows: rounding adds up from block to block. No
# deep model has been compared yet, so those of bf16 are estimates.
BOUNDS = {"f32": (1e-3, 1e-2), "bf16": (6e-2, 3e-1)}
PIXEL_BOUND = 1e-5  # of a normalised value; one of 255 steps is 0.02 and more
# Between the two best logits: where they are closer, either may come first.
CLOSE = {"f32": 1e-3, "bf16": 2.5e-1}
ITEM_SIZES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "I8": 1, "U8": 1, "I32": 4, "I64": 8}
SPARE_BYTES = 4 << 30  # activations of one image, PyTorch and this program


class CannotRun(Exception):
    """The text states what is missing."""


@dataclass
class Row:
    """One line of the table: how far a stage is off, and the limit."""

    image: str
    stage: str
    error: float
    worst_row: float | None
    bound: float
    agrees: bool
    note: str = ""


def checkpoint_header(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            yield from json.loads(file.read(size)).items()


def count_parameters(folder: Path) -> int:
    total = 0
    for name, entry in checkpoint_header(folder):
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            total += (end - begin) // ITEM_SIZES.get(entry["dtype"], 2)
    if not total:
        raise CannotRun(f"{folder}: no *.safetensors with tensors")
    return total


def free_bytes() -> int:
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


def check_model(folder: Path) -> str:
    """Its family."""
    try:
        family = str(json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"])
    except (OSError, ValueError, KeyError) as error:
        raise CannotRun(f"{folder}/config.json: {error}") from None
    if family not in FAMILIES:
        raise CannotRun(f"{folder}: model_type {family}, expected one of {', '.join(FAMILIES)}")
    return family


def check_memory(parameters: int, dtype: str, force: bool) -> None:
    need = parameters * {"f32": 4, "bf16": 2}[dtype] * 11 // 10 + SPARE_BYTES
    print(f"{parameters / 1e9:.2f} billion parameters in {dtype}: some {need / 1e9:.1f} GB of memory, first for omma, then for "
          f"transformers; {free_bytes() / 1e9:.1f} GB are free")
    if need > free_bytes() and not force:
        raise CannotRun("not enough memory: close programs, use --dtype bf16, or try all the same with --force")


# omma's side.


def read_stages(data: bytes) -> dict[str, tuple[int, int, bytes]]:
    """Of omma_stages (tests/golden/dump_stages.c): rows in all, width and the stored rows."""
    stages, at = {}, 0
    while at < len(data):
        end = data.index(b"\n", at)
        name, n_rows, width, stored = data[at:end].split()
        size = int(width) * int(stored) * 4
        stages[name.decode()] = int(n_rows), int(width), data[end + 1 : end + 1 + size]
        at = end + 1 + size
    if at != len(data):
        raise CannotRun("omma_stages: its output is truncated")
    return stages


def run(*command: object) -> bytes:
    done = subprocess.run([str(word) for word in command], capture_output=True)
    if done.returncode:
        raise CannotRun(f"{Path(str(command[0])).name}: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return done.stdout


def run_omma(options: argparse.Namespace, image: Path) -> dict[str, Any]:
    print(f"omma: {image.name} ...", flush=True)
    begin = time.monotonic()
    stages = read_stages(run(options.build / "tests" / "omma_stages", options.model, image, options.prompt, options.dtype, options.rows))
    answer = json.loads(run(
        options.build / "omma", "chat", "--model", options.model, "--image", image, "--prompt", options.prompt, "--json", "--no-history",
        "--dtype", options.dtype, "--max-tokens", options.tokens, "--temperature", 0, "--repetition-penalty", 1,
        "--presence-penalty", 0, "--frequency-penalty", 0,
    ).splitlines()[-1])
    return {"stages": stages, "tokens": [int(token) for token in answer["token_ids"]], "text": answer["text"],
            "seconds": time.monotonic() - begin}


# Comparisons.


def compare_stage(image: str, name: str, ours: tuple[int, int, bytes], theirs: Any, dtype: str) -> Row:
    """`theirs`: a tensor [n_rows, width] with all rows, or of any shape with as many values."""
    import torch

    n_rows, width, data = ours
    if theirs is None or theirs.numel() != n_rows * width:
        shape = "missing" if theirs is None else str(list(theirs.shape))
        return Row(image, name, float("inf"), None, 0, False, f"[{n_rows}, {width}], official {shape}")
    got = torch.frombuffer(bytearray(data), dtype=torch.float32).double().reshape(-1, width)
    step = -(-n_rows // len(got))
    expected = theirs.reshape(n_rows, width)[::step].double()
    if name.startswith(("prompt.", "image.grid")):
        n_wrong = int((got != expected).sum())
        return Row(image, name, n_wrong, None, 0, n_wrong == 0, "values that differ" if n_wrong else f"{width} values")
    if name == "image.pixel_values":
        error = float((got - expected).abs().max())
        return Row(image, name, error, None, PIXEL_BOUND, error <= PIXEL_BOUND, "largest difference")
    whole = float((got - expected).norm() / expected.norm().clamp_min(1e-30))
    rows = float(((got - expected).norm(dim=1) / expected.norm(dim=1).clamp_min(1e-30)).max())
    bound, row_bound = BOUNDS[dtype]
    return Row(image, name, whole, rows, bound, whole <= bound and rows <= row_bound)


def compare_tokens(image: str, ours: list[int], theirs: list[int], margins: list[float], dtype: str) -> Row:
    same = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    if same == len(ours) == len(theirs):
        return Row(image, "tokens", 0, None, 0, True, f"{same} of {same} greedy tokens")
    margin = margins[same] if same < len(margins) else float("inf")
    note = f"the first {same} of {len(theirs)} greedy tokens; then a margin of {margin:.2g} between the official two best"
    return Row(image, "tokens", 1 - same / max(len(theirs), 1), None, 0, margin <= CLOSE[dtype], note)


def compare_image(options: argparse.Namespace, official: Any, image: Path, ours: dict[str, Any]) -> Iterator[Row]:
    print(f"transformers: {image.name} ...", flush=True)
    stages, tokens, margins = official.run(image, options.prompt, options.tokens)
    for name, stage in ours["stages"].items():
        yield compare_stage(image.name, name, stage, stages.get(name), options.dtype)
    yield compare_tokens(image.name, ours["tokens"], tokens, margins, options.dtype)


def print_table(rows: list[Row]) -> None:
    width = max(len(row.stage) for row in rows)
    for image in dict.fromkeys(row.image for row in rows):
        print(f"\n{image}\n{'stage':{width}}  {'difference':>10}  {'worst row':>10}  {'limit':>8}")
        for row in (row for row in rows if row.image == image):
            worst = f"{row.worst_row:10.2e}" if row.worst_row is not None else " " * 10
            print(f"{row.stage:{width}}  {row.error:10.2e}  {worst}  {row.bound:8.0e}  {'' if row.agrees else 'DIFFERS  '}{row.note}")


def first_difference(rows: list[Row]) -> str | None:
    return next((f"{row.stage} of {row.image}" for row in rows if not row.agrees), None)


# The report.


def fingerprint(folder: Path) -> str:
    """Of names, types, shapes and places of tensors, and of each file's first and last megabyte."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            digest.update(file.read(1 << 20))
            file.seek(max(0, path.stat().st_size - (1 << 20)))
            digest.update(file.read())
    return digest.hexdigest()


def make_report(options: argparse.Namespace, family: str, rows: list[Row], versions: dict[str, str], answers: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": 1,
        "model": {"name": options.model.resolve().name, "family": family, "sha256_of_samples": fingerprint(options.model)},
        "omma": run(options.build / "omma", "--version").decode().split("\n")[0],
        "cpu_level": json.loads(run(options.build / "omma", "info", "--json")),
        "versions": versions | {"python": platform.python_version()},
        "dtype": options.dtype,
        "prompt": options.prompt,
        "images": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in options.images},
        "answers": {name: answer["text"] for name, answer in answers.items()},
        "agrees": first_difference(rows) is None,
        "first_difference": first_difference(rows),
        "stages": [asdict(row) for row in rows],
    }


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="docs/verified.md lists what was verified, by whom, and what the limits rest on.")
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="the checkpoint: config.json, *.safetensors, tokenizer")
    parser.add_argument("--images", type=Path, nargs="+", metavar="FILE", help="images to ask about (default: three of models/demo/images)")
    parser.add_argument("--prompt", default="Describe this image in detail.", metavar="TEXT", help="the question (default: %(default)s)")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="in which both compute; bf16 takes half the memory; its limits are estimates for deep models (default: f32)")
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="greedy tokens (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=128, metavar="N", help="rows of a stage that are compared at most (default: %(default)s)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write all figures as JSON, to attach to a report")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", metavar="DIR", help="a build with tests (default: build/release)")
    parser.add_argument("--official-model", type=Path, metavar="DIR", help="what transformers reads, if it is not the same: to see a difference found")
    parser.add_argument("--force", action="store_true", help="run also where memory seems too little")
    options = parser.parse_args()
    options.images = options.images or sorted((ROOT / "models" / "demo" / "images").glob("*.png"))[:3]
    if options.tokens < 1 or options.rows < 1:
        parser.error("--tokens and --rows: expected a positive number")
    return options


def check_files(options: argparse.Namespace) -> None:
    for path in (options.build / "omma", options.build / "tests" / "omma_stages"):
        if not shutil.which(path):
            raise CannotRun(f"{path} is missing: make TESTS=ON")
    for path in options.images:
        if not path.is_file():
            raise CannotRun(f"{path}: no such image")


def verify(options: argparse.Namespace) -> bool:
    family = check_model(options.model)
    check_files(options)
    check_memory(count_parameters(options.model), options.dtype, options.force)
    answers = {image.name: run_omma(options, image) for image in options.images}
    try:
        from official_model import load_official, versions
    except ModuleNotFoundError as error:
        raise CannotRun(f"{error.name} is not installed: pip install torch torchvision transformers tiktoken Pillow") from None
    official = load_official(family, options.official_model or options.model, options.dtype)
    rows = [row for image in options.images for row in compare_image(options, official, image, answers[image.name])]
    print_table(rows)
    difference = first_difference(rows)
    print(f"\n{options.model.resolve().name}, {options.dtype}: " + (f"the first difference is at {difference}" if difference else "all stages agree"))
    if options.report:
        options.report.write_text(json.dumps(make_report(options, family, rows, versions(), answers), indent=1) + "\n", encoding="utf-8")
    return difference is None


def main() -> int:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        return 0 if verify(parse_arguments()) else 1
    except CannotRun as error:
        print(f"verify_release: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
