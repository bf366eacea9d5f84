"""Options of `omma serve` that take several words, as `vllm serve` has them."""

import pytest
from media_host import MediaHost
from server_process import ServerProcess, check_output


@pytest.fixture
def serve(omma):
    """serve(word, ...): the program with these words after `omma serve`."""
    processes = []

    def run(*words):
        processes.append(ServerProcess([omma, "serve", *words]))
        return processes[-1]

    yield run
    for process in processes:
        process.stop()
        check_output(process)


def names(server):
    return [entry["id"] for entry in server.get("/v1/models").json["data"]]


def test_several_names(serve, model):
    assert names(serve(model, "--served-model-name", "a", "b", "--port", "0")) == ["a", "b"]
    assert names(serve("--port=0", "--served-model-name", "a", "b", "--served-model-name", "c", "--", model)) == ["a", "b", "c"]


def test_a_name_after_an_equals_sign_is_one(serve, model):
    assert names(serve("--port", "0", "--served-model-name=a", model)) == ["a"]


def test_several_hosts(serve, model):
    host = MediaHost()
    server = serve(model, "--port", "0", "--allowed-media-domains", "example.org", "127.0.0.1", "--allow-private-media-addresses")
    part = {"type": "image_url", "image_url": {"url": host.url("image/64")}}
    reply = server.chat(messages=[{"role": "user", "content": [part]}], max_tokens=1)
    host.close()
    assert reply.status == 200, reply.body
