#!/usr/bin/env python3
"""Makes the golden test fixtures from tiny random checkpoints with the official transformers code.

    tools/make_fixtures.py --out tests/golden            write everything anew
    tools/make_fixtures.py --out tests/golden --check    compare the files there with a fresh run
    tools/make_fixtures.py --out tests/golden --only M   write one model anew, of those in fixture_models.py

Needs torch, torchvision, transformers, tokenizers, tiktoken, jinja2, safetensors and Pillow; the
versions used are in every golden.json. The run is deterministic: fixed seeds, one thread, float32,
eager attention.

Output
    images/<image>                     drawn images, shared by all models
    images/preprocessed_<form>.safetensors   what the official image processor makes of them, for each way of cutting
    <model>/                               a loadable checkpoint directory
    <model>/golden.json                    versions and the list of cases: messages, prompt, tokens, tensors
    <model>/<case>.safetensors             the tensors of one case

    kimi_vl_tokenizer/                     Kimi-VL's tokenizer in its converted form, with texts and their ids

tests/golden/README.md describes the tensors.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"

import PIL
import safetensors
import tiktoken
import tokenizers
import torch
import torchvision
import transformers
from PIL import Image
from safetensors.torch import load_file

from fixture_golden import IMAGE_FOLDER, write_golden
from fixture_models import MODELS, ModelSpec, write_checkpoint
from fixture_images import write_images
from fixture_tiktoken import write_converted

CONVERTED_FOLDER = "kimi_vl_tokenizer"
VERSION_KEYS = ("made_with", "transformers_version")
# Sums of another version's matrix products may round in another order.
OTHER_VERSIONS_TOLERANCE = 1e-5


def library_versions() -> dict[str, str]:
    """The libraries whose numbers the fixtures hold."""
    modules = (torch, torchvision, transformers, tokenizers, tiktoken, safetensors, PIL)
    return {module.__name__.lower(): module.__version__ for module in modules}


def owned_folders(out: Path) -> list[Path]:
    """The folders that this script writes, and the only ones that it replaces."""
    return [out / IMAGE_FOLDER, out / CONVERTED_FOLDER, *(out / spec.name for spec in MODELS)]


def owned_files(out: Path) -> list[Path]:
    """Every file in them."""
    return [path for folder in owned_folders(out) for path in sorted(folder.rglob("*")) if path.is_file()]


def make_model(spec: ModelSpec, out: Path) -> None:
    """Writes one model's checkpoint and its golden tensors anew; the images must be there."""
    shutil.rmtree(out / spec.name, ignore_errors=True)
    write_checkpoint(spec, out / spec.name)
    write_golden(spec, out / spec.name, out / IMAGE_FOLDER, library_versions())
    print(f"{spec.name}: done")


def make_all(out: Path, only: str | None = None) -> None:
    """Writes the images and every model anew, or one model."""
    if not only:
        shutil.rmtree(out / IMAGE_FOLDER, ignore_errors=True)
        write_images(out / IMAGE_FOLDER)
        write_converted(out / CONVERTED_FOLDER)
    for spec in MODELS:
        if only in (None, spec.name):
            make_model(spec, out)
    for path in owned_files(out):
        path.chmod(0o644)  # safetensors writes files that only their owner may read


def without_versions(value: Any) -> Any:
    """The JSON value less the keys that only name library versions."""
    if isinstance(value, dict):
        return {key: without_versions(item) for key, item in value.items() if key not in VERSION_KEYS}
    return value


def compare_tensors(committed: Path, fresh: Path, tolerance: float) -> Iterator[str]:
    """Integer tensors must be equal; float ones within tolerance, relative to the tensor's largest
    value above 1."""
    old, new = load_file(committed), load_file(fresh)
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            yield f"{name} is only in the {'fresh' if name in new else 'committed'} file"
        elif (old[name].dtype, old[name].shape) != (new[name].dtype, new[name].shape):
            yield f"{name}: type or shape differs"
        elif old[name].is_floating_point():
            scale = max(1.0, new[name].abs().max().item())
            error = (old[name].double() - new[name].double()).abs().max().item() / scale
            if not error <= tolerance:
                yield f"{name}: differs by {error:.2e}"
        elif not torch.equal(old[name], new[name]):
            yield f"{name}: integers differ"


def compare_files(committed: Path, fresh: Path, tolerance: float) -> Iterator[str]:
    """Differences between one committed file and its fresh counterpart, by kind of file."""
    if committed.suffix == ".safetensors":
        yield from compare_tensors(committed, fresh, tolerance)
    elif committed.suffix == ".json":
        if without_versions(json.loads(committed.read_bytes())) != without_versions(json.loads(fresh.read_bytes())):
            yield "JSON differs"
    elif committed.suffix in (".png", ".jpg"):
        with Image.open(committed) as old, Image.open(fresh) as new:
            if old.size != new.size or old.tobytes() != new.tobytes():
                yield "pixels differ"
    elif committed.read_bytes() != fresh.read_bytes():
        yield "bytes differ"


def other_versions(folder: Path) -> dict[str, str]:
    """The libraries that made the folder's numbers and are of another version here."""
    golden = folder / "golden.json"
    made_with = json.loads(golden.read_bytes())["made_with"] if golden.is_file() else {}
    here = library_versions()
    return {name: version for name, version in made_with.items() if here[name].split("+")[0] != version.split("+")[0]}


def folder_tolerances(committed: Path, tolerance: float) -> dict[str, float]:
    """What float tensors of each folder may differ by; prints where versions differ."""
    tolerances = {}
    for folder in owned_folders(committed):
        others = other_versions(folder)
        tolerances[folder.name] = max(tolerance, OTHER_VERSIONS_TOLERANCE) if others else tolerance
        if others:
            print(f"{folder.name}: made with {others}; tensors may differ by {tolerances[folder.name]:g}")
    return tolerances


def check_all(committed: Path, tolerance: float) -> int:
    """Makes everything again in a temporary folder and prints every difference; returns their
    number."""
    n_differences = 0
    tolerances = folder_tolerances(committed, tolerance)
    with tempfile.TemporaryDirectory() as temporary:
        fresh = Path(temporary)
        make_all(fresh)
        files = {path.relative_to(root) for root in (committed, fresh) for path in owned_files(root)}
        for file in sorted(files):
            old, new = committed / file, fresh / file
            if old.is_file() and new.is_file():
                differences = list(compare_files(old, new, tolerances[file.parts[0]]))
            else:
                differences = ["not made by this script" if old.is_file() else "missing"]
            for difference in differences:
                print(f"{file}: {difference}")
            n_differences += len(differences)
    print(f"{len(files)} files compared, {n_differences} differences")
    return n_differences


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make the golden test fixtures with the official transformers code.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="fixture folder, as a rule tests/golden")
    parser.add_argument("--check", action="store_true", help="compare DIR with a fresh run instead of writing it")
    parser.add_argument("--only", metavar="MODEL", choices=[spec.name for spec in MODELS], help="write this model alone")
    parser.add_argument("--tolerance", type=float, default=1e-6, metavar="T",
                        help="largest difference that --check accepts in float tensors made with these versions of the libraries "
                             f"(default: %(default)s; with others at least {OTHER_VERSIONS_TOLERANCE:g})")
    return parser.parse_args()


def main() -> int:
    arguments = parse_arguments()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if arguments.check:
        return 1 if check_all(arguments.out, arguments.tolerance) else 0
    make_all(arguments.out, arguments.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
