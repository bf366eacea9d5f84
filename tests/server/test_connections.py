"""Clients that leave, are slow, send too much or come in numbers; shutdown."""

import json
import socket
import subprocess
import threading
import time

import pytest
from images import image_part, png, text_part
from server_process import ServerProcess, make_command, parse_events, read_all, read_until, split_chunks, stream_events
from waiting import cancelled, in_engine, wait_for, wait_for_engine, wait_for_load

CHAT = "/v1/chat/completions"
# Requests that are under way until they are cancelled, and longer than anybody here waits.
SILENT = "[[tokens=5]] [[first_ms=600000]]"
STALLED = "[[tokens=100]] [[pace_ms=600000]]"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("how", ["close", "reset", "half-close"])
def test_leaving_while_waiting_cancels(start, stream, how):
    server = start()
    connection = server.open_stream(SILENT, stream=stream)
    wait_for_engine(server, 1)
    if how == "half-close":
        connection.shutdown(socket.SHUT_WR)
    elif how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    else:
        connection.close()
    wait_for_engine(server, 0)
    assert server.chat().status == 200
    server.stop()
    assert server.counters() == {"stop": 1, "length": 0, "cancelled": 1, "error": 0, "running": 0}


def test_leaving_a_stream_cancels(start):
    server = start()
    connection = server.open_stream("[[tokens=100000]] [[pace_ms=5]]")
    read_until(connection, b"w3 ")
    connection.close()
    wait_for_engine(server, 0)
    server.stop()
    assert server.counters()["cancelled"] == 1


def test_leaving_a_stalled_stream_cancels(start):
    server = start()
    connection = server.open_stream(STALLED)
    read_until(connection, b"w0 ")
    connection.close()
    wait_for_engine(server, 0)
    server.stop()
    assert server.counters()["cancelled"] == 1


def test_leaving_several_choices_cancels_all(start):
    server = start()
    connection = server.open_stream(SILENT, n=4)
    wait_for_engine(server, 4)
    connection.close()
    wait_for_engine(server, 0)
    server.stop()
    assert server.counters()["cancelled"] == 4


@pytest.mark.real_too
def test_leaving_a_long_answer(server):
    """The work ends because the client has left, not because it is done: eight answers are more
    than the program makes meanwhile."""
    for stream in (True, False):
        before = cancelled(server)
        connection = server.open_stream("[[tokens=100000]] [[pace_ms=5]] tell me everything", stream=stream, ignore_eos=True, n=8)
        if stream:
            read_until(connection, b'"content":')
        wait_for(lambda: in_engine(server) > 0, "work")
        connection.close()
        wait_for_engine(server, 0)
        assert cancelled(server) > before
    assert server.chat("hello", max_tokens=1).status == 200


@pytest.mark.real_too
def test_stopping_in_the_middle(start):
    server = start()
    connections = [server.open_stream("tell me everything", ignore_eos=True, stream=i % 2 == 0) for i in range(4)]
    read_until(connections[0], b'"content":')
    assert server.stop() == 0
    for connection in connections:
        read_all(connection)
        connection.close()


def test_half_heads_are_closed_soon(server):
    """A hang-up that arrives together with the last bytes must not hold the connection until the
    idle timeout."""
    connections = []
    for data in (b"GET /hea", b"\r\n\r\n", b"POST /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n123"):
        connections.append(server.connect())
        connections[-1].sendall(data)
        connections[-1].shutdown(socket.SHUT_WR)
    for connection in connections:
        read_all(connection)
        connection.close()


@pytest.mark.real_too
def test_half_close_after_a_short_request_gets_its_reply(server):
    for _ in range(3):
        with server.connect() as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            assert read_all(connection).startswith(b"HTTP/1.1 200 ")


def test_half_close_before_long_replies_leaves_time_to_read_them(start):
    """A second, although the server looks every 10 ms for connections to close. A busy machine may
    need several attempts."""
    server, n = start(keep_alive_ms=20), 120

    def all_came():
        with server.connect() as connection:
            connection.sendall(n * b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            time.sleep(0.1)
            return read_all(connection).count(b"HTTP/1.1 200 ") == n

    wait_for(all_came, "all replies")


def test_half_bodies_give_their_budget_back(start):
    server = start(max_body_bytes=1000000, max_total_body_bytes=1100000)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n".encode()
    for _ in range(10):
        with server.connect() as connection:
            connection.sendall(head + b" " * 500000)
    wait_for(lambda: server.post(CHAT, b" " * 999999).status == 400, "room for a body")


def test_reader_that_does_not_read_is_cancelled(start):
    server = start(max_pending_bytes=200000)
    fields = {"messages": [{"role": "user", "content": "[[tokens=100000]] [[size=20000]]"}], "stream": True}
    connection = server.send_post(CHAT, fields, receive_buffer=4096)
    wait_for(lambda: cancelled(server) == 1, "the end of the work")
    data = read_all(connection)
    assert b"[DONE]" not in data
    connection.close()
    server.stop()
    assert server.counters()["cancelled"] == 1


def test_body_over_the_limit(start):
    server = start(max_body_bytes=10000)
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 20000}]})
    reply = server.post(CHAT, body)
    assert reply.status == 413 and reply.error["code"] == 413 and "10000" in reply.error["message"]
    assert server.post(CHAT, b" " * 10001).status == 413
    assert server.post(CHAT, b" " * 9999 + b"x").status == 400
    assert server.chat("hello", max_tokens=1).status == 200


@pytest.mark.real_too
def test_announced_body_over_the_limit_is_refused_at_once(server):
    for extra in ("Expect: 100-continue\r\n", ""):
        with server.connect() as connection:
            connection.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{extra}"
                               "Content-Length: 99999999999\r\n\r\n".encode())
            assert read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 413 ")


def test_a_refused_body_is_read_up_to_a_limit(server):
    """So that its client gets to read the reply, and may ask again."""
    limit = 64 << 20
    with server.connect() as connection:
        connection.sendall(f"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: {limit}\r\n\r\n".encode())
        connection.sendall(bytes(limit))
        assert read_until(connection, b"}}").startswith(b"HTTP/1.1 404 ")
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    with server.connect() as connection:
        connection.sendall(f"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: {limit + 1}\r\n\r\n".encode())
        assert read_all(connection).startswith(b"HTTP/1.1 404 ")


def test_chunked_bodies(start):
    server = start(max_body_bytes=10000)

    def send(pieces):
        with server.connect() as connection:
            connection.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n".encode())
            for piece in pieces:
                connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            connection.sendall(b"0\r\n\r\n")
            return read_until(connection, b"\r\n\r\n")

    body = b'{"messages":[{"role":"user","content":"hello"}],"max_tokens":1}'
    assert send([body]).startswith(b"HTTP/1.1 200 ")
    assert send([body[i:i + 1] for i in range(len(body))]).startswith(b"HTTP/1.1 200 ")
    assert send([b"x" * 1000] * 30).startswith(b"HTTP/1.1 413 ")


@pytest.mark.real_too
def test_expect_continue(server):
    body = b'{"messages":[{"role":"user","content":"hello"}],"max_tokens":1}'
    with server.connect() as connection:
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
                           f"Content-Length: {len(body)}\r\n\r\n".encode())
        assert read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_many_bodies_at_once_are_bounded(start):
    server = start(max_body_bytes=1000000, max_total_body_bytes=1500000)
    head = (f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n").encode()

    def one_is_refused():
        """Of two bodies, unless the server had done with the second before it came to the first."""
        with server.connect() as first, server.connect() as second:
            first.sendall(head + b" " * 900000)
            second.sendall(head + b" " * 1000000)
            replies = [read_until(second, b"\r\n\r\n")]
            first.sendall(b" " * 100000)
            replies.append(read_until(first, b"\r\n\r\n"))
        taken = [data for data in replies if data.startswith(b"HTTP/1.1 400 ")]
        refused = [data for data in replies if data.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1" in data]
        assert taken and len(taken) + len(refused) == 2, replies
        return refused

    wait_for(one_is_refused, "two bodies at once")
    wait_for(lambda: server.post(CHAT, b" " * 999999).status == 400, "room for a body")


def test_waiting_outlasts_the_idle_timeout(start):
    server = start(idle_timeout=2, keep_alive_ms=600000)
    assert server.chat("[[tokens=2]] [[first_ms=4000]]").status == 200
    events = stream_events(server, "[[tokens=2]] [[pace_ms=4000]]")
    assert len(events) == 4
    with server.connect() as connection:
        assert connection.recv(1) == b""


@pytest.mark.real_too
def test_connection_is_kept_for_the_next_request(server):
    body = b'{"messages":[{"role":"user","content":"hello"}],"max_tokens":2,"stream":true}'
    request = (f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode()
    with server.connect() as connection:
        for _ in range(3):
            connection.sendall(request + body)
            data = read_until(connection, b"0\r\n\r\n")
            assert parse_events(split_chunks(data)[1])[-1] == "data: [DONE]"
        connection.sendall(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        data = read_until(connection, b"HTTP/1.1 200 ")
        assert b"HTTP/1.1 404 " in data


@pytest.mark.real_too
def test_http_1_0(server):
    body = b'{"messages":[{"role":"user","content":"hello"}],"max_tokens":2,"stream":true}'
    with server.connect() as connection:
        connection.sendall(f"POST {CHAT} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        data = read_all(connection)
    assert data.endswith(b"data: [DONE]\n\n") and b"chunked" not in data


@pytest.mark.real_too
@pytest.mark.parametrize("data", [b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/9.9\r\n\r\n",
                                  b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", b"A" * 200000,
                                  b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n"])
def test_what_is_no_http(server, data):
    with server.connect(timeout=2) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            read_all(connection)
        except OSError:
            pass
    assert server.get("/health").status == 200


def test_full_queue(start):
    server = start(queue_limit=2)
    waiting = [server.open_stream(SILENT) for _ in range(2)]
    wait_for_engine(server, 2)
    for stream in (False, True):
        with server.open_stream("hello", stream=stream) as connection:
            data = read_until(connection, b"}}")
        assert data.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1\r\n" in data and b"ServiceUnavailableError" in data
    waiting.pop().close()
    wait_for_engine(server, 1)
    assert server.chat(n=2, content=SILENT).status == 503
    for connection in waiting:
        connection.close()
    wait_for_engine(server, 0)
    assert server.chat(n=2).status == 200


def run_all(functions):
    failures = []

    def run(function):
        try:
            function()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 240
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads), "a client still waits"


@pytest.mark.real_too
def test_parallel_clients(server, kind):
    """Many at once, each gets its own answer."""
    n_clients, n_rounds = (24, 4) if kind == "fake" else (6, 1)

    def client(number):
        for turn in range(n_rounds):
            text = f"client {number} turn {turn}"
            if number % 3 == 0:
                events = stream_events(server, text, max_tokens=4)
                answer = "".join(e["choices"][0]["delta"]["content"] for e in events[:-1])
            elif number % 3 == 1:
                answer = server.chat(text, max_tokens=4).json["choices"][0]["message"]["content"]
            else:
                parts = [image_part(png(30, 30)), text_part(text)]
                reply = server.chat(messages=[{"role": "user", "content": parts}], max_tokens=4)
                answer = reply.json["choices"][0]["message"]["content"]
            assert kind != "fake" or answer == text

    run_all([lambda number=number: client(number) for number in range(n_clients)])
    wait_for_load(server, 0)


def test_clients_that_come_and_go(start):
    """Leaving at any moment harms nobody."""
    server = start()

    def client(number):
        for turn in range(6):
            connection = server.open_stream(f"[[tokens=50]] [[pace_ms=3]]", stream=number % 2 == 0)
            time.sleep(0.004 * ((number * 7 + turn * 3) % 12))
            connection.close()

    run_all([lambda number=number: client(number) for number in range(12)])
    wait_for_load(server, 0)
    wait_for_engine(server, 0)
    assert server.chat().status == 200
    server.stop()
    assert server.counters()["running"] == 0


def test_shutdown_waits_for_short_requests(start):
    server = start(drain_ms=60000)
    connection = server.open_stream("[[tokens=10]] [[pace_ms=60]]")
    data = read_until(connection, b"w0 ")
    assert server.stop() == 0
    data += read_all(connection)
    assert b"[DONE]" in data and b"error" not in data
    connection.close()


@pytest.mark.parametrize("drain_ms", [-1, 300])
def test_shutdown_cancels_long_requests(start, drain_ms):
    server = start(drain_ms=drain_ms, keep_alive_ms=600000)
    stream = server.open_stream("[[tokens=100000]] [[pace_ms=30]]")
    data = read_until(stream, b"w0 ")
    silent = server.open_stream(SILENT)
    whole = server.open_stream(SILENT, stream=False)
    wait_for_engine(server, 3)
    idle = server.connect()
    idle.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    read_until(idle, b"\r\n\r\n")
    half = server.connect()
    half.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
                 "Content-Length: 1000\r\n\r\n".encode())
    read_until(half, b"\r\n\r\n")
    half.sendall(b"{")
    assert server.stop() == 0
    events = parse_events(split_chunks(data + read_all(stream))[1])
    assert events[-2]["error"]["code"] == 503 and events[-1] == "data: [DONE]"
    for connection in (silent, whole):
        assert read_all(connection).startswith(b"HTTP/1.1 503 ")
    assert server.counters()["cancelled"] == 3
    for connection in (stream, silent, whole, idle, half):
        connection.close()


def test_new_requests_while_stopping(start):
    """A stalled stream keeps it from ending until its client leaves; another one is served to its
    end meanwhile."""
    server = start(drain_ms=120000)
    kept, half = server.connect(), server.connect()
    stalled = server.open_stream(STALLED)
    read_until(stalled, b"w0 ")
    stream = server.open_stream("[[tokens=15]] [[pace_ms=60]]")
    data = read_until(stream, b"w0 ")
    body = b'{"messages":[{"role":"user","content":"hello"}]}'
    half.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
                 f"Content-Length: {len(body)}\r\n\r\n".encode())
    read_until(half, b"\r\n\r\n")
    kept.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert read_until(kept, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    server.process.terminate()
    wait_for(lambda: server.get("/health").status == 503, "a health check that fails")
    assert server.get("/ping").status == 503
    assert server.get("/version").status == 200 and in_engine(server) > 0
    for path in (CHAT, "/tokenize", "/v1/models"):
        reply = server.post(path, {"messages": []})
        assert reply.status == 503 and "shutting down" in reply.error["message"] and reply.headers["Connection"] == "close"
    kept.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert read_all(kept).startswith(b"HTTP/1.1 503 ")
    half.sendall(body)
    assert read_all(half).startswith(b"HTTP/1.1 503 ")
    read_until(stream, b"[DONE]", data)
    stalled.close()
    assert server.stop() == 0
    for connection in (kept, half, stream):
        connection.close()


@pytest.mark.real_only
def test_requests_are_served_while_balancers_look_away(request, kind):
    """With --shutdown-delay health checks fail first and new requests are served; then the server
    ends by itself."""
    command = make_command(request.config, kind, {"shutdown_delay": 600})
    server = ServerProcess(command)
    server.process.terminate()
    wait_for(lambda: server.get("/health").status == 503, "a health check that fails")
    reply = server.chat(max_tokens=2)
    assert reply.status == 200 and reply.headers["Connection"] == "close"
    server.process.terminate()
    assert server.process.wait(60) != 0
    server.process.stdout.close()
    server = ServerProcess(make_command(request.config, kind, {"shutdown_delay": 1}))
    assert server.stop() == 0 and b"new requests are served for 1 s" in server.output


@pytest.mark.real_only
def test_a_clean_end_and_a_quick_one(request, kind):
    """The first signal lets an answer finish, and the status is 0; a second one does not wait."""
    command = make_command(request.config, kind, {"shutdown_timeout": 600})
    server = ServerProcess(command)
    stream = server.open_stream("hello", max_tokens=200, ignore_eos=True)
    data = read_until(stream, b'"content":')
    assert server.stop() == 0
    assert b"[DONE]" in data + read_all(stream)
    server = ServerProcess(command)
    stream = server.open_stream("hello", n=8, ignore_eos=True)
    read_until(stream, b'"content":')
    server.process.terminate()
    wait_for(lambda: server.get("/health").status == 503, "a health check that fails")
    server.process.terminate()
    assert server.process.wait(60) != 0
    server.process.stdout.close()
    stream.close()


@pytest.mark.real_too
def test_bad_start(request, kind):
    """An address that cannot be had is one line and status 1."""
    command = make_command(request.config, kind, {})
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command[command.index("--port") + 1] = str(taken.getsockname()[1])
        done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == 1 and b"in use" in done.stderr.lower()
