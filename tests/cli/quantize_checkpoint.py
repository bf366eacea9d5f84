"""Weights packed as the known tools pack them, and what they stand for in f32. The tests quantise
tiny checkpoints with it; tools/make_quantized_fixtures.py checks it against the tools' own code."""

import json
import struct

import ml_dtypes
import numpy as np

BF16, F8 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)
TYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": BF16, "F8_E4M3": F8, "I64": np.dtype("<i8"), "I32": np.dtype("<i4"),
         "I8": np.dtype("i1"), "U8": np.dtype("u1")}
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


# ---- files ----


def read_safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    header, pieces, offset = {}, [], 0
    for name, array in sorted(tensors.items()):
        kind = next(key for key, value in TYPES.items() if value == array.dtype)
        piece = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + len(piece)]}
        pieces.append(piece)
        offset += len(piece)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(pieces))


# ---- integers ----


def pack_rows(values, bits):
    """Fields of each row, lowest bits first, in words of 32."""
    per_word = 32 // bits
    rows, columns = values.shape
    padded = np.zeros((rows, -(-columns // per_word) * per_word), np.uint32)
    padded[:, :columns] = values
    shifts = np.arange(per_word, dtype=np.uint32) * bits
    return np.bitwise_or.reduce(padded.reshape(rows, -1, per_word) << shifts, axis=2).view(np.int32)


def to_integers(weight, bits, group, symmetric, scale_type):
    """Codes from 0 up, zeros [outputs, groups], scales of that type, and codes' values in f32.
    Every other group's range is shifted, so that zeros differ."""
    n_out, n_in = weight.shape
    grouped = weight.reshape(n_out, -1, group)
    most = (1 << bits) - 1
    if symmetric:
        scales = np.abs(grouped).max(2) / (most // 2)
        zeros = np.full(scales.shape, 1 << (bits - 1))
    else:
        low = np.minimum(grouped.min(2), 0) - 0.02 * (np.arange(n_in // group) % 2)
        high = np.maximum(grouped.max(2), 0)
        scales = (high - low) / most
        zeros = np.clip(np.round(-low / scales), 0, most).astype(np.int64)
    scales = scales.astype(scale_type)
    wide = scales.astype(np.float32)
    codes = np.clip(np.round(grouped / wide[:, :, None]) + zeros[:, :, None], 0, most).astype(np.int64)
    values = (codes - zeros[:, :, None]).astype(np.float32) * wide[:, :, None]
    return codes.reshape(n_out, n_in), zeros, scales, values.reshape(n_out, n_in)


def pack_quantized(weight, bits=4, group=32, symmetric=True, scale_type=BF16, ids=None):
    group = group or weight.shape[1]
    order = np.argsort(ids, kind="stable") if ids is not None else np.arange(weight.shape[1])
    codes, zeros, scales, values = to_integers(weight[:, order], bits, group, symmetric, scale_type)
    back = np.argsort(order)
    parts = {".weight_packed": pack_rows(codes[:, back], bits), ".weight_scale": scales, ".weight_shape": np.array(weight.shape, np.int64)}
    if not symmetric:
        parts[".weight_zero_point"] = np.ascontiguousarray(pack_rows(zeros.T, bits).T)
    if ids is not None:
        parts[".weight_g_idx"] = np.asarray(ids, np.int32)
    return parts, values[:, back]


def int_quantized(weight, symmetric=True, scale_type=BF16):
    codes, zeros, scales, values = to_integers(weight, 8, weight.shape[1], symmetric, scale_type)
    parts = {".weight": (codes - 128).astype(np.int8), ".weight_scale": scales}
    if not symmetric:
        parts[".weight_zero_point"] = (zeros - 128).astype(np.int8)
    return parts, values


def awq(weight, group=32, symmetric=False):
    codes, zeros, scales, values = to_integers(weight, 4, group, symmetric, np.float16)
    mixed = [8 * (i // 8) + AWQ_ORDER[i % 8] for i in range(weight.shape[0])]
    parts = {".qweight": pack_rows(codes.T[:, mixed], 4), ".scales": np.ascontiguousarray(scales.T)}
    if not symmetric:
        parts[".qzeros"] = pack_rows(zeros.T[:, mixed], 4)
    return parts, values


def gptq(weight, bits=4, group=32, symmetric=True, version=1, ids=None):
    group = group or weight.shape[1]
    order = np.argsort(ids, kind="stable") if ids is not None else np.arange(weight.shape[1])
    codes, zeros, scales, values = to_integers(weight[:, order], bits, group, symmetric, np.float16)
    back = np.argsort(order)
    stored = (zeros - 1) % (1 << bits) if version == 1 else zeros
    parts = {".qweight": np.ascontiguousarray(pack_rows(codes[:, back], bits).T), ".qzeros": pack_rows(stored.T, bits),
             ".scales": np.ascontiguousarray(scales.T),
             ".g_idx": np.asarray(ids if ids is not None else np.arange(weight.shape[1]) // group, np.int32)}
    return parts, values[:, back]


# ---- floats ----


def to_blocks(weight, rows, columns, scale_type):
    """Codes, a scale for each block of the last two dimensions, and the values in f32."""
    n_rows, n_columns = weight.shape[-2:]
    row_of, column_of = np.arange(n_rows) // rows, np.arange(n_columns) // columns
    scales = np.zeros((*weight.shape[:-2], row_of[-1] + 1, column_of[-1] + 1), np.float32)
    for r in range(scales.shape[-2]):
        for c in range(scales.shape[-1]):
            scales[..., r, c] = np.abs(weight[..., rows * r:rows * (r + 1), columns * c:columns * (c + 1)]).max((-2, -1)) / 448
    scales = scales.astype(scale_type)
    wide = scales.astype(np.float32)[..., row_of[:, None], column_of[None, :]]
    codes = (weight / wide).astype(F8)
    return codes, scales, codes.astype(np.float32) * wide


def fp8(weight, block=(128, 128), suffix=".weight_scale_inv", scale_type=np.float32):
    codes, scales, values = to_blocks(weight, *(size or full for size, full in zip(block, weight.shape[-2:])), scale_type)
    if suffix == ".weight_scale" and not block[0]:
        scales = scales.reshape(1)
    return {".weight": codes, suffix: scales}, values


def fp8_experts(weight, block=(128, 128)):
    codes, scales, values = to_blocks(weight, *block, np.float32)
    return {"": codes, "_scale_inv": scales}, values


# ---- configurations ----


def tensors_config(form, targets=("Linear",), **weights):
    """One group of compressed-tensors'."""
    return {"format": form, "targets": list(targets), "input_activations": None, "output_activations": None,
            "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "group_size": None, "dynamic": False, **weights}}


def tensors_configs(*groups):
    formats = {group["format"] for group in groups}
    return {"quant_method": "compressed-tensors", "format": formats.pop() if len(formats) == 1 else "mixed-precision",
            "quantization_status": "compressed", "ignore": ["lm_head", "re:.*visual.*"], "kv_cache_scheme": None,
            "config_groups": {f"group_{i}": group for i, group in enumerate(groups)}}


def awq_config(group=32, zero_point=True, **fields):
    return {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": zero_point, "version": "gemm",
            "modules_to_not_convert": ["visual"], **fields}


def gptq_config(bits=4, group=32, version=1, **fields):
    return {"quant_method": "gptq", "bits": bits, "group_size": group or -1, "sym": True, "desc_act": False,
            "checkpoint_format": "gptq" if version == 1 else "gptq_v2", "pack_dtype": "int32", **fields}


def fp8_config(block=(128, 128), **fields):
    return {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": list(block) if block[0] else None,
            "modules_to_not_convert": ["lm_head", "model.visual"], **fields}
