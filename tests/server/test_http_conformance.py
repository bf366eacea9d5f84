"""What RFC 9112 lets a client do on one connection: requests one after the other, chunks in any
form, bytes one by one, errors in between."""

import socket

import pytest
from server_process import read_all, read_until

CHAT = "/v1/chat/completions"
BODY = b'{"messages":[{"role":"user","content":"hello"}],"max_tokens":1}'
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def post(body=BODY, *headers, path=CHAT):
    head = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json", *headers, f"Content-Length: {len(body)}"]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def chunked(body, headers=""):
    return f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n{headers}\r\n".encode() + body


def replies(data):
    """The statuses and bodies of replies one after the other, each of which states its length."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        status = int(lines[0].split(b" ")[1])
        if status == 100:
            continue
        fields = dict(line.lower().split(b": ", 1) for line in lines[1:])
        length = int(fields[b"content-length"])
        found.append((status, data[:length]))
        assert len(data) >= length, data
        data = data[length:]
    return found


def read_reply(connection):
    """The status of one reply, which is read to its end."""
    head, _, body = read_until(connection, b"\r\n\r\n").partition(b"\r\n\r\n")
    length = next(int(line.split()[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += connection.recv(length - len(body))
    return int(head.split(b" ")[1])


def ask(server, *pieces):
    """All replies to what is sent in these pieces, the last of which asks for the end of the
    connection."""
    with server.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
        return replies(read_all(connection))


@pytest.mark.real_too
def test_pipelined_requests_are_answered_in_order(server):
    models = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    found = ask(server, post() + models + post(b"{") + HEALTH + post() + b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" + LAST)
    assert [status for status, _ in found] == [200, 200, 400, 200, 200, 404, 200]
    assert b'"choices"' in found[0][1] and b'"data"' in found[1][1] and found[3][1] == found[6][1] == b""


@pytest.mark.real_too
def test_a_stream_and_a_request_after_it(server):
    stream = post(BODY[:-1] + b',"stream":true}')
    with server.connect() as connection:
        connection.sendall(stream + LAST)
        data = read_all(connection)
    first, mark, second = data.partition(b"\r\n0\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200 ") and mark and b"[DONE]" in first
    assert [status for status, _ in replies(second)] == [200]


@pytest.mark.real_too
def test_bytes_one_by_one(server):
    data = post() + LAST
    assert [status for status, _ in ask(server, *(data[i:i + 1] for i in range(len(data))))] == [200, 200]


@pytest.mark.real_too
@pytest.mark.parametrize("body", [
    b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
    b"%X;name=value\r\n%b\r\n0;last\r\n\r\n" % (len(BODY), BODY),
    b'%x;name="a quoted value"\r\n%b\r\n0\r\n\r\n' % (len(BODY), BODY),
    b"000000%x\r\n%b\r\n000\r\n\r\n" % (len(BODY), BODY),
    b"1\r\n{\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(BODY) - 1, BODY[1:]),
    b"%x\r\n%b\r\n0\r\nX-Trailer: 1\r\nContent-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\n" % (len(BODY), BODY)],
    ids=["plain", "extension", "quoted extension", "leading zeros", "two chunks", "trailers"])
def test_chunks(server, body):
    assert [status for status, _ in ask(server, chunked(body) + LAST)] == [200, 200]
    data = chunked(body) + LAST
    assert [status for status, _ in ask(server, *(data[i:i + 1] for i in range(len(data))))] == [200, 200]


@pytest.mark.real_too
@pytest.mark.parametrize("body", [
    b"x\r\n", b"-1\r\n", b"0x5\r\n", b"+5\r\n", b" 5\r\n", b"\r\n", b";a\r\n", b"fffffffffffffffff\r\n", b"10000000000000000\r\n",
    b"5\r\nhello5\r\nhello\r\n0\r\n\r\n", b"5\r\nhelloX\r\n0\r\n\r\n"])
def test_what_is_no_chunk(server, body):
    """Nothing after it is read as a request."""
    with server.connect() as connection:
        connection.sendall(chunked(body + b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"))
        connection.shutdown(socket.SHUT_WR)
        data = read_all(connection)
    assert b"HTTP/1.1 2" not in data and b"HTTP/1.1 404" not in data and data.count(b"HTTP/1.1") <= 1, data
    assert server.get("/health").status == 200


@pytest.mark.real_too
def test_head_has_the_head_of_get_alone(server):
    with server.connect() as connection:
        connection.sendall(b"HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\n" + LAST)
        first, _, rest = read_all(connection).partition(b"\r\n\r\n")
    length = len(server.get("/v1/models").body)
    assert first.startswith(b"HTTP/1.1 200 ") and b"\r\nContent-Length: %d" % length in first
    assert [status for status, _ in replies(rest)] == [200]


@pytest.mark.real_too
@pytest.mark.parametrize("request_bytes, status", [
    (post(b"{"), 400), (post(b""), 400), (post(b"{}", path="/nowhere"), 404), (post(path="/health"), 405),
    (b"DELETE /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", 405), (b"BREW /health HTTP/1.1\r\nHost: x\r\n\r\n", 405),
    (post().replace(b"application/json", b"text/plain"), 400),
    (post(b'{"model":"none","messages":[{"role":"user","content":"hello"}]}'), 404)])
def test_a_connection_is_kept_after_an_error(server, request_bytes, status):
    """The body of what is refused is no next request."""
    found = [code for code, _ in ask(server, request_bytes + HEALTH + request_bytes + LAST)]
    assert found == [status, 200, status, 200]


@pytest.mark.real_too
def test_expect_continue_again_on_one_connection(server):
    with server.connect() as connection:
        for body in (BODY, b"{", BODY):
            head, _, _ = post(body, "Expect: 100-continue").partition(b"\r\n\r\n")
            connection.sendall(head + b"\r\n\r\n")
            data = read_until(connection, b"\r\n\r\n")
            assert data == b"HTTP/1.1 100 Continue\r\n\r\n", data
            connection.sendall(body)
            assert read_reply(connection) == (400 if body == b"{" else 200)
        # One that does not wait for the server's word, as it may.
        connection.sendall(post(BODY, "Expect: 100-continue") + LAST)
        assert [status for status, _ in replies(read_all(connection))] == [200, 200]


@pytest.mark.real_too
@pytest.mark.parametrize("data, status", [
    (b"\r\n" + LAST, 200), (b"\r\n\r\n" + LAST, 200), (LAST.replace(b"\r\n", b"\n"), None),
    (LAST.replace(b"Host: x", b"Host:x"), 200), (LAST.replace(b"Host: x", b"hOsT: \t x \t"), 200),
    (LAST.replace(b"GET /health", b"GET  /health"), None), (LAST.replace(b" HTTP/1.1", b""), None),
    (LAST.replace(b"HTTP/1.1", b"http/1.1"), None), (LAST.replace(b"GET", b"get"), 405)])
def test_unusual_heads(server, data, status):
    """None: either refused with 400 or closed, or taken for what was meant; no other reply."""
    found = [code for code, _ in ask(server, data)]
    assert found == [status] if status else found in ([200], [400], []), found
