"""Many mixed requests at once on the real program: every well-formed one is answered, and the same
each time; none gets a status of 500 or more; and what earlier rounds have taken is soon enough for
the next: memory, descriptors, threads. With --full many more requests."""

import os
import pathlib
import queue
import random
import threading

import pytest
from request_mix import make_mix, send
from test_metrics import read
from waiting import wait_for, wait_for_engine, wait_for_load

pytestmark = pytest.mark.real_only
SEED = 20261122
CONCURRENCY = 16
FEW, MANY = 50, 500  # requests of a round
ROUNDS = 10          # at most; which requests meet in an engine, and so its largest step, is chance
SLACK = 2 << 20      # bytes, which the few may take more than one per cent


def resident(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def entries(server, folder):
    return len(os.listdir(f"/proc/{server.process.pid}/{folder}"))


def is_sanitized(program):
    data = pathlib.Path(program).read_bytes()
    return b"__asan_init" in data or b"__tsan_init" in data


def storm(server, requests, answers):
    """Sends (number, request) pairs from CONCURRENCY clients; what is wrong, one line each."""
    waiting, wrong = queue.Queue(), []
    for pair in requests:
        waiting.put(pair)

    def client():
        while True:
            try:
                number, request = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                check(number, request, send(server, request))
            except Exception as failure:
                wrong.append(f"request {number} ({request.fate}): {failure!r}")

    def check(number, request, reply):
        if reply is None:
            return
        status, text = reply
        if request.fate == "malformed":
            assert status in (200, 400, 404), reply
        else:
            assert status == 200, reply
            assert answers.setdefault(number, text) == text, f"{answers[number]} and then {text}"

    threads = [threading.Thread(target=client) for _ in range(CONCURRENCY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, f"seed {SEED}: {len(wrong)} of {len(requests)}: " + "; ".join(wrong[:5])


@pytest.mark.parametrize("options", [{}, {"data_parallel_size": 2, "threads": 1}], ids=["one engine", "two engines"])
def test_mixed_requests_leave_nothing_allocated(start, request, omma, model_can, options):
    n, slack = (MANY, 0) if request.config.getoption("--full") else (FEW, SLACK)
    server = start(**options)
    mix = list(enumerate(make_mix(SEED, n, model_can.videos)))
    answers = {}
    wait_for_load(server, 0)
    files = entries(server, "fd")

    def go_round(order):
        """The requests in another order, and what the server has when all of them have ended."""
        requests = mix[:]
        random.Random(order).shuffle(requests)
        storm(server, requests, answers)
        wait_for_engine(server, 0)
        wait_for_load(server, 0)
        wait_for(lambda: entries(server, "fd") <= files, f"{files} descriptors again")
        samples, _ = read(server)
        return resident(server), entries(server, "task"), samples["vllm:kv_cache_usage_perc"]

    size, n_threads, pages = go_round(1)
    assert pages == 0
    sizes = [size]
    for order in range(2, ROUNDS + 1):
        size, n_threads_then, pages = go_round(order)
        assert pages == 0 and n_threads_then == n_threads
        sizes.append(size)
        if size - sizes[-2] <= max(slack, sizes[-2] // 100) or is_sanitized(omma):
            break
    else:
        pytest.fail(f"each round of the same requests takes more memory: {sizes} bytes")
    assert len(answers) == sum(r.fate == "answered" for _, r in mix)
