"""The access lines, the lines of requests, and the counts by status."""

import json
import os
import re
import socket

import pytest

from images import data_url, png
from server_process import read_all, read_until
from waiting import cancelled, wait_for, wait_for_load

TEXT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (INFO|ERROR) (access|request|failure|progress) (.*)$")
VALUE = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')


def lines_of(server, event, n, is_json=False):
    """The first n lines of a kind, which may come a moment after the reply."""
    def found():
        lines = []
        for line in server.read_output().splitlines():
            line = line.removeprefix("log: ")
            if is_json and line.startswith("{"):
                value = json.loads(line)
                lines += [value] if value["event"] == event else []
            elif not is_json and (match := TEXT.match(line)) and match[3] == event:
                lines.append(dict(VALUE.findall(match[4])))
        return lines

    wait_for(lambda: len(found()) >= n, f"{n} lines {event}")
    return found()


def options(kind, **fake):
    """Access lines are on by default in the program, and named otherwise in the scripted server."""
    return {"log_access": True, **fake} if kind == "fake" else {}


@pytest.mark.real_too
def test_a_line_per_request(start, kind):
    server = start(**options(kind))
    reply = server.chat("four words and more", max_tokens=3, ignore_eos=True, headers={"x-request-id": "my-id"})
    assert reply.status == 200
    server.get("/v1/models")
    server.get("/nothing")
    server.post("/v1/chat/completions", "{")
    chat, models, nothing, broken = lines_of(server, "access", 4)
    usage = reply.json["usage"]
    assert chat["method"] == "POST" and chat["path"] == "/v1/chat/completions" and chat["status"] == "200"
    assert chat["request_id"] == "my-id" and re.fullmatch(r"127\.0\.0\.1:\d+", chat["client"])
    assert chat["version"] == "HTTP/1.1" and "end" not in chat
    assert int(chat["prompt_tokens"]) == usage["prompt_tokens"] and chat["cached_tokens"] == "0" and int(chat["completion_tokens"]) == 3
    parts = [float(chat[name]) for name in ("queue", "preprocess", "encode", "prefill", "decode")]
    assert 0 <= sum(parts) <= float(chat["total"]) + 0.001
    assert models["path"] == "/v1/models" and models["status"] == "200" and "prompt_tokens" not in models
    assert nothing["status"] == "404" and broken["status"] == "400"


@pytest.mark.parametrize("is_json", [False, True])
def test_a_line_while_images_are_encoded(start, kind, is_json):
    """After each interval, from the beginning of the work on: not at once, and none with its end.
    Ten steps of 10 ms or more: one of them may lie within the interval, two may not."""
    server = start(**options(kind, progress_log_ms=15, log_json=is_json))
    parts = [{"type": "text", "text": "hello [[progress=10]]"}, {"type": "image_url", "image_url": {"url": data_url(png(8, 8))}}]
    reply = server.chat(messages=[{"role": "user", "content": parts}], headers={"x-request-id": "long"})
    assert reply.status == 200
    server.chat("short")
    lines_of(server, "access", 2, is_json)
    lines = lines_of(server, "progress", 4, is_json)
    assert {(line["request_id"], line["stage"], int(line["images"])) for line in lines} == {("long", "encode", 1)}
    percents = [0] + [int(line["percent"]) for line in lines]
    assert {after - before for before, after in zip(percents, percents[1:])} <= {10, 20} and 80 <= percents[-1] < 100, percents
    totals = [0] + [float(line["total"]) for line in lines]
    assert all(after - before >= 0.0149 for before, after in zip(totals, totals[1:])), totals


def test_no_lines_while_a_request_waits(start, kind):
    server = start(**options(kind, progress_log_ms=15))
    assert server.chat("hello [[queue=10]] [[progress=10]]", headers={"x-request-id": "queued"}).status == 200
    lines = lines_of(server, "progress", 4)
    lines_of(server, "access", 1)
    assert {line["stage"] for line in lines} == {"encode"}, lines


@pytest.mark.real_only
def test_decoding_counts(start):
    server = start()
    parts = [{"type": "image_url", "image_url": {"url": data_url(png(2000, 1500))}}, {"type": "text", "text": "what?"}]
    before = server.get("/metrics").body.decode()
    assert server.chat(parts, max_tokens=2, mm_processor_kwargs={"max_pixels": 65536}).status == 200
    line = lines_of(server, "access", 2)[1]
    assert float(line["decode_image"]) > 0
    after = server.get("/metrics").body.decode()

    def preprocess(text):
        return float(re.search(r"omma:preprocess_seconds_sum\{.*\} (\S+)", text)[1])

    assert preprocess(after) - preprocess(before) >= float(line["decode_image"]) + float(line["preprocess"]) - 0.001


@pytest.mark.real_too
def test_all_answers_to_a_request_count(start, kind):
    server = start(**options(kind))
    reply = server.chat("one two", n=3, max_tokens=2, ignore_eos=True)
    line = lines_of(server, "access", 1)[0]
    assert int(line["prompt_tokens"]) == reply.json["usage"]["prompt_tokens"] and int(line["completion_tokens"]) == 6


@pytest.mark.real_too
def test_clients_cannot_forge_lines(start, kind):
    server = start(**options(kind))
    forged = "2026-01-01T00:00:00.000Z INFO access status=200"
    with server.connect() as connection:
        path = "/v1/models%0a" + forged.replace(" ", "%20") + "%1b%5b31m%ff%22"
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nx-request-id: a\"\x7e [31m\r\n\r\n".encode())
        read_until(connection, b"\r\n\r\n")
    line = lines_of(server, "access", 1)[0]
    assert line["status"] == "404" and line["path"].startswith('"/v1/models\\x0a2026') and "\\x1b[31m\\xff" in line["path"]
    text = server.read_output()
    assert not re.search("^(log: )?2026-01-01", text, re.MULTILINE) and "\x1b" not in text
    assert re.fullmatch("[0-9a-f]{32}", line["request_id"])


@pytest.mark.real_too
def test_json(start, kind):
    server = start(**(options(kind, log_json=True) if kind == "fake" else {"log_format": "json"}))
    server.chat("hello to you", max_tokens=2, ignore_eos=True)
    server.get('/"quoted"%0a')
    chat, quoted = lines_of(server, "access", 2, is_json=True)
    assert chat["level"] == "info" and chat["status"] == 200 and chat["completion_tokens"] == 2
    assert chat["total"] >= 0 and quoted["path"] == '/"quoted"\n'


@pytest.mark.real_only
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_end_does_not_wait_for_who_reads_the_log(start, log_format):
    server = start(log_format=log_format)
    pipe = os.open(f"/proc/{server.process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(pipe, b"\n")
    os.close(pipe)
    assert server.stop(30) == 0


@pytest.mark.real_only
def test_the_end_is_an_object_too(start):
    server = start(log_format="json")
    assert server.stop() == 0
    last = json.loads(server.output.decode().splitlines()[-1])
    assert (last["level"], last["event"], last["seconds"]) == ("info", "stopping", 5)


@pytest.mark.real_too
def test_paths_without_lines(start, kind):
    paths = "/health, /metrics"
    server = start(**(options(kind, unlogged_paths=paths) if kind == "fake" else {"disable_access_log_for_endpoints": paths}))
    for path in ("/health", "/metrics", "/ping", "/healt"):
        server.get(path)
    assert [line["path"] for line in lines_of(server, "access", 2)] == ["/ping", "/healt"]


@pytest.mark.real_only
@pytest.mark.parametrize("flags", [{"uvicorn_log_level": "warning"}, {"disable_uvicorn_access_log": True},
                                   {"disable_log_requests": True, "enable_log_requests": True, "uvicorn_log_level": "error"}])
def test_no_lines(start, flags):
    server = start(**flags)
    server.chat("hello", max_tokens=1)
    assert server.stop() == 0
    assert "access" not in server.output.decode() and "INFO" not in server.output.decode()


@pytest.mark.real_too
def test_requests_are_logged_without_their_contents(start, kind):
    key = "api-key-that-nobody-may-see"
    flags = options(kind, log_requests=True) if kind == "fake" else {"enable_log_requests": True}
    server = start(api_key=key, **flags)
    parts = [{"type": "image_url", "image_url": {"url": data_url(png(64, 64))}}, {"type": "text", "text": "a private question"}]
    headers = {"Authorization": f"Bearer {key}"}
    reply = server.chat(parts, headers=headers, max_tokens=2, temperature=0.5, seed=7, mm_processor_kwargs={"max_pixels": 65536})
    assert reply.status == 200
    server.chat("without the key")
    line = lines_of(server, "request", 1)[0]
    assert (line["model"], line["images"], line["temperature"], line["seed"]) == ("test-model", "1", "0.5", "7")
    assert [line["status"] for line in lines_of(server, "access", 2)] == ["200", "401"]
    text = server.read_output()
    for secret in (key, "private", "without the key", "base64", parts[0]["image_url"]["url"][30:60]):
        assert secret not in text


def test_what_a_request_does_not_set_is_not_logged(start):
    server = start(log_requests=True)
    assert server.chat("hello").status == 200
    assert server.chat("hello", max_tokens=2, top_k=5, seed=-7).status == 200
    plain, full = lines_of(server, "request", 2)
    assert not {"seed", "max_tokens", "top_k"} & plain.keys() and plain["temperature"]
    assert (full["seed"], full["max_tokens"], full["top_k"]) == ("-7", "2", "5")


@pytest.mark.real_too
def test_requests_are_not_logged_unless_asked_for(start, kind):
    server = start(**options(kind))
    server.chat("hello", max_tokens=1)
    lines_of(server, "access", 1)
    assert " request " not in server.read_output()


def test_a_client_that_leaves(start):
    server = start(log_access=True, unlogged_paths="/load,/metrics")
    with server.open_stream("[[tokens=200]] [[pace_ms=20]]") as connection:
        read_until(connection, b"w1")
    line = lines_of(server, "access", 1)[0]
    assert line["status"] == "200" and line["end"] == "client_left" and 0 < int(line["completion_tokens"]) < 200
    body = json.dumps({"messages": [{"role": "user", "content": "[[first_ms=60000]]"}]})
    with server.connect() as connection:
        connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                           f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        wait_for_load(server, 1)
        connection.shutdown(socket.SHUT_RDWR)
    wait_for(lambda: lines_of(server, "access", 1)[-1]["status"] == "499", "a line of a client that left")
    assert counts(server)["/v1/chat/completions", "POST", "4xx"] == 1


def test_a_client_that_does_not_read(start):
    server = start(log_access=True, unlogged_paths="/load,/metrics", max_pending_bytes=200000)
    fields = {"messages": [{"role": "user", "content": "[[tokens=100000]] [[size=20000]] [[pace_ms=2]]"}], "stream": True}
    connection = server.send_post("/v1/chat/completions", fields, receive_buffer=4096)
    # else the work may end before the reply begins, which is a status of its own
    read_until(connection, b"w0")
    wait_for(lambda: cancelled(server) == 1, "the end of the work")
    read_all(connection)
    line = lines_of(server, "access", 1)[0]
    assert line["status"] == "200" and line["end"] == "client_slow" and 0 < int(line["completion_tokens"]) < 100000
    connection.close()


def test_requests_that_the_end_of_the_server_cuts_off(start):
    server = start(log_access=True, unlogged_paths="/load,/metrics", drain_ms=0)
    with server.open_stream("[[tokens=100000]] [[pace_ms=30]]") as stream, \
         server.open_stream("[[tokens=100000]] [[pace_ms=30]]", stream=False):
        read_until(stream, b"w1")
        wait_for_load(server, 2)
        assert server.stop() == 0
        lines = {line["status"]: line for line in lines_of(server, "access", 2)}
    for status in ("200", "503"):
        assert lines[status]["end"] == "shutdown" and 0 <= int(lines[status]["completion_tokens"]) < 100000
        assert "decode" in lines[status]
    assert int(lines["200"]["completion_tokens"]) > 1


def test_failures_are_lines_too(start):
    server = start(log_json=True)
    assert server.chat("[[error_at=0]]").status == 500
    line = lines_of(server, "failure", 1, is_json=True)[0]
    assert line["level"] == "error" and line["while"] == "generation" and "scripted failure" in line["message"]


# ---- counts


def counts(server, **keys):
    """http_requests_total by handler, method and class of status."""
    pattern = r'^http_requests_total\{handler="([^"]+)",method="([^"]+)",status="([^"]+)"\} (\d+)$'
    found = re.findall(pattern, server.get("/metrics", **keys).body.decode(), re.MULTILINE)
    return {(handler, method, status): int(count) for handler, method, status, count in found}


@pytest.mark.real_too
def test_requests_are_counted_by_status(start):
    server = start(api_key="k")
    headers = {"Authorization": "Bearer k"}
    server.chat("hello", headers=headers, max_tokens=1)
    server.chat("hello", headers=headers, max_tokens=1, stream=True)
    server.chat("hello")
    server.post("/v1/chat/completions", "{", headers=headers)
    server.get("/nothing")
    server.get("/something/else")
    server.request("DELETE", "/v1/models", headers=headers)
    server.request("BREW", "/v1/models", headers=headers)
    server.get("/health")
    assert counts(server, headers=headers) == {
        ("/v1/chat/completions", "POST", "2xx"): 2,
        ("/v1/chat/completions", "POST", "4xx"): 1,
        ("none", "POST", "4xx"): 1,
        ("none", "GET", "4xx"): 2,
        ("/v1/models", "DELETE", "4xx"): 1,
        ("/v1/models", "OTHER", "4xx"): 1,
    }
    text = server.get("/metrics", headers=headers).body.decode()
    assert 'http_request_duration_seconds_count{handler="/v1/chat/completions",method="POST"} 3\n' in text
    assert 'http_request_duration_seconds_bucket{handler="none",method="GET",le="+Inf"} 2\n' in text
    assert "http_request_duration_highr_seconds_count 8\n" in text


def test_failures_are_counted(start):
    server = start()
    server.chat("[[error_at=0]]")
    assert counts(server) == {("/v1/chat/completions", "POST", "5xx"): 1}


@pytest.mark.real_too
def test_the_process_is_measured(server):
    text = server.get("/metrics").body.decode()
    values = {name: float(value) for name, value in re.findall(r"^(process_\w+) (\S+)$", text, re.MULTILINE)}
    assert values["process_virtual_memory_bytes"] > values["process_resident_memory_bytes"] > 1 << 20
    assert values["process_cpu_seconds_total"] >= 0
    assert 3 < values["process_open_fds"] < values["process_max_fds"]
    stat = open(f"/proc/{server.process.pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()
    boot = int(re.search(r"btime (\d+)", open("/proc/stat", encoding="ascii").read())[1])
    assert abs(values["process_start_time_seconds"] - boot - int(stat[19]) / 100) < 0.02
