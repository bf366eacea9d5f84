"""What the adapters are tested with: the demo model, and a small model for vectors."""

import pathlib
import sys

import pytest
from ommatidia import Model

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import vector_cases  # noqa: E402

CROSS = ROOT / "models" / "demo" / "images" / "cross.png"


@pytest.fixture(scope="session")
def demo():
    with Model(ROOT / "models" / "demo") as model:
        yield model


@pytest.fixture(scope="session")
def caller():
    """Random weights, and a chat template with tools."""
    template = ROOT / "tests" / "data" / "chat" / "templates" / "qwen3_vl_instruct.jinja"
    with Model(ROOT / "tests" / "golden" / "qwen3_vl_tied", tool_call_parser="hermes", chat_template=template) as model:
        yield model


@pytest.fixture(scope="session")
def embedder(tmp_path_factory):
    with Model(vector_cases.make_model(tmp_path_factory.mktemp("models") / "Tiny-Embedding"), dtype="float32") as model:
        yield model


@pytest.fixture(scope="session")
def cross():
    return CROSS
