"""examples/encoder_proxy.py between a client, an encoder node and a server that stands for vLLM."""

import hashlib
import http.server
import json
import pathlib
import subprocess
import sys
import threading

import pytest

from images import data_url, image_part, png, text_part
from server_process import ServerProcess, check_output, make_command

pytestmark = pytest.mark.real_only
PROXY = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "encoder_proxy.py"


class Decoder:
    """Keeps the bodies that it gets; its replies have the status that is next, or 200."""

    def __init__(self):
        decoder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply(200, b"models")

            def do_POST(self):
                decoder.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                decoder.keys.append(self.headers["Authorization"])
                self.reply(decoder.statuses.pop(0) if decoder.statuses else 200, b'{"answer":true}')

            def reply(self, status, body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                pass

        self.bodies, self.keys, self.statuses = [], [], []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def decoder():
    made = Decoder()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(scope="module")
def node(request, kind):
    process = ServerProcess(make_command(request.config, kind, {"mm_encoder_only": True, "dtype": "f32"}))
    yield process
    process.stop()
    check_output(process)


def start_proxy(decoder, *nodes):
    command = [sys.executable, str(PROXY), "--port", "0", "--vllm", decoder.url]
    return ServerProcess(command + [word for url in nodes for word in ("--encoder", url)])


@pytest.fixture(scope="module")
def proxy(node, decoder):
    process = start_proxy(decoder, f"http://127.0.0.1:{node.port}")
    yield process
    process.stop()


@pytest.fixture(autouse=True)
def nothing_yet(decoder):
    decoder.bodies.clear()
    decoder.keys.clear()
    decoder.statuses.clear()


def uuid_of(data):
    return hashlib.sha256(data_url(data).encode()).hexdigest()


def test_images_become_grids_and_uuids(proxy, node, decoder):
    images = [png(64, 96), png(32, 32, 5)]
    parts = [image_part(images[0]), text_part("and"), image_part(images[1]), image_part(images[0])]
    reply = proxy.chat(parts, temperature=0, headers={"Authorization": "Bearer key"})
    assert (reply.status, reply.json) == (200, {"answer": True})
    (body,) = decoder.bodies
    assert body["temperature"] == 0 and decoder.keys == ["Bearer key"]
    content = body["messages"][0]["content"]
    assert [part["type"] for part in content] == ["image_embeds", "text", "image_embeds", "image_embeds"]
    assert [part["uuid"] for part in content if "uuid" in part] == [uuid_of(images[0]), uuid_of(images[1]), uuid_of(images[0])]
    assert all(len(part["image_embeds"]["image_grid_thw"]) == 3 for part in content if "uuid" in part)
    url = f"http://127.0.0.1:{node.port}"
    assert body["ec_transfer_params"] == {uuid_of(data): {"encoder_url": url} for data in images}
    assert node.get(f"/v1/encodings/{uuid_of(images[1])}").status == 200


def test_the_name_of_the_model_is_for_vllm_alone(proxy, decoder):
    """Node and vLLM may serve the same model under different names."""
    assert proxy.chat([image_part()], model="as vLLM calls it").status == 200
    (body,) = decoder.bodies
    assert body["model"] == "as vLLM calls it" and body["messages"][0]["content"][0]["type"] == "image_embeds"


def test_the_rest_is_handed_on(proxy, decoder):
    assert proxy.get("/v1/models").body == b"models"
    assert proxy.chat("hello").status == 200 and proxy.post("/v1/completions", {"prompt": "x"}).status == 200
    assert decoder.bodies == [{"messages": [{"role": "user", "content": "hello"}]}, {"prompt": "x"}]


@pytest.mark.parametrize("parts", [
    [image_part(b"no image")], [{"type": "image_url"}], [{"type": "image_url", "image_url": {"url": 7}}],
])
def test_what_a_node_refuses_goes_to_vllm_as_it_came(proxy, decoder, parts):
    assert proxy.chat(parts).status == 200
    assert decoder.bodies == [{"messages": [{"role": "user", "content": parts}]}]


def test_vllm_gets_the_images_where_it_cannot_get_their_embeddings(proxy, decoder):
    decoder.statuses[:] = [500]
    assert proxy.chat([image_part()]).status == 200
    assert [body["messages"][0]["content"][0]["type"] for body in decoder.bodies] == ["image_embeds", "image_url"]


def test_without_nodes_vllm_encodes(decoder):
    process = start_proxy(decoder, "http://127.0.0.1:1")
    try:
        assert process.chat([image_part()]).status == 200
        assert decoder.bodies[0]["messages"][0]["content"][0]["type"] == "image_url"
    finally:
        process.stop()
