"""Embeddings as encoder nodes publish them: where they are fetched, and what is checked before a
model sees them."""

from __future__ import annotations

import http.client
import json
import math
import re
import struct
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from ._node_card import NodeCard, WrongNode, check_fingerprint, read_card

# Longer headers are nobody's.
_MAX_HEADER_BYTES = 65536
_MAX_CARD_BYTES = 1 << 20
_TYPES = {torch.float32: "F32", torch.bfloat16: "BF16"}
# What an encoder node publishes under; anything else could lead out of a directory.
_KEY = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}")


class Refused(Exception):
    """Embeddings that are not there, or not to be used; the text states why."""


@dataclass(frozen=True)
class Expected:
    """What this model's tower would make."""

    width: int
    dtype: torch.dtype
    modes: tuple[str, ...]
    fingerprint: str


class Source(Protocol):
    """`read` gives at most `limit` bytes of what is published under a key; None: nothing is.
    OSError where it cannot be asked."""

    name: str

    def read(self, key: str, limit: int) -> bytes | None: ...


class Node:
    """An encoder node, over HTTP."""

    def __init__(self, url: str, timeout: float, api_key: str | None) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"OmmatidiaConnector: encoder_urls: expected http:// or https://, found {url!r}")
        self.name = url.rstrip("/")
        self._timeout = timeout
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def card(self) -> NodeCard:
        """WrongNode where it has none; OSError where the node does not answer as one that is up."""
        request = urllib.request.Request(f"{self.name}/v1/models", headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as reply:
                return read_card(self.name, bool(self._headers), reply.status, reply.read(_MAX_CARD_BYTES))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code >= 500:
                raise OSError(f"status {error.code}") from error
            return read_card(self.name, bool(self._headers), error.code, b"")
        except http.client.HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error

    def read(self, key: str, limit: int) -> bytes | None:
        request = urllib.request.Request(f"{self.name}/v1/encodings/{key}", headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as reply:
                return bytes(reply.read(limit))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            raise OSError(f"status {error.code}") from error
        except http.client.HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error


class Directory:
    """The directory of ECExampleConnector's files."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._path = Path(path)

    def read(self, key: str, limit: int) -> bytes | None:
        try:
            with (self._path / key / "encoder_cache.safetensors").open("rb") as file:
                return file.read(limit)
        except FileNotFoundError:
            return None


def sources(options: dict[str, Any], api_key: str | None) -> list[Source]:
    urls = options.get("encoder_urls") or []
    found: list[Source] = [Node(url, float(options.get("timeout", 5)), api_key) for url in ([urls] if isinstance(urls, str) else urls)]
    if options.get("shared_storage_path"):
        found.append(Directory(str(options["shared_storage_path"])))
    if not found:
        raise ValueError("OmmatidiaConnector: ec_connector_extra_config: expected encoder_urls, a list, or shared_storage_path")
    return found


def check_nodes(places: list[Source], expected: Expected) -> list[str]:
    """WrongNode where a node has another key, model or numeric mode than vLLM needs: its embeddings
    would be refused one after the other. Gives a line for each node that does not answer."""
    silent = []
    for place in places:
        if not isinstance(place, Node):
            continue
        try:
            card = place.card()
        except OSError as error:
            silent.append(f"{place.name} does not answer: {error}")
            continue
        check_fingerprint(place.name, card, expected.fingerprint, "vLLM")
        for option, found, allowed in (("--vision-dtype", card.numeric_mode, expected.modes), ("--dtype", card.dtype, (_TYPES[expected.dtype],))):
            if found not in allowed:
                raise WrongNode(f"{place.name} gives {found}, vLLM needs {' or '.join(allowed)} (omma serve {option})")
    return silent


def node_of(params: object, key: str) -> str | None:
    """The node that a request's `ec_transfer_params` name for an image. They are the client's: of
    any type."""
    entry = params.get(key) if isinstance(params, dict) else None
    if not isinstance(entry, dict) or entry.get("modality", "image") != "image":
        return None
    url = entry.get("encoder_url")
    return url if isinstance(url, str) else None


def read_encoding(places: list[Source], key: str, rows: int, expected: Expected, hint: str | None) -> torch.Tensor:
    """The embeddings of an image from the first place that has them, the one named `hint` before
    others. Refused where no place has any that may be used."""
    if not _KEY.fullmatch(key):
        raise Refused("no encoder node publishes under such a name")
    size = rows * expected.width * expected.dtype.itemsize
    reasons = []
    for place in sorted(places, key=lambda place: place.name != (hint or "").rstrip("/")):
        try:
            body = place.read(key, 8 + _MAX_HEADER_BYTES + size + 1)
            if body is not None:
                return check_encoding(body, rows, expected)
        except (OSError, Refused) as error:
            reasons.append(f"{place.name}: {error}")
    raise Refused("; ".join(reasons) or f"missing at {', '.join(place.name for place in places)}")


def _read_header(body: bytes) -> tuple[dict[str, Any], int]:
    if len(body) < 8:
        raise Refused("truncated")
    (size,) = struct.unpack("<Q", body[:8])
    if size > _MAX_HEADER_BYTES:
        raise Refused("not a safetensors file")
    if len(body) < 8 + size:
        raise Refused("truncated")
    try:
        header = json.loads(body[8 : 8 + size])
    except ValueError as error:
        raise Refused("not a safetensors file") from error
    if not isinstance(header, dict):
        raise Refused("not a safetensors file")
    return header, 8 + size


def check_encoding(body: bytes, rows: int, expected: Expected) -> torch.Tensor:
    """The tensor [rows, width] of a file, where it is whole and from a tower like the model's
    own."""
    header, begin = _read_header(body)
    metadata, tensor = header.pop("__metadata__", None), header.pop("ec_cache", None)
    if not isinstance(metadata, dict) or not isinstance(tensor, dict) or header:
        raise Refused("no encoder node's file")
    size = rows * expected.width * expected.dtype.itemsize
    wanted = [
        ("checkpoint", metadata.get("fingerprint"), (expected.fingerprint,)),
        ("numeric mode", metadata.get("numeric_mode"), expected.modes),
        ("type", tensor.get("dtype"), (_TYPES[expected.dtype],)),
        ("shape", tensor.get("shape"), ([rows, expected.width],)),
        ("offsets", tensor.get("data_offsets"), ([0, size],)),
    ]
    for what, found, allowed in wanted:
        if found not in allowed:
            raise Refused(f"{what} {found}, expected {' or '.join(str(value) for value in allowed)}")
    if len(body) != begin + size:
        raise Refused("truncated" if len(body) < begin + size else "longer than its header states")
    values = torch.frombuffer(bytearray(body[begin:]), dtype=expected.dtype).reshape(rows, expected.width)
    if not math.isfinite(float(values.float().abs().max())):
        raise Refused("NaN or infinity")
    return values
