"""A server without any optional library and without omma-bench: it answers, and says in one line
what it has not when it is asked for that.

Run with: tools/test_without.sh
"""

import base64
import re
import subprocess

import pytest

from conftest import ROOT
from omma_program import refused
from server_process import ServerProcess, check_output

DEMO = ROOT / "models" / "demo"
CROSS = DEMO / "images" / "cross.png"
HEIC = ROOT / "tests" / "data" / "image" / "optional" / "photo.heic"
LIBRARIES = ("curl", "edit", "gnutls", "heif", "hiredis", "rsvg", "cairo", "tiff", "yaml", "zmq", "msgpack")


@pytest.fixture(scope="module")
def server(omma):
    process = ServerProcess([omma.path, "serve", str(DEMO), "--port", "0"])
    yield process
    process.stop()
    check_output(process)


def data_url(path, kind):
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def ask(server, url, text="What color is the cross?"):
    return server.chat([{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": text}], temperature=0)


def test_none_of_them_is_linked(omma):
    needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", omma.path], capture_output=True, text=True, check=True).stdout)
    assert needed and not [name for name in needed if any(library in name for library in LIBRARIES)], needed


def test_it_answers(omma, server):
    assert omma("chat", CROSS, "What color is the cross?").stdout == b"The cross is orange.\n"
    assert ask(server, data_url(CROSS, "image/png")).json["choices"][0]["message"]["content"] == "The cross is orange."
    assert "vllm:num_requests_running" in server.get("/metrics").body.decode()


def test_an_image_by_its_address(server):
    reply = ask(server, "http://127.0.0.1:1/a.png")
    assert reply.status == 400
    assert reply.error["message"].endswith(": This server fetches no images, for it was built without libcurl: send them as data: URLs.")


def test_an_image_of_a_format_that_needs_a_library(omma, server):
    reply = ask(server, data_url(HEIC, "image/heic"))
    assert reply.status == 400 and "HEIF/AVIF images are not supported: expected one of JPEG, PNG" in reply.error["message"]
    refused(omma("chat", HEIC, "What is this?"), 1, "images are not supported: expected one of")


@pytest.mark.parametrize("option, value, library", [
    ("--allowed-media-domains", "example.org", "libcurl"),
    ("--otlp-traces-endpoint", "http://127.0.0.1:1/v1/traces", "libcurl"),
    ("--ssl-certfile", "a.pem", "GnuTLS"),
    ("--encoder-cache-url", "redis://127.0.0.1:1", "hiredis"),
    ("--kv-events-config", '{"enable_kv_cache_events": true, "publisher": "zmq"}', "ZeroMQ"),
    ("--config", "a.yaml", "this build cannot read YAML: it needs libyaml"),
])
def test_an_option_that_needs_a_library(omma, tmp_path, option, value, library):
    if value.startswith("a."):
        (tmp_path / value).write_text("port: 8000\n")
        value = tmp_path / value
    more = ["--ssl-keyfile", value] if option == "--ssl-certfile" else []
    refused(omma("serve", DEMO, "--port", 0, option, value, *more), 2 if option == "--config" else 1, library)


def test_the_benchmark_of_servers(omma):
    refused(omma("bench", "serve", "--model", "m"), 1, "the program omma-bench is neither next to omma nor in PATH", "OMMA_BENCH")
    assert b"bench serve" in omma("help").stdout
    assert omma.json("bench", "decode", DEMO, "--context", 8, "--tokens", 2, "--repeat", 1, "--warmup", 0, "--json")
