#!/usr/bin/env python3
"""Writes tests/data/quantized: layers as quantising tools store them, and the values that the
tools' own code reads from them, in f32.

Needs torch, transformers, safetensors, compressed-tensors, ml_dtypes, and for GPTQ the package
auto-gptq. The layers are packed by tests/cli/quantize_checkpoint.py and unpacked by
compressed-tensors' decompressors (its AutoAWQ converter for AWQ), transformers' FP8 dequantiser and
AutoGPTQ's linear layer; both must give the same bits. A second run gives the same bytes.
"""

import argparse
import functools
import importlib.util
import json
import pathlib
import sys
import types

import ml_dtypes
import numpy as np
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.entrypoints.convert.converters.autoawq import AutoAWQConverter
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "cli"))

import quantize_checkpoint as q  # noqa: E402


def to_torch(array):
    if array.dtype == q.BF16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    if array.dtype == q.F8:
        return torch.from_numpy(array.view(np.int8).copy()).view(torch.float8_e4m3fn)
    return torch.from_numpy(array.copy())


def by_compressed_tensors(form, parts, **weights):
    """The official decompressor in f32; and, in the scales' own type, that the product is the same
    rounded once."""
    state = {name[1:]: to_torch(array) for name, array in parts.items()}
    config = q.tensors_config(form, **weights)["weights"]
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**config))
    compressor = BaseCompressor.get_value_from_registry(form)
    rounded = compressor.decompress(state, scheme)["weight"]
    wide = compressor.decompress({**state, "weight_scale": state["weight_scale"].float()}, scheme)["weight"]
    assert wide.dtype == torch.float32 and torch.equal(wide.to(rounded.dtype), rounded)
    return wide.numpy()


def by_autoawq_converter(parts, group):
    converter = AutoAWQConverter(group_size=group, zero_point=".qzeros" in parts)
    tensors = converter.process({"layer" + name: to_torch(array) for name, array in parts.items()})
    stored = {name.removeprefix("layer"): tensor.numpy() for name, tensor in tensors.items()}
    return by_compressed_tensors("pack-quantized", stored, num_bits=4, strategy="group", group_size=group, symmetric=".qzeros" not in parts)


def by_transformers(codes, scales):
    return Fp8Dequantize(None)._dequantize_one(to_torch(codes), to_torch(scales), output_dtype=torch.float32).numpy()


@functools.cache
def autogptq_layer():
    """AutoGPTQ's linear layer by itself: the package's own imports want a GPU's compiler."""
    place = pathlib.Path(importlib.util.find_spec("auto_gptq").submodule_search_locations[0]) / "nn_modules" / "qlinear"
    for name in ("auto_gptq", "auto_gptq.nn_modules", "auto_gptq.nn_modules.qlinear"):
        sys.modules[name] = types.ModuleType(name)
    spec = importlib.util.spec_from_file_location("auto_gptq.nn_modules.qlinear.qlinear_cuda", place / "qlinear_cuda.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.QuantLinear


def by_autogptq(parts, bits, group):
    """W^T is what a layer makes of the identity; in f32, as scales are taken to it first."""
    n_in, n_out = len(parts[".g_idx"]), parts[".scales"].shape[1]
    layer = autogptq_layer()(bits, group or n_in, n_in, n_out, bias=False)
    layer.qweight, layer.qzeros = to_torch(parts[".qweight"]), to_torch(parts[".qzeros"])
    layer.scales, layer.g_idx = to_torch(parts[".scales"]).float(), to_torch(parts[".g_idx"])
    return layer(torch.eye(n_in)).T.numpy()


class Writer:
    def __init__(self, output):
        self.output, self.random = output, np.random.default_rng(7)

    def weight(self, *shape):
        return (self.random.standard_normal(shape) * 0.1).astype(np.float32)

    def write(self, name, config, layers):
        """layers: name -> (parts, values of the helper, values of the official code)."""
        folder = self.output / name
        folder.mkdir(parents=True, exist_ok=True)
        stored, expected = {}, {}
        for layer, (parts, values, official) in layers.items():
            assert np.array_equal(values.view(np.int32), np.ascontiguousarray(official).view(np.int32)), (name, layer)
            stored.update({layer + suffix: array for suffix, array in parts.items()})
            expected[layer + ("" if "" in parts else ".weight")] = values
        stored["plain.weight"] = self.weight(2, 4).astype(ml_dtypes.bfloat16)
        expected["plain.weight"] = stored["plain.weight"].astype(np.float32)
        q.write_safetensors(folder / "model.safetensors", stored)
        q.write_safetensors(folder / "expected.safetensors", expected)
        (folder / "config.json").write_text(json.dumps({"quantization_config": config}, indent=1) + "\n")

    def packed(self, name, shape=(24, 96), group=32, **options):
        parts, values = q.pack_quantized(self.weight(*shape), group=group, **options)
        weights = {"num_bits": options.get("bits", 4), "strategy": "group" if group else "channel", "group_size": group or None,
                   "symmetric": options.get("symmetric", True)}
        official = by_compressed_tensors("pack-quantized", parts, **weights)
        self.write(name, q.tensors_configs(q.tensors_config("pack-quantized", **weights)), {"layer": (parts, values, official)})

    def bytes(self, name, **options):
        parts, values = q.int_quantized(self.weight(9, 40), **options)
        weights = {"symmetric": options.get("symmetric", True)}
        official = by_compressed_tensors("int-quantized", parts, **weights)
        self.write(name, q.tensors_configs(q.tensors_config("int-quantized", **weights)), {"layer": (parts, values, official)})

    def floats(self, name, strategy, block, **options):
        parts, values = q.fp8(self.weight(9, 40), block, ".weight_scale", **options)
        weights = {"type": "float", "strategy": strategy, "block_structure": list(block) if strategy == "block" else None}
        official = by_compressed_tensors("float-quantized", parts, **weights)
        self.write(name, q.tensors_configs(q.tensors_config("float-quantized", **weights)), {"layer": (parts, values, official)})

    def fp8_blocks(self, name):
        """transformers wants whole blocks; ragged ones are those of compressed-tensors."""
        parts, values = q.fp8(self.weight(32, 48), (16, 16))
        experts, expert_values = q.fp8_experts(self.weight(3, 32, 16), (16, 16))
        self.write(name, q.fp8_config((16, 16)), {
            "layer": (parts, values, by_transformers(*parts.values())),
            "mlp.experts.gate_up_proj": (experts, expert_values, by_transformers(*experts.values()))})

    def awq(self, name, symmetric):
        parts, values = q.awq(self.weight(24, 96), 32, symmetric)
        self.write(name, q.awq_config(zero_point=not symmetric), {"layer": (parts, values, by_autoawq_converter(parts, 32))})

    def gptq(self, name, bits, group, symmetric, version, ordered):
        """AutoGPTQ reads the first version; in the second the zeros are one more, and all else is
        the same."""
        weight = self.weight(32, 96)
        ids = self.random.permutation(np.arange(96) // (group or 96)) if ordered else None
        parts, values = q.gptq(weight, bits, group, symmetric, version, ids)
        official = by_autogptq(q.gptq(weight, bits, group, symmetric, 1, ids)[0], bits, group)
        self.write(name, q.gptq_config(bits, group, version, sym=symmetric, desc_act=ordered), {"layer": (parts, values, official)})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "tests" / "data" / "quantized", help="folder to write to (default: %(default)s)")
    writer = Writer(parser.parse_args().output)
    writer.packed("packed_int4")
    writer.packed("packed_int4_zeros", symmetric=False, scale_type=np.float16)
    writer.packed("packed_int4_channel", shape=(7, 44), group=0, scale_type=np.float32)
    writer.packed("packed_int8", bits=8)
    writer.packed("packed_int8_zeros", shape=(10, 44), bits=8, group=0, symmetric=False)
    writer.bytes("int8")
    writer.bytes("int8_zeros", symmetric=False, scale_type=np.float32)
    writer.floats("float8_channel", "channel", (1, 0), scale_type=q.BF16)
    writer.floats("float8_tensor", "tensor", (0, 0))
    writer.floats("float8_block", "block", (4, 16))
    writer.fp8_blocks("fp8")
    writer.awq("awq", False)
    writer.awq("awq_symmetric", True)
    writer.gptq("gptq", 4, 32, False, 1, False)
    writer.gptq("gptq_int8", 8, 32, False, 1, False)
    writer.gptq("gptq_v2", 4, 0, True, 2, False)
    writer.gptq("gptq_ordered", 4, 32, False, 1, True)


if __name__ == "__main__":
    main()
