"""Two real replicas behind HAProxy with the configuration that is given to users."""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest

from server_process import Reply
from test_metrics import read
from waiting import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
N_REQUESTS = 50
N_STREAMED = 256


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Balancer:
    """HAProxy in front of the servers at two ports."""

    def __init__(self, program, ports, interval):
        self.port = free_port()
        settings = {"OMMA_LISTEN": f"127.0.0.1:{self.port}", "OMMA_CHECK_INTERVAL": f"{interval}ms"}
        settings.update({f"OMMA_REPLICA_{i + 1}": f"127.0.0.1:{port}" for i, port in enumerate(ports)})
        self.process = subprocess.Popen([program, "-db", "-f", str(ROOT / "deploy" / "haproxy" / "haproxy.cfg")],
                                        env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.answers, "an answer through HAProxy")

    def answers(self):
        try:
            return self.request("GET", "/health").status == 200
        except OSError:
            return False

    def connect(self):
        return contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120))

    def request(self, method, path, body=None, headers=None):
        with self.connect() as connection:
            return ask(connection, method, path, body, headers)

    def stop(self):
        self.process.terminate()
        self.process.wait()


@pytest.fixture
def balance(need):
    balancers = []

    def make(servers, interval=100):
        balancers.append(Balancer(need("haproxy"), [server.port for server in servers], interval))
        return balancers[-1]

    yield make
    for balancer in balancers:
        balancer.stop()


def ask(connection, method, path, body=None, headers=None):
    connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
    reply = connection.getresponse()
    return Reply(reply.status, dict(reply.getheaders()), reply.read())


def question(stream=False, content="What do you see?"):
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 24, "ignore_eos": True, "temperature": 0, "stream": stream}


def is_whole(reply, stream):
    if reply.status != 200:
        return False
    return reply.body.rstrip().endswith(b"data: [DONE]") if stream else reply.json["usage"]["completion_tokens"] == 24


def test_no_request_is_lost_while_replicas_are_restarted(need, start, balance):
    """A client after the other asks while one replica and then the other is stopped and started
    again: no request fails."""
    need("haproxy")
    servers = [start(shutdown_delay=1), start(shutdown_delay=1)]
    balancer = balance(servers)
    failed, n_asked, restarted = [], [0], threading.Event()

    def client(number):
        asked = 0
        while asked < N_REQUESTS // 2 or not restarted.is_set():
            stream = (asked + number) % 2 == 0
            reply = balancer.request("POST", "/v1/chat/completions", question(stream))
            if not is_whole(reply, stream):
                failed.append((reply.status, reply.body[-300:]))
            asked += 1
        n_asked[0] += asked

    clients = [threading.Thread(target=client, args=(i,)) for i in range(2)]
    for thread in clients:
        thread.start()
    for i in range(2):
        port = servers[i].port
        assert servers[i].stop() == 0
        servers[i] = start(port=port, shutdown_delay=1)
        wait_for(lambda: read(servers[i])[0]["vllm:generation_tokens_total"] > 0, "requests at the replica that is back")
    restarted.set()
    for thread in clients:
        thread.join()
    assert failed == [] and n_asked[0] >= N_REQUESTS


def test_streams_pass_as_they_come(start, balance):
    """Tokens reach the client in pieces: a balancer that gathers them would send them all at once,
    and the first one late."""
    balancer = balance([start(), start()])
    body = json.dumps({**question(stream=True), "max_tokens": N_STREAMED}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", balancer.port), timeout=120) as connection:
        connection.sendall(head.encode() + body)
        pieces = [connection.recv(1 << 20)]
        while b"[DONE]" not in pieces[-1]:
            pieces.append(connection.recv(1 << 20))
    assert len(pieces) > 8, len(pieces)


def hold_up(servers, interval):
    """The replicas do not get to answer, as on a crowded machine, until a health check has begun
    and waited for longer than the interval of checks (ms)."""
    for server in servers:
        server.process.send_signal(signal.SIGSTOP)
    time.sleep(2.1 * interval / 1000)
    for server in servers:
        server.process.send_signal(signal.SIGCONT)


def test_an_image_goes_where_it_was(start, balance):
    """Requests with the same digest reach the same replica, which has the image in its cache: also
    when the replicas were slow to answer health checks. A check's connection has to be made within
    the interval: one that is too short takes a replica out where HAProxy itself has to wait.

    A turn's requests have one connection. A request on a new one may come while HAProxy still
    counts the one before, and half more requests than the other replica's (hash-balance-factor)
    are too many then."""
    servers, interval = [start(), start()], 3000
    balancer = balance(servers, interval)
    images = sorted((ROOT / "models" / "demo" / "images").glob("*.png"))[:3]
    for turn in ("What colour is the circle?", "How many squares are there?"):
        with balancer.connect() as connection:
            for image in images:
                url = "data:image/png;base64," + base64.b64encode(image.read_bytes()).decode()
                content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": turn}]
                reply = ask(connection, "POST", "/v1/chat/completions", question(content=content), {"x-image-digest": image.name})
                assert reply.status == 200, reply.body
        hold_up(servers, interval)
    encoded = [read(server)[0]["omma:encoder_images_total"] for server in servers]
    hits = [read(server)[0]["omma:encoder_cache_hits_total"] for server in servers]
    assert sum(encoded) == len(images) and sum(hits) == len(images)
