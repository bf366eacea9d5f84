"""When requests are sent: not before the draws say so, which are NumPy's (test_bench_draws.c has
them in numbers), and in that order."""

import numpy as np
import pytest
from stub_server import Arrivals, StubServer, stream

ONE = lambda request: stream(["x"])  # noqa: E731


def delays(n, rate, burstiness, seed):
    np.random.seed(seed)
    drawn = np.cumsum([np.random.gamma(shape=burstiness, scale=1 / (rate * burstiness)) for _ in range(n)])
    return drawn * (n / rate / drawn[-1])


def check(result, expected):
    """A busy machine sends later than expected, never earlier; the run did not begin before
    `begin`."""
    starts = np.array(result.json["start_times"])
    begin = (starts + result.json["latencies"]).max() - result.json["duration"]
    assert (np.diff(starts) >= 0).all() and (starts - begin >= expected - 1e-6).all()


@pytest.mark.parametrize("burstiness", [1.0, 0.25, 4.0])
def test_gamma(bench, burstiness):
    with StubServer(ONE) as server:
        result = bench(server, "--dataset-name", "random", "--random-input-len", 8, "--num-prompts", 60, "--request-rate", 60,
                       "--burstiness", burstiness, "--seed", 9)
    expected = delays(60, 60, burstiness, 9)
    check(result, expected)
    assert result.json["duration"] >= 1.0
    arrived = np.array([r.time for r in server.requests])
    assert (np.sort(arrived) >= result.json["start_times"]).all()


def test_equal_gaps(bench):
    with StubServer(ONE) as server:
        result = bench(server, "--dataset-name", "random", "--random-input-len", 8, "--num-prompts", 20, "--request-rate", 50, "--burstiness", "inf")
    check(result, np.arange(1, 21) / 50)


def test_all_at_once(bench):
    with StubServer(lambda request: [Arrivals(20), *ONE(request)]) as server:
        result = bench(server, "--dataset-name", "random", "--random-input-len", 8, "--num-prompts", 20)
    assert result.json["completed"] == 20 and result.json["request_rate"] == "inf"


@pytest.mark.parametrize("strategy", ["linear", "exponential"])
def test_ramp(bench, strategy):
    n = 40
    with StubServer(ONE) as server:
        result = bench(server, "--dataset-name", "random", "--random-input-len", 8, "--num-prompts", n, "--ramp-up-strategy", strategy,
                       "--ramp-up-start-rps", 20, "--ramp-up-end-rps", 80, "--seed", 2)
    part = np.arange(n) / (n - 1)
    rates = 20 + 60 * part if strategy == "linear" else 20 * 4**part
    np.random.seed(2)
    expected = np.cumsum([np.random.gamma(shape=1.0, scale=1 / rate) for rate in rates])
    check(result, expected)
    events = result.json["rps_change_events"]
    assert [event["rps"] for event in events] == list(range(20, 81))
    assert result.json["ramp_up_strategy"] == strategy and result.json["ramp_up_end_rps"] == 80
