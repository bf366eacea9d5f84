"""Bursts: requests wait, as many as memory allows, instead of being refused; and what does not fit
gets status 503, with a line in the log that says why."""

import json
import re
import select
import socket

import pytest

from test_many import at_once
from test_metrics import read
from waiting import cancelled, wait_for

CHAT = "/v1/chat/completions"


def request_bytes(content, **fields):
    body = json.dumps({"messages": [{"role": "user", "content": content}], "max_tokens": 3, **fields}).encode()
    head = (f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")
    return head.encode() + body


def send_at_once(server, requests, seconds=300):
    """The replies to requests that are all sent before any is read."""
    connections = {}
    poller = select.poll()  # unlike select, for descriptors above 1,023
    for request in requests:
        connection = socket.create_connection(("127.0.0.1", server.port), seconds)
        connection.sendall(request)
        connections[connection.fileno()] = connection
        poller.register(connection, select.POLLIN)
    replies = dict.fromkeys(connections, b"")
    while connections:
        ready = poller.poll(seconds * 1000)
        assert ready, f"{len(connections)} clients still wait"
        for descriptor, _ in ready:
            piece = connections[descriptor].recv(65536)
            replies[descriptor] += piece
            if not piece:
                poller.unregister(descriptor)
                connections.pop(descriptor).close()
    return list(replies.values())


def statuses(replies):
    return [int(re.match(rb"HTTP/1.1 (\d+) ", reply).group(1)) for reply in replies]


def failures(server):
    lines = server.read_output().splitlines()
    return [json.loads(line.removeprefix("log: ")) for line in lines if '"event":"failure"' in line]


def test_a_thousand_at_once_are_answered(start):
    """Of one address, to one server as it starts by default: each gets its own answer."""
    server = start(log_json=True)
    replies = send_at_once(server, [request_bytes(f"[[tokens=3]] {number}") for number in range(1000)])
    assert statuses(replies) == [200] * 1000
    for reply in replies:
        assert json.loads(reply.split(b"\r\n\r\n", 1)[1])["usage"]["completion_tokens"] == 3
    assert not failures(server)
    assert server.get("/health").status == 200
    assert server.stop() == 0
    assert server.counters()["length"] == 1000


@pytest.mark.real_only
def test_a_burst_waits_for_the_engine(start):
    """Many more than run at once, through the engine's own queue."""
    server = start(max_num_seqs=4)
    replies = at_once([lambda number=number: server.chat(f"number {number}", max_tokens=2) for number in range(150)])
    assert [reply.status for reply in replies] == [200] * 150
    samples, _ = read(server)
    assert samples["omma:max_num_seqs"] == 4 and samples["omma:queued_bytes"] == 0


@pytest.mark.real_only
@pytest.mark.parametrize("option, value, reason", [("max_queued_bytes", "16K", "max_queued_bytes"),
                                                   ("max_queued_requests", 3, "max_num_queued_reqs")])
def test_what_does_not_fit_is_refused_with_a_line(start, option, value, reason):
    server = start(max_num_seqs=1, log_format="json", **{option: value})
    replies = at_once([lambda: server.chat("word " * 40, max_tokens=40, ignore_eos=True) for _ in range(60)])
    refused = [reply for reply in replies if reply.status == 503]
    assert len(refused) + sum(reply.status == 200 for reply in replies) == 60
    assert 2 <= 60 - len(refused) < 50
    assert all(reply.headers["Retry-After"] == "1" and "queue is full" in reply.error["message"] for reply in refused)
    metrics = server.get("/metrics").body.decode()
    assert re.search(rf'vllm:admission_rejections_total{{model_name="[^"]*",reason="{reason}"}} {len(refused)}\n', metrics)
    lines = failures(server)
    assert len(lines) == len(refused)
    assert {line["status"] for line in lines} == {503} and {line["message"] for line in lines} == {refused[0].error["message"]}
    assert {line["request_id"] for line in lines} == {reply.headers["x-request-id"] for reply in refused}


@pytest.mark.real_only
def test_a_request_is_not_refused_for_its_own_answers(start):
    """Its answers, prompts and inputs come together, however many other requests may wait."""
    server = start(max_num_seqs=1, max_queued_requests=1)
    for path, body in (("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3, "n": 8}),
                       ("/v1/completions", {"prompt": [f"number {i}" for i in range(8)], "max_tokens": 3}),
                       ("/score", {"text_1": "number", "text_2": [f"number {i}" for i in range(40)]})):
        reply = server.post(path, body)
        if path == "/score" and reply.status == 400:  # not every model gives scores
            continue
        assert reply.status == 200, reply.body
        assert len(reply.json.get("choices") or reply.json["data"]) in (8, 40)
    assert 'reason="max_num_queued_reqs"} 0\n' in server.get("/metrics").body.decode()


def test_each_refusal_has_its_line(start):
    """Whatever there is too much of: connections, bodies, requests that wait."""
    server = start(log_json=True, max_connections=4, max_connections_per_address=4)
    waiting = [server.open_stream("[[tokens=2]] [[first_ms=600000]]") for _ in range(4)]
    assert statuses(send_at_once(server, [request_bytes("hello")])) == [503]
    (line,) = failures(server)
    assert line["status"] == 503 and "too many connections" in line["message"] and line["level"] == "error"
    assert 'reason="max_connections"} 1\n' in server.get("/metrics").body.decode()
    for connection in waiting:
        connection.close()


def test_readers_that_are_too_slow_share_a_budget(start):
    """Streams that nobody reads take no more memory together than one server allows."""
    server = start(log_access=1, log_json=True, max_total_pending_bytes=150000)
    slow = [server.open_stream("[[tokens=100000]] " + "text " * 20) for _ in range(3)]

    def cut():
        return [line for line in server.read_output().splitlines() if '"end":"client_slow"' in line]

    # Its line comes when its connection ends, which may wait in a send for two minutes.
    wait_for(lambda: cancelled(server) > 0, "a slow reader that is cut off", 240)
    assert server.chat("[[tokens=3]] hello").status == 200
    for connection in slow:
        connection.close()
    wait_for(cut, "the line of a slow reader")
