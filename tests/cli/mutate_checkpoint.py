"""Damage to a model's directory: one of its files is changed as a seed and a number say.
`mutate_checkpoint.py NUMBER FOLDER` makes a damaged copy again from what a failed test printed."""

import base64
import copy
import json
import os
import pathlib
import random
import struct
import sys
import tempfile

from gguf_files import convert
from test_quantized import FORMS, quantise, write_checkpoint

SEED = 20261122
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
MODELS = ["qwen3_vl_tied", "qwen2_5_vl_tied", "qwen3_vl_moe", "kimi_vl"]
GGUF = {"qwen3_vl_untied": "Q8_0", "qwen3_vl_moe": "Q4_0", "kimi_vl": "F16"}
QUANTISED = ["packed_int4", "fp8", "awq", "gptq"]
NUMBERS = [0, -1, 1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -2**63, 2**64, 10**40, 0.5, -0.0, 1e-320, 1e38, 1e308,
           float("nan"), float("inf")]
VALUES = [None, True, False, "", "x", "\x1b[31mred", "a\nb", "\0", "é" * 5000, [], {}, [[]], [0], {"a": 1}, [None] * 1000, "../../etc/passwd", "F32", "I64"]
PIECES = [b"", b"\0", b"\xff", b"\x1b[2J", b'"', b"{", b"[", b"]" * 7, b"\n", b" ", b"\\ud800", b"{{", b"{%", b"%}", b"-", b"1e999", b"\xc3"]


def files_of(model):
    """The files of the checkpoint itself, without the golden values next to it."""
    return sorted(path for path in model.iterdir()
                  if path.name != "golden.json" and (path.suffix != ".safetensors" or path.name.startswith("model")))


def change_number(number, source):
    return source.choice([number + 1, number - 1, number * 2, number // 2 if isinstance(number, int) else number / 2, -number, number * 1000])


def choose_place(document, source):
    """First how deep, so that a vocabulary of thousands does not hide the few other keys."""
    container, key = document, None
    while True:
        key = source.choice(list(container)) if isinstance(container, dict) else source.randrange(len(container))
        inner = container[key]
        if not isinstance(inner, (dict, list)) or not inner or source.random() < 0.2:
            return container, key
        container = inner


def change_document(document, source):
    """Changes the JSON in place; returns what was done."""
    container, key = choose_place(document, source)
    old, kind = container[key], source.randrange(8)
    name = f"{str(key)[:60]!r}"
    if kind == 0:
        del container[key]
        return f"{name} left out"
    if kind == 1 and isinstance(old, (int, float)) and not isinstance(old, bool):
        container[key] = change_number(old, source)
    elif kind == 2:
        other, there = choose_place(document, source)
        container[key] = copy.deepcopy(other[there])
    elif kind == 3:
        container[key] = source.choice(VALUES)
    elif kind == 4 and isinstance(old, list) and old:
        container[key] = (old * source.choice([2, 1000]))[:5000]
    elif kind == 5 and isinstance(container, dict):
        container[source.choice(["", "x", name + "\x1b[1m"])] = container.pop(key)
        return f"{name} renamed"
    elif kind == 6 and isinstance(old, str) and old:
        at = source.randrange(len(old))
        container[key] = old[:at] + source.choice(["\x1b]0;x\x07", "", "\udcff", "%s%n", "\n", "\0"]) + old[at + 1:]
    else:
        container[key] = source.choice(NUMBERS)
    return f"{name}: {json.dumps(old)[:60]} becomes {json.dumps(container[key])[:60]}"


def dump(document):
    return json.dumps(document).encode("utf-8", "surrogatepass")


def mutate_json(data, source):
    document = json.loads(data)
    kind = source.randrange(12)
    if kind == 0:
        depth = source.choice([70, 3000, 200000])
        return b'{"a":' * depth + b"1" + b"}" * depth, f"{depth} levels"
    if kind == 1:
        key, value = source.choice(list(document.items()))
        return dump(document)[:-1] + b", " + dump({key: source.choice([value, 0, None])})[1:], f"{key!r} twice"
    if kind == 2:
        return dump(source.choice([[], [document], 1, "x", None, {}])), "another document"
    done = [change_document(document, source) for _ in range(source.choice([1, 1, 1, 2, 4])) if document]
    return dump(document), "; ".join(done)


def change_tensor(header, source):
    name = source.choice([name for name in header if name != "__metadata__"])
    entry, kind = header[name], source.randrange(8)
    if kind == 0:
        entry["shape"] = entry["shape"][::-1]
    elif kind == 1:
        entry["shape"] = entry["shape"] + [source.choice([0, 1, 2, 2**62])]
    elif kind == 2 and entry["shape"]:
        entry["shape"][source.randrange(len(entry["shape"]))] = source.choice(NUMBERS)
    elif kind == 3:
        entry["dtype"] = source.choice(["F32", "BF16", "F16", "I8", "F64", "F8_E4M3", "", "x\x1b[1m", 3])
    elif kind == 4:
        start, end = entry["data_offsets"]
        entry["data_offsets"] = source.choice([[end, start], [start, start], [start + 1, end + 1], [start, 2**63], [0, end], [-1, end], [end]])
    elif kind == 5:
        other = source.choice([other for other in header if other != "__metadata__"])
        header[name], header[other] = header[other], header[name]
    elif kind == 6:
        header[name + source.choice([".x", "\x1b[2J", "\n"])] = header.pop(name)
    else:
        del header[name]
    return f"tensor {name!r}, change {kind}"


def mutate_safetensors(data, source):
    (size,) = struct.unpack("<Q", data[:8])
    kind = source.randrange(5)
    if kind == 0:
        size = source.choice([0, 1, size - 1, size + 1, len(data), 2**32, 2**63, 2**64 - 8])
        return struct.pack("<Q", size) + data[8:], f"a header of {size} bytes"
    if kind == 1:
        data, start = bytearray(data), 8 + size
        at = source.randrange(start, len(data) - 8) // 4 * 4
        piece = source.choice([b"\xff\xff\xff\x7f", b"\0\0\x80\x7f", b"\xff\xff\x7f\x7f", b"\x80\x7f\x80\xff"])
        data[at:at + 4] = piece
        return bytes(data), f"{piece!r} at byte {at}"
    if kind == 2:
        header, done = mutate_json(data[8:8 + size], source)
    else:
        document = json.loads(data[8:8 + size])
        done = "; ".join(change_tensor(document, source) for _ in range(source.choice([1, 1, 2])))
        header = dump(document)
    return struct.pack("<Q", len(header)) + header + data[8 + size:], done


def mutate_tiktoken(data, source):
    """Lines of a token in base64 and its rank."""
    lines = data.splitlines()
    at = source.randrange(len(lines))
    token = lines[at].split()[0]
    lines[at] = source.choice([token, token + b" -1", token + b" 99999999999999999999", token + b" 3", b"!!! 5", b" 5", b"", token[:-1] + b" 5",
                               base64.b64encode(b"x" * 100000) + b" 5", lines[at - 1], lines[at] + b" 7", b"\0" + lines[at]])
    return b"\n".join(lines) + b"\n", f"line {at} becomes {lines[at][:60]!r}"


def mutate_gguf(data, source):
    """A number of the head: of tensors or keys, a length, a type, a shape, an offset, a value."""
    # The head of these small files ends where the tokenizer's lists do; most numbers stand before.
    end = source.choice([24, 2000, len(data) // 4])
    size = source.choice([4, 8])
    at = source.choice([4, 8, 16, 24]) if end == 24 else source.randrange(4, min(end, len(data) - size))
    number = source.choice([n for n in NUMBERS if isinstance(n, int)] + [4, 5, 6, 8, 9, 10, 12, 13, 40])
    changed = bytearray(data)
    changed[at:at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(changed), f"{number} in {size} bytes at {at}"


def mutate_bytes(data, source):
    kind = source.randrange(5)
    if kind == 0:
        size = source.choice([0, 1, 8, len(data) // 2, len(data) - 1, source.randrange(len(data))])
        return data[:size], f"cut to {size} bytes"
    if kind == 1:
        return data + data, "twice"
    if kind == 2:
        return source.randbytes(source.choice([1, 100, 5000])), "random bytes"
    data, done = bytearray(data), []
    for _ in range(source.choice([1, 1, 2, 8, 64])):
        at = source.randrange(min(len(data), source.choice([200, len(data)])))
        if kind == 3:
            data[at] ^= 1 << source.randrange(8)
        else:
            data[at:at + source.randrange(3)] = source.choice(PIECES)
        done.append(at)
    return bytes(data), f"{'bits flipped' if kind == 3 else 'pieces put in'} at {done[:8]}"


def replace_file(path, files, source):
    """What stands in the file's place instead of a file."""
    kind = source.choice(["nothing", "a folder", "a FIFO", "a dangling link", "a loop", "another file", "/dev/zero"])
    if kind == "a folder":
        path.mkdir()
    elif kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a dangling link":
        path.symlink_to("nowhere")
    elif kind == "a loop":
        path.symlink_to(path.name)
    elif kind == "another file":
        path.symlink_to(source.choice(files))
    elif kind == "/dev/zero":
        path.symlink_to("/dev/zero")
    return kind


def make_models(folder):
    """What is damaged: golden checkpoints, and made of them in `folder` GGUF files and quantised
    checkpoints, a folder each."""
    models = [GOLDEN / name for name in MODELS]
    for name, kind in GGUF.items():
        convert(GOLDEN / name, folder / f"{name}-{kind}", kind)
        models.append(folder / f"{name}-{kind}")
    for form in QUANTISED:
        stored, _, _ = quantise("qwen3_vl_untied", FORMS[form][0])
        models.append(write_checkpoint("qwen3_vl_untied", folder / form, stored, FORMS[form][1]))
    return models


def mutate(models, number, folder, seed=SEED):
    """Makes a damaged copy of one of the models in the new folder; returns its name and what was
    done."""
    source = random.Random(f"{seed} {number}")
    model = models[number % len(models)]
    name, files = model.name, files_of(model)
    # config.json decides most, the tokenizer's and the weights' readers are the largest.
    chosen = source.choice(files + [file for file in files if file.name in ("config.json", "tokenizer.json") or file.suffix in (".safetensors", ".gguf")])
    folder.mkdir()
    for file in files:
        if file != chosen:
            (folder / file.name).symlink_to(file)
    path, data, own = folder / chosen.name, chosen.read_bytes(), source.random()
    if own < 0.08:
        return name, f"{chosen.name}: {replace_file(path, files, source)}"
    if own < 0.3 or chosen.suffix == ".jinja":
        changed, done = mutate_bytes(data, source)
    elif chosen.suffix == ".json":
        changed, done = mutate_json(data, source)
    elif chosen.suffix == ".gguf":
        changed, done = mutate_gguf(data, source)
    elif chosen.suffix == ".safetensors":
        changed, done = mutate_safetensors(data, source)
    else:
        changed, done = mutate_tiktoken(data, source)
    path.write_bytes(changed)
    return name, f"{chosen.name}: {done}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        print(*mutate(make_models(pathlib.Path(made)), int(sys.argv[1]), pathlib.Path(sys.argv[2])), sep=": ")
