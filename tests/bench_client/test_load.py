"""Many streams at once, each complete. What they cost is measured by bench/client_load.py."""

import pathlib
import resource
import subprocess
import sys

import pytest

pytestmark = pytest.mark.release_too
STUB = pathlib.Path(__file__).parent / "stub_server.py"


@pytest.fixture
def load():
    """load(n, events, gap): the port of a stub in a process of its own, which begins to answer when
    n requests are there."""
    processes = []

    def start(n, events, gap):
        process = subprocess.Popen([sys.executable, STUB, "0", str(events), str(gap), "0", str(n)], stdin=subprocess.PIPE,
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
    if hard != resource.RLIM_INFINITY and hard < 1100:
        pytest.skip(f"at most {hard} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def check(bench, load, n, events, gap):
    result = bench(load(n, events, gap), "--dataset-name", "random", "--random-input-len", 8, "--num-prompts", n, timeout=400)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.json["completed"] == n and result.json["max_concurrent_requests"] == n
    assert [len(gaps) for gaps in result.json["itls"]] == [events - 1] * n


def test_64_streams_of_many_events(bench, load):
    check(bench, load, 64, 500, 0.01)


def test_a_thousand_streams(bench, load):
    check(bench, load, 1000, 12, 0.1)
