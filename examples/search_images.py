#!/usr/bin/env python3
"""Finds the images in a folder that fit a text best, and shows them side by side.

    python3 examples/search_images.py FOLDER "a red circle" --model demo --output hits.png

Needs the package ommatidia (pip install ./python) and Pillow. The model gives vectors: the demo
model, Qwen3-VL-Embedding, ColQwen2.5 (docs/embeddings.md). With --index the images' vectors are
kept in a file, so that the second search computes the text's alone. An image that cannot be read is
named and left out.

How it goes: `Model.embed` turns every image into a vector, or into one for each of its tokens, and
the text likewise. With one vector each, an image's score is their product, the cosine. With a
vector for each token it is `max_sim`: each token of the text looks for the token of the image that
is most like it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from ommatidia import Model, max_sim
from PIL import Image, ImageDraw, ImageOps

KINDS = {".png", ".jpg", ".jpeg", ".webp", ".bmp"}
TILE, LABEL = 192, 28  # pixels of the contact sheet


def index(model: Model, name: str, paths: list[Path], file: Path | None) -> dict[Path, np.ndarray]:
    """The vectors of each image that can be read: [n, width], one row or one for each token."""
    known: dict[str, Any] = dict(np.load(file)) if file and file.exists() else {}
    keys = {path: f"{name} {path.name} {path.stat().st_mtime_ns}" for path in paths}
    missing = [path for path in paths if keys[path] not in known]
    found = model.embed(missing, use_tqdm=True, return_exceptions=True) if missing else []
    for path, vectors in zip(missing, found, strict=True):
        if isinstance(vectors, Exception):
            print(f"{path}: left out: {vectors}", file=sys.stderr)
        else:
            known[keys[path]] = np.atleast_2d(vectors)
    if file and missing:
        np.savez(file, **known)
    return {path: known[keys[path]] for path in paths if keys[path] in known}


def search(model: Model, text: str, images: dict[Path, np.ndarray], instruction: str | None) -> list[tuple[float, Path]]:
    """Scores and paths of the images, the best first."""
    query = np.atleast_2d(model.embed(text, instruction=instruction))
    scores = [(max_sim(query, vectors), path) for path, vectors in images.items()]
    return sorted(scores, key=lambda entry: (-entry[0], entry[1]))


def contact_sheet(hits: list[tuple[float, Path]], columns: int = 4) -> Image.Image:
    rows = -(-len(hits) // columns)
    sheet = Image.new("RGB", (columns * TILE, rows * (TILE + LABEL)), "white")
    pen = ImageDraw.Draw(sheet)
    for place, (score, path) in enumerate(hits):
        left, top = place % columns * TILE, place // columns * (TILE + LABEL)
        with Image.open(path) as image:
            small = ImageOps.contain(ImageOps.exif_transpose(image).convert("RGB"), (TILE - 8, TILE - 8))
        sheet.paste(small, (left + (TILE - small.width) // 2, top + (TILE - small.height) // 2))
        pen.text((left + 6, top + TILE + 6), f"{place + 1}. {score:.3f}  {path.name[:18]}", fill="black")
    return sheet


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("text")
    parser.add_argument("--model", help="a directory, a GGUF file or a name (default: the demo model)")
    parser.add_argument("--instruction", help="what is searched for, of models that take one")
    parser.add_argument("--top", type=int, default=8, help="hits to show (8)")
    parser.add_argument("--index", type=Path, metavar="FILE.npz", help="keeps the images' vectors")
    parser.add_argument("--output", type=Path, default=Path("hits.png"), help="the contact sheet (hits.png)")
    args = parser.parse_args()
    try:
        paths = sorted(path for path in args.folder.iterdir() if path.suffix.lower() in KINDS)
        with Model(args.model) as model:
            images = index(model, args.model or "demo", paths, args.index)
            hits = search(model, args.text, images, args.instruction)[: args.top]
    except (OSError, ValueError, RuntimeError) as error:
        print(f"search_images: {error}", file=sys.stderr)
        return 1
    if not hits:
        print(f"{args.folder}: no images", file=sys.stderr)
        return 1
    for score, path in hits:
        print(f"{score:.3f}  {path}")
    try:
        contact_sheet(hits).save(args.output)
    except (OSError, ValueError) as error:
        print(f"search_images: {args.output}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
