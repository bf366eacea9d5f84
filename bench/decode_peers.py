#!/usr/bin/env python3
"""omma's language models compared with llama.cpp's on this machine, at the same bits: bf16, int8
and Q8_0, int4 and Q4_0.

    git clone https://github.com/ggml-org/llama.cpp
    bench/make_random_model.py --out build/models qwen3-vl-2b
    bench/decode_peers.py --model build/models/qwen3-vl-2b --llama llama.cpp

Builds llama-bench and llama-quantize from the given source directories (ik_llama.cpp too where --ik
is given), writes the checkpoint's language model as GGUF once, and has llama-quantize make the
other formats. Then measures in turns the prefill of 512 tokens and decoding at a context of 1,024,
prints the figures of each turn, and last the best of each and its ratio to llama.cpp's. The GGUF
file holds the same matrices, without a vocabulary: Qwen3-VL's as architecture qwen3, Qwen3.5's as
qwen35 or qwen35moe. --gguf FILE takes a file in bf16 of any other model instead.

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
# Qwen3.5's, besides these or instead.
HYBRID_LAYER = LAYER | {"post_attention_layernorm": "post_attention_norm", "mlp.gate": "ffn_gate_inp", "mlp.experts.gate_proj": "ffn_gate_exps",
                        "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps",
                        "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
                        "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp"}
DELTA_NET = {"in_proj_qkv": "attn_qkv", "in_proj_z": "attn_gate", "in_proj_a": "ssm_alpha", "in_proj_b": "ssm_beta", "conv1d": "ssm_conv1d",
             "norm": "ssm_norm", "out_proj": "ssm_out", "A_log": "ssm_a", "dt_bias": "ssm_dt"}
ARCHITECTURES = {"qwen3_vl": "qwen3", "qwen3_5": "qwen35", "qwen3_5_moe": "qwen35moe"}
IN_F32 = ("norm", "mlp.gate", "shared_expert_gate", "conv1d", "A_log", "dt_bias")  # ends of names
ENDS = {"embed_tokens": "token_embd", "norm": "output_norm"}


@dataclass
class Engine:
    """What is measured, and the best figures of all rounds by format: tokens a second."""

    name: str
    programs: Path | None = None  # folder of llama-bench; None: omma
    prefill: dict[str, float] = field(default_factory=dict)
    decode: dict[str, float] = field(default_factory=dict)

    def note(self, fmt: str, prefill: float, decode: float) -> None:
        print(f"  {fmt:8}{self.name:14}{prefill:14.1f}{decode:16.2f}", flush=True)
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


def their_name(name: str, hybrid: bool) -> str:
    """GGUF's name of a tensor of the language model."""
    if name == "lm_head.weight":
        return "output.weight"
    rest = name.removesuffix(".weight").rpartition("language_model.")[2]
    if not rest.startswith("layers."):
        return f"{ENDS[rest]}.weight"
    _, index, kind = rest.split(".", 2)
    if kind.startswith("linear_attn."):
        shown = DELTA_NET[kind.removeprefix("linear_attn.")]
        return f"blk.{index}.{shown}" + {"ssm_a": "", "ssm_dt": ".bias"}.get(shown, ".weight")
    layer = HYBRID_LAYER if hybrid else LAYER
    if kind not in layer:
        sys.exit(f"decode_peers.py: tensor {name}: no name in GGUF is known here: give --gguf FILE")
    return f"blk.{index}.{layer[kind]}.weight"


def hybrid_keys(writer: Any, text: dict[str, Any]) -> None:
    """Of Qwen3.5."""
    heads, rope = text["linear_num_value_heads"], text["rope_parameters"]
    writer.add_ssm_conv_kernel(text["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(text["linear_key_head_dim"])
    writer.add_ssm_group_count(text["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_inner_size(text["linear_value_head_dim"] * heads)
    writer.add_full_attention_interval(text.get("full_attention_interval", 4))
    writer.add_rope_dimension_count(int(text["head_dim"] * rope["partial_rotary_factor"]))
    writer.add_rope_dimension_sections([*rope["mrope_section"], 0])
    if "num_experts" in text:
        writer.add_expert_count(text["num_experts"])
        writer.add_expert_used_count(text["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(text["moe_intermediate_size"])
        writer.add_expert_shared_feed_forward_length(text["shared_expert_intermediate_size"])


def hybrid_values(np: Any, name: str, values: Any, text: dict[str, Any]) -> Any:
    """Of Qwen3.5, as llama.cpp has them: norms with 1 added, rates instead of their logarithms, and
    the first value head of every key head before the second ones."""
    if "linear_attn" not in name:
        return values + np.float32(1) if name.endswith("norm.weight") else values
    if name.endswith("norm.weight"):
        return values
    if name.endswith("A_log"):
        values = -np.exp(values.astype(np.float64)).astype(np.float32)
    values = values.reshape(len(values), -1) if "conv1d" in name else values
    n_keys, n_values, axis = text["linear_num_key_heads"], text["linear_num_value_heads"], int("out_proj" in name)
    if n_keys == n_values:
        return values
    fixed = 2 * n_keys * text["linear_key_head_dim"] if "conv1d" in name or "in_proj_qkv" in name else 0
    heads = np.arange(fixed, values.shape[axis]).reshape(n_keys, n_values // n_keys, -1)
    return np.take(values, np.concatenate([np.arange(fixed), heads.swapaxes(0, 1).ravel()]), axis)


def expert_parts(name: str, values: Any) -> list[tuple[str, Any]]:
    """Gates and ups, which the checkpoint has in one tensor, apart."""
    if not name.endswith("gate_up_proj"):
        return [(name, values)]
    half = values.shape[1] // 2
    return [(name.replace("gate_up", part), rows) for part, rows in (("gate", values[:, :half]), ("up", values[:, half:]))]


def write_gguf(model: Path, out: Path) -> None:
    """The language model of a Qwen3-VL or Qwen3.5 checkpoint in bf16."""
    try:
        import gguf
        import numpy as np
    except ModuleNotFoundError as missing:
        sys.exit(f"decode_peers.py: this Python has no {missing.name}: pip install numpy gguf, or give --gguf FILE")
    config = json.loads((model / "config.json").read_text())
    if config["model_type"] not in ARCHITECTURES:
        sys.exit(f"decode_peers.py: {model}: {', '.join(ARCHITECTURES)} are converted here, not {config['model_type']}: give --gguf FILE")
    text, hybrid = config["text_config"], config["model_type"] != "qwen3_vl"
    writer = gguf.GGUFWriter(out, ARCHITECTURES[config["model_type"]])
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(text["vocab_size"])
    writer.add_block_count(text["num_hidden_layers"])
    writer.add_context_length(text["max_position_embeddings"])
    writer.add_embedding_length(text["hidden_size"])
    if "intermediate_size" in text:
        writer.add_feed_forward_length(text["intermediate_size"])
    writer.add_head_count(text["num_attention_heads"])
    writer.add_head_count_kv(text["num_key_value_heads"])
    writer.add_key_length(text["head_dim"])
    writer.add_value_length(text["head_dim"])
    writer.add_layer_norm_rms_eps(text["rms_norm_eps"])
    writer.add_rope_freq_base((text.get("rope_parameters") or text).get("rope_theta", 5e6))
    if hybrid:
        hybrid_keys(writer, text)
    for file in sorted(model.glob("*.safetensors")):
        header, start = read_header(file)
        data = np.memmap(file, np.uint8, "r")
        for name, tensor in header.items():
            if name == "__metadata__" or not ("language_model." in name or name == "lm_head.weight"):
                continue
            if tensor["dtype"] != "BF16":
                sys.exit(f"decode_peers.py: {file}: {name} is {tensor['dtype']}, expected BF16")
            begin, end = (start + offset for offset in tensor["data_offsets"])
            words = np.frombuffer(data[begin:end], np.uint16).reshape(tensor["shape"])
            in_f32 = len(tensor["shape"]) == 1 or name.removesuffix(".weight").endswith(IN_F32)
            values = (words.astype(np.uint32) << 16).view(np.float32) if in_f32 else words
            if hybrid:
                values = hybrid_values(np, name, values, text)
            for part, rows in expert_parts(name, values):
                theirs = their_name(part, hybrid)
                if in_f32:
                    writer.add_tensor(theirs, rows.reshape(-1) if "shared_expert_gate" in part else rows)
                else:
                    shape = (*rows.shape[:-1], 2 * rows.shape[-1])
                    writer.add_tensor(theirs, rows.view(np.uint8), raw_shape=shape, raw_dtype=gguf.GGMLQuantizationType.BF16)
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
