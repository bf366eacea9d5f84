#!/usr/bin/env python3
"""How near the vision tower's tokens in bf16 and int8 are to those in f32.

    bench/make_random_model.py qwen3-vl-8b --tower-only
    bench/encoder_accuracy.py --model build/models/qwen3-vl-8b-tower --image-size 512x512
    bench/encoder_accuracy.py --model models/demo --image models/demo/images/*.png

Runs `omma encode` once for each type of weights on the same images, noise if no files are given,
and prints the cosine between a token and the one in f32, in the mean and for the worst token of all
images: of the embeddings, and of every vector of deepstack.

Needs NumPy.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from omma_program import add_omma_option
from same_image import names_of, positive, size_of
from tower_peers import existing, write_noise_png

try:
    import numpy as np
except ModuleNotFoundError:
    np = None  # --help needs none

DTYPES = ("bf16", "int8")


def encode(arguments: argparse.Namespace, images: list[str], dtype: str, output: Path) -> dict[str, Any]:
    """The tokens of all images, [n_tokens, width] in double precision, by the name of the tower's
    output."""
    command = [arguments.omma, "encode", *images, "--model", arguments.model, "--vision-dtype", dtype, "--threads",
               str(arguments.threads), "--pack", "separate", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"encoder_accuracy.py: {dtype}: {done.stderr.strip()}")
    return read_tokens(output)


def read_tokens(file: Path) -> dict[str, Any]:
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    parts: dict[str, list[Any]] = {}
    for name in sorted(header):
        if found := re.fullmatch(r"image\.\d+\.(embeddings|deepstack\.\d+)", name):
            begin, end = (8 + size + offset for offset in header[name]["data_offsets"])
            values = np.frombuffer(data[begin:end], dtype="<f4").reshape(header[name]["shape"])
            parts.setdefault(found[1], []).append(values.astype(np.float64))
    return {output: np.concatenate(images) for output, images in parts.items()}


def nearness(tokens: Any, exact: Any) -> dict[str, float]:
    cosines = (tokens * exact).sum(-1) / np.sqrt((tokens**2).sum(-1) * (exact**2).sum(-1))
    return {"mean": float(cosines.mean()), "worst": float(cosines.min())}


def output_place(name: str) -> int:
    """The embeddings first, then deepstack by its number."""
    return -1 if name == "embeddings" else int(name.removeprefix("deepstack."))


def compare(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    images = arguments.image
    if not images:
        images = [str(folder / "noise.png")]
        write_noise_png(Path(images[0]), *arguments.image_size)
    output = folder / "tokens.safetensors"
    exact = encode(arguments, images, "f32", output)
    cosines = {}
    for dtype in arguments.dtypes:
        tokens = encode(arguments, images, dtype, output)
        cosines[dtype] = {name: nearness(tokens[name], exact[name]) for name in sorted(exact, key=output_place)}
    return {"n_images": len(images), "n_tokens": len(exact["embeddings"]), "cosines": cosines}


def report(result: dict[str, Any]) -> None:
    print(f"images: {result['n_images']}, tokens: {result['n_tokens']}, cosine to those in f32\n"
          f"  {'':6}{'':14}{'mean':>10}{'worst':>10}")
    for dtype, outputs in result["cosines"].items():
        for name, cosine in outputs.items():
            print(f"  {dtype:6}{name:14}{cosine['mean']:10.5f}{cosine['worst']:10.5f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=existing, required=True, help="a checkpoint's directory")
    add_omma_option(parser)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--image-size", type=size_of, default="512x512", metavar="WxH", help="of the noise (default: %(default)s)")
    source.add_argument("--image", type=existing, nargs="+", metavar="FILE", help="images in place of noise")
    parser.add_argument("--dtypes", type=names_of(DTYPES), default=",".join(DTYPES), help="with commas between them (default: %(default)s)")
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    if np is None:
        sys.exit("encoder_accuracy.py: this Python has no NumPy: pip install numpy")
    with tempfile.TemporaryDirectory() as folder:
        result = compare(arguments, Path(folder))
    report(result)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
