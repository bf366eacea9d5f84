"""omma-encoder-proxy: between clients, encoder nodes (`omma serve --mm-encoder-only`) and a vLLM.
Images of chats go to the nodes; vLLM gets the rest and fetches their embeddings.
docs/encoder-node.md has the protocol.

aiohttp is both its server and its client, and prometheus_client writes its metrics: vLLM depends on
both, so next to vLLM nothing else is installed."""

from __future__ import annotations

import sys


def main() -> int:
    try:
        from ._program import run
    except ModuleNotFoundError as error:
        if error.name not in ("aiohttp", "prometheus_client"):
            raise
        print(f"omma-encoder-proxy: {error.name} is not installed: pip install aiohttp prometheus_client", file=sys.stderr)
        return 1
    return run()
