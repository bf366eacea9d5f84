"""Clients that hold connections and half requests: nobody else is locked out, and what is too slow
is closed."""

import contextlib
import os
import pathlib
import re
import select
import signal
import socket
import time

import pytest
from server_process import read_all, read_until
from test_soak import entries
from waiting import in_engine, wait_for, wait_for_engine

CHAT = "/v1/chat/completions"
SILENT = "[[tokens=5]] [[first_ms=600000]]"
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
HALF_HEAD = b"GET /health HTTP/1.1\r\nX: "


def head(length, path=CHAT):
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n".encode()


def connect_from(server, address):
    return socket.create_connection(("127.0.0.1", server.port), 60, source_address=(address, 0))


def send(connection, data):
    """True if it went out: the server may have closed."""
    try:
        connection.sendall(data)
        return True
    except OSError:
        return False


def status(connection, data=b""):
    """Of the reply that comes, or None where the connection ends without one."""
    try:
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return None
            data += piece
    except ConnectionResetError:
        return None
    return int(data.split(b" ")[1])


class Crowd:
    """Many connections that are closed at the end."""

    def __init__(self, server, n, first=b"", address="127.0.0.1"):
        self.connections = []
        for _ in range(n):
            self.connections.append(connect_from(server, address))
            send(self.connections[-1], first)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.connections:
            connection.close()

    def send(self, data):
        return sum(send(connection, data) for connection in self.connections)


@pytest.mark.real_too
@pytest.mark.parametrize("first", [b"", b"G", HALF_HEAD, head(1000000), head(1000000) + b" " * 1000, head(10, "/ping") + b" "])
def test_half_requests_lock_nobody_out(start, first):
    server = start(max_connections=40)
    with Crowd(server, 130, first) as crowd:
        for _ in range(5):
            crowd.send(b"x")
            assert server.get("/health").status == 200
            wait_for(lambda: server.chat("hello", max_tokens=1).status == 200, "room for a chat")


def test_as_many_as_there_is_room_for(start):
    server = start(max_connections=512)
    with Crowd(server, 600, head(100000) + b" " * 50000):
        assert server.get("/health").status == 200
        wait_for(lambda: server.chat().status == 200, "room for a chat")


@pytest.mark.real_too
@pytest.mark.parametrize("n", [32, 130])
def test_large_bodies_give_way_at_once(start, n):
    """However young they are, and to a small request of the same client alone."""
    server = start(max_connections=40)
    for _ in range(3):
        with Crowd(server, n, head(20000000) + b" " * 3000):
            assert [server.chat("hello", max_tokens=1).status for _ in range(5)] == 5 * [200]


@pytest.mark.real_too
def test_idle_connections_make_room(start):
    server = start(max_connections=8, max_connections_per_address=8)
    with Crowd(server, 8, HEALTH) as crowd:
        assert all(status(connection) == 200 for connection in crowd.connections)
        wait_for(lambda: server.chat("hello", max_tokens=1).status == 200, "room for a chat")


def test_connections_at_work_are_never_closed_for_others(start):
    """When all are at work, health checks still get in, and others get an error."""
    server = start(max_connections=4, max_connections_per_address=4)
    working = [server.open_stream(SILENT) for _ in range(4)]
    wait_for_engine(server, 4)
    for _ in range(50):
        reply = server.chat()
        assert reply.status == 503 and "too many connections" in reply.error["message"]
        assert reply.headers["Retry-After"] == "1" and reply.headers["Connection"] == "close"
        for path in ("/health", "/ping", "/version", "/load", "/metrics"):
            assert server.get(path).status == 200
    with Crowd(server, 100, HALF_HEAD):
        assert server.get("/health").status == 200
    assert in_engine(server) == 4
    working.pop().close()
    wait_for_engine(server, 3)
    wait_for(lambda: server.chat().status == 200, "room for a chat")
    for connection in working:
        connection.close()


def is_open(connection):
    """No end of the connection has arrived here, nor anything else."""
    return not select.select([connection], [], [], 0)[0]


@contextlib.contextmanager
def stopped(server):
    """What comes meanwhile comes all at once for the server."""
    server.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, server.process.pid, os.WSTOPPED)
    yield
    server.process.send_signal(signal.SIGCONT)


def test_who_waits_for_a_busy_server_is_not_slow(start):
    """A request that came while the server did not get to read it is no reason to close its
    connection, although it is the oldest and few bytes have come on it."""
    server = start(max_connections=8, max_connections_per_address=1000)
    n_others = 8 + 16 - 1  # one more closes the slowest
    for _ in range(20):
        before = entries(server, "fd")
        with server.connect() as kept:
            kept.sendall(HEALTH)
            assert status(kept) == 200
            time.sleep(0.2)  # so that it is the slowest by far
            with Crowd(server, n_others) as others:
                wait_for(lambda: entries(server, "fd") > before + n_others or not is_open(kept), "connections")
                with stopped(server):
                    was_open = is_open(kept)  # else there were too many for too long
                    send(kept, HEALTH)
                    others.connections += [server.connect() for _ in range(4)]
                if was_open:
                    assert status(kept) == 200
                    return
        wait_for(lambda: entries(server, "fd") <= before, "the end of the connections")
    raise AssertionError("closed each time before the server was stopped")


def test_who_has_just_come_is_not_the_slowest(start):
    """Several at once, for which old connections make room."""
    server = start(max_connections=8, max_connections_per_address=1000)
    with Crowd(server, 8 + 16):
        time.sleep(0.3)
        with stopped(server):
            new = [server.connect() for _ in range(6)]
        assert all(send(connection, HEALTH) for connection in new)
        assert [status(connection) for connection in new] == 6 * [200]
        for connection in new:
            connection.close()


def test_the_slowest_is_sought_among_the_newest(start):
    """However many there are, so that it takes no longer: among the 512 that were opened last. One
    connection more than here is one for which the slowest is closed."""
    server = start(max_connections=600, max_connections_per_address=1000)
    before = entries(server, "fd")
    with server.connect() as oldest, Crowd(server, 600 + 16 - 1) as others:
        wait_for(lambda: entries(server, "fd") >= before + 600 + 16, "connections")
        others.connections += [server.connect() for _ in range(5)]
        wait_for(lambda: sum(not is_open(connection) for connection in others.connections) == 5, "ends of five connections")
        assert is_open(oldest)


def test_one_address_has_its_share(start):
    server = start(max_connections=100, max_connections_per_address=5)
    with Crowd(server, 90, HALF_HEAD, "127.0.0.3") as crowd:
        wait_for(lambda: crowd.send(b"x") == 5, "an end of the connections beyond the share")
    working = [server.open_stream(SILENT) for _ in range(5)]
    wait_for_engine(server, 5)
    assert server.chat().status == 503 and server.get("/health").status == 200
    body = b'{"messages":[{"role":"user","content":"hello"}]}'
    with connect_from(server, "127.0.0.2") as other:
        other.sendall(head(len(body)) + body)
        assert status(other) == 200
    for connection in working:
        connection.close()


def test_the_slowest_is_closed_first(start):
    """One that sends goes on among many that do not."""
    server = start(max_connections=10)
    with server.connect() as busy, Crowd(server, 5, head(1000000)) as stalled:
        busy.sendall(head(900000))
        for _ in range(40):
            busy.sendall(b" " * 20000)
            stalled.connections.append(server.connect())
            send(stalled.connections[-1], head(1000000))
            time.sleep(0.05)
        busy.sendall(b" " * 100000)
        assert status(busy) == 400
        assert status(stalled.connections[0]) in (408, None)


def test_the_slowest_body_gives_up_its_memory(start):
    server = start(max_body_bytes=1000000, max_total_body_bytes=1500000)
    with Crowd(server, 4, head(700000) + b" " * 600000) as stalled:
        for _ in range(5):
            wait_for(lambda: server.post(CHAT, b" " * 999999).status == 400, "room for a body")
        assert stalled.send(b" " * 100000) == 4
        assert [status(connection) for connection in stalled.connections].count(503) >= 3


def trickle(connection, piece, seconds=60):
    """Sends until the server closes."""
    deadline = time.monotonic() + seconds
    while send(connection, piece):
        assert time.monotonic() < deadline, "still open"
        time.sleep(0.05)


def test_a_head_has_an_end(start):
    server = start(head_timeout=1)
    for before in (b"", HEALTH):
        with server.connect() as connection:
            connection.sendall(before)
            assert not before or status(connection) == 200
            connection.sendall(HALF_HEAD)
            trickle(connection, b"x")
    with server.connect() as connection:
        connection.sendall(HALF_HEAD)
        assert status(connection) == 408
    with server.connect() as silent:
        assert read_all(silent) == b""


def test_idle_connections_are_not_measured_by_the_head(start):
    server = start(head_timeout=1, idle_timeout=600)
    with server.connect() as kept, server.connect() as other:
        kept.sendall(HEALTH)
        assert status(kept) == 200
        assert read_all(other) == b""
        time.sleep(1)
        kept.sendall(HEALTH)
        assert status(kept) == 200


def test_a_body_must_move(start):
    server = start(min_body_rate=1000, body_rate_window_ms=2000)
    with server.connect() as slow, server.connect() as steady:
        slow.sendall(head(1000000))
        steady.sendall(head(1000000))
        sent = 0
        while send(slow, b" "):
            steady.sendall(b" " * 2000)
            sent += 2000
            assert sent < 1000000, "still open"
            time.sleep(0.05)
        steady.sendall(b" " * (1000000 - sent))
        assert status(steady) == 400
    # however much came before
    with server.connect() as stalled, server.connect() as late:
        stalled.sendall(head(1000) + b" ")
        late.sendall(head(1000000) + b" " * 500000)
        assert status(stalled) == 408 and status(late) == 408


def test_a_body_has_an_end(start):
    server = start(body_timeout=1)
    with server.connect() as connection:
        connection.sendall(head(1000000))
        trickle(connection, b" " * 100)
    assert server.chat().status == 200


def test_what_is_refused_is_not_waited_for_longer(start):
    """A reply is ready, and the rest of the body does not come."""
    server = start(body_timeout=1)
    with server.connect() as connection:
        connection.sendall(head(1000, "/nowhere") + b" ")
        read_until(connection, b"408")


def resident_bytes(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def test_a_slow_reader_has_an_end_and_disturbs_nobody(start):
    """Eight kilobytes a second of answers of some megabytes, so that none is idle, while others are
    answered."""
    server = start(idle_timeout=2, min_body_rate=20000)
    fields = {"messages": [{"role": "user", "content": "[[tokens=4000]] one"}]}
    before, idle = resident_bytes(server), entries(server, "fd")
    # A sanitizer keeps what was freed for a while.
    room = (16 << 20) if "libasan" not in pathlib.Path(f"/proc/{server.process.pid}/maps").read_text() else (256 << 20)
    slow = [server.send_post(CHAT, {"stream": True, "max_tokens": 4000, "n": 2, **fields}, receive_buffer=4096) for _ in range(8)]
    wait_for(lambda: entries(server, "fd") >= idle + len(slow), "all connections")
    deadline = time.monotonic() + 60
    while entries(server, "fd") > idle:
        assert time.monotonic() < deadline, "still open"
        for connection in slow:
            with contextlib.suppress(OSError):
                connection.recv(2048)
        assert server.chat("quick").status == 200
        assert resident_bytes(server) - before < len(slow) * (4 << 20) + room
        time.sleep(0.25)
    reader = server.send_post(CHAT, {"stream": True, "max_tokens": 4000, "n": 2, **fields})
    assert read_until(reader, b"data: [DONE]").count(b"data: ") >= 8000
    for connection in slow:
        connection.close()


def test_it_is_the_rate_that_ends_a_slow_reader(start):
    """libmicrohttpd's own timer runs from one write to the next. Here there is always something to
    write, and room for it in the system, so that it never ends: where any rate is enough, a client
    that takes a byte now and then keeps its stream. Else the stream is ended."""
    script = "[[tokens=4000]] [[pace_ms=20]] [[size=1000]] one"
    fields = {"stream": True, "max_tokens": 4000, "messages": [{"role": "user", "content": script}]}
    limited, free = start(idle_timeout=2, min_body_rate=1 << 30), start(idle_timeout=2, min_body_rate=0)
    with limited.send_post(CHAT, fields, receive_buffer=4096) as one, free.send_post(CHAT, fields, receive_buffer=4096) as other:
        for server in (limited, free):
            wait_for_engine(server, 1)
        begin = time.monotonic()
        while in_engine(limited):
            assert time.monotonic() < begin + 60, "still open"
            one.recv(1)
            other.recv(1)
            time.sleep(0.05)
        again = 2 * time.monotonic() - begin
        while time.monotonic() < again:
            other.recv(1)
            time.sleep(0.05)
        assert in_engine(free) == 1


def test_replies_that_are_not_read_share_a_budget(start):
    """Whole replies of some megabytes: those beyond the budget get 503, and when the others are
    read or given up, there is room again."""
    server = start(max_total_pending_bytes=16 << 20)
    large = {"max_tokens": 4000, "messages": [{"role": "user", "content": "[[tokens=4000]] [[size=1000]] one"}]}
    readers = [server.send_post(CHAT, large, receive_buffer=4096, segment=536) for _ in range(8)]
    statuses = [status(reader) for reader in readers]
    print(f"statuses {statuses}, {resident_bytes(server) >> 20} MiB")
    assert sorted(set(statuses)) == [200, 503] and statuses.count(200) <= 4
    assert server.chat("[[tokens=5]]").status == 200
    reply = server.post(CHAT, large)
    assert reply.status == 503 and "not read" in reply.error["message"] and reply.headers["Retry-After"] == "1"
    assert 'reason="unread_replies"} ' in server.get("/metrics").body.decode()
    for reader in readers:
        reader.close()
    wait_for(lambda: server.post(CHAT, large).status == 200, "room for a reply")
