#!/usr/bin/env python3
"""Writes tests/data/gguf/types.gguf with the official gguf package: keys of every type, and for
every quantised type random blocks (TYPE.blocks) compared with what the package makes of them
(TYPE.values); and fuzz/corpus/gguf_model, from the golden checkpoints: models whose tensors are cut
to a few values.

Needs gguf and ml_dtypes. A second run with the same versions gives the same bytes.
"""

import argparse
import pathlib
import struct
import sys
import tempfile

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from gguf_files import convert, copy_keys, finish  # noqa: E402

TYPES = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "Q2_K", "Q3_K")
ROWS, BLOCKS = 2, 3
MODELS = ("qwen3_vl_tied", "qwen2_vl_untied", "qwen2_5_vl_untied", "qwen3_vl_moe", "kimi_vl", "qwen3_5_untied", "glm_ocr", "lighton_ocr", "dots_ocr",
          "paddleocr_vl")
# Tensors that a model's sizes follow from.
SIZE_TENSORS = {"token_embd.weight", "v.position_embd.weight"}
MORE_SIZE_TENSORS = {
    "qwen2_vl_untied": {"v.blk.0.ffn_up.weight"},
    "dots_ocr": {"v.blk.0.attn_out.weight"},
    # whole heads
    "glm_ocr": {f"blk.{layer}.attn_{part}.weight" for layer in range(3) for part in "qk"},
    "lighton_ocr": {f"v.blk.{layer}.attn_{part}.weight" for layer in range(3) for part in "qk"},
}

# Of gated delta nets, whose heads' number and widths are checked.
BY_HEADS = (".ssm_", ".attn_qkv", ".attn_gate")


def add_keys(writer):
    writer.add_uint8("key.u8", 250)
    writer.add_int8("key.i8", -4)
    writer.add_uint16("key.u16", 65000)
    writer.add_int16("key.i16", -300)
    writer.add_uint32("key.u32", 4000000000)
    writer.add_int32("key.i32", -2000000000)
    writer.add_uint64("key.u64", 2**40)
    writer.add_int64("key.i64", -(2**40))
    writer.add_float32("key.f32", 0.25)
    writer.add_float64("key.f64", 0.1)
    writer.add_bool("key.bool", True)
    writer.add_string("key.string", "text \u00e9")
    writer.add_array("key.strings", ["a", "", "long enough"])
    writer.add_array("key.integers", [1, -2, 3])
    writer.add_array("key.numbers", [0.5, 1.5])
    writer.add_array("key.booleans", [True, False])


def add_tensors(writer):
    random = np.random.default_rng(7)
    quarter = (np.arange(6, dtype=np.float32) - 3) / 4
    writer.add_tensor("f32", quarter.reshape(2, 3))
    writer.add_tensor("f16", quarter.astype(np.float16).reshape(1, 3, 2))
    writer.add_tensor("bf16", gguf.quants.quantize(quarter, gguf.GGMLQuantizationType.BF16), raw_dtype=gguf.GGMLQuantizationType.BF16)
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        blocks = random.integers(0, 256, (ROWS, BLOCKS * size), dtype=np.uint8)
        with np.errstate(all="ignore"):
            values = gguf.quants.dequantize(blocks, kind)
        writer.add_tensor(f"{name}.blocks", blocks, raw_dtype=kind)
        writer.add_tensor(f"{name}.values", values)


def write_types(path):
    writer = gguf.GGUFWriter(path, "test")
    add_keys(writer)
    add_tensors(writer)
    finish(writer)


def cut(source, target, whole):
    """The file's keys, and of every tensor the first values of the first rows; those named in
    `whole` keep their rows, gated delta nets their heads."""
    reader = gguf.GGUFReader(source)
    writer = copy_keys(reader, target)
    for tensor in reader.tensors:
        places = [slice(4)] * tensor.data.ndim
        if tensor.name in whole or any(part in tensor.name for part in BY_HEADS):
            places[0] = slice(None)
        if "ssm_out" in tensor.name:
            places[1] = slice(None)
        writer.add_tensor(tensor.name, np.ascontiguousarray(tensor.data[tuple(places)]))
    finish(writer)
    return target.read_bytes()


def write_models(folder):
    """Two files one after the other, after the size of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        with tempfile.TemporaryDirectory() as made:
            made = pathlib.Path(made)
            whole = SIZE_TENSORS | MORE_SIZE_TENSORS.get(name, set())
            files = convert(ROOT / "tests" / "golden" / name, made, "F32")
            model, mmproj = (cut(path, made / f"cut-{path.name}", whole) for path in files)
        (folder / f"{name}.bin").write_bytes(struct.pack("<I", len(model)) + model + mmproj)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT, help="folder to write to (default: %(default)s)")
    output = parser.parse_args().output
    write_types(output / "tests" / "data" / "gguf" / "types.gguf")
    write_models(output / "fuzz" / "corpus" / "gguf_model")


if __name__ == "__main__":
    main()
