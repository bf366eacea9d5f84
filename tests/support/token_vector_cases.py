"""Models that give a vector for each token, made from golden checkpoints, and what goes through
them: for tools/make_token_vector_fixtures.py and the tests."""

import json
import pathlib
import shutil
import struct

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
DATA = ROOT / "tests" / "data" / "vectors" / "tokens.npz"
IMAGES = GOLDEN / "images"

# The golden checkpoint and the class that colpali_engine saves it as.
MODELS = {"qwen2_5_vl_tied": "ColQwen2_5", "qwen2_vl_tied": "ColQwen2"}
# With one that transformers has no class for.
CLASSES = {**MODELS, "qwen3_vl_tied": "ColQwen3"}
# What a query begins with: as colpali_engine releases checkpoints, and as transformers saves them.
PREFIXES = {"released": "", "saved": "Query: "}
WIDTH = 16


def _read(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[8 + size :][slice(*entry["data_offsets"])]) for name, entry in header.items()}


def _write(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def _bare(name):
    """"visual.blocks..." or "language_model.layers...": without what stands before."""
    name = name.removeprefix("model.")
    return name if name.startswith(("visual.", "language_model.", "lm_head.")) else f"language_model.{name}"


def make_layer(hidden):
    """Weights [WIDTH, hidden] and bias of the layer that makes vectors of states."""
    random = np.random.default_rng(5)
    layer = (random.standard_normal((WIDTH, hidden)) / hidden**0.5).astype("<f4")
    return layer, (random.standard_normal(WIDTH) * 0.1).astype("<f4")


def make_model(directory, name, form):
    """form: "released" by colpali_engine, "saved" by transformers."""
    directory.mkdir(parents=True)
    source = GOLDEN / name
    for path in source.iterdir():
        if path.name.startswith(("chat_", "preproc", "tokenizer", "merges", "vocab")):
            shutil.copy(path, directory)
    config = json.loads((source / "config.json").read_text())
    hidden = config.get("text_config", config)["hidden_size"]
    layer, bias = make_layer(hidden)
    tensors = {}
    for path in sorted(source.glob("model*.safetensors")):
        for key, value in _read(path).items():
            key = _bare(key)
            if not key.startswith("lm_head."):
                tensors[key if form == "released" else f"vlm.model.{key}"] = value
    linear = "custom_text_proj" if form == "released" else "embedding_proj_layer"
    tensors[f"{linear}.weight"] = ("F32", list(layer.shape), layer.tobytes())
    tensors[f"{linear}.bias"] = ("F32", list(bias.shape), bias.tobytes())
    _write(directory / "model.safetensors", tensors)
    if form == "released":
        config = {**config, "architectures": [CLASSES[name]], "dim": WIDTH}
    else:
        config = {"architectures": ["ColQwen2ForRetrieval"], "model_type": "colqwen2", "embedding_dim": WIDTH, "vlm_config": config}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def items():
    """Queries, documents that are texts, images."""
    texts = ["", "a dog", "Is attention really all you need?", "Wie hoch ist der Umsatz 2023?", "東京の地図", "x " * 200,
             "the\nsecond line", "red circle and blue star"]
    images = sorted(path for path in IMAGES.iterdir() if path.suffix in (".png", ".jpg", ".jpeg"))[:10]
    found = [{"text": text} for text in texts] + [{"text": text, "document": True} for text in texts[1:5]]
    return found + [{"image": str(path)} for path in images]
