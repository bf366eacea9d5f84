"""A server's life while one call of the C library fails: start, streams of an image's chat, a
reading of the metrics, an end while a stream runs. It does not start and states why, or it serves;
at most the request that the failure hits is lost, the next one is answered as ever; nothing stays
open; and it ends in order."""

import http.client
import pathlib
import re
import signal

import pytest
from images import image_part, png, text_part
from server_process import ServerProcess, check_output, make_command
from test_soak import entries
from waiting import wait_for

pytestmark = pytest.mark.real_only
CALLS = ["malloc", "read", "write", "open", "mmap", "thread", "descriptor", "watch", "accept", "receive", "send"]
# lives for each kind of call, at most, that fail in requests; in the start a third as many
FEW, MANY = 6, 250
CHAT = {"messages": [{"role": "user", "content": [image_part(png(40, 30)), text_part("what is it?")]}], "max_tokens": 3, "temperature": 0}


@pytest.fixture
def live(request, kind, omma, tmp_path):
    """live(call, at, chat): a server of which the at-th call fails."""
    library = pathlib.Path(omma).resolve().parent / "tests" / "omma_fail_calls.so"
    if not library.exists():
        pytest.skip("built with a sanitizer, next to which nothing can be preloaded")
    report = tmp_path / "report"

    def run(call, at):
        given = {"LD_PRELOAD": str(library), "OMMA_FAIL_CALL": call, "OMMA_FAIL_AT": str(at), "OMMA_FAIL_REPORT": str(report)}
        environment = ["env", *(f"{name}={value}" for name, value in given.items())]
        return ServerProcess(environment + make_command(request.config, kind, {"threads": 1}))

    run.count = lambda: int(report.read_text())
    return run


def ask(server, **fields):
    """The reply's status and bytes; None for the status where the connection was closed early."""
    try:
        with server.send_post("/v1/chat/completions", {**CHAT, "stream": True, **fields}) as connection:
            data = read_all_of_one(connection)
    except ConnectionError:
        return None, b""
    return (int(data.split(b" ")[1]), data) if data else (None, b"")


def scrape(server):
    """The same of the metrics."""
    try:
        reply = server.get("/metrics")
    except (OSError, http.client.HTTPException):
        return None, b""
    assert reply.status != 200 or b"vllm:num_requests_running" in reply.body
    return reply.status, reply.body


def end_in_a_stream(server):
    """A stream's status and bytes, which goes on to its end although SIGTERM comes after its first
    byte."""
    status, data = None, b""
    try:
        with server.send_post("/v1/chat/completions", {**CHAT, "stream": True, "max_tokens": 60, "ignore_eos": True}) as connection:
            data = connection.recv(1)
            server.process.send_signal(signal.SIGTERM)
            data += read_all_of_one(connection) if data else b""
            status = int(data.split(b" ")[1]) if data else None
    except ConnectionError:
        server.process.send_signal(signal.SIGTERM)
    server.process.wait(90)
    return status, data


def read_all_of_one(connection):
    """A stream to its last chunk, or another reply to its end."""
    data = b""
    while not data.endswith((b"0\r\n\r\n", b"}}")):
        piece = connection.recv(65536)
        if not piece:
            break
        data += piece
    return data


def is_whole(reply):
    status, data = reply
    return status == 200 and (b"[DONE]" in data or b"vllm:" in data) and b'"error":' not in data


def text_of(data):
    """The answer's text, which is the same in each life."""
    return [line.split(b'"content":')[1].split(b'"')[1] for line in data.split(b"\n") if b'"content":' in line]


def lines_of(output):
    """Lines of the server without the time at which they were written."""
    return [re.sub(r"^\S+Z ", "", line) for line in output.splitlines()]


def live_through(server, files):
    """The replies of a life, whose server ends; between requests it must get down to that many
    descriptors, or None."""
    replies = [ask(server), scrape(server), ask(server)]
    if files is not None:
        wait_for(lambda: entries(server, "fd") <= files, f"{files} descriptors again")
    at_rest = entries(server, "fd")
    replies.append(end_in_a_stream(server))
    assert server.stop() == 0, server.output
    return replies, at_rest


def points(first, last, most):
    return range(first, last + 1, max(1, -(-(last - first + 1) // most)))


def count_of_start(live, call):
    """The calls of a life without requests, most of which are the start's."""
    assert live(call, 0).stop() == 0
    return live.count()


@pytest.mark.parametrize("call", CALLS)
def test_each_nth_call_fails(live, request, call):
    server = live(call, 0)
    replies, files = live_through(server, None)
    assert all(is_whole(reply) for reply in replies), replies
    expected, usual = [text_of(data) for _, data in replies], lines_of(server.output.decode())
    count, few = live.count(), MANY if request.config.getoption("--full") else FEW
    start = min(count_of_start(live, call), count)
    for at in [*points(1, start, few // 3), *points(start + 1, count, few)]:
        try:
            server = live(call, at)
        except RuntimeError as failure:
            errors = [line for line in lines_of(str(failure).partition("did not start: ")[2]) if line not in usual]
            assert len(errors) == 1 and errors[0].startswith("omma: "), f"{call} {at}: {failure}"
            continue
        replies, _ = live_through(server, files)
        lost = [reply for reply in replies if not is_whole(reply)]
        assert len(lost) <= 1 and {status for status, _ in lost} <= {None, 200, 503}, f"{call} {at}: {replies}"
        assert all(text_of(reply[1]) == text for reply, text in zip(replies, expected) if is_whole(reply)), f"{call} {at}"
        check_output(server)
