#!/usr/bin/env python3
"""Writes tests/data/gguf/types.gguf with the official gguf package: keys of every type, and for every quantised type random blocks
(TYPE.blocks) beside what the package makes of them (TYPE.values).

Needs gguf. A second run with the same version of it gives the same bytes.
"""

import argparse
import pathlib

import gguf
import numpy as np

TYPES = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4")
ROWS, BLOCKS = 2, 3


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    default = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "gguf"
    parser.add_argument("--output", type=pathlib.Path, default=default, help="folder to write to (default: %(default)s)")
    writer = gguf.GGUFWriter(parser.parse_args().output / "types.gguf", "test")
    add_keys(writer)
    add_tensors(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
