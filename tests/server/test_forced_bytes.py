"""Bytes that a schema forces are drafted several tokens at a time: where the model knows the text,
all drafts are right, the answer is the one that the model writes freely, and it takes fewer steps.
On the demo model, which knows the form of boxes."""

import base64
import pathlib

import pytest

from server_process import ServerProcess, check_output
from test_metrics import read

DEMO = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo"
BOX = {"type": "object", "required": ["bbox_2d", "label"], "additionalProperties": False, "properties": {
    "bbox_2d": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 1000}, "minItems": 4, "maxItems": 4},
    "label": {"type": "string"}}}
BOXES = {"type": "array", "items": BOX, "minItems": 1, "maxItems": 1}

pytestmark = pytest.mark.real_only


@pytest.fixture
def demo(omma, kind):
    server = ServerProcess([omma, "serve", str(DEMO), "--host", "127.0.0.1", "--port", "0", "--served-model-name", "test-model"])
    yield server
    server.stop()
    check_output(server)


def ask(server, **fields):
    url = "data:image/png;base64," + base64.b64encode((DEMO / "images" / "cross.png").read_bytes()).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "Where is the orange cross?"}]
    reply = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 100, "temperature": 0, **fields})
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]["content"]


def drafts(server):
    samples, _ = read(server)
    return samples["vllm:spec_decode_num_draft_tokens_total"], samples["vllm:spec_decode_num_accepted_tokens_total"]


def test_what_the_model_knows_is_drafted_right(demo):
    free = ask(demo)
    assert drafts(demo) == (0, 0)
    assert ask(demo, response_format={"type": "json_schema", "json_schema": {"name": "boxes", "schema": BOXES}}) == free
    drafted, right = drafts(demo)
    assert drafted == right >= 10
