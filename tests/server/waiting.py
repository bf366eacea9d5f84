"""Waiting for what a server reports about itself. The limit is far away: how soon a thing happens
is no part of these tests."""

import time

from test_metrics import read


def wait_for(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


def wait_for_load(server, load):
    """That many requests are being answered."""
    wait_for(lambda: server.get("/load").json["server_load"] == load, f"a load of {load}")


def in_engine(server):
    """How many requests the engine has, running or waiting."""
    samples, _ = read(server)
    return samples["vllm:num_requests_running"] + samples["vllm:num_requests_waiting"]


def wait_for_engine(server, n):
    wait_for(lambda: in_engine(server) == n, f"{n} requests in the engine")


def cancelled(server):
    """How many requests the engine has ended early so far."""
    samples, _ = read(server)
    return samples['vllm:request_success_total,finished_reason="abort"']
