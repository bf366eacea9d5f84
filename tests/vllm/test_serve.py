"""`vllm serve` and `vllm bench serve`, as their users call them, with the plugin installed and
nothing else done."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from vllm_server import VLLM, Server, serve


@pytest.fixture(scope="module")
def server(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(checkpoint, tmp_path_factory.mktemp("serve")) as running:
        yield running


def ask(server: Server, image: Path) -> str:
    data = base64.b64encode(image.read_bytes()).decode()
    body = {
        "model": "tiny", "temperature": 0, "max_tokens": 12,
        "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}},
            {"type": "text", "text": "What is in this picture?"},
        ]}],
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def test_answers_depend_on_the_image(server: Server, golden: Path) -> None:
    images = [golden / "images" / name for name in ("meadow_163x97.jpg", "harbour_301x211.jpg")]
    assert ask(server, images[0]) != ask(server, images[1])


def test_log_states_that_the_plugin_is_active(server: Server) -> None:
    lines = [line for line in server.log.read_text().splitlines() if "Ommatidia" in line]
    assert len(lines) == 1 and "is active: encoder attention in bfloat16, heads of 72, kernel" in lines[0]


def test_bench_serve(server: Server, checkpoint: Path, tmp_path: Path) -> None:
    command = [
        str(VLLM), "bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--host", "127.0.0.1",
        "--port", str(server.port), "--model", "tiny", "--tokenizer", str(checkpoint), "--dataset-name", "random-mm",
        "--num-prompts", "6", "--random-input-len", "20", "--random-output-len", "8", "--random-mm-base-items-per-request", "1",
        "--random-mm-limit-mm-per-prompt", '{"image":2,"video":0}', "--random-mm-bucket-config", "{(256,256,1):1.0}",
        "--save-result", "--result-dir", str(tmp_path), "--result-filename", "result.json",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:]
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["completed"], result["failed"]) == (6, 0)
