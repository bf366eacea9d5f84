"""The simulation of replicas, against what is known in closed form."""

import pathlib
import statistics
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from fleet_model import Request, Service, make_requests, percentile, simulate  # noqa: E402

SERVICE = Service(prepare=0.01, encode=0.4, prefill=0.1, prefill_known=0.05, steps=[0.02, 0.024, 0.028, 0.032])


def test_a_request_alone_takes_its_service_times():
    (request,) = requests = [Request(3.0, 0, 5)]
    (replica,) = simulate(SERVICE, requests)
    assert request.time_to_first_token == pytest.approx(0.51) and request.seconds == pytest.approx(0.51 + 4 * 0.02)
    assert replica.busy == pytest.approx(0.5 + 4 * 0.02)


def test_a_known_image_costs_its_prompt_alone():
    requests = [Request(0.0, 7, 2), Request(10.0, 7, 2)]
    (replica,) = simulate(SERVICE, requests)
    assert replica.hits == 1 and requests[1].time_to_first_token == pytest.approx(0.05)


def test_writing_shares_the_time_with_a_new_image():
    """While one answer is written, another's image gets half of the time: its first token comes
    after twice its work."""
    requests = [Request(0.0, 0, 200), Request(2.0, 1, 1)]
    simulate(SERVICE, requests, percent=50)
    assert requests[1].time_to_first_token == pytest.approx(0.01 + 2 * 0.5, abs=0.05)


def test_images_and_prompts_take_turns():
    """The prompt of the first of two images and the second image get a tenth of a second in turns;
    so the first token comes after the prompt's time and nearly as much of the other image's."""
    requests = [Request(0.0, 0, 1), Request(0.0, 1, 1)]
    service = Service(prepare=0.0, encode=1.0, prefill=0.5, prefill_known=0.0, steps=[0.02])
    simulate(service, requests)
    assert requests[0].first == pytest.approx(1.0 + 0.5 + 0.4, abs=0.11) and requests[1].first == pytest.approx(3.0)


def test_a_queue_of_equal_requests_waits_as_in_the_formula():
    """One at a time, answers of one token: a queue with random arrivals and a fixed service time s;
    the mean wait is rho s / (2 (1 - rho)) (Pollaczek and Khinchine)."""
    s = SERVICE.encode + SERVICE.prefill
    service = Service(prepare=0.0, encode=SERVICE.encode, prefill=SERVICE.prefill, prefill_known=0.0, steps=[0.02])
    for rho in (0.3, 0.6):
        requests = make_requests(10000, rho / s, 0.0, 1, seed=1)
        (replica,) = simulate(service, requests, max_num_seqs=1)
        waits = [r.time_to_first_token - s for r in requests]
        assert min(waits) > -1e-6
        assert statistics.fmean(waits) == pytest.approx(rho * s / (2 * (1 - rho)), rel=0.1)
        assert replica.busy == pytest.approx(len(requests) * s)


@pytest.mark.parametrize("routing", ["hash", "least", "robin"])
def test_every_request_is_answered_once(routing):
    requests = make_requests(300, 6.0, 0.5, 8, seed=2)
    replicas = simulate(SERVICE, requests, n_replicas=3, routing=routing)
    assert all(r.first > r.arrival and r.end >= r.first and r.written == 8 for r in requests)
    assert sum(replica.running for replica in replicas) == 0 and len({r.replica for r in requests}) == 3


def test_the_image_decides_the_replica_while_it_has_room():
    """Requests about one image stay on one replica, where all but the first find it; in turns, each
    replica encodes it."""
    def hits(routing):
        requests = [Request(2.0 * i, 0, 2) for i in range(8)]
        return sum(replica.hits for replica in simulate(SERVICE, requests, n_replicas=4, routing=routing))
    assert hits("hash") == 7 and hits("robin") == 4


def test_idle_replicas_take_turns():
    requests = [Request(2.0 * i, i, 2) for i in range(6)]
    simulate(SERVICE, requests, n_replicas=3, routing="least")
    assert [request.replica for request in requests] == [0, 1, 2] * 2


def test_percentile_is_linear_between_neighbours():
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5 and percentile([1.0], 99) == 1.0
