"""A client that openapi-python-client generates from /openapi.json."""

import importlib
import subprocess
import sys

import pytest
from openapi_spec_validator import validate


@pytest.fixture(scope="module")
def generated(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_bytes(server.get("/openapi.json").body)
    made = subprocess.run([sys.executable, "-m", "openapi_python_client", "generate", "--path", folder / "openapi.json", "--output-path",
                           folder / "client", "--meta", "none"], capture_output=True, text=True)
    assert made.returncode == 0 and "WARNING" not in made.stdout + made.stderr, made.stdout + made.stderr
    sys.path.insert(0, str(folder))
    yield importlib.import_module("client")
    sys.path.remove(str(folder))


@pytest.fixture
def call(generated, server):
    def run(operation, path=(), **fields):
        module = importlib.import_module(f"client.api.default.{operation}")
        models = importlib.import_module("client.models")
        if fields:
            name = next(name for name in dir(models) if name.lower() == operation.replace("_", "") + "body")
            fields = {"body": getattr(models, name).from_dict(fields)}
        with generated.Client(base_url=f"http://127.0.0.1:{server.port}", raise_on_unexpected_status=True) as client:
            return module.sync_detailed(*path, client=client, **fields)
    return run


def test_the_document_is_valid(server):
    validate(server.get("/openapi.json").json)


def test_a_chat_with_an_image(call, question, answer):
    reply = call("post_v1_chat_completions", messages=[{"role": "user", "content": question}], temperature=0, max_tokens=100, stop=["\n\n"])
    assert reply.status_code == 200 and reply.parsed.to_dict()["choices"][0]["message"]["content"] == answer


@pytest.mark.parametrize("operation, fields, key", [
    ("post_v1_completions", {"prompt": "a", "max_tokens": 2}, "choices"), ("post_v1_responses", {"input": "a", "max_output_tokens": 2}, "output"),
    ("post_v1_messages", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2}, "content"),
    ("post_tokenize", {"prompt": "a"}, "tokens"), ("post_detokenize", {"tokens": [1, 2]}, "prompt")])
def test_other_requests(call, operation, fields, key):
    assert key in call(operation, **fields).parsed.to_dict()


def test_an_error(call):
    reply = call("post_v1_completions", prompt="a", max_tokens=2, temperature=9)
    assert reply.status_code == 400 and "temperature" in reply.parsed.error.message


def test_routes_without_a_body(call):
    assert call("get_health").status_code == 200 and call("get_v1_models_model", path=("demo",)).status_code == 200
