"""An encoder node of this tree, `omma serve --mm-encoder-only`, for tests with vLLM."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Self

ROOT = Path(__file__).resolve().parent.parent.parent
OMMA = os.environ.get("OMMA_BINARY", str(ROOT / "build" / "release" / "omma"))


def example_connector(role: str, folder: Path) -> dict[str, Any]:
    """What vLLM's users write for files in a directory."""
    return {"ec_connector": "ECExampleConnector", "ec_role": role, "ec_connector_extra_config": {"shared_storage_path": str(folder)}}


def own_connector(**options: Any) -> dict[str, Any]:
    return {
        "ec_connector": "OmmatidiaConnector", "ec_role": "ec_consumer",
        "ec_connector_module_path": "vllm_ommatidia.encoder_connector", "ec_connector_extra_config": options,
    }


def image_part(image: Path, uuid: str) -> dict[str, Any]:
    data = base64.b64encode(image.read_bytes()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image;base64,{data}"}, "uuid": uuid}


class Program:
    """A server that prints where it serves; runs for the time of a `with` block."""

    def __init__(self, *command: str) -> None:
        self._command = command
        self.url = ""
        self.said = ""
        self._killed = False

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said += line
            if found := re.search(r"serving at (http://[^/\s]+)", line):
                self.url = found[1]
                return self
        raise AssertionError(self.said)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stderr is not None
        self._process.send_signal(signal.SIGINT)
        self.said += self._process.stderr.read()
        assert self._process.wait(60) == (-signal.SIGKILL if self._killed else 0)
        self._process.stderr.close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._killed = True


def whole_server(model: Path) -> Program:
    """The same program with the whole model, which vLLM's answers are compared with."""
    return Program(OMMA, "serve", str(model), "--port", "0", "--dtype", "float32", "--served-model-name", "tiny")


class Proxy(Program):
    """omma-encoder-proxy, once it has found that node and vLLM fit."""

    def __init__(self, vllm_url: str, *node_urls: str) -> None:
        nodes = (word for url in node_urls for word in ("--encoder", url))
        super().__init__(sys.executable, "-m", "vllm_ommatidia.proxy", "--port", "0", "--vllm", vllm_url, *nodes)

    def encoded(self, node_url: str) -> int:
        """Images that the node has encoded."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as reply:
            text = reply.read().decode()
        name = re.escape(f'omma_proxy:images_total{{node="{node_url}",outcome="encoded"}}')
        found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def __enter__(self) -> Self:
        super().__enter__()
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said += line
            if " ready " in line:
                return self
        raise AssertionError(self.said)


class EncoderNode(Program):
    def __init__(self, model: Path, files: Path | None = None, key: str | None = None) -> None:
        options = ("--ec-transfer-config", json.dumps(example_connector("ec_producer", files))) if files else ()
        super().__init__(OMMA, "serve", str(model), "--port", "0", "--mm-encoder-only", "--dtype", "float32", *options, *(("--api-key", key) if key else ()))

    @property
    def fingerprint(self) -> str:
        """Of its checkpoint, from its log."""
        found = re.search(r"; checkpoint ([0-9a-f]{64})$", self.said, re.MULTILINE)
        assert found, self.said
        return found[1]

    def encode(self, image: Path, uuid: str) -> dict[str, Any]:
        body = {"messages": [{"role": "user", "content": [image_part(image, uuid)]}], "max_tokens": 1}
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            return dict(json.load(reply))
