"""The name of a checkpoint's weights, by which a node's embeddings are compared with a model."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

_SAMPLE_BYTES = 1024


def _tensor_headers(path: Path) -> list[tuple[str, dict[str, Any], bytes]]:
    """Name, header entry and first bytes of each tensor of a safetensors file."""
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        found = []
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            file.seek(8 + size + begin)
            found.append((name, entry, file.read(min(end - begin, _SAMPLE_BYTES))))
    return found


def _checkpoint_files(folder: Path) -> list[Path]:
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.exists():
        return [whole]
    return [folder / name for name in sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))]


def checkpoint_fingerprint(model: str) -> str:
    """The name of a checkpoint's weights: as in src/model/checkpoint_fingerprint.h."""
    try:
        if not os.path.isdir(model):
            from huggingface_hub import snapshot_download

            model = snapshot_download(model, local_files_only=True)
        result = 0
        for path in _checkpoint_files(Path(model)):
            for name, entry, sample in _tensor_headers(path):
                digest = hashlib.blake2b(f"{name}\0{entry['dtype']}\0".encode(), digest_size=32)
                digest.update(struct.pack(f"<{len(entry['shape'])}q", *entry["shape"]) + sample)
                result ^= int.from_bytes(digest.digest(), "big")
        return f"{result:064x}"
    except Exception as error:
        raise ValueError(
            f"Ommatidia: the weights of {model} cannot be identified ({error}): give the encoder node's "
            '"checkpoint", which its log names, as the fingerprint'
        ) from error
