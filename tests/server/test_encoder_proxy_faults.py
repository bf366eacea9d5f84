"""Encoder nodes that die, hang and start anew while clients ask through omma-encoder-proxy: no
request fails, and few images are left to vLLM's own tower."""

import os
import signal
import threading
import time

import pytest

from fake_vllm import FakeVllm
from images import data_url, png, text_part
from proxy_process import ProxyProcess
from server_process import ServerProcess, make_command
from waiting import wait_for

pytestmark = pytest.mark.real_only
N_REQUESTS, N_CLIENTS, N_IMAGES, N_NODES = 1000, 12, 60, 3


class Fleet:
    """Encoder nodes that are started again at the same port."""

    def __init__(self, command):
        self._command = command
        self.nodes = [self._start(0) for _ in range(N_NODES)]
        self.ports = [node.port for node in self.nodes]

    def _start(self, port):
        command = list(self._command)
        command[command.index("--port") + 1] = str(port)
        return ServerProcess(command)

    def urls(self):
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def kill(self, i):
        self.nodes[i].process.kill()
        self.nodes[i].process.wait()

    def start(self, i):
        self.nodes[i] = self._start(self.ports[i])

    def signal(self, i, number):
        os.kill(self.nodes[i].process.pid, number)

    def stop(self):
        for i, node in enumerate(self.nodes):
            if node.process.poll() is None:
                self.signal(i, signal.SIGCONT)
                node.stop()


@pytest.fixture
def vllm():
    made = FakeVllm()
    yield made
    made.stop()


@pytest.fixture
def fleet(request, kind):
    made = Fleet(make_command(request.config, kind, {"mm_encoder_only": True, "dtype": "f32", "shutdown_timeout": 5}))
    yield made
    made.stop()


class Clients:
    """They ask without a pause, half of them for streams, until the faults are over and there were
    enough requests."""

    def __init__(self, proxy):
        self._proxy, self._lock = proxy, threading.Lock()
        self._images = [data_url(png(48, 48, shade)) for shade in range(N_IMAGES)]
        self.faults_are_over = threading.Event()
        self.n_asked, self.failed, self.slowest, self.got = 0, [], 0.0, {"embeddings": 0, "images": 0}
        self._threads = [threading.Thread(target=self._ask_all, args=(i,), daemon=True) for i in range(N_CLIENTS)]
        for thread in self._threads:
            thread.start()

    def _ask_all(self, number):
        asked = 0
        while asked < N_REQUESTS / N_CLIENTS or not self.faults_are_over.is_set():
            self._ask(number + N_CLIENTS * asked, stream=asked % 2 == 0)
            asked += 1

    def _ask(self, n, stream):
        part = {"type": "image_url", "image_url": {"url": self._images[n * 7 % N_IMAGES]}}
        begin = time.monotonic()
        try:
            reply = self._proxy.chat([part, text_part("?")], stream=stream)
            status, body = reply.status, reply.body
        except OSError as error:
            status, body = 0, repr(error).encode()
        seconds = time.monotonic() - begin
        whole = status == 200 and (b"[DONE]" in body or not stream)
        with self._lock:
            self.n_asked += 1
            self.slowest = max(self.slowest, seconds)
            if not whole:
                self.failed.append((status, body[-300:]))
            for word in self.got:
                self.got[word] += word.encode() in body

    def join(self):
        self.faults_are_over.set()
        for thread in self._threads:
            thread.join()


def n_up(proxy):
    return proxy.metric("node_up")


def faults(fleet, proxy, clients):
    """Each node dies, hangs, or is stopped; it is out, and back when it is there again."""
    def out_and_back(fault, mend):
        fault()
        wait_for(lambda: n_up(proxy) < N_NODES, "a node that is out")
        asked = clients.n_asked
        wait_for(lambda: clients.n_asked > asked + 20, "requests without it")
        mend()
        wait_for(lambda: n_up(proxy) == N_NODES, "all nodes")

    out_and_back(lambda: fleet.kill(0), lambda: fleet.start(0))
    out_and_back(lambda: fleet.signal(1, signal.SIGSTOP), lambda: fleet.signal(1, signal.SIGCONT))
    out_and_back(lambda: fleet.nodes[2].stop(), lambda: fleet.start(2))
    # Two at a time, and one that is killed while it hangs.
    out_and_back(lambda: (fleet.signal(0, signal.SIGSTOP), fleet.kill(1)), lambda: (fleet.kill(0), fleet.start(0), fleet.start(1)))


def test_no_request_fails_while_nodes_die_hang_and_come_back(fleet, vllm):
    proxy = ProxyProcess(vllm.url, *fleet.urls(), health_interval=0.3, health_timeout=0.7, min_out=0.3, max_out=1)
    try:
        clients = Clients(proxy)
        try:
            faults(fleet, proxy, clients)
        finally:
            clients.join()
        print(f"{clients.n_asked} requests, {len(clients.failed)} failed, slowest {clients.slowest:.1f} s, {clients.got}")
        assert clients.failed == [] and clients.n_asked >= N_REQUESTS
        assert sum(clients.got.values()) == clients.n_asked
        assert clients.got["images"] < clients.n_asked / 10
        assert all(proxy.metric(f'node_outs_total{{node="{url}"}}') >= 1 for url in fleet.urls())
    finally:
        assert proxy.stop() == 0


def test_without_any_node_vllm_answers_until_they_are_back(fleet, vllm):
    proxy = ProxyProcess(vllm.url, *fleet.urls(), health_interval=0.2, min_out=0.2, max_out=0.5)
    try:
        clients = Clients(proxy)
        for i in range(N_NODES):
            fleet.kill(i)
        wait_for(lambda: n_up(proxy) == 0, "no node")
        wait_for(lambda: clients.got["images"] > 50, "images at vLLM")
        for i in range(N_NODES):
            fleet.start(i)
        wait_for(lambda: n_up(proxy) == N_NODES, "all nodes")
        clients.join()
        assert clients.failed == [] and clients.got["embeddings"] > 0
    finally:
        assert proxy.stop() == 0
