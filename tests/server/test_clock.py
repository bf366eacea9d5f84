"""The time of day jumps by years, in both directions, while the server works: every limit of time
goes by the monotonic clock."""

import pathlib
import struct
import time

import pytest
from server_process import ServerProcess, check_output, make_command, read_all, read_until

YEARS = 10 * 365 * 86400


@pytest.fixture
def start_shifted(request, kind, tmp_path):
    """start_shifted(...) gives a server and a function that lets its time of day jump."""
    library = pathlib.Path(request.config.getoption("--fake")).resolve().parent / "omma_shift_clock.so"
    if not library.exists():
        pytest.skip("built with a sanitizer, next to which nothing can be preloaded")
    shift, processes = tmp_path / "shift", []
    shift.write_bytes(bytes(8))

    def jump(seconds):
        with open(shift, "r+b") as file:
            file.write(struct.pack("q", seconds))

    def run(**options):
        words = ["env", f"LD_PRELOAD={library}", f"OMMA_CLOCK_SHIFT={shift}"]
        processes.append(ServerProcess(words + make_command(request.config, kind, options)))
        return processes[-1], jump

    yield run
    for process in processes:
        assert process.stop() == 0
        check_output(process)


@pytest.mark.parametrize("seconds", [YEARS, -YEARS, 3600, -3600])
def test_a_jump_ends_nothing_and_stops_no_limit(start_shifted, seconds):
    server, jump = start_shifted(head_timeout=3, idle_timeout=600)
    created = server.chat("one").json["created"]
    stream = server.open_stream("[[tokens=40]] [[pace_ms=50]] one two")
    begun = read_until(stream, b"data: ")
    with server.connect() as half, server.connect() as idle:
        half.sendall(b"GET /health HTTP/1.1\r\n")
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in read_until(idle, b"\r\n\r\n")
        sent = time.monotonic()
        jump(seconds)
        assert abs(server.chat("one").json["created"] - created - seconds) < 600  # it has jumped
        assert b"data: [DONE]" in read_until(stream, b"data: [DONE]", begun)
        assert b" 408 " in read_all(half) and time.monotonic() - sent > 2
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in read_until(idle, b"\r\n\r\n")
    assert server.chat("one").status == 200
