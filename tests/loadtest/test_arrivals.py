"""When requests are sent: the draws are NumPy's, and the stub sees them come so."""

import numpy as np
import pytest
from conftest import steady
from stub_server import StubServer, stream

ONE = lambda request: stream(["x"])  # noqa: E731


def delays(n, rate, burstiness, seed):
    np.random.seed(seed)
    drawn = np.cumsum([np.random.gamma(shape=burstiness, scale=1 / (rate * burstiness)) for _ in range(n)])
    return drawn * (n / rate / drawn[-1])


def seen(result):
    """When requests were due, from the first one on."""
    times = np.array(result.json["start_times"]) - result.json["queue_times"]
    return times - times[0]


def check(result, expected):
    """Most come in time; other draws would be off by a tenth of a second and more."""
    late = seen(result) - expected
    assert np.median(np.abs(late - np.median(late))) < 0.03 and np.corrcoef(seen(result), expected)[0, 1] > 0.99


@pytest.mark.parametrize("burstiness", [1.0, 0.25, 4.0])
@steady
def test_gamma(bench, burstiness):
    with StubServer(ONE) as server:
        result = bench(server, "--dataset-name", "random", "--random-input-len", 8, "--num-prompts", 60, "--request-rate", 60,
                       "--burstiness", burstiness, "--seed", 9)
    expected = delays(60, 60, burstiness, 9)
    check(result, expected)
    assert result.json["duration"] >= 1.0
    arrived = np.array([r.time for r in server.requests])
    assert np.median(np.abs(np.sort(arrived) - np.sort(result.json["start_times"]))) < 0.02


@steady
def test_equal_gaps(bench):
    with StubServer(ONE) as server:
        result = bench(server, "--dataset-name", "random", "--random-input-len", 8, "--num-prompts", 20, "--request-rate", 50, "--burstiness", "inf")
    check(result, np.arange(20) / 50)


@steady
def test_all_at_once(bench):
    with StubServer(ONE) as server:
        result = bench(server, "--dataset-name", "random", "--random-input-len", 8, "--num-prompts", 20)
    assert seen(result).max() < 0.1 and result.json["request_rate"] == "inf"


@pytest.mark.parametrize("strategy", ["linear", "exponential"])
@steady
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
