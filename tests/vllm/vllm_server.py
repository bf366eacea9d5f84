"""`vllm serve` for the time of a `with` block."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

VLLM = Path(sys.executable).with_name("vllm")
START_SECONDS = 600


class Server(NamedTuple):
    port: int
    log: Path


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answers_health(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@contextlib.contextmanager
def serve(checkpoint: Path, folder: Path, *options: str) -> Iterator[Server]:
    """Its log and its caches are in `folder`."""
    port, log = free_port(), folder / "log"
    command = [
        str(VLLM), "serve", str(checkpoint), "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port),
        "--enforce-eager", "--max-model-len", "2048", "--limit-mm-per-prompt", '{"image":2,"video":0}', *options,
    ]
    environment = os.environ | {"VLLM_CACHE_ROOT": str(folder / "cache")}
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers_health(port):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(0.5)
        yield Server(port, log)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        finally:
            # Its workers are in its group; one that hangs must not outlive the test.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
