#!/usr/bin/env python3
"""Writes tests/data/text/ranks: a tiktoken.model with cases encoded by the tiktoken library itself.

Tokens and texts come from the fixture `capitals`; the special tokens are laid out as in the
released checkpoints of this form: 256 ids after the last rank, some of them named in
tokenizer_config.json.

    python tools/fixture_ranks.py        (needs tiktoken)
"""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import tiktoken

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data" / "text"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join(
    (
        r"[\p{Han}]+",
        rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
RESERVED = 256
NAMED = {0: "[BOS]", 1: "[EOS]", 2: "<|im_end|>", 3: "<|im_user|>", 4: "<|im_assistant|>", 10: "<|im_system|>",
         17: "<|im_middle|>", 18: "<|media_start|>", 19: "<|media_content|>", 20: "<|media_end|>", 21: "<|media_pad|>",
         254: "[UNK]", 255: "[PAD]"}  # fmt: skip


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable characters and the bytes they stand for."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def ranks() -> dict[bytes, int]:
    """The tokens of `capitals` by rank."""
    alphabet = byte_alphabet()
    vocab = json.loads((FOLDER / "capitals" / "tokenizer.json").read_text())["model"]["vocab"]
    return {bytes(alphabet[c] for c in text): rank for text, rank in vocab.items()}


def main() -> None:
    tokens = ranks()
    first = len(tokens)
    special = {NAMED.get(i, f"<|reserved_token_{first + i}|>"): first + i for i in range(RESERVED)}
    official = tiktoken.Encoding("ranks", pat_str=PATTERN, mergeable_ranks=tokens, special_tokens=special)
    dice = random.Random(20)
    cases = json.loads((FOLDER / "capitals" / "cases.json").read_text())["encode"]
    texts = [bytes.fromhex(case[0]).decode() for case in cases[::2]]
    texts += ["<|im_user|>user<|im_middle|>Hello<|im_end|>", "a<|media_pad|>[EOS]", "<|reserved_token_905|>camelCaseHTTPServer's"]
    names = list(special)
    for _ in range(80):
        pieces = [dice.choice(texts) if dice.random() < 0.7 else dice.choice(names) for _ in range(dice.randint(1, 4))]
        texts.append("".join(pieces)[:200])
    encode = [[text.encode().hex(), official.encode(text, allowed_special="all")] for text in texts]
    decode = []
    for _ in range(100):
        ids = [dice.randrange(first + RESERVED) for _ in range(dice.randint(1, 12))]
        skip = dice.random() < 0.5
        kept = [i for i in ids if i < first or not skip]
        decode.append([ids, skip, official.decode_bytes(kept).decode(errors="replace").encode().hex()])
    folder = FOLDER / "ranks"
    folder.mkdir(exist_ok=True)
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in tokens.items()]
    (folder / "tiktoken.model").write_text("".join(lines))
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    config = {"added_tokens_decoder": {str(first + i): {"content": name, **flags} for i, name in NAMED.items()}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    cases = {"made_with": f"tiktoken {tiktoken.__version__}", "encode": encode, "decode": decode}
    (folder / "cases.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
