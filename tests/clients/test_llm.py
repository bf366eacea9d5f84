"""The program `llm` with an attachment, and the model from its list of further models of OpenAI's
interface."""

import json
import os
import pathlib
import subprocess
import sys

import pytest


@pytest.fixture
def llm(base_url, tmp_path):
    (tmp_path / "extra-openai-models.yaml").write_text(
        # JSON is YAML
        json.dumps([{"model_id": "omma", "model_name": "demo", "api_base": base_url, "vision": True}]))

    def run(*words):
        program = pathlib.Path(sys.executable).parent / "llm"
        done = subprocess.run([program, *words], env={**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"}, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("streamed", [[], ["--no-stream"]])
def test_attachment(llm, image, server, streamed):
    words = ["-m", "omma", "-a", str(image), "-o", "temperature", "0", "-o", "max_tokens", "100", *streamed, "Where is the orange cross?"]
    first, again = llm(*words), llm(*words)
    assert first.strip() and first == again


def test_models(llm):
    assert "omma" in llm("models")
