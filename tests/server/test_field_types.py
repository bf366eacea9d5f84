"""Damage by type: every field of every endpoint as each type of JSON, empty, huge, nested a
thousand deep and twice. The server answers each with 200 or says what is wrong; none gets a status
of 500 or above.

The names of fields are those that the server's sources have as words, so that a new field is
damaged without a line here. The seed changes with every run and is printed."""

import http.client
import json
import pathlib
import random
import re
import sys
import time

import pytest
from images import JPEG, data_url, image_part, text_part
from test_mutations import MESSAGES, RESPONSES

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import vector_cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "server"
FEW, MANY_SECONDS = {"fake": 2000, "real": 1000}, 60  # requests; seconds with --full
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}
CHAT = {"model": "test-model", "messages": [
    {"role": "system", "content": "be short"},
    {"role": "user", "content": [text_part("what?"), image_part()], "name": "n"},
    {"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "content": "1", "tool_call_id": "c"}, {"role": "user", "content": "why"}], "max_tokens": 2}
CHAT_FIELDS = {"temperature": 0.5, "top_p": 0.9, "top_k": 3, "n": 2, "seed": 7, "stop": ["x"], "stop_token_ids": [1], "logprobs": True,
               "top_logprobs": 2, "stream_options": {"include_usage": True}, "stream": True, "mm_processor_kwargs": {"max_pixels": 100000},
               "media_io_kwargs": {"video": {"fps": 2, "num_frames": 2}}, "response_format": {"type": "text"}, "ommatidia": {"details": True},
               "logit_bias": {"1": 2}, "chat_template_kwargs": {"a": 1}, "tools": [TOOL], "tool_choice": "none"}
BODIES = {
    "/v1/chat/completions": {**CHAT, **CHAT_FIELDS}, "/v1/responses": RESPONSES, "/v1/messages": MESSAGES,
    "/v1/messages/count_tokens": MESSAGES, "/v1/completions": {"prompt": ["a", "b"], "max_tokens": 2, "logprobs": 1, "echo": False, "stop": "x"},
    "/tokenize": {**CHAT, "tools": [TOOL], "return_token_strs": True, "add_generation_prompt": True}, "/detokenize": {"tokens": [1, 2]},
    "/v1/embeddings": {"input": "x"}}
VECTORS = {"encoding_format": "float", "embed_dtype": "float32", "endianness": "little", "use_activation": True, "priority": 1,
           "truncate_prompt_tokens": 5, "truncation_side": "left", "cache_salt": "s", "request_id": "r", "model": "test-model"}
CONTENT = {"content": [text_part("a"), image_part()]}
RANKED = {"query": CONTENT, "documents": ["a", CONTENT], "top_n": 1, "max_tokens_per_query": 0, "max_tokens_per_doc": 0}
SCORED = {"queries": ["a", "b"], "documents": ["a", CONTENT], "instruction": "i", "chat_template_kwargs": {"instruction": "i"}}
BODIES_OF_VECTORS = {  # by the task of the model, enum omma_model_task
    2: {"/v1/embeddings": {"input": ["a", "b"], "dimensions": 4, "instruction": "i", **VECTORS},
        "/v2/embed": {"inputs": [CONTENT, {"content": [text_part("a")]}], "input_type": "query", "output_dimension": 8, "truncate": "START",
                      "max_tokens": 9, "embedding_types": ["float", "ubinary"], "priority": 1, "model": "test-model"},
        "/pooling": {"input": [[1, 2], [3]], "task": "embed", **VECTORS}, "/score": SCORED, "/v2/rerank": RANKED},
    3: {"/score": {**SCORED, **VECTORS}, "/v1/score": {"text_1": CONTENT, "text_2": [CONTENT, "b"]},
        "/rerank": {**RANKED, **VECTORS}, "/pooling": {"input": "a", "task": "classify", **VECTORS}}}
CONVERSATIONS = {"/v1/embeddings": {"messages": [CHAT["messages"][:2], CHAT["messages"][:1]], "chat_template_kwargs": {"instruction": "i"}},
                 "/pooling": {"input": [CONTENT, CONTENT], "use_activation": False}}
PROMPT = {"prompt": "a", "return_token_strs": False}  # the other body of /tokenize
BODIES_OF_TOKEN_VECTORS = {"/pooling": {"input": ["a", "b"], **VECTORS}, "/score": {"queries": ["a", "b"], "documents": ["a", {"content": [image_part()]}]},
                           "/rerank": {"query": "a", "documents": ["a", {"content": [text_part("a")]}, {"content": [image_part()]}], "top_n": 1}}
HUGE = "x" * 200_000
# Texts of JSON: what a client writes in a field's place.
VALUES = ["null", "true", "false", "0", "1", "-1", "1.5", "-0.0", "1e308", "9223372036854775807", "-9223372036854775808",
          "9223372036854775808", '""', '"auto"', '"\\u0000"', '"\\ud800"', '"a\\nb"', "[]", "{}", "[null]", '[""]', "[[]]", "[{}]", '{"":null}',
          '{"a":[]}', "[1,\"a\",null]", '[{"type":"text"}]', '{"type":"function"}', '{"type":"object"}', json.dumps(HUGE),
          "[" + "0," * 20_000 + "0]", "{" + ",".join(f'"{i}":0' for i in range(5000)) + "}", "[" * 60 + "]" * 60,
          "[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000]


def words():
    """Every word that may be a field's name."""
    found = set()
    for file in SOURCES.rglob("*.c"):
        found |= set(re.findall(r'"([a-z][a-z0-9_]{0,39})"', file.read_text()))
    return sorted(found)


def places(value, at=()):
    """Where the values are in a body."""
    yield at
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from places(member, (*at, key))


MARK = '"the place of a value"'


def put(body, at, text, twice=False):
    """The body as JSON with `text` at a place; with `twice`, both what was there and `text`."""
    body = json.loads(json.dumps(body))
    if not at:
        return text
    holder = body
    for key in at[:-1]:
        holder = holder[key]
    old = json.dumps(holder[at[-1]]) if isinstance(holder, list) or at[-1] in holder else "null"
    holder[at[-1]] = json.loads(MARK)
    if isinstance(holder, dict) and twice:
        name = json.dumps(at[-1])
        text = f"{old}, {name}: {text}"
    return json.dumps(body).replace(MARK, text)


def all_damages(bodies, names):
    """(path, place, text, twice) of every place that a body has, and of every name as a field."""
    for path, whole in bodies:
        fields = [at for at in places(whole)] + [(name,) for name in names if name not in whole]
        for at in fields:
            for text in VALUES:
                yield path, whole, at, text, False
            yield path, whole, at, "null", True
            yield path, whole, at, "[1]", True


def send_damaged(server, kind, bodies, full, new_fields=True):
    names = words() if new_fields else ()
    assert not names or {"tools", "messages", "temperature", "response_format", "documents", "top_n"} <= set(names)
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    damages = list(all_damages(bodies, names))
    random.Random(seed).shuffle(damages)
    end = time.monotonic() + MANY_SECONDS
    connection, seen, sent = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60), set(), 0
    for path, whole, at, text, twice in damages:
        if time.monotonic() > end if full else sent == FEW[kind]:
            break
        connection.request("POST", path, put(whole, at, text, twice), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        answer = reply.read()
        where = (seed, path, at, text[:60], twice, reply.status, answer[:300])
        assert reply.status in (200, 400, 404), where
        assert reply.status == 200 or json.loads(answer), where
        seen.add(reply.status)
        sent += 1
    print(f"{sent} of {len(damages)} requests")
    assert {200, 400} <= seen and sent > 100
    assert server.get("/health").status == 200


@pytest.mark.real_too
def test_no_type_of_any_field_is_a_failure_of_the_server(server, kind, pytestconfig):
    send_damaged(server, kind, [*BODIES.items(), ("/tokenize", PROMPT)], pytestconfig.getoption("--full"))


@pytest.mark.parametrize("task", BODIES_OF_VECTORS)
def test_nor_is_one_of_a_request_for_vectors(start, kind, pytestconfig, task):
    """Every body is good as it stands."""
    server = start(task=task)
    bodies = [*BODIES_OF_VECTORS[task].items(), *(CONVERSATIONS.items() if task == 2 else ())]
    for path, body in bodies:
        assert server.post(path, body).status == 200, (path, server.post(path, body).body)
    send_damaged(server, kind, bodies, pytestconfig.getoption("--full"))


@pytest.mark.real_only
@pytest.mark.parametrize("task", [*BODIES_OF_VECTORS, "tokens"])
def test_nor_where_a_model_computes_them(start, kind, pytestconfig, tmp_path, task):
    """The scripted engine takes requests of any size; one without a token once went through a real
    one's memory."""
    if task == "tokens":
        server, bodies = start(model=ROOT / "models" / "demo", runner="pooling"), BODIES_OF_TOKEN_VECTORS
    else:
        model = vector_cases.make_model(tmp_path / {2: "Tiny-Embedding", 3: "Tiny-Reranker"}[task])
        server = start(model=model, runner="pooling", max_model_len=2048)
        # a model names the tasks that it has instructions for, this one none
        bodies = {path: {name: value for name, value in body.items() if name != "input_type"} for path, body in BODIES_OF_VECTORS[task].items()}
    for path, body in bodies.items():
        assert server.post(path, body).status == 200, (path, server.post(path, body).body)
    send_damaged(server, kind, [*bodies.items()], pytestconfig.getoption("--full"), new_fields=False)


@pytest.mark.real_too
@pytest.mark.parametrize("path", ["/tokenize", "/v1/chat/completions"])
@pytest.mark.parametrize("tools", ["auto", 1, True, 1.5, {}, [1], ["f"], [[]], [{}], [{"type": "function"}], [{"function": {}}], [None]])
def test_tools_that_are_none(server, path, tools):
    reply = server.post(path, {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "tools": tools})
    assert reply.status == 400 and reply.error["param"].startswith("tools"), reply.body


@pytest.mark.real_too
def test_a_prompt_may_list_no_tools(server):
    assert server.post("/tokenize", {"messages": [{"role": "user", "content": "a"}], "tools": []}).status == 200
