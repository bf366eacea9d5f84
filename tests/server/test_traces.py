"""--otlp-traces-endpoint: each request as spans at a collector, nothing else disturbed by it."""

import http.client
import json
import os
import re
import socket
import subprocess
import time

import pytest
from images import image_part, png, text_part
from server_process import stream_events
from test_metrics import read
from trace_collector import Collector, attributes
from waiting import wait_for

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SENT, DROPPED = "omma:trace_spans_sent_total", "omma:trace_spans_dropped_total"


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def traced(start, collector):
    return start(otlp_traces_endpoint=collector.url)


def parent(flags="01"):
    return {"traceparent": f"00-{TRACE}-{PARENT}-{flags}"}


def figure(server, name):
    return read(server)[0][name]


def check_span(span):
    assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and re.fullmatch("[0-9a-f]{16}", span["spanId"])
    assert isinstance(span["startTimeUnixNano"], str) and int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])


def check_tree(root, stages):
    """Stages lie inside their request, one after the other."""
    begin, end = int(root["startTimeUnixNano"]), int(root["endTimeUnixNano"])
    for span in [root, *stages]:
        check_span(span)
    for span in stages:
        assert span["traceId"] == root["traceId"] and span["kind"] == 1
        assert begin <= int(span["startTimeUnixNano"]) and int(span["endTimeUnixNano"]) <= end
    for one, other in zip(stages, stages[1:]):
        assert int(one["endTimeUnixNano"]) <= int(other["startTimeUnixNano"]) + 1_000_000, (one["name"], other["name"])


@pytest.mark.real_only
def test_the_stages_of_a_request_with_an_image(traced, collector):
    content = [image_part(png(112, 96, 3)), text_part("What is it?")]
    reply = traced.chat(content, headers={**parent(), "x-request-id": "a\"b"}, max_tokens=4, temperature=0.5, top_p=0.9)
    [(root, stages)] = collector.wait_for(1)
    assert root["name"] == "llm_request" and root["traceId"] == TRACE and root["parentSpanId"] == PARENT
    assert [span["name"] for span in stages] == ["decode_image", "queue", "encode", "prefill", "decode"]
    check_tree(root, stages)
    found, usage = attributes(root), reply.json["usage"]
    assert found["gen_ai.request.id"] == "a\"b" and found["gen_ai.response.model"] == "test-model"
    assert found["gen_ai.usage.prompt_tokens"] == usage["prompt_tokens"]
    assert found["gen_ai.usage.completion_tokens"] == usage["completion_tokens"]
    assert found["gen_ai.request.temperature"] == 0.5 and abs(found["gen_ai.request.top_p"] - 0.9) < 1e-6
    assert found["gen_ai.request.max_tokens"] == 4 and found["gen_ai.request.n"] == 1
    assert found["omma.request.images"] == 1 and found["http.response.status_code"] == 200
    assert 0 < found["gen_ai.latency.time_to_first_token"] <= found["gen_ai.latency.e2e"]
    inference = found["gen_ai.latency.time_in_model_prefill"] + found["gen_ai.latency.time_in_model_decode"]
    assert abs(found["gen_ai.latency.time_in_model_inference"] - inference) < 1e-6
    assert root["status"] == {"code": 0}
    wait_for(lambda: figure(traced, SENT) == 6, "six spans counted")
    assert figure(traced, DROPPED) == 0


@pytest.mark.real_too
def test_times_are_of_the_wall_clock(traced, collector):
    begin = time.time_ns()
    assert traced.chat(max_tokens=1).status == 200
    end = time.time_ns()
    [(root, _)] = collector.wait_for(1)
    assert begin - 1_000_000 <= int(root["startTimeUnixNano"]) <= end


@pytest.mark.real_too
def test_who_begins_a_trace(traced, collector):
    """Unfit headers and doubled ones are as none; a client that does not record is left alone."""
    for headers in ({}, {"traceparent": f"00-{TRACE}-{PARENT}"}, {"traceparent": "\xff" * 4000}):
        assert traced.chat(headers=headers, max_tokens=1).status == 200
    assert traced.chat(headers=parent("00"), max_tokens=1).status == 200
    with traced.connect() as connection:
        body = json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1})
        twice = f"traceparent: 00-{TRACE}-{PARENT}-01\r\n" * 2
        connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{twice}"
                           f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        while connection.recv(65536):
            pass
    traced.chat(headers=parent(), max_tokens=1)
    roots = [root for root, _ in collector.wait_for(5)]
    assert len(roots) == 5
    own = [root for root in roots if "parentSpanId" not in root]
    assert len(own) == 4 and len({root["traceId"] for root in own} | {TRACE}) == 5


@pytest.mark.real_too
def test_streams_choices_and_refusals(traced, collector):
    stream_events(traced, max_tokens=3)
    choices = traced.chat(max_tokens=2, n=2)
    assert traced.chat(max_tokens=-1).status == 400
    assert traced.post("/tokenize", {"prompt": "x"}).status == 200
    assert traced.get("/v1/models").status == 200  # no span: nothing is computed
    roots = collector.wait_for(4)
    statuses = sorted(attributes(root)["http.response.status_code"] for root, _ in roots)
    assert statuses == [200, 200, 200, 400]
    by_route = {attributes(root)["http.route"] for root, _ in roots}
    assert by_route == {"/v1/chat/completions", "/tokenize"}
    for root, stages in roots:
        check_tree(root, stages)
        found = attributes(root)
        if found.get("gen_ai.request.n") == 2:
            assert found["gen_ai.usage.completion_tokens"] == choices.json["usage"]["completion_tokens"] and stages[-1]["name"] == "decode"


def test_several_answers_wait_once(traced, collector):
    """Of these nothing is known but their tokens: the request does not wait after its first one."""
    assert traced.chat("[[tokens=1]]", n=2).status == 200
    [(root, stages)] = collector.wait_for(1)
    check_tree(root, stages)
    assert [span["name"] for span in stages] == ["decode"]


@pytest.mark.real_only
def test_what_is_posted(start, collector):
    """To the standard path where the URL has none; the program under the name that it is given."""
    for path, expected in (("", "/v1/traces"), ("/", "/v1/traces"), ("/own/path?key=1", "/own/path?key=1")):
        collector.posts.clear()
        server = start(env={**os.environ, "OTEL_SERVICE_NAME": "eyes \"1\""}, otlp_traces_endpoint=collector.url + path)
        server.chat(max_tokens=1)
        assert server.stop() == 0  # what waits is sent before the end
        [(posted, kind, _)] = collector.posts
        assert posted == expected and kind == "application/json"
        [(resource, scope)] = collector.scopes()
        assert attributes(resource)["service.name"] == "eyes \"1\"" and scope["scope"]["name"] == "omma"


@pytest.mark.real_too
def test_a_collector_that_refuses(start):
    collector = Collector(status=500)
    server = start(otlp_traces_endpoint=collector.url)
    for _ in range(3):
        assert server.chat(max_tokens=1).status == 200
    wait_for(lambda: figure(server, DROPPED) >= 3, "spans dropped")
    assert figure(server, SENT) == 0
    wait_for(lambda: "traces" in server.read_output() and "the collector answers 500" in server.read_output(), "a line")
    collector.status = 200
    server.chat(max_tokens=1)
    wait_for(lambda: figure(server, SENT) >= 1, "spans sent again")
    wait_for(lambda: "traces are sent again" in server.read_output(), "a second line")
    collector.close()


@pytest.mark.real_too
def test_a_collector_that_is_not_there(start):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        server = start(otlp_traces_endpoint=f"http://127.0.0.1:{taken.getsockname()[1]}")
        assert server.chat(max_tokens=1).status == 200
        wait_for(lambda: "state=" in server.read_output() and " traces " in server.read_output(), "a line of its failure")
        assert server.chat(max_tokens=1).status == 200
        assert server.stop() == 0


def test_a_collector_that_does_not_answer(start, collector):
    """Requests are answered meanwhile, the queue is bounded, and the server stops."""
    collector.block()
    server = start(otlp_traces_endpoint=collector.url)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    for _ in range(2200):
        connection.request("POST", "/tokenize", b'{"prompt":"x"}', {"Content-Type": "application/json"})
        assert connection.getresponse().read()
    connection.close()
    assert figure(server, DROPPED) >= 1
    assert server.chat(max_tokens=1).status == 200
    assert server.stop() == 0


@pytest.mark.real_only
@pytest.mark.parametrize("url", ["grpc://127.0.0.1:4317", "127.0.0.1:4318", "http://", "ftp://host/x", ""])
def test_no_such_collector(kind, omma, model, url):
    del kind
    done = subprocess.run([omma, "serve", "--model", model, "--port", "0", "--otlp-traces-endpoint", url],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == ""
    [line] = [line for line in done.stderr.splitlines() if "otlp" in line]
    assert "--otlp-traces-endpoint: expected the http(s) URL" in line and line.endswith(f"found {url}")
