#!/usr/bin/env python3
"""Throughput of two replicas with a core each behind HAProxy, over that of one replica on one core.

Starts two servers, each held to one core, and HAProxy with the file of deploy/. Every round asks
one replica and then both, through HAProxy, about an image each that nobody has seen; clients send
the next question when they have an answer, two for each replica, so that none waits for work.
Prints questions a second of both and their ratio, and how many cores the replicas had, by their
processor time: below 1 and 2, other programs took the rest. The clients' share of the processor
time is in all of it and is printed too.

    bench/replicas.py --model DIR --size 512x512 --requests 4 --rounds 2 -- --quantization int8

What follows -- goes to `omma serve`. Needs two cores, HAProxy, and memory for the model twice.
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

from omma_program import add_omma_option, program
from same_image import make_image, positive, size_of

ROOT = pathlib.Path(__file__).resolve().parents[1]
CLIENTS_PER_REPLICA = 2
START_SECONDS = 600


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_it_answers(process: subprocess.Popen, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"{process.args[0]} did not start (status {process.returncode})")
        time.sleep(0.1)


def start_replica(arguments: argparse.Namespace, core: int) -> tuple[subprocess.Popen, int]:
    port = free_port()
    command = ["taskset", "-c", str(core), arguments.omma, "serve", "--model", arguments.model, "--port", str(port), "--threads", "1",
               "--served-model-name", "m", "--max-model-len", "2048", *arguments.options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), port


def start_balancer(arguments: argparse.Namespace, ports: list[int]) -> tuple[subprocess.Popen, int]:
    """With the same port twice one replica has it all."""
    port = free_port()
    places = {"OMMA_LISTEN": port, "OMMA_REPLICA_1": ports[0], "OMMA_REPLICA_2": ports[-1]}
    settings = {name: f"127.0.0.1:{value}" for name, value in places.items()}
    command = [arguments.haproxy, "-db", "-f", str(ROOT / "deploy" / "haproxy" / "haproxy.cfg")]
    return subprocess.Popen(command, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), port


def question(arguments: argparse.Namespace) -> bytes:
    content = [{"type": "image_url", "image_url": {"url": make_image(*arguments.size)}}, {"type": "text", "text": "What is in this image?"}]
    body = {"model": "m", "messages": [{"role": "user", "content": content}], "max_tokens": arguments.tokens, "ignore_eos": True, "temperature": 0}
    return json.dumps(body).encode()


def ask(port: int, body: bytes, n_tokens: int) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=START_SECONDS) as reply:
        if json.load(reply)["usage"]["completion_tokens"] != n_tokens:
            sys.exit("an answer has another length than was asked for")


def processor_seconds(processes: list[subprocess.Popen]) -> float:
    """What they have used since they were started, in user and system mode."""
    used = 0
    for process in processes:
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        used += int(fields[11]) + int(fields[12])
    return used / os.sysconf("SC_CLK_TCK")


def questions_a_second(arguments: argparse.Namespace, port: int, n_replicas: int, replicas: list[subprocess.Popen]) -> tuple[float, float]:
    """Over the time from the first question to the last answer; and the cores that the replicas had
    in that time."""
    bodies = [question(arguments) for _ in range(arguments.requests * n_replicas)]
    lock, left, failed = threading.Lock(), list(bodies), []

    def client() -> None:
        while True:
            with lock:
                if not left or failed:
                    return
                body = left.pop()
            try:
                ask(port, body, arguments.tokens)
            except (OSError, SystemExit) as error:
                failed.append(error)

    clients = [threading.Thread(target=client) for _ in range(CLIENTS_PER_REPLICA * n_replicas)]
    start, used = time.monotonic(), processor_seconds(replicas)
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    if failed:
        sys.exit(f"a request failed: {failed[0]}")
    seconds = time.monotonic() - start
    return len(bodies) / seconds, (processor_seconds(replicas) - used) / seconds


def measure(arguments: argparse.Namespace, one: int, both: int, replicas: list[subprocess.Popen]) -> None:
    for port in (one, both, both):
        ask(port, question(arguments), arguments.tokens)
    rates, cores = ([], []), ([], [])
    used, started = resource.getrusage(resource.RUSAGE_SELF).ru_utime, time.monotonic()
    for number in range(arguments.rounds):
        for rate, core, port, n_replicas in zip(rates, cores, (one, both), (1, 2)):
            for values, value in zip((rate, core), questions_a_second(arguments, port, n_replicas, replicas)):
                values.append(value)
        print(f"round {number + 1}: one replica {rates[0][-1]:.3f}, two {rates[1][-1]:.3f} questions a second, ratio {rates[1][-1] / rates[0][-1]:.3f}", flush=True)
    share = (resource.getrusage(resource.RUSAGE_SELF).ru_utime - used) / (time.monotonic() - started)
    one_rate, two_rate = (statistics.median(rate) for rate in rates)
    print(f"median:  one replica {one_rate:.3f}, two {two_rate:.3f} questions a second, ratio {two_rate / one_rate:.3f}; the clients took {share:.1%} of a core")
    one_core, two_cores = (statistics.median(core) for core in cores)
    # runs of a few hundredths of a second are below the clock's tick
    if min(one_core, two_cores) > 0:
        by_time = two_rate / two_cores / (one_rate / one_core)
        print(f"one replica had {one_core:.2f} cores, two {two_cores:.2f}: a second of a core answers {by_time:.3f} times as many questions with two")


def main() -> None:
    words = sys.argv[1:]
    given, options = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_omma_option(parser)
    parser.add_argument("--model", default="models/demo", help="the model that is served (default: %(default)s)")
    parser.add_argument("--haproxy", type=program, default=shutil.which("haproxy") or "/usr/sbin/haproxy", help="the balancer (default: %(default)s)")
    parser.add_argument("--size", type=size_of, default="512x512", help="of the images (default: %(default)s)")
    parser.add_argument("--tokens", type=positive, default=4, help="of each answer (default: %(default)s)")
    parser.add_argument("--requests", type=positive, default=4, help="for each replica and round (default: %(default)s)")
    parser.add_argument("--rounds", type=positive, default=2, help="of one replica, then two (default: %(default)s)")
    arguments = parser.parse_args(given)
    arguments.options = options
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        parser.error("two cores are needed, one for each replica")
    processes = []
    try:
        ports = []
        for core in cores[:2]:
            process, port = start_replica(arguments, core)
            processes.append(process)
            ports.append(port)
        for process, port in zip(processes[:2], ports):
            wait_until_it_answers(process, port)
        balancers = [start_balancer(arguments, use) for use in (ports[:1], ports)]
        processes += [process for process, _ in balancers]
        for process, port in balancers:
            wait_until_it_answers(process, port)
        measure(arguments, balancers[0][1], balancers[1][1], processes[:2])
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait()


if __name__ == "__main__":
    main()
