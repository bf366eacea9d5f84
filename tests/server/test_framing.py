"""Heads that a proxy in front could read otherwise, and heads of unusual size or form."""

import pytest
from server_process import read_all, read_until

CHAT = "/v1/chat/completions"
BODY = b'{"messages":[{"role":"user","content":"hello"}],"max_tokens":1}'
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"


def ask(server, head):
    with server.connect() as connection:
        connection.sendall(head + b"\r\nConnection: close\r\n\r\n")
        return read_all(connection)


def post(*headers):
    return "\r\n".join([f"POST {CHAT} HTTP/1.1", "Content-Type: application/json", *headers]).encode()


@pytest.mark.real_too
@pytest.mark.parametrize("head", [
    post("Host: x", f"Content-Length: {len(BODY)}", "Content-Length: 5"),
    post("Host: x", "Content-Length: 5", f"Content-Length: {len(BODY)}"),
    post("Host: x", f"Content-Length: {len(BODY)}", f"content-length: {len(BODY)}"),
    post("Host: x", f"Content-Length: {len(BODY)}, {len(BODY)}"),
    post("Host: x", f"Content-Length: +{len(BODY)}"),
    post("Host: x", f"Content-Length : {len(BODY)}"),
    post("Host: x", f"Content-Length: {len(BODY)}", "Transfer-Encoding: chunked"),
    post("Host: x", "Transfer-Encoding: chunked", f"Content-Length: {len(BODY)}"),
    post("Host: x", "Transfer-Encoding : chunked"),
    post("Host: x", "Transfer-Encoding: gzip"),
    post("Host: x", "Transfer-Encoding: chunked, identity"),
    post("Host: x", "Transfer-Encoding: gzip, chunked"),
    post("Host: x", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    post("Host: x", "Host: x", f"Content-Length: {len(BODY)}"),
    post("Host: x", "host: y", f"Content-Length: {len(BODY)}"),
    post(f"Content-Length: {len(BODY)}"),
    b"GET /health HTTP/1.1",
    b"GET /health HTTP/1.1\r\nHost: x\r\nHost: y",
    b"GET /health HTTP/1.1\r\nHost: x\r\nno colon",
    b"GET /health HTTP/1.1\r\nHost: x\r\nBad Name: 1",
    b"GET /health HTTP/1.1\r\n: 1\r\nHost: x",
    b"POST /ping HTTP/1.0\r\nTransfer-Encoding: chunked"])
def test_ambiguous_heads_are_refused_and_nothing_after_them_is_read(server, head):
    with server.connect() as connection:
        connection.sendall(head + b"\r\n\r\n" + BODY + SMUGGLED)
        data = read_all(connection)  # to its end: the server closes
    assert data.startswith(b"HTTP/1.1 400 ") and b"\r\nConnection: close\r\n" in data, data
    assert b"HTTP/1.1 2" not in data and b"HTTP/1.1 404" not in data, data
    assert server.get("/health").status == 200


@pytest.mark.real_too
@pytest.mark.parametrize("head, status", [
    (b"GET http://example.org/health HTTP/1.1\r\nHost: x", 200), (b"GET HTTP://example.org:80/v1/models?x=1 HTTP/1.1\r\nHost: x", 200),
    (b"GET https://example.org/nowhere HTTP/1.1\r\nHost: x", 404), (b"GET http://example.org HTTP/1.1\r\nHost: x", 200),
    (b"GET /health?a=%00&b HTTP/1.1\r\nHost: x", 200), (b"GET /health HTTP/1.0", 200), (b"GET ftp://x/health HTTP/1.1\r\nHost: x", 404),
    (b"OPTIONS * HTTP/1.1\r\nHost: x", 404), (b"GET /he%61lth HTTP/1.1\r\nHost: x", 200)])
def test_targets(server, head, status):
    assert ask(server, head).split(b" ")[1] == str(status).encode()


def test_targets_in_absolute_form_need_the_key_too(start):
    server = start(api_key="sesame")
    for target in (b"http://x/v1/models", b"http://x/metrics", b"http:///v1/models", b"http://x/health/../v1/models", b"HTTP://x/v1/models"):
        assert ask(server, b"GET " + target + b" HTTP/1.1\r\nHost: x").startswith(b"HTTP/1.1 401 "), target
    for target in (b"http://x/health", b"HTTP://x"):  # what needs none: the page at / asks for it
        assert ask(server, b"GET " + target + b" HTTP/1.1\r\nHost: x").startswith(b"HTTP/1.1 200 "), target


@pytest.mark.real_too
@pytest.mark.parametrize("n", [100, 1900, 2000, 3000, 8000])
def test_many_query_arguments_get_a_reply(server, n):
    query = b"&".join(b"a%d=1" % i for i in range(n))
    with server.connect() as connection:
        connection.sendall(b"GET /health?" + query + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")


@pytest.mark.real_too
@pytest.mark.parametrize("n", [2000, 20000])
def test_many_headers_get_a_reply(server, n):
    with server.connect() as connection:
        try:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"".join(b"a%d: 1\r\n" % i for i in range(n)) + b"\r\n")
        except OSError:
            pass
        data = read_all(connection)
    # what came after the reply may have reset the connection
    assert data.startswith(b"HTTP/1.1 431 ") or n > 2000, data
    assert server.get("/health").status == 200
