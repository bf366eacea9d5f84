"""What the client asks besides the load: GET /v1/models, POST /tokenize and /detokenize."""

import subprocess
import time

import pytest
from stub_server import StubServer, error, other_reply, stream

KEY = "Bearer a secret"


def gateway(request):
    """Lets nobody in without the key; after it every prompt has two tokens more than here."""
    if request.headers.get("authorization") != KEY:
        return error("401 Unauthorized", {"error": {"message": "no key"}})
    if request.path == "/tokenize":
        return error("200 OK", {"tokens": list(range(len(request.json["prompt"].split()) + 40))})
    if request.path == "/detokenize":
        return error("200 OK", {"prompt": "cut to length"})
    return other_reply(request)


def test_the_key_is_sent_with_every_question(bench):
    with StubServer(lambda request: stream(["x"]), other=gateway) as server:
        result = bench(server, "--dataset-name", "random", "--num-prompts", 2, "--random-input-len", 6, "--random-output-len", 3,
                       "--header", "Authorization=" + KEY, chat=False)
    assert result.returncode == 0, result.stderr
    assert [request.path for request in server.others] == ["/tokenize", "/detokenize"] * 2
    assert [request.headers["authorization"] for request in server.requests] == [KEY] * 2
    assert [request.json["prompt"] for request in server.requests] == ["cut to length"] * 2


@pytest.mark.parametrize("words, path, code", [([], "/v1/models", 1), (["--model", "stub-model"], "/tokenize", 0)])
def test_a_silent_server_is_not_waited_for(request, model, words, path, code):
    def silent(question):
        return [60.0] if question.path == path else other_reply(question)

    with StubServer(lambda _: stream(["x"]), other=silent) as server:
        command = [request.config.getoption("--omma"), "bench", "serve", "--port", str(server.port), "--tokenizer", model, "--num-prompts",
                   "1", "--random-input-len", "6", "--random-output-len", "3", *words]
        before = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert 9 < time.monotonic() - before < 30
    assert done.returncode == code and len(done.stderr.splitlines()) == 1, done.stderr
    assert (f"{path}: no end within 10 s" if code else f"omma: waiting for http://127.0.0.1:{server.port}{path}, 10 s at most") in done.stderr


@pytest.mark.parametrize("base, status, part", [
    ("", "401 Unauthorized", 'HTTP 401: give the key with --header "Authorization=Bearer KEY"'),
    ("/v1", "403 Forbidden", 'HTTP 403: give the key with --header "Authorization=Bearer KEY"'),
    ("/v1", "404 Not Found", "HTTP 404: give --base-url without /v1 at its end"),
    ("/v1/", "200 OK", "the reply names no model: give --base-url without /v1 at its end"),
    ("", "404 Not Found", "HTTP 404: name the model with --model"),
    ("", "200 OK", "the reply names no model: name the model with --model"),
])
def test_no_list_of_models(request, base, status, part):
    with StubServer(lambda _: stream(["x"]), other=lambda _: error(status, b"")) as server:
        command = [request.config.getoption("--omma"), "bench", "serve", "--base-url", f"http://127.0.0.1:{server.port}{base}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 1 and part in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("option", ["--input-len", "--output-len", "--random-input-len", "--random-output-len", "--random-prefix-len"])
def test_lengths_are_bounded(request, option):
    command = [request.config.getoption("--omma"), "bench", "serve", "--dataset-name", "random", option]
    for value in ("10000001", str(2**63 - 1)):
        done = subprocess.run([*command, value], capture_output=True, text=True, timeout=50)
        assert done.returncode == 2 and option in done.stderr and "10000000" in done.stderr, done.stderr


def test_the_example_of_a_header_makes_a_key(request):
    """As the server wants it: a word, a blank, the key."""
    text = subprocess.run([request.config.getoption("--omma"), "bench", "serve", "--help"], capture_output=True, text=True, check=True).stdout
    assert '"Authorization=Bearer KEY"' in " ".join(text.split())
