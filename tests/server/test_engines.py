"""Several engines in one server (--data-parallel-size): the same answers as one engine gives,
metrics and KV events by engine, and a prompt that comes again goes to the engine that has it."""

import concurrent.futures
import json
import re

import pytest

from images import data_url, png
from kv_subscriber import AllBlocksCleared, BlockStored, replay
from server_process import ServerProcess, check_output, make_command

pytestmark = pytest.mark.real_only
ENGINES, QUESTIONS = 2, 8


def start(request, **options):
    return ServerProcess(make_command(request.config, "real", {"threads": 1, **options}))


def by_engine(server, name):
    text = server.request("GET", "/metrics").body.decode()
    return [float(value) for _, value in sorted(re.findall(rf'^{name}{{engine="(\d+)"[^}}]*}} (\S+)$', text, re.M))]


def question(i):
    parts = [{"type": "text", "text": f"{i}: what is to be seen here? " + "A sentence that fills pages. " * 12}]
    if i % 2:
        parts.append({"type": "image_url", "image_url": {"url": data_url(png(48 + 8 * i, 40))}})
    return {"messages": [{"role": "user", "content": parts}], "max_tokens": 12, "logprobs": True, "seed": i, "temperature": 0.7}


def ask_all(server):
    with concurrent.futures.ThreadPoolExecutor(QUESTIONS) as pool:
        replies = list(pool.map(lambda i: server.post("/v1/chat/completions", question(i)), range(QUESTIONS)))
    assert all(reply.status == 200 for reply in replies), [reply.body for reply in replies]
    return [(reply.json["choices"][0]["message"]["content"], reply.json["choices"][0]["logprobs"]) for reply in replies]


def test_engines(request, kind, tmp_path):
    alone = start(request)
    expected = ask_all(alone)
    assert alone.stop() == 0
    check_output(alone)
    events = {"enable_kv_cache_events": True, "endpoint": f"ipc://{tmp_path}/events", "replay_endpoint": f"ipc://{tmp_path}/replay"}
    server = start(request, data_parallel_size=ENGINES, kv_events_config=json.dumps(events))
    assert ask_all(server) == expected
    assert all(count > 0 for count in by_engine(server, "vllm:e2e_request_latency_seconds_count"))
    assert sum(by_engine(server, "vllm:request_prompt_tokens_count")) == QUESTIONS
    assert by_engine(server, "omma:engine_up") == [1.0] * ENGINES
    images = by_engine(server, "omma:encoder_images_total")
    for i in range(QUESTIONS):
        reply = server.post("/v1/chat/completions", question(i))
        assert reply.json["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert by_engine(server, "omma:encoder_images_total") == images
    health = server.request("GET", "/health")
    assert (health.status, health.body) == (200, b"")
    batches = [batch for _, _, batch in replay(f"ipc://{tmp_path}/replay", 0)]
    for rank in range(ENGINES):
        own = [event for batch in batches if batch.data_parallel_rank == rank for event in batch.events]
        assert own[0] == AllBlocksCleared() and any(isinstance(event, BlockStored) for event in own)
    assert sum(by_engine(server, "omma:prefix_cache_pages")) > 0
    assert server.stop() == 0
    check_output(server)
    assert f"engines: {ENGINES}, of 1 thread each, over" in server.read_output()


def test_auto_has_an_engine_for_each_node(request, kind):
    server = start(request, data_parallel_size="auto")
    text = server.request("GET", "/metrics").body.decode()
    nodes = float(re.search(r"^omma:cpu_nodes (\S+)$", text, re.M).group(1))
    assert len(by_engine(server, "omma:engine_up")) == nodes
    assert ask_all(server)
    assert server.stop() == 0
    check_output(server)


@pytest.mark.parametrize("value", ["0", "65", "x", "1.5"])
def test_other_values_are_refused(request, kind, value):
    with pytest.raises(RuntimeError, match="--data-parallel-size: expected 1 to 64 or auto, found"):
        start(request, data_parallel_size=value)
