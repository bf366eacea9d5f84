"""What the client itself costs, and how many streams it carries."""

import pathlib
import resource
import subprocess
import sys

import pytest
from conftest import steady

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


def sanitized(request):
    """Sanitizers make the program several times slower."""
    symbols = subprocess.run(["nm", "-D", request.config.getoption("--omma")], capture_output=True, text=True).stdout
    return "__asan_" in symbols or "__tsan_" in symbols or "__ubsan_" in symbols


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@steady
def test_cost_of_64_streams(bench, load, request):
    """64 streams of 100 events a second cost less than 15 % of a core."""
    events, gap = 500, 0.01
    port = load(events, gap)
    before = cpu_seconds()
    result = bench(port, "--dataset-name", "random", "--random-input-len", 8, "--num-prompts", 64)
    cost = cpu_seconds() - before
    assert result.returncode == 0, result.stderr
    assert sum(map(len, result.json["itls"])) == 64 * (events - 1)
    rate = 64 * events / result.json["duration"]
    print(f"{rate:.0f} events/s, {cost / result.json['duration']:.1%} of a core, {cost / (64 * events) * 1e6:.1f} us per event")
    if not sanitized(request):
        assert cost / (64 * events) * 64 * 100 < 0.15


@steady
def test_a_thousand_streams(bench, load, request):
    n, events, gap = 1000, 12, 0.5
    port = load(events, gap, 1.0)
    result = bench(port, "--dataset-name", "random", "--random-input-len", 8, "--num-prompts", n)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.json["completed"] == n and result.json["max_concurrent_requests"] == n
    print(f"{result.json['duration']:.2f} s, median gap {result.json['median_itl_ms']:.1f} ms, p99 {result.json['p99_itl_ms']:.1f} ms")
    if not sanitized(request):
        assert result.json["duration"] < 1.0 + (events - 1) * gap + 4
        assert abs(result.json["median_itl_ms"] - gap * 1000) < 60
