"""`--omma PATH`: the program whose server real clients talk to, with the demo model. Their versions
are those of tests/requirements-clients.txt."""

import json
import os
import pathlib
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests" / folder) for folder in ("server", "support")]
import vector_cases  # noqa: E402
from server_process import ServerProcess, check_output  # noqa: E402

# Clients that would ask other machines for prices or tell them of their use.
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LANGCHAIN_TRACING_V2="false", LITELLM_TELEMETRY="False")


def pytest_addoption(parser):
    parser.addoption("--omma", required=True, help="the program to test")


def serve(config, model, *options):
    process = ServerProcess([config.getoption("--omma"), "serve", str(model), "--host", "127.0.0.1", "--port", "0", *map(str, options)])
    yield process
    process.stop()
    check_output(process)


DEMO = (REPOSITORY / "models" / "demo", "--served-model-name", "demo", "org/demo")


@pytest.fixture(scope="session")
def server(request):
    yield from serve(request.config, *DEMO)


@pytest.fixture(scope="session")
def tool_server(request):
    """With a chat template that has tools."""
    yield from serve(request.config, *DEMO, "--chat-template", REPOSITORY / "tests/data/chat/templates/qwen3_vl_instruct.jinja",
                     "--enable-auto-tool-choice", "--tool-call-parser", "hermes")


@pytest.fixture(scope="session")
def embedder(request, tmp_path_factory):
    """A model of vectors."""
    model = vector_cases.make_model(tmp_path_factory.mktemp("models") / "Tiny-Embedding")
    (model / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"search_query": "Find it.", "search_document": ""}}))
    yield from serve(request.config, model, "--served-model-name", "vectors")


@pytest.fixture(scope="session")
def reranker(request, tmp_path_factory):
    model = vector_cases.make_model(tmp_path_factory.mktemp("models") / "Tiny-Reranker")
    yield from serve(request.config, model, "--served-model-name", "scores")


@pytest.fixture(scope="session")
def base_url(server):
    return f"http://127.0.0.1:{server.port}/v1"


@pytest.fixture(scope="session")
def tool_base_url(tool_server):
    return f"http://127.0.0.1:{tool_server.port}/v1"


@pytest.fixture(scope="session")
def place_schema():
    """Of a tool's arguments. Nothing in it is without bounds, so that a model that was not trained
    for tools comes to an end."""
    return {"type": "object", "properties": {"colour": {"type": "string", "enum": ["orange", "blue"]}, "note": {"type": "string", "maxLength": 8},
                                             "x": {"type": "integer", "minimum": 0, "maximum": 999}},
            "required": ["colour", "note", "x"], "additionalProperties": False}


@pytest.fixture(scope="session")
def check_place(place_schema):
    def check(arguments):
        assert sorted(arguments) == sorted(place_schema["required"])
        assert arguments["colour"] in ("orange", "blue") and len(arguments["note"]) <= 8 and 0 <= arguments["x"] <= 999
    return check


@pytest.fixture(scope="session")
def tools(place_schema):
    """In OpenAI's form."""
    return [{"type": "function", "function": {"name": "place", "description": "Where something is.", "parameters": place_schema}},
            {"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}]


@pytest.fixture(scope="session")
def image():
    """A file on which the demo model sees an orange cross."""
    return REPOSITORY / "models" / "demo" / "images" / "cross.png"


@pytest.fixture(scope="session")
def question(image):
    """The content of a message about it, in OpenAI's form."""
    from images import image_part, text_part
    return [image_part(image.read_bytes()), text_part("Where is the orange cross?")]


@pytest.fixture(scope="session")
def answer(server, question):
    """What the server answers without any client library."""
    reply = server.chat(question, temperature=0, max_tokens=100)
    assert reply.status == 200, reply.body
    text = reply.json["choices"][0]["message"]["content"]
    assert text
    return text
