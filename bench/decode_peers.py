#!/usr/bin/env python3
"""omma's language models compared with llama.cpp's on this machine, at the same bits: bf16, int8
and Q8_0, int4 and Q4_0.

    git clone https://github.com/ggml-org/llama.cpp
    bench/make_random_model.py --out build/models qwen3-vl-2b
    bench/decode_peers.py --model build/models/qwen3-vl-2b --llama llama.cpp

Builds llama-bench and llama-quantize from the given source directories (ik_llama.cpp too where --ik
is given), writes the checkpoint's language model as GGUF once, and has llama-quantize make the
other formats. Then measures in turns the prefill of 512 tokens and decoding at a context of 1,024,
and prints the best of each and its ratio to llama.cpp's. The GGUF file holds the same matrices as
architecture qwen3, without a vocabulary; --gguf FILE takes a file in bf16 of any other model
instead.

Needs cmake, ninja and a C++ compiler, and NumPy and gguf (pip install numpy gguf) where a file is
to be written.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omma_program import add_omma_option
from same_image import positive
from tower_peers import existing

PREFILL, CONTEXT = 512, 1024
# ours, and llama-quantize's name of theirs
FORMATS = {"bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
TARGETS = ("llama-bench", "llama-quantize")
LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
ENDS = {"embed_tokens": "token_embd", "norm": "output_norm"}


@dataclass
class Engine:
    """What is measured, and the best figures of all rounds by format: tokens a second."""

    name: str
    programs: Path | None = None  # folder of llama-bench; None: omma
    prefill: dict[str, float] = field(default_factory=dict)
    decode: dict[str, float] = field(default_factory=dict)

    def note(self, fmt: str, prefill: float, decode: float) -> None:
        self.prefill[fmt] = max(prefill, self.prefill.get(fmt, 0))
        self.decode[fmt] = max(decode, self.decode.get(fmt, 0))


def run(command: list[str], what: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"decode_peers.py: {what}: {' '.join(command)}\n{(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


# ---- their programs and files ----


def build(source: Path, folder: Path, jobs: int) -> Path:
    """Builds the two programs for this machine's CPU; does nothing where they are. Returns their
    folder."""
    programs = folder / "bin"
    if not all((programs / name).exists() for name in TARGETS):
        print(f"building {', '.join(TARGETS)} from {source}", flush=True)
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF"]
        run(["cmake", "-S", str(source), "-B", str(folder), "-G", "Ninja", *options], "cmake")
        run(["nice", "ninja", "-C", str(folder), "-j", str(jobs), *TARGETS], "ninja")
    return programs


def read_header(file: Path) -> tuple[dict[str, Any], int]:
    with file.open("rb") as stream:
        (size,) = struct.unpack("<Q", stream.read(8))
        return json.loads(stream.read(size)), 8 + size


def their_name(name: str) -> str | None:
    """GGUF's name of a tensor of the language model; None: of another part."""
    prefix, _, rest = name.rpartition("language_model.")
    if name == "lm_head.weight":
        return "output.weight"
    if not prefix:
        return None
    if rest.startswith("layers."):
        _, index, kind = rest.removesuffix(".weight").split(".", 2)
        return f"blk.{index}.{LAYER[kind]}.weight"
    return f"{ENDS[rest.removesuffix('.weight')]}.weight"


def write_gguf(model: Path, out: Path) -> None:
    """The language model of a Qwen3-VL checkpoint in bf16, as architecture qwen3."""
    try:
        import gguf
        import numpy as np
    except ModuleNotFoundError as missing:
        sys.exit(f"decode_peers.py: this Python has no {missing.name}: pip install numpy gguf, or give --gguf FILE")
    config = json.loads((model / "config.json").read_text())
    if config["model_type"] != "qwen3_vl":
        sys.exit(f"decode_peers.py: {model}: only qwen3_vl is converted here, not {config['model_type']}: give --gguf FILE")
    text = config["text_config"]
    writer = gguf.GGUFWriter(out, "qwen3")
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(text["vocab_size"])
    writer.add_block_count(text["num_hidden_layers"])
    writer.add_context_length(text["max_position_embeddings"])
    writer.add_embedding_length(text["hidden_size"])
    writer.add_feed_forward_length(text["intermediate_size"])
    writer.add_head_count(text["num_attention_heads"])
    writer.add_head_count_kv(text["num_key_value_heads"])
    writer.add_key_length(text["head_dim"])
    writer.add_value_length(text["head_dim"])
    writer.add_layer_norm_rms_eps(text["rms_norm_eps"])
    writer.add_rope_freq_base(text.get("rope_theta", 5e6))
    for file in sorted(model.glob("*.safetensors")):
        header, start = read_header(file)
        data = np.memmap(file, np.uint8, "r")
        for name, tensor in header.items():
            theirs = their_name(name)
            if name == "__metadata__" or not theirs:
                continue
            if tensor["dtype"] != "BF16":
                sys.exit(f"decode_peers.py: {file}: {name} is {tensor['dtype']}, expected BF16")
            begin, end = (start + offset for offset in tensor["data_offsets"])
            values = data[begin:end]
            if len(tensor["shape"]) == 1:  # norms are f32 there
                words = values.view(np.uint16) if begin % 2 == 0 else np.frombuffer(values.tobytes(), np.uint16)
                writer.add_tensor(theirs, (words.astype(np.uint32) << 16).view(np.float32))
            else:
                rows, columns = tensor["shape"]
                writer.add_tensor(theirs, values.reshape(rows, 2 * columns), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_files(arguments: argparse.Namespace, programs: Path) -> dict[str, Path]:
    """The GGUF file of each format."""
    work = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    exact = arguments.gguf or work / f"{arguments.model.name}-BF16.gguf"
    if not exact.exists():
        print(f"writing {exact}", flush=True)
        unfinished = exact.with_suffix(".part")
        write_gguf(arguments.model, unfinished)
        unfinished.replace(exact)
    files = {}
    for fmt in arguments.formats:
        files[fmt] = exact
        if fmt == "bf16":
            continue
        files[fmt] = work / f"{exact.stem.removesuffix('-BF16')}-{FORMATS[fmt]}.gguf"
        if not files[fmt].exists():
            print(f"writing {files[fmt]}", flush=True)
            run([str(programs / "llama-quantize"), str(exact), str(files[fmt]), FORMATS[fmt], str(arguments.threads)], "quantize")
    return files


# ---- measuring ----


def measure_omma(arguments: argparse.Namespace, fmt: str, engine: Engine) -> None:
    command = [arguments.omma, "bench", "decode", "--json", "--model", str(arguments.model), "--context", f"{PREFILL},{CONTEXT}",
               "--tokens", str(arguments.tokens), "--repeat", "1", "--warmup", "1", "--threads", str(arguments.threads)]
    if fmt != "bf16":
        command += ["--quantization", fmt]
    short, long = json.loads(run(command, "omma"))["contexts"]
    engine.note(fmt, short["prefill_tokens_per_s"], long["decode_tokens_per_s"])


def measure_theirs(arguments: argparse.Namespace, fmt: str, engine: Engine, file: Path) -> None:
    best = []
    for work in (["-p", str(PREFILL), "-n", "0"], ["-p", "0", "-n", str(arguments.tokens), "-d", str(CONTEXT)]):
        # has no depth: the prompt counts as one piece with the tokens after it
        if engine.name != "llama.cpp" and "-d" in work:
            work = ["-p", "0", "-n", "0", "-gp", f"{CONTEXT},{arguments.tokens}"]
        command = [str(engine.programs / "llama-bench"), "-m", str(file), "-t", str(arguments.threads), "-r", "1", "-o", "json", *work]
        best.append(max(result["avg_ts"] for result in json.loads(run(command, engine.name))))
    engine.note(fmt, *best)


def ratio(ours: float, theirs: float) -> str:
    return f"{ours / theirs:6.2f}" if theirs else "     -"


def report(engines: list[Engine], formats: list[str]) -> None:
    ours, first = engines[0], engines[1]
    print(f"tokens a second, the best of all rounds; ratios are of omma to {first.name}\n"
          f"  {'':8}{'':14}{f'prefill {PREFILL}':>14}{f'decode at {CONTEXT}':>16}")
    for fmt in formats:
        for engine in engines:
            name = fmt if engine.programs is None else FORMATS[fmt]
            print(f"  {name:8}{engine.name:14}{engine.prefill[fmt]:14.1f}{engine.decode[fmt]:16.2f}")
        print(f"  {'':8}{'ratio':14}{ratio(ours.prefill[fmt], first.prefill[fmt]):>14}{ratio(ours.decode[fmt], first.decode[fmt]):>16}")


def format_list(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in FORMATS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r}: expected some of {','.join(FORMATS)}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=lambda path: Path(existing(path)), required=True, help="a checkpoint's directory, in bf16")
    parser.add_argument("--llama", type=lambda path: Path(existing(path)), required=True, metavar="DIR", help="llama.cpp's source")
    parser.add_argument("--ik", type=lambda path: Path(existing(path)), metavar="DIR", help="ik_llama.cpp's source")
    add_omma_option(parser)
    parser.add_argument("--gguf", type=lambda path: Path(existing(path)), metavar="FILE", help="the model in bf16 as GGUF")
    parser.add_argument("--work", type=Path, default=Path("build/peers"), metavar="DIR",
                        help="where programs and files are made and kept (default: %(default)s)")
    parser.add_argument("--formats", type=format_list, default=",".join(FORMATS), help="with commas between them (default: %(default)s)")
    parser.add_argument("--rounds", type=positive, default=3, help="turns of all (default: %(default)s)")
    parser.add_argument("--tokens", type=positive, default=16, help="that are decoded (default: %(default)s)")
    parser.add_argument("--threads", type=positive, default=len(os.sched_getaffinity(0)), help="of all (default: %(default)s)")
    parser.add_argument("--jobs", type=positive, default=2, help="of the builds (default: %(default)s)")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    engines = [Engine("omma"), Engine("llama.cpp", build(arguments.llama, arguments.work / "llama.cpp", arguments.jobs))]
    if arguments.ik:
        engines.append(Engine("ik_llama.cpp", build(arguments.ik, arguments.work / "ik_llama.cpp", arguments.jobs)))
    files = make_files(arguments, engines[1].programs)
    for _ in range(arguments.rounds):
        for fmt in arguments.formats:
            measure_omma(arguments, fmt, engines[0])
            for engine in engines[1:]:
                measure_theirs(arguments, fmt, engine, files[fmt])
    report(engines, arguments.formats)
    if arguments.json:
        figures = [{"name": e.name, "prefill": e.prefill, "decode": e.decode} for e in engines]
        Path(arguments.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
