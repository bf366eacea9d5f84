"""A server's life while one call of the C library fails: start, a chat with an image, the end. It does not start and says why, or it serves; at most
the request that the failure hits is lost, the next one is answered as ever; and it ends in order."""

import pathlib

import pytest
from pictures import image_part, png, text_part
from server_process import ServerProcess, check_output, make_command

pytestmark = pytest.mark.real_only
CALLS = ["malloc", "read", "open", "mmap", "thread", "accept", "receive", "send"]
FEW, MANY = 6, 250  # lives for each kind of call, at most
CHAT = {"messages": [{"role": "user", "content": [image_part(png(40, 30)), text_part("what is it?")]}], "max_tokens": 3, "temperature": 0}


@pytest.fixture
def live(request, kind, omma, tmp_path):
    """live(call, at, chat): a server of which the at-th call fails."""
    library = pathlib.Path(omma).resolve().parent / "tests" / "omma_fail_calls.so"
    if not library.exists():
        pytest.skip("built with a sanitizer, beside which nothing can be preloaded")
    report = tmp_path / "report"

    def run(call, at):
        given = {"LD_PRELOAD": str(library), "OMMA_FAIL_CALL": call, "OMMA_FAIL_AT": str(at), "OMMA_FAIL_REPORT": str(report)}
        environment = ["env", *(f"{name}={value}" for name, value in given.items())]
        return ServerProcess(environment + make_command(request.config, kind, {"threads": 1}))

    run.count = lambda: int(report.read_text())
    return run


def ask(server):
    """The reply's status and text; None for both where the connection was closed early."""
    try:
        with server.send_post("/v1/chat/completions", {**CHAT, "stream": True}) as connection:
            data = read_all_of_one(connection)
    except ConnectionError:
        return None, b""
    return (int(data.split(b" ")[1]), data) if data else (None, b"")


def read_all_of_one(connection):
    """A stream to its last chunk, or another reply to its end."""
    data = b""
    while not data.endswith((b"0\r\n\r\n", b"}}")):
        piece = connection.recv(65536)
        if not piece:
            break
        data += piece
    return data


def text_of(data):
    """The answer's text, which is the same in each life."""
    return [line.split(b'"content":')[1].split(b'"')[1] for line in data.split(b"\n") if b'"content":' in line]


def points(count, most):
    step = max(1, -(-count // most))
    return range(1, count + 1, step)


@pytest.mark.parametrize("call", CALLS)
def test_each_nth_call_fails(live, request, call):
    server = live(call, 0)
    status, data = ask(server)
    assert status == 200 and ask(server)[0] == 200 and server.stop() == 0
    expected, usual = text_of(data), server.output.decode().splitlines()
    for at in points(live.count(), MANY if request.config.getoption("--full") else FEW):
        try:
            server = live(call, at)
        except RuntimeError as failure:
            told = [line for line in str(failure).partition("did not start: ")[2].splitlines() if line not in usual]
            assert len(told) == 1 and told[0].startswith("omma: "), f"{call} {at}: {failure}"
            continue
        replies = [ask(server) for _ in range(2)]
        lost = [status for status, data in replies if status != 200 or b"[DONE]" not in data]
        assert len(lost) <= 1 and not set(lost) - {None, 200, 503}, f"{call} {at}: {replies}"
        assert all(text_of(data) == expected for status, data in replies if status == 200 and b"[DONE]" in data and b'"error"' not in data)
        server.stop()
        check_output(server)
