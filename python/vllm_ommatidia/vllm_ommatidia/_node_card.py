"""What an encoder node states about itself under /v1/models, which needs its key: so one request
shows whether key and model are the right ones."""

from __future__ import annotations

import json
from dataclasses import dataclass


class WrongNode(Exception):
    """A node that must not be used; the text states why."""


@dataclass(frozen=True)
class NodeCard:
    """Whose embeddings a node makes (fingerprint of the checkpoint), and how: "f32", "bf16" or
    "int8"; dtype is that of the published values, "F32" or "BF16"."""

    fingerprint: str
    numeric_mode: str
    dtype: str


def read_card(url: str, has_key: bool, status: int, body: bytes) -> NodeCard:
    """The card in a node's reply to GET /v1/models."""
    if status in (401, 403):
        raise WrongNode(f"{url} refuses the key of OMMA_API_KEY" if has_key else f"{url} requires a key: set OMMA_API_KEY")
    try:
        encoder = json.loads(body)["data"][0]["encoder"]
        return NodeCard(str(encoder["fingerprint"]), str(encoder["numeric_mode"]), str(encoder["dtype"]))
    except (ValueError, LookupError, TypeError):
        raise WrongNode(f"{url} is no encoder node (omma serve --mm-encoder-only): status {status} of /v1/models") from None


def check_fingerprint(url: str, card: NodeCard, fingerprint: str, whose: str) -> None:
    if card.fingerprint != fingerprint:
        raise WrongNode(f"{url} has a model with the fingerprint {card.fingerprint}, {whose} has {fingerprint}")
