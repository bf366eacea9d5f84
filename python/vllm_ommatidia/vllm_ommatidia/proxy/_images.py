"""Images in the messages of a chat: found, named, and replaced by what vLLM needs to know of their
embeddings."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class Image:
    """One image of a chat; `parts` are all places where it stands."""

    key: str
    n_bytes: int
    parts: list[dict[str, Any]]

    def node_request(self, chat: dict[str, Any]) -> bytes:
        """A node has one model, which vLLM may serve under another name: none is given."""
        part = {"type": "image_url", "image_url": self.parts[0]["image_url"], "uuid": self.key}
        message = {"role": "user", "content": [part]}
        priority = {"priority": chat["priority"]} if "priority" in chat else {}
        return json.dumps({"messages": [message], "max_tokens": 1, "stream": False} | priority).encode()


@dataclass(frozen=True)
class Encoded:
    """Where an image's embeddings are, and its grid of patches."""

    node_url: str
    metadata: dict[str, Any]


def read_chat(body: bytes) -> dict[str, Any] | None:
    """None: not a chat; vLLM has words for what is wrong with it."""
    try:
        chat = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return chat if isinstance(chat, dict) and isinstance(chat.get("messages"), list) else None


def _image_parts(chat: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for message in chat["messages"]:
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else []:
            if isinstance(part, dict) and part.get("type") == "image_url":
                yield part


def find_images(chat: dict[str, Any], trust_uuids: bool) -> list[Image] | None:
    """The different images of a chat; None where one has no URL (vLLM may know it by its uuid
    alone)."""
    images: dict[str, Image] = {}
    for part in _image_parts(chat):
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        if not isinstance(url, str) or not url:
            return None
        uuid = part.get("uuid")
        name = f"uuid:{uuid}" if trust_uuids and isinstance(uuid, str) and uuid else url
        key = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
        n_bytes = len(url) * 3 // 4 if url.startswith("data:") else 0
        images.setdefault(key, Image(key, n_bytes, [])).parts.append(part)
    return list(images.values())


def replace_images(chat: dict[str, Any], images: list[Image], encoded: list[Encoded], keep_images: bool) -> bytes:
    """The chat for vLLM. The parts of `images` are as before afterwards."""
    params = dict(chat.get("ec_transfer_params") or {})
    before = []
    for image, made in zip(images, encoded):
        params[image.key] = {"modality": "image", "encoder_url": made.node_url}
        for part in image.parts:
            before.append((part, dict(part)))
            if not keep_images:
                part.clear()
                part.update(type="image_embeds", image_embeds=made.metadata)
            part["uuid"] = image.key
    try:
        return json.dumps(chat | {"ec_transfer_params": params}).encode()
    finally:
        for part, old in before:
            part.clear()
            part.update(old)


def probe_url(shade: int) -> str:
    """A grey image of 64 x 64 as a data URL."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes([(shade + i) & 255] * 64) for i in range(64))
    head = struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + b64encode(data).decode()
