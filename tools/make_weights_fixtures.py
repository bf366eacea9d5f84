#!/usr/bin/env python3
"""Writes the small weight files under tests/data/weights/ with the official safetensors package.

Needs torch and safetensors. Values follow simple rules that tests/unit/test_safetensors.c and
test_checkpoint.c repeat. A second run gives the same bytes.
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file


def types_tensors():
    """One tensor of each common type; element i of the float tensors is (i - 3) / 4."""
    quarter = (torch.arange(6, dtype=torch.float32) - 3) / 4
    return {
        "f64": quarter.double().reshape(2, 3),
        "f32": quarter.reshape(2, 3),
        "f16": quarter.half().reshape(3, 2),
        "bf16": quarter.bfloat16().reshape(1, 6),
        "i64": torch.tensor([-1, 2**40]),
        "i32": torch.tensor([-2, 7], dtype=torch.int32),
        "i16": torch.tensor([-3, 300], dtype=torch.int16),
        "i8": torch.tensor([-4, 5], dtype=torch.int8),
        "u8": torch.tensor([250, 6], dtype=torch.uint8),
        "bool": torch.tensor([True, False, True]),
        "f8": quarter.to(torch.float8_e4m3fn),
        "complex": torch.tensor([1 + 2j], dtype=torch.complex64),
        "scalar": torch.tensor(0.5),
        "empty": torch.zeros(0, 4),
        "name with \"quotes\" \u00e9": torch.tensor([1.0]),
    }


def nonfinite_tensors():
    """Two elements that are not finite among five, in each float type."""
    values = torch.tensor([1.0, float("nan"), -2.0, float("-inf"), 3.0])
    return {"f64": values.double(), "f32": values, "f16": values.half(), "bf16": values.bfloat16()}


def sharded_tensors():
    """Two shards; element i of tensor number t is t + i."""
    names = ["embed.weight", "layers.0.weight", "layers.1.weight", "norm.weight"]
    shapes = [(4, 2), (2, 2), (2, 2), (2,)]
    tensors = []
    for number, (name, shape) in enumerate(zip(names, shapes)):
        count = torch.Size(shape).numel()
        tensors.append((name, (torch.arange(count) + number).bfloat16().reshape(shape)))
    return dict(tensors[:2]), dict(tensors[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    default = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "weights"
    parser.add_argument("--output", type=pathlib.Path, default=default, help="folder to write to (default: %(default)s)")
    output = parser.parse_args().output
    shards = output / "sharded"
    shards.mkdir(parents=True, exist_ok=True)
    save_file(types_tensors(), output / "types.safetensors", metadata={"note": "made by the official package"})
    save_file(nonfinite_tensors(), output / "nonfinite.safetensors")
    weight_map = {}
    total = 0
    for number, tensors in enumerate(sharded_tensors(), start=1):
        name = f"model-{number:05d}-of-00002.safetensors"
        save_file(tensors, shards / name, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(tensors, name))
        total += sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    for path in output.rglob("*.safetensors"):
        path.chmod(0o644)
    (shards / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


if __name__ == "__main__":
    main()
