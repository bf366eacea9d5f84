"""A checkpoint with as many tokens as released ones have: the demo's, with pairs of its tokens as
further ones, whose rows are random. Kept in build/."""

import json
import pathlib
import random
import shutil
import struct

N_TOKENS = 151_936
MAX_CHARACTERS = 14
EMBEDDINGS = "model.language_model.embed_tokens.weight"


def add_tokens(tokenizer, first):
    """Merges of two tokens that are there, as byte-level BPE makes them: words above all."""
    vocabulary, merges = tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
    generator = random.Random(1)
    words = [token for token in vocabulary if token.lstrip("Ġ").isalpha() and token.isascii() or token[:1] == "Ġ"]
    others = [token for token in vocabulary if not token.isalnum()]
    token = first
    while token < N_TOKENS:
        left, right = generator.choice(words), generator.choice(words if generator.random() < 0.9 else others)
        pair = left + right
        if pair in vocabulary or len(pair) > MAX_CHARACTERS or right.startswith("Ġ"):
            continue
        vocabulary[pair] = token
        merges.append([left, right])
        if pair.lstrip("Ġ").isalpha():
            words.append(pair)
        token += 1


def write_weights(source, target):
    data = source.read_bytes()
    head_size = struct.unpack("<Q", data[:8])[0]
    head, body = json.loads(data[8:8 + head_size]), memoryview(data)[8 + head_size:]
    order = sorted((name for name in head if name != "__metadata__"), key=lambda name: head[name]["data_offsets"])
    n_old, width = head[EMBEDDINGS]["shape"]
    more = random.Random(2).randbytes(1 << 20)
    # bf16 of about 0.01 to 0.03, of either sign
    noise = b"".join(bytes((more[i], 0xBC if more[i + 1] & 1 else 0x3C)) for i in range(0, len(more), 2))
    missing = (N_TOKENS - n_old) * width * 2
    pieces, at = [], 0
    for name in order:
        begin, end = head[name]["data_offsets"]
        piece = [body[begin:end]]
        if name == EMBEDDINGS:
            head[name]["shape"] = [N_TOKENS, width]
            piece += [noise] * (missing // len(noise)) + [noise[:missing % len(noise)]]
        size = sum(map(len, piece))
        head[name]["data_offsets"] = [at, at + size]
        pieces += piece
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for piece in pieces:
            file.write(piece)


def make(demo, folder):
    """The directory of the checkpoint, made where it is not there yet."""
    demo, folder = pathlib.Path(demo), pathlib.Path(folder)
    target = folder / "large-vocabulary"
    if target.exists():
        return target
    made = folder / f"large-vocabulary.{random.getrandbits(64):x}"
    made.mkdir(parents=True)
    for name in ("chat_template.jinja", "generation_config.json", "preprocessor_config.json", "tokenizer_config.json",
                 "video_preprocessor_config.json"):
        shutil.copy(demo / name, made / name)
    tokenizer = json.loads((demo / "tokenizer.json").read_text())
    config = json.loads((demo / "config.json").read_text())
    add_tokens(tokenizer, config["text_config"]["vocab_size"])
    config["text_config"]["vocab_size"] = N_TOKENS
    (made / "tokenizer.json").write_text(json.dumps(tokenizer))
    (made / "config.json").write_text(json.dumps(config))
    write_weights(demo / "model.safetensors", made / "model.safetensors")
    try:
        made.rename(target)
    except OSError:  # another one was faster
        shutil.rmtree(made)
    return target
