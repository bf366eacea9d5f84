"""The sleep mode (--enable-sleep-mode): /sleep lets requests end or ends them, engines give back
their memory, requests get 503 until /wake_up, and answers are then those before, to the bit."""

import concurrent.futures
import json
import pathlib
import random
import re

import pytest

from images import data_url, png
from kv_subscriber import AllBlocksCleared, BlockRemoved, BlockStored, replay
from server_process import ServerProcess, check_output, make_command, parse_events, read_all, read_until, split_chunks
from test_metrics import read
from waiting import wait_for, wait_for_load

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
CHAT = "/v1/chat/completions"
ASLEEP = "The server is sleeping; POST /wake_up."
ENDED = "The server goes to sleep."
WOKEN = "The server was woken up before it slept."
PAGE_BYTES = 196608  # of the demo model, 64 tokens


def post(server, path, **keys):
    return server.request("POST", path, **keys)


def sleep(server, query=""):
    reply = post(server, "/sleep" + query)
    assert reply.status == 200, reply.body
    return reply.json


def wake_up(server, query=""):
    reply = post(server, "/wake_up" + query)
    assert reply.status == 200, reply.body
    return reply.json


def is_sleeping(server):
    return server.get("/is_sleeping").json["is_sleeping"]


def state(server):
    samples, _ = read(server)
    return [samples[f'vllm:engine_sleep_state,sleep_state="{name}"'] for name in ("awake", "weights_offloaded", "discard_all")]


@pytest.fixture(scope="module")
def process(request, kind):
    command = make_command(request.config, kind, {"enable_sleep_mode": True})
    if kind == "real":
        command[command.index("--model") + 1] = str(GOLDEN / "qwen3_vl_tied")
    process = ServerProcess(command)
    yield process
    assert process.stop() == 0
    check_output(process)


@pytest.fixture
def sleeper(process):
    """A server that may sleep, awake. Of a model whose context has room for long answers."""
    wake_up(process)
    return process


@pytest.mark.real_too
def test_without_the_option(server):
    for path in ("/sleep", "/wake_up", "/sleep?level=7"):
        reply = post(server, path)
        assert reply.status == 404 and reply.error["type"] == "Not Found" and "--enable-sleep-mode" in reply.error["message"]
    assert not is_sleeping(server) and state(server) == [1, 0, 0]
    assert server.chat("hello", max_tokens=1).status == 200


@pytest.mark.real_too
def test_it_sleeps_and_wakes(sleeper):
    before = sleeper.chat("hello", max_tokens=4, temperature=0).json["choices"]
    refused = 'vllm:admission_rejections_total,reason="sleeping"'
    n_refused = read(sleeper)[0][refused]
    assert sleep(sleeper) == {"status": "sleeping", "level": 1}
    assert is_sleeping(sleeper) and state(sleeper) == [0, 1, 0]
    for path in (CHAT, "/v1/completions", "/v1/responses", "/tokenize"):
        reply = sleeper.post(path, {"prompt": "hello"})
        assert reply.status == 503 and reply.error["message"] == ASLEEP and reply.headers["Retry-After"] == "1", path
    reply = sleeper.post("/v1/messages", {})
    assert reply.status == 503 and reply.error == {"type": "overloaded_error", "message": ASLEEP}
    assert read(sleeper)[0][refused] == n_refused + 5
    for path in ("/health", "/ping", "/v1/models", "/version", "/load", "/metrics", "/openapi.json"):
        assert sleeper.get(path).status == 200, path
    assert sleep(sleeper, "?level=2") == {"status": "sleeping", "level": 2}
    assert state(sleeper) == [0, 0, 1]
    assert wake_up(sleeper, "?tags=weights") == {"status": "sleeping", "tags": ["weights"]}
    assert wake_up(sleeper, "?tags=scheduling") == {"status": "sleeping", "tags": ["scheduling"]}
    assert is_sleeping(sleeper)
    assert wake_up(sleeper, "?tags=kv_cache&tags=weights") == {"status": "awake", "tags": ["weights", "kv_cache"]}
    assert not is_sleeping(sleeper) and state(sleeper) == [1, 0, 0]
    assert wake_up(sleeper) == {"status": "awake", "tags": None}
    assert wake_up(sleeper, "?tags=weights") == {"status": "awake", "tags": ["weights"]}
    assert sleeper.chat("hello", max_tokens=4, temperature=0).json["choices"] == before


BAD = [("/sleep?level=0", "level"), ("/sleep?level=3", "level"), ("/sleep?level=-1", "level"), ("/sleep?level=1.0", "level"),
       ("/sleep?level=", "level"), ("/sleep?level", "level"), ("/sleep?level=01", "level"), ("/sleep?level=1&level=x", "level"),
       ("/sleep?level=%31", "level"), ("/sleep?level=1%00", "level"), ("/sleep?level=18446744073709551617", "level"),
       ("/sleep?level=\xff\xfe", "level"), ("/sleep?level=1;mode=wait", "level"), ("/sleep?mode=keep", "mode"),
       ("/sleep?mode=", "mode"), ("/sleep?mode=Wait", "mode"), ("/sleep?tags=weights", None), ("/sleep?=1", None),
       ("/sleep?a", None), ("/sleep?level=1?", "level"), ("/sleep?" + "&" * 128, None), ("/sleep?" + "x" * 60000, None),
       ("/wake_up?tags=", "tags"), ("/wake_up?tags=all", "tags"), ("/wake_up?tags=weights,kv_cache", "tags"),
       ("/wake_up?tags=weights&tags=x", "tags"), ("/wake_up?level=1", None), ("/wake_up?tag=weights", None)]


@pytest.mark.real_too
def test_bad_queries(sleeper):
    for target, param in BAD:
        with sleeper.connect() as connection:
            connection.sendall(f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode("latin-1"))
            head, _, body = read_all(connection).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 "), (target[:80], head, body)
        assert json.loads(body)["error"]["param"] == param, target[:80]
    assert not is_sleeping(sleeper)
    for path in ("/sleep", "/wake_up"):
        reply = sleeper.get(path)
        assert reply.status == 405 and reply.headers["Allow"] == "POST"
    for target in ("/sleep?", "/sleep?&&", "/sleep?level=2&level=1&mode=wait&mode=abort", "/sleep?mode=abort&"):
        assert sleep(sleeper, target[6:]) == {"status": "sleeping", "level": 1}
        assert wake_up(sleeper, "?&")["status"] == "awake"
    reply = sleeper.post("/sleep?level=1", {"level": 2, "mode": "wait"})  # a body is nothing here
    assert reply.json == {"status": "sleeping", "level": 1}
    assert wake_up(sleeper)["status"] == "awake"


def long_stream(server, kind, n=400):
    """A stream whose answer takes a while, with its beginning."""
    content = f"[[tokens={n}]] [[pace_ms=5]]" if kind == "fake" else "hello"
    stream = server.open_stream(content, max_tokens=n, ignore_eos=True)
    return stream, read_until(stream, b'"content":')


def events_of(stream, begun):
    data = read_until(stream, b"0\r\n\r\n", begun)
    stream.close()
    return parse_events(split_chunks(data)[1])


@pytest.mark.real_too
def test_running_requests_may_end(sleeper, kind):
    stream, begun = long_stream(sleeper, kind)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(sleep, sleeper, "?mode=wait") for _ in range(2)]
        wait_for(lambda: is_sleeping(sleeper), "no more requests")
        assert sleeper.chat("hello").error["message"] == ASLEEP
        events = events_of(stream, begun)
        assert [call.result() for call in calls] == [{"status": "sleeping", "level": 1}] * 2
    assert events[-1] == "data: [DONE]" and not any("error" in event for event in events[:-1])
    assert events[-2]["choices"][0]["finish_reason"] in ("length", "stop")
    assert state(sleeper) == [0, 1, 0]
    assert wake_up(sleeper)["status"] == "awake"
    assert sleeper.chat("hello", max_tokens=1).status == 200


@pytest.mark.real_too
@pytest.mark.parametrize("query", ["", "?mode=abort&level=2"])
def test_running_requests_are_ended(sleeper, kind, query):
    long = {"max_tokens": 4000, "ignore_eos": True, "messages": [{"role": "user", "content": "[[tokens=4000]] [[pace_ms=5]] hello"}]}
    stream, begun = long_stream(sleeper, kind, 4000)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        whole = pool.submit(sleeper.post, CHAT, long)
        wait_for_load(sleeper, 2)
        assert sleep(sleeper, query)["status"] == "sleeping"
        reply, events = whole.result(), events_of(stream, begun)
    assert reply.status == 503 and reply.error["message"] == ENDED
    assert events[-1] == "data: [DONE]" and events[-2]["error"]["message"] == ENDED
    samples, _ = read(sleeper)
    assert samples["vllm:num_requests_running"] == samples["vllm:num_requests_waiting"] == 0
    assert wake_up(sleeper)["status"] == "awake"
    assert sleeper.chat("hello", max_tokens=1).status == 200


@pytest.mark.real_too
def test_a_second_call_need_not_wait(sleeper, kind):
    """One that lets requests end waits; one that ends them has both sleep."""
    stream, begun = long_stream(sleeper, kind, 4000)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sleep, sleeper, "?mode=wait&level=2")
        wait_for(lambda: is_sleeping(sleeper), "no more requests")
        assert sleep(sleeper, "?level=1") == {"status": "sleeping", "level": 1}
        assert waiting.result() == {"status": "sleeping", "level": 2}
    assert events_of(stream, begun)[-2]["error"]["message"] == ENDED
    assert state(sleeper) == [0, 1, 0]
    assert wake_up(sleeper)["status"] == "awake"


@pytest.mark.real_too
def test_it_is_woken_before_it_sleeps(sleeper, kind):
    """What runs goes on, whoever waits for sleep hears of it, and requests are taken again."""
    stream, begun = long_stream(sleeper, kind, 400)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(post, sleeper, "/sleep?mode=wait")
        wait_for(lambda: is_sleeping(sleeper), "no more requests")
        assert wake_up(sleeper)["status"] == "awake"
        reply = waiting.result()
        assert reply.status == 200 or (reply.status, reply.error["message"]) == (503, WOKEN)
    assert not is_sleeping(sleeper) and state(sleeper) == [1, 0, 0]
    assert sleeper.chat("hello", max_tokens=1).status == 200
    events = events_of(stream, begun)
    assert events[-1] == "data: [DONE]" and not any("error" in event for event in events[:-1])


def test_unread_answers_are_not_waited_for(start):
    """Their client reads nothing: they are complete all the same."""
    server = start(enable_sleep_mode=True, idle_timeout=600)
    fields = {"max_tokens": 3000, "messages": [{"role": "user", "content": "[[tokens=3000]] [[size=500]] one"}]}
    readers = [server.send_post(CHAT, {"stream": stream, **fields}, receive_buffer=4096, segment=536) for stream in (True, False)]
    wait_for_load(server, 2)
    assert sleep(server, "?mode=wait")["status"] == "sleeping"
    assert server.get("/load").json["server_load"] == 2
    assert wake_up(server)["status"] == "awake"
    assert read_until(readers[0], b"data: [DONE]").count(b"data: ") >= 3000
    for reader in readers:
        reader.close()


@pytest.mark.real_too
def test_whoever_asked_may_leave(sleeper, kind):
    stream, begun = long_stream(sleeper, kind, 4000)
    with sleeper.connect() as connection:
        connection.sendall(b"POST /sleep?mode=wait HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        wait_for(lambda: is_sleeping(sleeper), "no more requests")
    stream.close()
    wait_for(lambda: state(sleeper) == [0, 1, 0], "it sleeps")
    assert wake_up(sleeper)["status"] == "awake"


@pytest.mark.real_too
@pytest.mark.parametrize("when", ["asleep", "waiting"])
def test_it_ends_while_it_sleeps(start, kind, when):
    server = start(enable_sleep_mode=True, shutdown_timeout=0)
    assert server.chat("hello", max_tokens=1).status == 200
    if when == "asleep":
        sleep(server)
        assert server.stop() == 0
        return
    fields = {"stream": True, "messages": [{"role": "user", "content": "[[tokens=4000]] [[pace_ms=5]] hello"}]}
    with server.send_post(CHAT, fields), server.connect() as connection:
        if kind == "fake":
            wait_for_load(server, 1)
        connection.sendall(b"POST /sleep?mode=wait HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        wait_for(lambda: is_sleeping(server), "no more requests")
        assert server.stop() == 0
        if kind == "fake":
            assert read_all(connection).startswith(b"HTTP/1.1 503 ")
    check_output(server)


@pytest.mark.real_too
def test_a_key_covers_it(start):
    server = start(enable_sleep_mode=True, api_key="sesame")
    for path in ("/sleep", "/wake_up"):
        assert post(server, path).status == 401
    assert server.get("/is_sleeping").status == 401
    key = {"Authorization": "Bearer sesame"}
    assert post(server, "/sleep", headers=key).json["status"] == "sleeping"
    assert server.chat("hello").status == 401 and server.chat("hello", key).status == 503
    assert post(server, "/wake_up", headers=key).json["status"] == "awake"
    assert server.chat("hello", key, max_tokens=1).status == 200


@pytest.mark.real_too
def test_many_at_once(sleeper, kind):
    """Calls in any order, next to requests: each gets an answer, and in the end it serves."""
    def act(seed):
        rng, statuses = random.Random(seed), set()
        for _ in range(12):
            what = rng.choice(["sleep", "wake", "wake", "chat", "chat"])
            if what == "chat":
                reply = sleeper.chat("[[tokens=5]] hello", max_tokens=5, stream=rng.random() < 0.5)
                assert reply.status == 200 or reply.error["message"] in (ASLEEP, ENDED), reply.body
            else:
                path = "/wake_up" if what == "wake" else f"/sleep?level={rng.choice([1, 2])}&mode={rng.choice(['wait', 'abort'])}"
                reply = post(sleeper, path)
                assert reply.status == 200 or (what == "sleep" and reply.error["message"] == WOKEN), reply.body
            statuses.add((what, reply.status))
        return statuses

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        seen = set().union(*pool.map(act, range(8)))
    assert {("sleep", 200), ("wake", 200)} <= seen
    assert wake_up(sleeper)["status"] == "awake"
    assert not is_sleeping(sleeper) and state(sleeper) == [1, 0, 0]
    assert sleeper.chat("hello", max_tokens=1).status == 200


# ---- memory, bits and events of the real program


def resident_bytes(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def question(i):
    parts = [{"type": "text", "text": f"{i}: what is to be seen here? " + "A sentence that fills pages. " * 12},
             {"type": "image_url", "image_url": {"url": data_url(png(48 + 8 * i, 40))}}]
    return {"messages": [{"role": "user", "content": parts}], "max_tokens": 12, "logprobs": True, "seed": i, "temperature": 0.7}


def ask_all(server, at_once=4):
    """Contents with log-probabilities, and cached tokens."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        replies = [reply.json for reply in pool.map(lambda i: server.post(CHAT, question(i)), range(4))]
    return ([(reply["choices"][0]["message"]["content"], reply["choices"][0]["logprobs"]) for reply in replies],
            [reply["usage"]["prompt_tokens_details"]["cached_tokens"] for reply in replies])


def assert_as_at_first(server, expected):
    """No page of before is there, and the same answers; then those of now are, at the engine that
    has them unless others keep it busy."""
    for found in (False, True):
        answers, cached = ask_all(server, 1 if found else 4)
        assert answers == expected
        assert all((tokens >= 64) == found for tokens in cached), cached


def fill(server, n):
    """n prompts of pages that nobody else has."""
    rng = random.Random(n)
    prompts = [[rng.randrange(200, 1000) for _ in range(900)] for _ in range(n)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda ids: server.post("/v1/completions", {"prompt": ids, "max_tokens": 1}), prompts))
    assert all(reply.status == 200 for reply in replies), [reply.body for reply in replies]


@pytest.mark.real_only
@pytest.mark.parametrize("engines", [1, 2])
def test_memory_is_given_back_and_answers_are_as_before(start, tmp_path, engines):
    events = {"enable_kv_cache_events": True, "endpoint": f"ipc://{tmp_path}/events", "replay_endpoint": f"ipc://{tmp_path}/replay"}
    server = start(enable_sleep_mode=True, threads=1, data_parallel_size=engines, max_model_len=1024, kv_cache_bytes="64M",
                   kv_events_config=json.dumps(events))
    expected, _ = ask_all(server)
    fill(server, 16)
    samples, _ = read(server)
    touched = samples["omma:prefix_cache_pages"] * PAGE_BYTES
    assert touched > 32 << 20 and samples["omma:encoder_cache_bytes"] > 0
    full = resident_bytes(server)
    sleep(server)
    given_back = full - resident_bytes(server)
    print(f"{engines} engines: {full >> 20} MiB, pages of {touched / 2**20:.0f}, {given_back >> 20} given back")
    assert given_back > 0.8 * touched
    samples, _ = read(server)
    assert samples["omma:prefix_cache_pages"] == samples["omma:encoder_cache_bytes"] == samples["vllm:kv_cache_usage_perc"] == 0
    assert samples["omma:kv_events_lost_total"] == 0
    assert server.chat("hello").status == 503
    wake_up(server)
    assert_as_at_first(server, expected)
    batches = [batch for _, _, batch in replay(f"ipc://{tmp_path}/replay", 0)]
    for rank in range(engines):
        own = [type(event) for batch in batches if batch.data_parallel_rank == rank for event in batch.events]
        last = len(own) - 1 - own[::-1].index(AllBlocksCleared)
        assert own[0] == AllBlocksCleared and BlockRemoved not in own
        assert BlockStored in own[:last] and BlockStored in own[last:]  # it was cleared in between
    assert server.stop() == 0
    check_output(server)


@pytest.mark.real_only
@pytest.mark.parametrize("model", ["qwen3_5_tied", "kimi_vl", "qwen2_5_vl_sliding"])
def test_other_kinds_of_state(request, kind, launch, model):
    """Snapshots, compressed rows, windows."""
    command = make_command(request.config, "real", {"enable_sleep_mode": True, "threads": 1})
    command[command.index("--model") + 1] = str(GOLDEN / model)
    server = launch(command)
    expected, _ = ask_all(server)
    for _ in range(2):
        sleep(server)
        wake_up(server)
        assert_as_at_first(server, expected)


@pytest.mark.real_only
def test_an_encoder_node_sleeps_too(start, tmp_path):
    config = {"ec_connector": "ECExampleConnector", "ec_role": "ec_producer",
              "ec_connector_extra_config": {"shared_storage_path": str(tmp_path)}}
    server = start(enable_sleep_mode=True, ec_transfer_config=json.dumps(config))

    def encoded(name):
        part = {"type": "image_url", "image_url": {"url": data_url(png(64, 64))}, "uuid": name}
        assert server.chat([part], max_tokens=1).status == 200
        return server.get(f"/v1/encodings/{name}").body

    before = encoded("a")
    sleep(server)
    assert server.chat("hello").status == 503
    assert server.get("/v1/encodings/a").body == before  # what is published stays
    assert read(server)[0]["omma:encoder_cache_bytes"] == 0
    wake_up(server)
    assert encoded("b") == before
