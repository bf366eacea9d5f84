"""KV events of `omma serve`, read with vLLM's own event classes: what vLLM would send of the same
blocks is the same, byte by byte."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KVEventBatch, ZmqEventPublisher

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "build" / "release" / "omma"
PAGES, PAGE_BYTES = 8, 196608  # of the demo model


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a server with a small cache, and where its events are replayed."""
    if not PROGRAM.exists():
        pytest.skip("omma is not built: make release")
    replays = f"ipc://{tmp_path}/replay"
    config = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"ipc://{tmp_path}/events", "replay_endpoint": replays,
              "buffer_steps": 10_000, "hwm": 100_000, "max_queue_size": 100_000, "topic": "kv@pod@demo"}
    command = [PROGRAM, "serve", ROOT / "models" / "demo", "--port", "0", "--served-model-name", "demo", "--max-model-len", "384",
               "--kv-cache-bytes", str(PAGES * PAGE_BYTES), "--kv-events-config", json.dumps(config)]
    process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
    assert process.stderr
    address = next(found[0] for line in process.stderr if (found := re.search(r"http://[\d.]+:\d+", line)))
    yield address, replays
    process.terminate()
    process.stderr.read()
    assert process.wait() == 0


def ask(address: str, path: str, **body: Any) -> None:
    data = json.dumps({"model": "demo", "max_tokens": 1, **body}).encode()
    request = urllib.request.Request(f"{address}/v1/{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert reply.status == 200


def all_payloads(replays: str) -> list[bytes]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(replays)
        socket.send_multipart([b"", bytes(8)])
        payloads: list[bytes] = []
        while True:
            _, topic, number, payload = socket.recv_multipart()
            if number == ZmqEventPublisher.END_SEQ:
                return payloads
            assert topic == b"kv@pod@demo" and int.from_bytes(number, "big") == len(payloads)
            payloads.append(payload)


def test_events_are_those_of_vllm(server: tuple[str, str]) -> None:
    address, replays = server
    image = base64.b64encode((ROOT / "models" / "demo" / "images" / "cross.png").read_bytes()).decode()
    parts = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}, {"type": "text", "text": "What is this?"}]
    for first in range(200, 1100, 300):
        ask(address, "completions", prompt=list(range(first, first + 300)))
    ask(address, "chat/completions", messages=[{"role": "user", "content": parts}], cache_salt="mine")
    payloads = all_payloads(replays)
    batches = [msgspec.msgpack.decode(payload, type=KVEventBatch) for payload in payloads]
    assert [msgspec.msgpack.encode(batch) for batch in batches] == payloads
    events = [event for batch in batches for event in batch.events]
    assert {type(event) for event in events} == {AllBlocksCleared, BlockStored, BlockRemoved}
    stored = [event for event in events if isinstance(event, BlockStored)]
    assert all(event.block_size == 64 and len(event.token_ids) == 64 * len(event.block_hashes) for event in stored)
    assert all(isinstance(name, int) for event in stored for name in event.block_hashes)
    keys = [key for event in stored for block in event.extra_keys or [] for key in block or []]
    assert "mine" in keys and any(len(key) == 2 and len(key[0]) == 64 for key in keys)
