"""Several engines in one server (--data-parallel-size): the same answers, vectors and encodings as
one engine gives, metrics and KV events by engine, a prompt that comes again goes to the engine that
has it, and one that is stuck is taken out."""

import concurrent.futures
import json
import pathlib
import re
import sys

import pytest

from images import data_url, image_part, png
from kv_subscriber import AllBlocksCleared, BlockStored, replay
from server_process import check_output, make_command, read_all, read_until
from waiting import wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import vector_cases
import vector_requests

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
pytestmark = pytest.mark.real_only
ENGINES, QUESTIONS = 2, 8


@pytest.fixture
def start(request, kind, launch):
    return lambda **options: launch(make_command(request.config, "real", {"threads": 1, **options}))


def by_engine(server, name):
    text = server.request("GET", "/metrics").body.decode()
    return [float(value) for _, value in sorted(re.findall(rf'^{name}{{engine="(\d+)"[^}}]*}} (\S+)$', text, re.M))]


def question(i):
    parts = [{"type": "text", "text": f"{i}: what is to be seen here? " + "A sentence that fills pages. " * 12}]
    if i % 2:
        parts.append({"type": "image_url", "image_url": {"url": data_url(png(48 + 8 * i, 40))}})
    return {"messages": [{"role": "user", "content": parts}], "max_tokens": 12, "logprobs": True, "seed": i, "temperature": 0.7}


def at_once(ask, n=QUESTIONS):
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        replies = list(pool.map(ask, range(n)))
    assert all(reply.status == 200 for reply in replies), [reply.body for reply in replies]
    return replies


def ask_all(server, **fields):
    replies = at_once(lambda i: server.post("/v1/chat/completions", question(i) | fields))
    return [(reply.json["choices"][0]["message"]["content"], reply.json["choices"][0]["logprobs"]) for reply in replies]


def test_engines(start, tmp_path):
    alone = start()
    expected = ask_all(alone)
    assert alone.stop() == 0
    check_output(alone)
    events = {"enable_kv_cache_events": True, "endpoint": f"ipc://{tmp_path}/events", "replay_endpoint": f"ipc://{tmp_path}/replay"}
    server = start(data_parallel_size=ENGINES, kv_events_config=json.dumps(events))
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
    assert f"engines: {ENGINES}, of 1 thread each, as --threads says, over" in server.read_output()


def test_engines_share_out_the_threads(request, kind, launch):
    server = launch(make_command(request.config, kind, {"data_parallel_size": ENGINES}))
    assert server.stop() == 0
    check_output(server)
    said = rf"engines: {ENGINES}, of (\d+) threads? each, a share of the (\d+) that one engine would have, over"
    each, together = map(int, re.search(said, server.read_output()).groups())
    assert each == max(together // ENGINES, 1)


def test_auto_has_an_engine_for_each_node(start):
    server = start(data_parallel_size="auto")
    text = server.request("GET", "/metrics").body.decode()
    nodes = float(re.search(r"^omma:cpu_nodes (\S+)$", text, re.M).group(1))
    assert len(by_engine(server, "omma:engine_up")) == nodes
    assert ask_all(server)
    assert server.stop() == 0
    check_output(server)


def compare(start_one, ask):
    """What one engine gives, several give; returns the server that has several, for its metrics."""
    alone, server = start_one(), start_one(data_parallel_size=ENGINES)
    assert ask(server) == ask(alone)
    assert alone.stop() == 0
    check_output(alone)
    return server


SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "count": {"type": "integer", "maximum": 99}},
          "required": ["name", "count"], "additionalProperties": False}


def test_structured_output(start):
    form = {"response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA}}, "max_tokens": 60}
    server = compare(start, lambda server: ask_all(server, **form))
    assert all(count > 0 for count in by_engine(server, "vllm:e2e_request_latency_seconds_count"))
    assert server.stop() == 0
    check_output(server)


@pytest.mark.parametrize("model, drafts", [(None, {"method": "ngram", "prompt_lookup_max": 2}), ("qwen3_5_tied", {"method": "mtp"}),
                                            ("qwen3_vl_tied", {"method": "draft_model", "model": str(GOLDEN / "qwen3_vl_tied")})],
                         ids=["ngram", "mtp", "draft_model"])
def test_drafts(request, kind, launch, model, drafts):
    """Each engine drafts on its own, and no draft changes an answer."""
    speculation = ["--speculative-config", json.dumps({"num_speculative_tokens": 3, **drafts})]

    def start_one(**options):
        command = make_command(request.config, "real", {"threads": 1, **options})
        if model:
            command[command.index("--model") + 1] = str(GOLDEN / model)
        return launch(command + (speculation if options else []))

    server = compare(start_one, lambda server: ask_all(server, max_tokens=40, ignore_eos=True, temperature=0))
    assert all(count > 0 for count in by_engine(server, "vllm:spec_decode_num_draft_tokens_total"))
    assert server.stop() == 0
    check_output(server)


@pytest.mark.parametrize("task, name", [("embed", "Tiny-Embedding"), ("score", "Tiny-Reranker")])
def test_vectors_and_scores(omma, kind, launch, tmp_path, task, name):
    model = vector_cases.make_model(tmp_path / name)
    requests = {"embed": vector_requests.EMBED, "score": vector_requests.SCORE}[task]

    def start_one(**options):
        words = [word for key, value in options.items() for word in ("--" + key.replace("_", "-"), str(value))]
        return launch([omma, "serve", str(model), "--host", "127.0.0.1", "--port", "0", "--dtype", "f32", "--threads", "1",
                       "--max-model-len", "2048", "--served-model-name", "test-model", "--runner", "pooling", *words])

    def ask(server):
        with concurrent.futures.ThreadPoolExecutor(QUESTIONS) as pool:
            replies = list(pool.map(lambda one: server.post(*one), requests.values()))
        return [(reply.status, without_names(reply)) for reply in replies]

    server = compare(start_one, ask)
    assert all(count > 0 for count in by_engine(server, "vllm:request_prompt_tokens_count"))
    assert server.stop() == 0
    check_output(server)


def without_names(reply):
    """A reply without what is new each time."""
    if "json" not in reply.headers["Content-Type"]:
        return reply.body
    return {key: value for key, value in reply.json.items() if key not in ("id", "created")}


def test_engines_share_a_request(start):
    """Its inputs and answers are worked on by all engines at once, and counted once."""
    score = {"text_1": "a red circle", "text_2": [f"number {i}" for i in range(100)]}
    complete = {"prompt": "hello", "max_tokens": 2, "n": 8, "logprobs": 1, "seed": 1, "temperature": 1}
    alone, server = start(), start(data_parallel_size=ENGINES)
    for path, body, key in ("/score", score, "data"), ("/v1/completions", complete, "choices"):
        expected = alone.post(path, body)
        if path == "/score" and expected.status == 400:  # not every model gives scores
            continue
        for _ in range(5):
            reply = server.post(path, body)
            assert reply.status == 200 and reply.json[key] == expected.json[key]
    assert all(count > 0 for count in by_engine(server, "vllm:request_generation_tokens_count"))
    assert sum(by_engine(server, "vllm:request_params_n_count")) == 5
    assert sum(by_engine(server, "vllm:request_params_n_sum")) == 40
    for process in alone, server:
        assert process.stop() == 0
        check_output(process)


def test_an_encoder_node(start, tmp_path):
    files = iter(range(2))

    def start_one(**options):
        config = {"ec_connector": "ECExampleConnector", "ec_role": "ec_producer",
                  "ec_connector_extra_config": {"shared_storage_path": str(tmp_path / str(next(files)))}}
        return start(ec_transfer_config=json.dumps(config), **options)

    def ask(server):
        at_once(lambda i: server.chat([image_part(png(64 + 8 * i, 64), uuid=f"image{i}")], max_tokens=1))
        return [server.get(f"/v1/encodings/image{i}").body for i in range(QUESTIONS)]

    server = compare(start_one, ask)
    images = by_engine(server, "omma:encoder_images_total")
    assert sum(images) == QUESTIONS and all(count > 0 for count in images)
    assert server.stop() == 0
    check_output(server)


def test_the_end_waits_for_the_answers_of_all(request, kind, launch):
    """After the first signal each engine finishes its streams; none sleeps before. Of a model whose
    context has room for answers that are still running then."""
    command = make_command(request.config, "real", {"threads": 1, "data_parallel_size": ENGINES, "shutdown_timeout": 600})
    command[command.index("--model") + 1] = str(GOLDEN / "qwen3_vl_tied")
    server = launch(command)
    assert server.get("/is_sleeping").json == {"is_sleeping": False}
    streams = [server.open_stream(f"{i}: hello", max_tokens=4000, ignore_eos=True) for i in range(2 * ENGINES)]
    data = [read_until(stream, b'"content":') for stream in streams]
    assert by_engine(server, "vllm:num_requests_running") == [2.0] * ENGINES
    assert server.stop() == 0
    check_output(server)
    for stream, begun in zip(streams, data, strict=True):
        assert b"[DONE]" in begun + read_all(stream)
        stream.close()


@pytest.fixture
def start_held(request, kind, launch, tmp_path):
    """A server of several engines, and a file: while it is there, one engine is stuck in a step.
    No machine is too busy for a step of the other within the limit."""
    library = pathlib.Path(request.config.getoption("--omma")).resolve().parent / "tests" / "omma_hold_step.so"
    if not library.exists():
        pytest.skip("built with a sanitizer, next to which nothing can be preloaded")
    hold = tmp_path / "hold"
    command = make_command(request.config, "real", {"threads": 1, "data_parallel_size": ENGINES, "engine_timeout": 8})
    return launch(["env", f"LD_PRELOAD={library}", f"OMMA_HOLD_STEP={hold}", *command]), hold


def streamed(server, i):
    reply = server.post("/v1/chat/completions", question(i) | {"stream": True})
    pieces = [json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: {")]
    return "".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces)


def test_a_stuck_engine_is_taken_out(start_held):
    """Its requests and streams end at the other, with the same answers; then it is in again."""
    server, hold = start_held
    expected = ask_all(server)
    hold.touch()
    with concurrent.futures.ThreadPoolExecutor(QUESTIONS) as pool:
        streams = [pool.submit(streamed, server, i) for i in range(QUESTIONS)]
        assert ask_all(server) == expected
        assert [stream.result() for stream in streams] == [content for content, _ in expected]
    assert sorted(by_engine(server, "omma:engine_up")) == [0.0, 1.0]
    stuck = by_engine(server, "omma:engine_up").index(0.0)
    health = server.request("GET", "/health")
    assert (health.status, health.body.decode()) == (200, f"engine {stuck} does not answer\n")
    assert ask_all(server) == expected
    hold.unlink()
    wait_for(lambda: by_engine(server, "omma:engine_up") == [1.0] * ENGINES, "the engine goes on")
    assert server.request("GET", "/health").body == b""
    assert ask_all(server) == expected
    assert server.stop() == 0
    check_output(server)
    assert re.search(f"engine {stuck}.*does not answer", server.read_output())


def test_the_end_does_not_wait_for_a_stuck_engine(start_held):
    server, hold = start_held
    hold.touch()
    at_once(lambda i: server.post("/v1/chat/completions", question(i)))
    assert sorted(by_engine(server, "omma:engine_up")) == [0.0, 1.0]
    assert server.stop() == 0
    check_output(server)


@pytest.mark.parametrize("value", ["0", "65", "x", "1.5"])
def test_other_values_are_refused(start, value):
    with pytest.raises(RuntimeError, match="--data-parallel-size: expected 1 to 64 or auto, found"):
        start(data_parallel_size=value)
