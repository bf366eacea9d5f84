"""A server that may open no more descriptors: connections that it has go on, new ones wait, and get
their answers when descriptors are free again."""

import os
import resource

import pytest
from images import image_part, png, text_part
from server_process import ServerProcess, check_output, make_command, read_until
from test_slow_clients import Crowd
from test_soak import entries
from waiting import wait_for, wait_for_load

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
SPARE, CROWD = 5, 20


def descriptors(server):
    return [int(name) for name in os.listdir(f"/proc/{server.process.pid}/fd")]


def limit(server, n):
    """Numbers below n only. The hard limit stays, so that it can be raised again."""
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (n, hard))


def is_healthy(connection):
    connection.sendall(HEALTH)
    return read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.real_too
@pytest.mark.parametrize("freed_by", ["clients", "operator"])
def test_without_descriptors(start, freed_by):
    server = start()
    assert server.chat("hello", max_tokens=1).status == 200
    wait_for_load(server, 0)
    before = entries(server, "fd")
    with server.connect() as kept:
        assert is_healthy(kept)
        most = max(descriptors(server)) + 1
        limit(server, most + SPARE)
        crowd = [server.connect() for _ in range(CROWD)]
        for connection in crowd:
            connection.sendall(HEALTH)
        wait_for(lambda: len(descriptors(server)) == most + SPARE, "no descriptor left")
        assert is_healthy(kept)
        if freed_by == "operator":
            limit(server, 1024)
            crowd[0].close()  # the next end of a connection is what lets the server look again
            for connection in crowd[1:]:
                assert read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 200")
        for connection in crowd:
            connection.close()
        assert server.chat([text_part("what is it?"), image_part(png(40, 30))], max_tokens=1).status == 200
        assert is_healthy(kept)
    wait_for(lambda: entries(server, "fd") <= before, f"{before} descriptors again")


@pytest.fixture
def limited(request, kind):
    """limited(soft, hard, option=value, ...) starts a server that may open that many files."""
    processes = []

    def run(soft, hard, **options):
        command = make_command(request.config, kind, options)
        processes.append(ServerProcess(["sh", "-c", f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$@"', "sh", *command]))
        return processes[-1]

    yield run
    for process in processes:
        process.stop()
        check_output(process)


@pytest.mark.real_only
def test_connections_leave_room_for_health_checks(limited):
    """Where the system allows fewer open files than --max-connections needs, fewer connections are
    kept: one more closes the slowest, and is answered."""
    server = limited(100, 150)
    warning = "--max-connections 4096 needs 4224 open files, and the limit is 150"
    assert warning in server.read_output() and "at most 22 connections" in server.read_output()
    with Crowd(server, 200):
        for _ in range(5):
            assert server.get("/health").status == 200
        assert len(descriptors(server)) < 150
        wait_for(lambda: server.chat("hello", max_tokens=1).status == 200, "room for a chat")


@pytest.mark.real_only
def test_the_limit_of_open_files_is_raised(limited):
    server = limited(100, 1024, max_connections=300)
    assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (428, 1024)
    assert "open files" not in server.read_output()


@pytest.mark.real_only
def test_too_few_open_files_are_refused(limited):
    with pytest.raises(RuntimeError, match="serve: at least 129 open files are needed, and the limit is 60"):
        limited(50, 60)
