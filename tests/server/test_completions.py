"""/v1/completions: prompts of every form, streams, echo, log-probabilities, refusals."""

import pytest
from server_process import parse_events, read_until, split_chunks

REPLY_KEYS = ["id", "object", "created", "model", "choices", "service_tier", "system_fingerprint", "usage", "kv_transfer_params",
              "ec_transfer_params", "metrics"]
CHOICE_KEYS = ["index", "text", "logprobs", "finish_reason", "stop_reason", "token_ids", "prompt_logprobs", "prompt_token_ids",
               "routed_experts"]
USAGE_KEYS = ["prompt_tokens", "total_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"]
CHUNK_CHOICE_KEYS = ["index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_token_ids", "token_ids"]
LOGPROB_KEYS = ["text_offset", "token_logprobs", "tokens", "top_logprobs"]


def complete(server, prompt="hello", **fields):
    return server.post("/v1/completions", {"prompt": prompt, **fields})


def texts(reply):
    assert reply.status == 200, reply.body
    return [choice["text"] for choice in reply.json["choices"]]


def stream(server, prompt="hello", **fields):
    with server.send_post("/v1/completions", {"prompt": prompt, "stream": True, **fields}) as connection:
        data = read_until(connection, b"0\r\n\r\n")
    head, chunks = split_chunks(data)
    assert head.startswith(b"HTTP/1.1 200"), head
    return parse_events(chunks)


@pytest.mark.real_too
def test_whole_reply(server):
    body = complete(server, "hello world", max_tokens=4, ignore_eos=True).json
    assert list(body) == REPLY_KEYS and list(body["choices"][0]) == CHOICE_KEYS and list(body["usage"]) == USAGE_KEYS
    assert body["object"] == "text_completion" and body["id"].startswith("cmpl-") and body["model"] == "test-model"
    assert body["choices"][0]["finish_reason"] in ("length", "stop") and body["choices"][0]["logprobs"] is None


@pytest.mark.real_too
def test_text_and_ids_are_one_prompt(server):
    ids = server.post("/tokenize", {"prompt": "hello big world"}).json["tokens"]
    wanted = {"max_tokens": 3, "temperature": 0, "ignore_eos": True}
    by_text = complete(server, "hello big world", **wanted).json
    for prompt in (ids, [ids], ["hello big world"]):
        body = complete(server, prompt, **wanted).json
        assert body["choices"] == by_text["choices"] and body["usage"] == by_text["usage"]
    assert by_text["usage"]["prompt_tokens"] == len(ids)


@pytest.mark.real_too
def test_a_conversation_rendered_by_the_client_gets_the_same_answer(server):
    messages = [{"role": "user", "content": "hello there"}]
    ids = server.post("/tokenize", {"messages": messages}).json["tokens"]
    wanted = {"max_tokens": 3, "temperature": 0, "logprobs": 1}
    reply = complete(server, ids, **wanted)
    chat = server.chat(messages=messages, max_tokens=3, temperature=0)
    assert texts(reply) == [chat.json["choices"][0]["message"]["content"]]
    assert reply.json["usage"]["prompt_tokens"] == chat.json["usage"]["prompt_tokens"]


def test_sixteen_tokens_by_default(server):
    choice = complete(server, "[[tokens=99]]").json["choices"][0]
    assert choice["text"].split() == [f"w{i}" for i in range(16)] and choice["finish_reason"] == "length"


@pytest.mark.real_too
def test_stream(server):
    events = stream(server, "hello big world", max_tokens=3, ignore_eos=True, stream_options={"include_usage": True})
    assert events[-1] == "data: [DONE]" and events[-2]["choices"] == []
    assert events[-2]["usage"]["completion_tokens"] == len(events) - 2 == 3
    assert all(list(event["choices"][0]) == CHUNK_CHOICE_KEYS for event in events[:-2])
    assert all(event["object"] == "text_completion" and "usage" not in event for event in events[:-2])
    assert [event["choices"][0]["finish_reason"] for event in events[:-2]] == [None, None, events[-3]["choices"][0]["finish_reason"]]
    assert events[-3]["choices"][0]["finish_reason"] is not None


def test_a_stream_is_the_whole_in_pieces(server):
    for fields in ({}, {"echo": True}, {"logprobs": 2}, {"stop": "w3"}):
        whole = complete(server, "[[tokens=5]]", **fields).json["choices"][0]
        parts = [event["choices"][0] for event in stream(server, "[[tokens=5]]", **fields)[:-1]]
        assert "".join(part["text"] for part in parts) == whole["text"]
        assert (parts[-1]["finish_reason"], parts[-1]["stop_reason"]) == (whole["finish_reason"], whole["stop_reason"])
        for key in LOGPROB_KEYS if "logprobs" in fields else []:
            assert sum((part["logprobs"][key] for part in parts), []) == whole["logprobs"][key]


@pytest.mark.real_too
def test_echo(server):
    wanted = {"max_tokens": 2, "temperature": 0, "ignore_eos": True}
    plain, echoed = texts(complete(server, "hello é", **wanted)), texts(complete(server, "hello é", echo=True, **wanted))
    assert echoed == ["hello é" + plain[0]]
    ids = server.post("/tokenize", {"prompt": "hello é"}).json["tokens"]
    assert texts(complete(server, ids, echo=True, **wanted)) == echoed


@pytest.mark.real_too
def test_several_prompts_and_answers(server):
    wanted = {"max_tokens": 2, "temperature": 0, "ignore_eos": True}
    body = complete(server, ["hello big", "world is"], n=2, **wanted).json
    one, two = texts(complete(server, "hello big", **wanted)), texts(complete(server, "world is", **wanted))
    assert [choice["text"] for choice in body["choices"]] == one * 2 + two * 2
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert body["usage"]["completion_tokens"] == 8
    sizes = [server.post("/tokenize", {"prompt": text}).json["count"] for text in ("hello big", "world is")]
    assert body["usage"]["prompt_tokens"] == sum(sizes)


def test_choices_differ_by_seed(server):
    body = complete(server, ["[[show=1]]", "[[show=1]] "], n=2, seed=7, max_tokens=99).json
    assert [choice["text"].split("seed=")[1].split()[0] for choice in body["choices"]] == ["7", "8", "7", "8"]


@pytest.mark.real_too
def test_logprobs(server):
    choice = complete(server, "hello big world", max_tokens=3, logprobs=2, temperature=0, ignore_eos=True).json["choices"][0]
    logprobs = choice["logprobs"]
    assert list(logprobs) == LOGPROB_KEYS and all(len(logprobs[key]) == 3 for key in LOGPROB_KEYS)
    assert logprobs["text_offset"][0] == 0 and logprobs["text_offset"] == sorted(logprobs["text_offset"])
    for token, logprob, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]):
        assert logprob <= 0 and top[token] == logprob
    assert complete(server, "hello", max_tokens=1, logprobs=0).json["choices"][0]["logprobs"]["tokens"]


@pytest.mark.real_too
@pytest.mark.parametrize("fields, param", [
    ({"prompt": None}, "body.prompt"), ({"prompt": 5}, "prompt"), ({"prompt": ""}, "prompt"), ({"prompt": []}, "prompt"),
    ({"prompt": [[]]}, "prompt"), ({"prompt": [1, -1]}, "prompt"), ({"prompt": [1 << 40]}, "prompt"), ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": ["a", [1]]}, "prompt"), ({"prompt": [[1], 2]}, "prompt"), ({"prompt": [None]}, "prompt"),
    ({"prompt": ["a"] * 9}, "prompt"), ({"prompt": ["a"] * 3, "n": 3}, "prompt"), ({"logprobs": "many"}, "logprobs"),
    ({"logprobs": 21}, "logprobs"), ({"suffix": "x"}, "suffix"),
    ({"best_of": 2}, "best_of"), ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": 1 << 20}, "max_tokens"),
    ({"temperature": -1}, "temperature"), ({"stream_options": {}}, "stream_options"), ({"n": 0}, "n")])
def test_refused(server, fields, param):
    reply = complete(server, **fields)
    assert reply.status == 400 and reply.error["param"] == param, reply.body


@pytest.mark.real_too
def test_prompts_that_cannot_fit(server):
    """The first of several that is too long is the last that is looked at; its tokens are not
    counted to the end."""
    limit = server.get("/v1/models").json["data"][0]["max_model_len"]
    long = "~@" * 400000
    for path, prompt in [("/v1/completions", long), ("/v1/completions", [long] * 8), ("/tokenize", long)]:
        reply = server.post(path, {"prompt": prompt})
        assert reply.status == 400 and reply.error["param"] == "input_tokens", reply.body
        assert reply.error["message"].startswith(f"This model's maximum context length is {limit} tokens.")


def test_refused_prompts_and_models(server):
    reply = complete(server, "x" * 5000)
    assert reply.status == 400 and reply.error["param"] == "input_tokens"
    assert complete(server, model="none").status == 404
    assert complete(server, best_of=1, suffix="", user="me", logit_bias={}).status == 200
    assert server.get("/v1/completions").status == 405
