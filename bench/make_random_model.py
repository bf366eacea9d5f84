#!/usr/bin/env python3
"""Makes checkpoints of the released shapes with random weights: enough to measure speed and memory,
with no download.

    bench/make_random_model.py --out build/models qwen3-vl-8b kimi-vl-a3b --tower-only

Each goes to OUT/NAME (OUT/NAME-tower with --tower-only: the whole tower, one small layer of the
language model; OUT/NAME-layersN with --layers N). Weights are bf16, normal, scaled so that signals
neither die nor explode; the same name gives the same file, and fewer layers have the weights of the
whole. The tokenizer knows single bytes and the special tokens; --tokenizer takes the vocabulary of
a real one. Needs NumPy.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import shutil
import struct
import sys
import zlib
from pathlib import Path
from typing import BinaryIO

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("make_random_model.py: this Python has no NumPy: pip install numpy")
from model_shapes import MODELS, Model, config, preprocessor_config, tensor_shapes, tower_only, with_depth, with_layers

# noise made once and read in rounds; a prime, so that rows of tensors do not repeat each other
POOL = 4_194_301
QWEN_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
                "<|image_pad|>", "<|video_pad|>")
QWEN_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
              r"\s*[\r\n]+|\s+(?!\S)|\s+")
# Their places after the vocabulary.
KIMI_SPECIAL = {"[BOS]": 0, "[EOS]": 1, "<|im_end|>": 2, "<|im_user|>": 3, "<|im_assistant|>": 4, "<|im_system|>": 10,
                "<|im_middle|>": 17, "<|media_start|>": 18, "<|media_content|>": 19, "<|media_end|>": 20,
                "<|media_pad|>": 21, "[UNK]": 254, "[PAD]": 255}
PADDLE_SPECIAL = ("<unk>", "<s>", "</s>", "<|begin_of_sentence|>", "<|end_of_sentence|>", "<|IMAGE_PLACEHOLDER|>",
                  "<|IMAGE_START|>", "<|IMAGE_END|>")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tiktoken.model", "vocab.json", "merges.txt")
# Test checkpoints of the families, whose chat templates the program knows.
TEMPLATES_OF = {
    "qwen3_vl": "qwen3_vl_tied",
    "qwen3_5": "qwen3_5_tied",
    "qwen3_5_moe": "qwen3_5_moe",
    "qwen2_vl": "qwen2_vl_tied",
    "qwen2_5_vl": "qwen2_5_vl_tied",
    "kimi_vl": "kimi_vl",
    "paddleocr_vl": "paddleocr_vl",
}
GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# ---- tokenizers


def byte_names() -> list[str]:
    """The printable character that byte-level vocabularies write for each byte."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def write_qwen_tokenizer(folder: Path) -> dict[str, int]:
    ids = {name: 256 + index for index, name in enumerate(QWEN_SPECIAL)}
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": QWEN_SPLIT}, "behavior": "Isolated", "invert": False}
    write_json(folder / "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": token, "content": name, **flags} for name, token in ids.items()],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "post_processor": level, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                  "fuse_unk": False, "byte_fallback": False, "merges": [],
                  "vocab": {name: byte for byte, name in enumerate(byte_names())}},
    })
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "Qwen2Tokenizer", "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "add_bos_token": False, "model_max_length": 131072,
        "added_tokens_decoder": {str(token): {"content": name, **flags} for name, token in ids.items()},
    })
    return ids


def write_kimi_tokenizer(folder: Path) -> dict[str, int]:
    ids = {name: 256 + offset for name, offset in KIMI_SPECIAL.items()}
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    lines = (f"{base64.b64encode(bytes([byte])).decode()} {byte}\n" for byte in range(256))
    (folder / "tiktoken.model").write_text("".join(lines), encoding="ascii")
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "TikTokenTokenizer", "bos_token": "[BOS]", "eos_token": "[EOS]", "pad_token": "[PAD]",
        "unk_token": "[UNK]", "model_max_length": 131072,
        "added_tokens_decoder": {str(token): {"content": name, **flags} for name, token in ids.items()},
    })
    return ids


def write_paddle_tokenizer(folder: Path) -> dict[str, int]:
    ids = {name: index for index, name in enumerate(PADDLE_SPECIAL)}
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    names = [*PADDLE_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *(chr(code) for code in range(0x21, 0x7F))]
    mark = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    space = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    write_json(folder / "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": token, "content": name, **flags} for name, token in ids.items()],
        "normalizer": {"type": "Sequence", "normalizers": [mark]}, "pre_tokenizer": None, "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [space, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "merges": [],
                  "vocab": {name: index for index, name in enumerate(names)}},
    })
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<unk>",
        "unk_token": "<unk>", "cls_token": "<|begin_of_sentence|>", "model_max_length": 131072,
        "added_tokens_decoder": {str(token): {"content": name, **flags} for name, token in ids.items()},
    })
    return ids


def copy_tokenizer(source: Path, folder: Path) -> dict[str, int]:
    """Takes the tokenizer's files over from another checkpoint."""
    for name in TOKENIZER_FILES:
        if (source / name).exists():
            shutil.copy(source / name, folder / name)
    added = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))["added_tokens_decoder"]
    return {entry["content"]: int(token) for token, entry in added.items()}


def write_chat_template(family: str, folder: Path) -> None:
    source = GOLDEN / TEMPLATES_OF[family]
    if (source / "chat_template.jinja").exists():
        shutil.copy(source / "chat_template.jinja", folder / "chat_template.jinja")
    else:
        template = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))["chat_template"]
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


# ---- weights


def to_bf16(values: np.ndarray) -> np.ndarray:
    """f32 to the upper halves of its bits, rounded to nearest even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def scale_and_shift(name: str, shape: tuple[int, ...], branches: float | None) -> tuple[float, float]:
    if branches is not None and "language_model." in name:
        if name.endswith("embed_tokens.weight"):
            return 1.0, 0.0
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight", "experts.down_proj")):
            return branches / math.sqrt(shape[-1]), 0.0
    if name.endswith("bias"):
        return 0.02, 0.0
    if len(shape) == 1:
        return 0.1, 1.0
    if "pos_emb" in name or "position_emb" in name:
        return 0.3, 0.0
    if name.endswith(("embed_tokens.weight", "lm_head.weight")):
        return 0.05, 0.0
    if ".experts." in name:  # of all in one tensor
        return 1 / math.sqrt(shape[-1]), 0.0
    return 1 / math.sqrt(math.prod(shape[1:])), 0.0


def write_noise(out: BinaryIO, pool: np.ndarray, name: str, shape: tuple[int, ...], branches: float | None) -> None:
    """Writes a tensor, from the place of the noise that follows from its name on."""
    scale, shift = scale_and_shift(name, shape, branches)
    first, left = zlib.crc32(name.encode()) % POOL, math.prod(shape)
    while left:
        count = min(left, POOL - first)
        out.write(to_bf16(pool[first : first + count] * np.float32(scale) + np.float32(shift)).tobytes())
        left -= count
        first = (first + count) % POOL


def write_weights(path: Path, shapes: dict[str, tuple[int, ...]], seed: int, branches: float | None, n_texts: int) -> int:
    """One safetensors file; returns its bytes. With `branches` only the first `n_texts` tokens are
    ever the most likely ones."""
    header, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    text += b" " * (-len(text) % 8)
    pool = np.random.default_rng(seed).standard_normal(POOL, dtype=np.float32)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes.items():
            n_rows = min(n_texts, shape[0]) if branches is not None and name == "lm_head.weight" else shape[0]
            write_noise(out, pool, name, (n_rows, *shape[1:]), branches)
            out.write(bytes(2 * (shape[0] - n_rows) * math.prod(shape[1:])))
    return offset


# ---- models


def make(model: Model, folder: Path, tokenizer: Path | None, seed: int, branches: float | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer, eos = {
        "kimi_vl": (write_kimi_tokenizer, "<|im_end|>"),
        "paddleocr_vl": (write_paddle_tokenizer, "</s>"),
    }.get(model.family, (write_qwen_tokenizer, "<|im_end|>"))
    if tokenizer:
        ids = copy_tokenizer(tokenizer, folder)
    else:
        ids = write_tokenizer(folder)
    write_chat_template(model.family, folder)
    largest = max(ids.values())
    if largest >= model.text.vocab:
        raise SystemExit(f"{tokenizer}: token {largest} does not fit into the model's vocabulary of {model.text.vocab}")
    write_json(folder / "config.json", config(model, ids))
    write_json(folder / "preprocessor_config.json", preprocessor_config(model))
    write_json(folder / "generation_config.json", {"eos_token_id": ids[eos]})
    size = write_weights(folder / "model.safetensors", tensor_shapes(model), seed, branches, min(ids.values()))
    print(f"{folder}: {size / 1e9:.2f} GB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=MODELS, metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--out", type=Path, default=Path("build/models"))
    parser.add_argument("--tower-only", action="store_true", help="one small layer of the language model")
    parser.add_argument("--depth", type=int, help="blocks of the tower (default: all)")
    parser.add_argument("--layers", type=int, help="of the language model, and as small a part of its vocabulary (default: all)")
    parser.add_argument("--branches", type=float, metavar="X",
                        help="what the layers of the language model add next to embeddings of 1: where it is little, such as 0.1, "
                             "a model of fewer layers often has the same next token, so that it can draft")
    parser.add_argument("--tokenizer", type=Path, metavar="DIR", help="take the tokenizer of this checkpoint")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in arguments.names:
        model = MODELS[name]
        if arguments.depth:
            model = with_depth(model, arguments.depth)
        if arguments.layers:
            model = with_layers(model, arguments.layers)
        if arguments.tower_only:
            model = tower_only(model)
        suffix = ("-tower" if arguments.tower_only else "") + (f"-depth{arguments.depth}" if arguments.depth else "")
        suffix += f"-layers{arguments.layers}" if arguments.layers else ""
        make(model, arguments.out / (name + suffix), arguments.tokenizer, arguments.seed, arguments.branches)
    return 0


if __name__ == "__main__":
    sys.exit(main())
