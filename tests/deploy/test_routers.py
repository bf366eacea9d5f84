"""Two real replicas behind vLLM's router (vllm-router from PyPI, as it is), which
tools/test_deploy.sh installs."""

import json
import pathlib
import subprocess
import urllib.error
import urllib.request

import pytest

from test_balancer import free_port, is_whole, question
from server_process import Reply, ServerProcess, make_command
from test_metrics import read
from waiting import wait_for

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "build" / "venv-routers" / "bin" / "vllm-router"


class Router:
    def __init__(self, servers, log, *options):
        self.port = free_port()
        self.log = open(log, "w")
        command = [PROGRAM, "--port", self.port, "--worker-urls", *(f"http://127.0.0.1:{server.port}" for server in servers),
                   "--worker-startup-check-interval", 1, "--health-check-interval-secs", 1, "--health-failure-threshold", 1,
                   "--prometheus-port", free_port(), *options]
        self.process = subprocess.Popen([str(word) for word in command], stdout=self.log, stderr=subprocess.STDOUT)
        wait_for(self.answers, "an answer through the router")

    def answers(self):
        assert self.process.poll() is None, "the router has ended"
        try:
            return self.request("/health").status == 200
        except OSError:
            return False

    def request(self, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body and json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return Reply(reply.status, reply.headers, reply.read())
        except urllib.error.HTTPError as error:
            return Reply(error.code, error.headers, error.read())

    def chat(self, stream=False, content="What do you see?"):
        reply = self.request("/v1/chat/completions", {"model": "test-model", **question(stream, content)})
        assert is_whole(reply, stream), reply.body
        return reply

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


@pytest.fixture
def route(request, tmp_path):
    if not PROGRAM.exists():
        (pytest.fail if request.config.getoption("--full") else pytest.skip)("vllm-router is not installed: make test-deploy does it")
    routers = []

    def make(servers, *options):
        routers.append(Router(servers, tmp_path / "log", *options))
        return routers[-1]

    yield make
    for router in routers:
        router.stop()


def served(server):
    return read(server)[0]["vllm:e2e_request_latency_seconds_count"]


def test_requests_are_spread_and_go_on_when_a_replica_dies(request, start, route):
    """Whole and streamed answers of both replicas are the same; one is killed: the next requests
    are answered by the other."""
    servers = [ServerProcess(make_command(request.config, "real", {})), start()]
    router = route(servers, "--policy", "round_robin")
    assert [model["id"] for model in router.request("/v1/models").json["data"]] == ["test-model"]
    whole = [router.chat() for _ in range(4)]
    streams = [router.chat(stream=True) for _ in range(4)]
    assert [served(server) for server in servers] == [4, 4]
    text = {reply.json["choices"][0]["message"]["content"] for reply in whole}
    events = [[json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: {")] for reply in streams]
    text |= {"".join(event["choices"][0]["delta"].get("content") or "" for event in stream) for stream in events}
    assert len(text) == 1 and all(len(stream) > 5 for stream in events)
    servers[0].process.kill()
    servers[0].process.wait()
    for i in range(6):
        router.chat(stream=i % 2 == 0)
    assert served(servers[1]) == 10


def test_conversations_stay_where_they_began(start, route):
    """cache_aware: what begins alike goes to the replica that has it, so that all turns but the
    first find their prefix."""
    servers = [start(), start()]
    router = route(servers, "--policy", "cache_aware", "--balance-abs-threshold", 64)
    cached = [router.chat(content="A long story. " * 30 + f"Question {i}").json["usage"]["prompt_tokens_details"]["cached_tokens"] for i in range(4)]
    assert cached[0] == 0 and all(n >= 64 for n in cached[1:])
    assert sorted(served(server) for server in servers) == [0, 4]
