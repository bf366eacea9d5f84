"""Vectors and scores over HTTP: the forms of requests and replies, refusals, many inputs, clients
that leave; and what vLLM answers to the same requests with the same weights
(tests/data/vectors/vllm_replies.json)."""

import base64
import json
import pathlib
import re
import struct
import sys
import time

import numpy as np
import pytest
from images import image_part, text_part
from server_process import ServerProcess, check_output, end_all, make_command, read_all
from waiting import in_engine, wait_for_engine

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import vector_cases
import vector_requests

DEMO = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo"
EMBED, SCORE = 2, 3  # enum omma_model_task
REPLIES = json.loads(vector_requests.REPLIES.read_text())


def fake_server(config, **options):
    """For tests that have `kind`, so that they are left out where there is no such program."""
    return ServerProcess(make_command(config, "fake", options))


@pytest.fixture(scope="module")
def embedder(pytestconfig, kind):
    process = fake_server(pytestconfig, task=EMBED)
    yield process
    process.stop()
    check_output(process)


@pytest.fixture(scope="module")
def scorer(pytestconfig, kind):
    process = fake_server(pytestconfig, task=SCORE)
    yield process
    process.stop()
    check_output(process)


def vector(server, value, **fields):
    reply = server.post("/v1/embeddings", {"input": value, **fields})
    assert reply.status == 200, reply.body
    return [item["embedding"] for item in reply.json["data"]]


# ---- forms of requests and replies ----


def test_reply(embedder):
    reply = embedder.post("/v1/embeddings", {"model": "test-model", "input": ["ab", "abc"], "user": "u", "request_id": "mine"}).json
    assert list(reply) == ["id", "object", "created", "model", "data", "usage"]
    assert reply["id"] == "embd-mine" and reply["object"] == "list" and reply["model"] == "test-model"
    assert [list(item) for item in reply["data"]] == [["index", "object", "embedding"]] * 2
    assert [item["index"] for item in reply["data"]] == [0, 1]
    assert reply["usage"] == {"prompt_tokens": 5, "total_tokens": 5, "completion_tokens": 0, "prompt_tokens_details": None,
                              "completion_tokens_details": None}
    assert np.linalg.norm(reply["data"][0]["embedding"]) == pytest.approx(1, abs=1e-6)


def test_forms_of_input(embedder):
    text = vector(embedder, "ab")
    assert text == vector(embedder, ["ab"]) == vector(embedder, [97, 98]) == vector(embedder, [[97, 98]])
    message = [{"role": "user", "content": "ab"}]
    assert text == vector(embedder, message) == vector(embedder, [message])
    assert embedder.post("/v1/embeddings", {"messages": message}).json["data"][0]["embedding"] == text[0]
    pooled = embedder.post("/pooling", {"input": "ab"}).json["data"][0]
    assert pooled == {"index": 0, "object": "pooling", "data": text[0]}


def test_images(embedder):
    message = [{"role": "user", "content": [image_part(), text_part("ab")]}]
    reply = embedder.post("/v1/embeddings", {"messages": [message, [{"role": "user", "content": "ab"}]]}).json
    assert len(reply["data"]) == 2 and reply["usage"]["prompt_tokens"] == 16 + 2 + 2


def test_encodings(embedder):
    text = np.array(vector(embedder, "ab")[0], np.float32)
    for dtype, code in [("float32", "f"), ("float16", "e")]:
        for order, mark in [("little", "<"), ("big", ">"), ("native", "<")]:
            coded = vector(embedder, "ab", encoding_format="base64", embed_dtype=dtype, endianness=order)[0]
            assert struct.unpack(f"{mark}16{code}", base64.b64decode(coded)) == tuple(text.astype(np.dtype(code)).tolist())
    body = embedder.post("/v1/embeddings", {"input": ["ab", "ab"], "encoding_format": "bytes_only"})
    assert body.headers["Content-Type"] == "application/octet-stream"
    assert (np.frombuffer(body.body, "<f4") == np.concatenate([text, text])).all()


def test_dimensions_and_length(embedder):
    raw = np.array(vector(embedder, "ab", use_activation=False)[0])
    part = np.array(vector(embedder, "ab", dimensions=3)[0])
    assert np.linalg.norm(raw) != pytest.approx(1, abs=1e-3)
    assert part == pytest.approx(raw[:3] / np.linalg.norm(raw[:3]), abs=1e-6)


def test_an_instruction_asks_for_the_models_form(embedder):
    reply = embedder.post("/v1/embeddings", {"input": "ab", "instruction": "12345"}).json
    assert reply["usage"]["prompt_tokens"] == 7  # the fake's form is the instruction and the text
    for value in ([97], [{"role": "user", "content": "ab"}]):
        reply = embedder.post("/v1/embeddings", {"input": value, "instruction": "12345"})
        assert reply.status == 400 and reply.error["param"] == "instruction"


def test_contents_have_the_models_form(embedder):
    """The form that an instruction asks for, for images too, and the same input has in any list."""
    content = {"content": [text_part("ab")]}
    form = vector(embedder, content)
    assert form == vector(embedder, [content])
    assert vector(embedder, content, instruction="say") == vector(embedder, "ab", instruction="say") != form
    shown = {"content": [image_part(), text_part("ab")]}
    mixed = vector(embedder, [content, shown, content])
    assert mixed == [form[0], vector(embedder, shown)[0], form[0]] and mixed[1] != mixed[0]
    for wrong in ({"content": "ab"}, {"content": 3}, {}, {"contents": []}):
        for value in (wrong, [content, wrong]):
            reply = embedder.post("/v1/embeddings", {"input": value})
            assert reply.status == 400 and reply.error["param"] == "input", reply.body


def test_many_inputs_of_one_request(embedder):
    texts = [f"text {i}" for i in range(700)]
    many = vector(embedder, texts)
    assert [many[i] for i in (0, 63, 64, 699)] == [vector(embedder, texts[i])[0] for i in (0, 63, 64, 699)]
    assert len({tuple(one) for one in many}) == 700


# ---- Cohere's form ----


def cohere(server, **fields):
    reply = server.post("/v2/embed", fields)
    assert reply.status == 200, reply.body
    return reply.json


def test_cohere_s_form(embedder):
    reply = cohere(embedder, model="test-model", texts=["ab", "abc"])
    assert list(reply) == ["id", "embeddings", "texts", "meta", "response_type"] and reply["id"].startswith("embd-")
    assert reply["embeddings"] == {"float": vector(embedder, ["ab", "abc"])} and reply["texts"] == ["ab", "abc"]
    assert reply["meta"] == {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 5, "image_tokens": 0}}
    assert reply["response_type"] == "embeddings_by_type"
    content = {"content": [image_part(), text_part("ab")]}
    whole = [{"role": "user", "content": content["content"]}]
    reply = cohere(embedder, inputs=[content, {"content": [text_part("ab")]}])
    assert "texts" not in reply and reply["meta"]["billed_units"] == {"input_tokens": 0, "image_tokens": 20}
    assert reply["embeddings"]["float"] == [*vector(embedder, whole), *vector(embedder, "ab")]
    shown = cohere(embedder, images=[image_part()["image_url"]["url"]])
    assert shown["embeddings"]["float"] == vector(embedder, [{"role": "user", "content": [image_part()]}])


def test_cohere_s_types(embedder):
    found = cohere(embedder, texts=["ab", "abc"], embedding_types=["ubinary", "base64", "float", "binary"])["embeddings"]
    floats = np.array(found["float"])
    assert list(found) == ["float", "binary", "ubinary", "base64"]
    assert found["ubinary"] == np.packbits(floats >= 0, axis=-1).tolist()
    assert found["binary"] == (np.packbits(floats >= 0, axis=-1).astype(int) - 128).tolist()
    assert (np.frombuffer(base64.b64decode(found["base64"][1]), "<f4") == floats[1].astype(np.float32)).all()
    assert cohere(embedder, texts=["ab"], embedding_types=[])["embeddings"].keys() == {"float"}
    assert cohere(embedder, texts=["ab"], output_dimension=3)["embeddings"]["float"] == vector(embedder, "ab", dimensions=3)
    odd = embedder.post("/v2/embed", {"texts": ["ab"], "output_dimension": 3, "embedding_types": ["binary"]})
    assert odd.status == 400 and "multiple of 8" in odd.error["message"]


def test_cohere_s_limits(embedder):
    assert cohere(embedder, texts=["abc"], max_tokens=3, truncate="NONE")["embeddings"]["float"] == vector(embedder, "abc")
    long = embedder.post("/v2/embed", {"texts": ["abc", "abcd"], "max_tokens": 3, "truncate": "NONE"})
    assert long.status == 400 and "Input of 4 tokens exceeds max_tokens=3" in long.error["message"]


def test_cohere_s_kinds_of_inputs(embedder):
    """A kind that the checkpoint names has its text as the system's message."""
    wanted = vector(embedder, [{"role": "system", "content": "ask"}, {"role": "user", "content": "ab"}])
    assert cohere(embedder, texts=["ab"], input_type="query")["embeddings"]["float"] == wanted != vector(embedder, "ab")
    reply = embedder.post("/v2/embed", {"texts": ["ab"], "input_type": "search_document"})
    assert reply.status == 400 and reply.error["message"] == "Unsupported input_type 'search_document'. Supported values: query"


@pytest.mark.parametrize("fields", [{}, {"texts": []}, {"texts": ["a"], "images": ["b"]}, {"texts": "a"}, {"texts": [3]},
                                    {"texts": ["a"], "input_type": "query", "truncate": "LEFT"}, {"texts": [None], "input_type": "query"},
                                    {"images": [3]}, {"images": ["no url"]}, {"inputs": ["a"]}, {"inputs": [{"content": [{"type": "text"}]}]},
                                    {"inputs": [{"content": [{"type": "image_url", "image_url": {}}]}]}, {"texts": ["a"], "max_tokens": 0},
                                    {"texts": ["a"], "embedding_types": ["int8"]}, {"texts": ["a"], "embedding_types": [None]},
                                    {"texts": ["a"], "output_dimension": -1}, {"texts": ["a"], "model": "other"}, {"texts": ["a"] * 2049}])
def test_cohere_s_form_refuses(embedder, fields):
    reply = embedder.post("/v2/embed", fields)
    assert reply.status == (404 if "model" in fields else 400) and reply.error["message"], reply.body


def test_scores(scorer):
    reply = scorer.post("/v1/score", {"queries": "ab", "documents": ["c", "d", {"content": [text_part("e")]}]}).json
    assert list(reply) == ["id", "object", "created", "model", "data", "usage"] and reply["id"].startswith("score-")
    assert [list(item) for item in reply["data"]] == [["index", "object", "score"]] * 3 and reply["usage"]["prompt_tokens"] == 9
    scores = [item["score"] for item in reply["data"]]
    for names in [("queries", "items"), ("text_1", "text_2"), ("data_1", "data_2")]:
        again = scorer.post("/score", dict(zip(names, ("ab", ["c", "d", "e"])))).json
        assert [item["score"] for item in again["data"]] == scores
    pairs = scorer.post("/score", {"queries": ["ab", "ab"], "documents": ["c", "e"]}).json["data"]
    assert [item["score"] for item in pairs] == [scores[0], scores[2]]
    pooled = scorer.post("/pooling", {"input": "abc", "task": "classify"}).json["data"]
    assert pooled == [{"index": 0, "object": "pooling", "data": [scores[0]]}]


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
def test_ranking(scorer, path):
    documents = ["c", {"content": [text_part("d"), image_part()]}, "e", "f"]
    reply = scorer.post(path, {"model": "test-model", "query": "ab", "documents": documents}).json
    assert list(reply) == ["id", "model", "usage", "results"] and list(reply["usage"]) == ["prompt_tokens", "total_tokens"]
    results = reply["results"]
    assert sorted(result["index"] for result in results) == [0, 1, 2, 3]
    scores = [result["relevance_score"] for result in results]
    assert scores == sorted(scores, reverse=True)
    by_index = {result["index"]: result["document"] for result in results}
    assert by_index[0] == {"text": "c", "multi_modal": None} and by_index[1] == {"text": None, "multi_modal": documents[1]["content"]}
    best = scorer.post(path, {"query": "ab", "documents": documents, "top_n": 2}).json["results"]
    assert best == results[:2]


def test_limits_of_tokens(scorer):
    def tokens(**fields):
        return scorer.post("/rerank", {"query": "abcd", "documents": ["efgh", "é"], **fields}).json["usage"]["prompt_tokens"]

    assert tokens() == 4 + 4 + 4 + 2
    assert tokens(max_tokens_per_query=1) == 1 + 4 + 1 + 2
    assert tokens(max_tokens_per_doc=2) == 4 + 2 + 4 + 2
    assert tokens(max_tokens_per_doc=1) == 4 + 1 + 4 + 0  # no half of a character is left
    reply = scorer.post("/rerank", {"query": "a", "documents": [{"content": [text_part("a")]}], "max_tokens_per_doc": 1})
    assert reply.status == 400 and reply.error["param"] == "documents"


def test_scores_of_a_model_of_vectors(embedder):
    """They are the cosine, as in vLLM."""
    a, b = (np.array(vector(embedder, text)[0]) for text in ("ab", "cd"))
    data = embedder.post("/score", {"queries": "ab", "documents": ["cd", "ab"]}).json["data"]
    assert [item["score"] for item in data] == pytest.approx([a @ b, 1], abs=1e-6)
    ranking = embedder.post("/rerank", {"query": "ab", "documents": ["cd", "ab"]}).json["results"]
    assert [result["index"] for result in ranking] == [1, 0]


# ---- refusals ----


@pytest.mark.parametrize("body, param", [
    ({}, "body.input"), ({"input": None}, "body.input"), ({"input": []}, "input"), ({"input": ""}, "input"), ({"input": ["a", ""]}, "input"),
    ({"input": [[]]}, "input"), ({"input": 3}, "input"), ({"input": {"a": 1}}, "input"), ({"input": ["a", 1]}, "input"),
    ({"input": [1, "a"]}, "input"), ({"input": [256]}, "input"), ({"input": [-1]}, "input"), ({"input": [1.5]}, "input"),
    ({"input": ["a"] * 2049}, "input"), ({"input": "a" * 4096}, "input_tokens"), ({"messages": []}, "messages"),
    ({"messages": [[]]}, "messages"), ({"messages": "a"}, "messages"), ({"messages": [{"role": "user"}]}, "messages"),
    ({"messages": [[{"role": "user", "content": "a"}], {"role": "user"}]}, "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]}, "image"),
    ({"input": "a", "model": "other"}, "model"), ({"input": "a", "encoding_format": "bytes"}, "encoding_format"),
    ({"input": "a", "encoding_format": "hex"}, "encoding_format"), ({"input": "a", "embed_dtype": "fp8_e4m3"}, "embed_dtype"),
    ({"input": "a", "endianness": "middle"}, "endianness"), ({"input": "a", "dimensions": 0}, "dimensions"),
    ({"input": "a", "dimensions": 17}, "dimensions"), ({"input": "a", "dimensions": "x"}, "dimensions"),
    ({"input": "a", "normalize": True}, "normalize"), ({"input": "a", "padding": "max_length"}, "padding"),
    ({"input": "a", "chat_template": "x"}, "chat_template"), ({"input": "a", "truncate_prompt_tokens": 5000}, "truncate_prompt_tokens"),
    ({"input": "a", "truncate_prompt_tokens": -2}, "truncate_prompt_tokens"), ({"input": "a", "truncation_side": "up"}, "truncation_side"),
    ({"input": "a", "use_activation": "maybe"}, "use_activation"), ({"input": "a", "cache_salt": ""}, "cache_salt"),
])
def test_refused_embeddings(embedder, body, param):
    reply = embedder.post("/v1/embeddings", body)
    assert reply.status in (400, 404) and reply.error["param"] == param and reply.error["message"], reply.body


@pytest.mark.parametrize("body, param", [
    ({}, "body.queries"), ({"queries": "a"}, "body.documents"), ({"queries": [], "documents": ["a"]}, "queries"),
    ({"queries": "a", "documents": []}, "documents"), ({"queries": ["a", "b"], "documents": ["a", "b", "c"]}, "documents"),
    ({"queries": "a", "documents": [3]}, "documents"), ({"queries": "a", "documents": {"text": "b"}}, "documents"),
    ({"queries": "a", "documents": {"content": "b"}}, "documents"), ({"queries": "a", "documents": {"content": [{"type": "audio"}]}}, "messages"),
    ({"queries": "a", "documents": ["b"] * 2049}, "documents"), ({"queries": "a", "documents": "b", "max_tokens_per_doc": -1}, "max_tokens_per_doc"),
    ({"queries": "a", "documents": "b", "max_tokens_per_query": 4096}, "max_tokens_per_query"),
    ({"queries": "a", "documents": "b", "chat_template_kwargs": {"other": 1}}, "chat_template_kwargs"),
    ({"queries": "a", "documents": "b", "instruction": 3}, "instruction"),
])
def test_refused_scores(scorer, body, param):
    reply = scorer.post("/score", body)
    assert reply.status == 400 and reply.error["param"] == param and reply.error["message"], reply.body


def test_refused_rankings_and_poolings(scorer, embedder):
    for body, param in [({"documents": ["a"]}, "body.query"), ({"query": ["a"], "documents": ["a"]}, "query"),
                        ({"query": 10**20, "documents": ["a"]}, "query"), ({"query": "a", "documents": ["a"], "top_n": -1}, "top_n")]:
        reply = scorer.post("/rerank", body)
        assert reply.status == 400 and reply.error["param"] == param, reply.body
    for server, body, param in [(embedder, {"input": "a", "dimensions": 3}, "dimensions"), (embedder, {"input": "a", "task": "classify"}, "task"), (embedder, {"input": 10**20}, "input"),
                                (scorer, {"input": "a", "task": "embed"}, "task"), (scorer, {"input": "a", "instruction": "b"}, "instruction")]:
        reply = server.post("/pooling", body)
        assert reply.status == 400 and reply.error["param"] == param, reply.body
    for server, elsewhere in [(embedder, True), (scorer, False)]:
        assert ("/v1/embeddings" in server.post("/pooling", {"input": "a", "dimensions": 3}).error["message"]) == elsewhere


def test_where_an_error_is(embedder):
    reply = embedder.post("/v1/embeddings", {"messages": [[{"role": "user", "content": "a"}], [{"role": "user", "content": [{"type": "what"}]}]]})
    assert reply.error["message"].startswith("messages[1][0].content[0]"), reply.body
    assert embedder.post("/v1/embeddings", {"input": ["a", "b", ""]}).error["message"].startswith("input[2]")


def test_models_of_another_task(server, embedder, scorer):
    """Each says what it is for, and which models could."""
    for path, body in [("/v1/embeddings", {"input": "a"}), ("/pooling", {"input": "a"})]:
        reply = server.post(path, body)
        assert reply.status == 400 and reply.error["param"] == "model" and "-Embedding models" in reply.error["message"], reply.body
    for path, body in [("/score", {"queries": "a", "documents": "b"}), ("/v2/rerank", {"query": "a", "documents": ["b"]})]:
        reply = server.post(path, body)
        assert reply.status == 400 and reply.error["param"] == "model" and "-Reranker models" in reply.error["message"], reply.body
    reply = scorer.post("/v1/embeddings", {"input": "a"})
    assert reply.status == 400 and "-Embedding models" in reply.error["message"]
    message = [{"role": "user", "content": "a"}]
    for process, words in [(embedder, "/v1/embeddings"), (scorer, "/v1/rerank")]:
        for path, body in [("/v1/chat/completions", {"messages": message}), ("/v1/completions", {"prompt": "a"}),
                           ("/v1/responses", {"input": "a"}), ("/v1/messages", {"messages": message, "max_tokens": 3})]:
            reply = process.post(path, body)
            assert reply.status == 400 and words in reply.error["message"] and "Instruct" in reply.error["message"], reply.body
        assert process.post("/tokenize", {"messages": message}).status == 200


# ---- failures, limits, clients that leave ----


def test_a_failure_is_the_answer_of_all(embedder):
    reply = embedder.post("/v1/embeddings", {"input": ["a"] * 100 + ["[[error_at=0]]"] + ["b"] * 100})
    assert reply.status == 500 and "secret" not in reply.body.decode()
    reply = embedder.post("/v1/embeddings", {"input": ["a"] * 100 + ["[[refuse=2]]"] + ["b"] * 100})
    assert reply.status >= 400 and vector(embedder, "a")


def test_vectors_wait_in_the_budget_of_replies(pytestconfig, kind):
    """Those of a request that would exceed it are given up before all are computed."""
    process = fake_server(pytestconfig, task=EMBED, max_total_pending_bytes=100000)
    for fields in ({}, {"encoding_format": "bytes_only"}):
        reply = process.post("/v1/embeddings", {"input": ["a"] * 2048, **fields})
        assert reply.status == 503 and "not read" in reply.error["message"] and reply.headers["Retry-After"] == "1", reply.body
    assert len(vector(process, ["a"] * 200)) == 200
    process.stop()
    check_output(process)
    assert process.counters()["stop"] < 2 * 2048 + 200


def test_a_client_that_leaves(pytestconfig, kind):
    """What it asked for is not computed: neither what is with the engine nor what waits."""
    process = fake_server(pytestconfig, task=EMBED)
    connection = process.send_post("/v1/embeddings", {"input": ["[[first_ms=3000]]"] * 500})
    end = time.monotonic() + 10
    while process.get("/load").json["server_load"] == 0 and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.2)
    connection.close()
    while process.get("/load").json["server_load"] and time.monotonic() < end:
        time.sleep(0.02)
    assert process.get("/load").json["server_load"] == 0
    process.stop()
    check_output(process)
    counters = process.counters()
    assert counters["stop"] == 0 and counters["running"] == 0 and 0 < counters["cancelled"] <= 64, counters


def test_the_server_stops_with_inputs_under_way(pytestconfig, kind):
    process = fake_server(pytestconfig, task=EMBED, drain_ms=200)
    connection = process.send_post("/v1/embeddings", {"input": ["[[first_ms=5000]]"] * 100})
    time.sleep(0.3)
    process.stop()
    answer = read_all(connection)
    assert not answer or answer.startswith(b"HTTP/1.1 503"), answer
    connection.close()
    check_output(process)
    assert process.counters()["running"] == 0


def test_a_full_queue(pytestconfig, kind):
    process = fake_server(pytestconfig, task=EMBED, queue_limit=4)
    reply = process.post("/v1/embeddings", {"input": ["[[first_ms=2000]]"] * 30})
    assert reply.status == 503 and reply.headers["Retry-After"], reply.body
    end = time.monotonic() + 10  # the others leave the queue a little later
    while metrics(process)["vllm:num_requests_running"] and time.monotonic() < end:
        time.sleep(0.02)
    assert vector(process, ["a", "b"])
    process.stop()
    check_output(process)


@pytest.mark.parametrize("nth", range(0, 60, 3))
def test_memory_runs_out(pytestconfig, kind, nth):
    """One allocation fails: at most one request is refused."""
    process = fake_server(pytestconfig, task=EMBED, fail_later=nth)
    failed = 0
    for body in [{"input": ["a", "b", "c"]}, {"messages": [{"role": "user", "content": [image_part(), text_part("ab")]}]}] * 2:
        try:
            status = process.post("/v1/embeddings", body).status
            assert status in (200, 503)
            failed += status == 503
        except ConnectionError:  # the connection's own memory
            failed += 1
    assert failed <= 1
    process.stop()
    check_output(process)


def test_keys(pytestconfig, kind):
    process = fake_server(pytestconfig, task=EMBED, api_key="k")
    for path in ("/v1/embeddings", "/v2/embed", "/pooling", "/score", "/v1/score", "/rerank", "/v1/rerank", "/v2/rerank"):
        assert process.post(path, {"input": "a"}).status == 401
        assert process.get(path).status in (401, 405)
    assert process.post("/v1/embeddings", {"input": "a"}, {"Authorization": "Bearer k"}).status == 200
    process.stop()
    check_output(process)


def metrics(server):
    """The sum of each name's values."""
    values = {}
    for line in server.get("/metrics").body.decode().splitlines():
        if line and line[0] != "#":
            name, value = line.rsplit(" ", 1)
            values[name.split("{")[0]] = values.get(name.split("{")[0], 0) + float(value)
    return values


def test_metrics(pytestconfig, kind):
    """Each input counts as vLLM counts it: a request that ended by itself, and its tokens."""
    process = fake_server(pytestconfig, task=EMBED)
    vector(process, ["abc", "de"])
    values = metrics(process)
    assert values["vllm:e2e_request_latency_seconds_count"] == 2 and values["vllm:request_prompt_tokens_sum"] == 5
    assert re.search(r'^http_requests_total\{.*"/v1/embeddings"', process.get("/metrics").body.decode(), re.MULTILINE)
    process.stop()
    check_output(process)


def test_inputs_of_several_requests_are_computed_together(pytestconfig, kind):
    """64 of each: no more of one, and of all more than an engine has slots (128)."""
    process = fake_server(pytestconfig, task=EMBED)
    connections = []
    for wanted in (64, 128, 192):
        connections.append(process.send_post("/v1/embeddings", {"input": ["[[first_ms=60000]]"] * 100}))
        wait_for_engine(process, wanted)
    time.sleep(0.3)  # in which more would have come
    assert in_engine(process) == 192
    for connection in connections:
        connection.close()
    process.stop()
    check_output(process)


@pytest.mark.real_only
def test_who_asks_for_vectors_where_each_token_has_one(start):
    """Is sent to the endpoints that have them, and nowhere that refuses as well."""
    server = start(model=DEMO)
    for path, body in [("/v1/embeddings", {"input": "a"}), ("/v2/embed", {"texts": ["a"], "embedding_types": ["float"]})]:
        reply = server.post(path, body)
        assert reply.status == 400 and "ask /pooling, /score or /rerank" in json.dumps(reply.json), reply.body
    assert len(server.post("/pooling", {"input": "a"}).json["data"][0]["data"][0]) == 128
    reply = server.post("/pooling", {"input": "a", "dimensions": 8})
    assert reply.status == 400 and reply.error["message"] == "dimensions is not supported by /pooling of this model."
    assert server.stop() == 0
    check_output(server)


@pytest.mark.real_only
def test_an_empty_document_is_refused(start):
    """With a vector for each token a document stands alone: an empty one has no token."""
    server = start(model=DEMO)
    empty = [{"content": []}, {"content": [text_part("")]}, ""]
    for document in empty:
        for path, body in [("/rerank", {"query": "a", "documents": ["b", document]}), ("/score", {"queries": "a", "documents": [document]})]:
            reply = server.post(path, body)
            assert reply.status == 400 and "documents" in reply.body.decode(), (path, document, reply.body)
    reply = server.post("/rerank", {"query": {"content": []}, "documents": ["a"]})
    assert reply.status == 200, reply.body
    assert server.stop() == 0
    check_output(server)


# ---- vLLM's own replies ----


@pytest.fixture(scope="module")
def real(omma, tmp_path_factory):
    """{task: a server of the program with the recorded checkpoint}"""
    directory, servers = tmp_path_factory.mktemp("vectors"), {}

    def start(task):
        if task not in servers:
            model = vector_cases.make_model(directory / {"embed": "Tiny-Embedding", "score": "Tiny-Reranker"}[task])
            servers[task] = ServerProcess([omma, "serve", str(model), "--host", "127.0.0.1", "--port", "0", "--dtype", "f32", "--max-model-len",
                                           "2048", "--served-model-name", "test-model", "--runner", "pooling"])
        return servers[task]

    yield start
    end_all(servers.values())


def numbers(value):
    """The vectors and scores of a reply, in order."""
    if "results" in value:
        return [[result["relevance_score"]] for result in value["results"]]
    if "embeddings" in value:  # in Cohere's form: by their type
        return [decode(one) for listed in value["embeddings"].values() for one in listed]
    return [decode(item.get("embedding", item.get("data", item.get("score")))) for item in value["data"]]


def decode(value):
    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value), np.uint8)
    return np.atleast_1d(np.array(value, np.float64))


def shape_of(value):
    """All but the vectors and scores."""
    if isinstance(value, dict):
        left_out = ("embedding", "score", "relevance_score", "float", "base64", "binary", "ubinary") + (("data",) if value.get("object") == "pooling" else ())
        return {key: None if key in left_out else shape_of(member) for key, member in value.items()}
    return [shape_of(member) for member in value] if isinstance(value, list) else value


def without_images(value):
    if isinstance(value, dict):
        return {key: "IMAGE" if key == "image_url" else without_images(member) for key, member in value.items()}
    return [without_images(member) for member in value] if isinstance(value, list) else value


def compare(name, ours, wanted, inexact):
    assert ours.status == wanted["status"], (name, ours.body[:500])
    if ours.status != 200:
        return
    reply, theirs = without_images(ours.json), wanted["reply"]
    found, expected = numbers(reply), numbers(theirs)
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        if np.asarray(a).dtype == np.uint8:
            same = np.asarray(a) == np.asarray(b)
            assert len(a) == len(b) and same.mean() > 0.3, name  # the last bits of numbers differ
        else:
            assert np.abs(np.asarray(a) - np.asarray(b)).max() < inexact, (name, a, b)
    for volatile in ("id", "created"):
        assert type(reply.pop(volatile, None)) is type(theirs.pop(volatile, None))
    assert list(reply) == list(theirs) and shape_of(reply) == shape_of(theirs), name


# A path that vLLM has not with this model: 404.
DIFFERENT = {("embed", "chat"), ("score", "vectors")}
# By one token: a context here has room for an answer's first.
SHORTER = ("embed", "cut to the context")


@pytest.mark.parametrize("task, name", [("embed", name) for name in vector_requests.EMBED] + [("score", name) for name in vector_requests.SCORE])
def test_vllm_answers_the_same(real, task, name):
    path, body = {"embed": vector_requests.EMBED, "score": vector_requests.SCORE}[task][name]
    wanted = json.loads(json.dumps(REPLIES[task][name]))
    reply = real(task).post(path, body)
    if (task, name) in DIFFERENT:
        assert reply.status == 400 and wanted["status"] == 404
    elif (task, name) == SHORTER:
        assert reply.json["usage"]["prompt_tokens"] == wanted["reply"]["usage"]["prompt_tokens"] - 1 == 2047
    else:
        compare(name, reply, wanted, 1e-4)


def test_an_instruction_is_computed_once(real):
    """What the prompts of a request begin with alike comes from the prefix cache, in whole pages of
    64 tokens."""
    server, instruction = real("embed"), "Find what shows the same as this does, whatever words or colours it comes with, and nothing that does not. " * 2
    before = metrics(server)["vllm:prefix_cache_hits_total"]
    vectors = vector(server, [f"number {i}" for i in range(20)], instruction=instruction)
    assert metrics(server)["vllm:prefix_cache_hits_total"] == before + 19 * 64
    [alone] = vector(server, "number 7", instruction=instruction, cache_salt="other")
    assert alone == vectors[7]


def test_a_short_instruction_is_computed_once(real):
    """Less than a page that two prompts have shown is copied for those after them, unless their
    beginnings are others."""
    server = real("embed")
    before = metrics(server)["vllm:prefix_cache_hits_total"]
    vectors = [vector(server, f"{i} things", instruction="Sort by size.")[0] for i in range(5)]
    after = metrics(server)["vllm:prefix_cache_hits_total"]
    n_copied = (after - before) // 3
    assert after == before + 3 * n_copied and 8 <= n_copied < 64
    for i, together in enumerate(vectors):
        [alone] = vector(server, f"{i} things", instruction="Sort by size.", cache_salt="other")
        assert alone == together
    assert metrics(server)["vllm:prefix_cache_hits_total"] == after


def test_a_query_s_image_is_computed_once(real):
    server = real("score")
    before = metrics(server)
    body = {"query": {"content": [image_part(), text_part("like this")]}, "documents": ["a", "b", "c", "d", "e"]}
    scores = server.post("/v1/rerank", body).json["results"]
    after = metrics(server)
    assert after["omma:encoder_images_total"] == before["omma:encoder_images_total"] + 1
    assert after["vllm:prefix_cache_hits_total"] >= before["vllm:prefix_cache_hits_total"] + 4 * 64
    for result in scores:
        alone = server.post("/v1/rerank", {**body, "documents": [result["document"]["text"]], "cache_salt": "other"}).json["results"]
        assert alone[0]["relevance_score"] == result["relevance_score"]
