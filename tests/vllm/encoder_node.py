"""An encoder node of this tree, `omma serve --mm-encoder-only`, for tests with vLLM."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

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


class EncoderNode:
    """Runs for the time of a `with` block."""

    def __init__(self, model: Path, *options: str, files: Path | None = None) -> None:
        self._command = [OMMA, "serve", str(model), "--port", "0", "--mm-encoder-only", "--dtype", "float32", *options]
        if files:
            self._command += ["--ec-transfer-config", json.dumps(example_connector("ec_producer", files))]
        self.url = ""
        self.fingerprint = ""

    def __enter__(self) -> EncoderNode:
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = ""
        for line in self._process.stderr:
            said += line
            if found := re.search(r"; checkpoint ([0-9a-f]{64})$", line):
                self.fingerprint = found[1]
            if found := re.search(r"serving at (http://\S+)/v1", line):
                self.url = found[1]
                return self
        raise AssertionError(said)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stderr is not None
        self._process.terminate()
        self._process.stderr.read()
        assert self._process.wait(60) == 0
        self._process.stderr.close()

    def encode(self, image: Path, uuid: str) -> dict[str, Any]:
        body = {"messages": [{"role": "user", "content": [image_part(image, uuid)]}], "max_tokens": 1}
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            return dict(json.load(reply))
