"""Many streams at once, each complete. What they cost is measured by bench/client_load.py."""

import pathlib
import resource
import subprocess
import sys

import pytest

STUB = pathlib.Path(__file__).parent / "stub_server.py"


@pytest.fixture
def load():
    """load(events, gap, first): the port of a stub in a process of its own."""
    processes = []

    def start(events, gap, first=0.0):
        process = subprocess.Popen([sys.executable, STUB, "0", str(events), str(gap), str(first)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return int(process.stdout.readline())

    yield start
    for process in processes:
        process.communicate("")


@pytest.fixture(autouse=True)
def many_files():
    """The stub needs a descriptor per stream as well."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_64_streams_of_many_events(bench, load):
    events = 500
    result = bench(load(events, 0.01), "--dataset-name", "random", "--random-input-len", 8, "--num-prompts", 64)
    assert result.returncode == 0, result.stderr
    assert result.json["completed"] == 64 and [len(gaps) for gaps in result.json["itls"]] == [events - 1] * 64


def test_a_thousand_streams(bench, load):
    n, events = 1000, 12
    result = bench(load(events, 0.5, 3.0), "--dataset-name", "random", "--random-input-len", 8, "--num-prompts", n)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.json["completed"] == n and result.json["max_concurrent_requests"] == n
    assert [len(gaps) for gaps in result.json["itls"]] == [events - 1] * n
