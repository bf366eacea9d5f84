"""Fields of requests that set which tokens an answer may have, what of them is returned, and how
much of a prompt counts, as vLLM defines them."""

import re

import pytest
from server_process import parse_events, read_until, split_chunks

pytestmark = pytest.mark.real_only

WANTED = {"max_tokens": 8, "temperature": 0, "ignore_eos": True}


def complete(server, prompt="hello", **fields):
    reply = server.post("/v1/completions", {"prompt": prompt, **WANTED, **fields})
    assert reply.status == 200, reply.body
    return reply.json


def chat(server, **fields):
    reply = server.chat("hello", **{**WANTED, **fields})
    assert reply.status == 200, reply.body
    return reply.json


def stream(server, path, fields):
    with server.send_post(path, {"stream": True, **WANTED, **fields}) as connection:
        _, chunks = split_chunks(read_until(connection, b"0\r\n\r\n"))
    return parse_events(chunks)[:-1]  # without [DONE]


def ids_of(body):
    return body["choices"][0]["token_ids"]


@pytest.mark.parametrize("ask", [chat, complete])
def test_token_ids_are_those_of_the_text(server, ask):
    body = ask(server, return_token_ids=True, logprobs=True if ask is chat else 1)
    choice = body["choices"][0]
    prompt = body["prompt_token_ids"] if ask is chat else choice["prompt_token_ids"]
    assert len(ids_of(body)) == body["usage"]["completion_tokens"] == 8 and len(prompt) == body["usage"]["prompt_tokens"]
    text = choice["message"]["content"] if ask is chat else choice["text"]
    assert server.post("/detokenize", {"tokens": ids_of(body)}).json["prompt"].startswith(text.rstrip("\ufffd"))
    without = ask(server, logprobs=True if ask is chat else 1)
    assert ids_of(without) is None and without.get("prompt_token_ids") is None and without["choices"][0].get("prompt_token_ids") is None
    for one in (body, without):
        one["choices"][0].pop("token_ids"), one["choices"][0].pop("prompt_token_ids", None)
    assert body["choices"] == without["choices"]


def test_several_prompts_and_choices_have_their_own_ids(server):
    body = complete(server, ["hello", "big world"], n=2, temperature=1, seed=3, return_token_ids=True)
    prompts = [server.post("/tokenize", {"prompt": text}).json["tokens"] for text in ("hello", "big world")]
    assert [choice["prompt_token_ids"] for choice in body["choices"]] == [prompts[0]] * 2 + [prompts[1]] * 2
    assert all(len(choice["token_ids"]) == 8 for choice in body["choices"])
    assert complete(server, "hello", echo=True, return_token_ids=True)["choices"][0]["text"] == complete(server)["choices"][0]["text"]


def test_token_ids_in_streams(server):
    whole = chat(server, return_token_ids=True)
    events = stream(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}], "return_token_ids": True})
    assert events[0]["prompt_token_ids"] == whole["prompt_token_ids"] and all("prompt_token_ids" not in e for e in events[1:])
    assert sum((e["choices"][0]["token_ids"] for e in events[1:]), []) == ids_of(whole)
    whole = complete(server, return_token_ids=True)
    events = [e["choices"][0] for e in stream(server, "/v1/completions", {"prompt": "hello", "return_token_ids": True})]
    assert [e["prompt_token_ids"] for e in events] == [whole["choices"][0]["prompt_token_ids"]] + [None] * 7
    assert sum((e["token_ids"] for e in events), []) == ids_of(whole)


@pytest.mark.parametrize("ask", [chat, complete])
def test_biases_and_allowed_tokens(server, ask):
    free = ids_of(ask(server, return_token_ids=True))
    wanted = 40 if free[0] != 40 else 41
    assert ids_of(ask(server, return_token_ids=True, logit_bias={str(wanted): 100})) == [wanted] * 8
    assert ids_of(ask(server, return_token_ids=True, logit_bias={str(free[0]): -100}))[0] != free[0]
    assert ids_of(ask(server, return_token_ids=True, logit_bias={})) == free
    assert set(ids_of(ask(server, return_token_ids=True, allowed_token_ids=[50, 51], temperature=1.5))) <= {50, 51}


def test_bad_words(server):
    text = complete(server)["choices"][0]["text"]
    word = next(word for word in (text[i:i + 1] for i in range(len(text))) if word.isalnum() and word.isascii())
    free = complete(server, return_token_ids=True)
    held = complete(server, return_token_ids=True, bad_words=[word])
    assert ids_of(held) != ids_of(free) or word not in server.post("/detokenize", {"tokens": ids_of(free)[:1]}).json["prompt"]
    single = server.post("/tokenize", {"prompt": word}).json["tokens"]
    assert len(single) == 1 and single[0] not in ids_of(held)
    assert complete(server, bad_words=[])["choices"] == complete(server)["choices"]


def test_what_ends_an_answer_may_stay(server):
    text = complete(server)["choices"][0]["text"]
    stop = next(text[i:i + 2] for i in range(1, len(text)) if text[i:i + 2].isascii() and len(text[i:i + 2]) == 2)
    cut, whole = text[:text.index(stop)], text[:text.index(stop) + 2]
    assert complete(server, stop=stop)["choices"][0]["text"] == cut
    choice = complete(server, stop=stop, include_stop_str_in_output=True)["choices"][0]
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == (whole, "stop", stop)
    events = stream(server, "/v1/completions", {"prompt": "hello", "stop": stop, "include_stop_str_in_output": True})
    assert "".join(e["choices"][0]["text"] for e in events) == whole


def test_special_tokens_may_stay(server):
    end = server.post("/tokenize", {"prompt": "<|im_end|>"}).json["tokens"]
    fields = {"allowed_token_ids": end, "max_tokens": 2}
    assert len(end) == 1 and complete(server, **fields)["choices"][0]["text"] == ""
    assert complete(server, skip_special_tokens=False, **fields)["choices"][0]["text"] == "<|im_end|>" * 2
    ended = complete(server, skip_special_tokens=False, include_stop_str_in_output=True, ignore_eos=False, **fields)
    assert ended["choices"][0]["text"] == "<|im_end|>" and ended["usage"]["completion_tokens"] == 1


def test_a_prompt_without_the_turn_of_its_answer(server):
    for messages in ([{"role": "user", "content": "hello"}], [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]):
        whole, ended = [server.post("/tokenize", {"messages": messages, "add_generation_prompt": opened}).json["tokens"]
                        for opened in (True, False)]
        assert whole[:len(ended)] == ended
        # <|im_start|>assistant, a line feed; Kimi-VL has other marks
        assert re.fullmatch(r"<\|\w+\|>assistant(\n|<\|im_middle\|>)",
                            server.post("/detokenize", {"tokens": whole[len(ended):]}).json["prompt"])
        reply = server.chat(messages=messages, add_generation_prompt=False, return_token_ids=True, max_tokens=1)
        assert reply.json["prompt_token_ids"] == ended


def test_prompts_are_cut(server):
    words = "one two three four five six seven"
    ids = server.post("/tokenize", {"prompt": words}).json["tokens"]
    last = complete(server, words, truncate_prompt_tokens=4, return_token_ids=True)["choices"][0]
    assert last["prompt_token_ids"] == ids[-4:] and last["text"] == complete(server, ids[-4:])["choices"][0]["text"]
    first = complete(server, words, truncate_prompt_tokens=4, truncation_side="right", return_token_ids=True)["choices"][0]
    assert first["prompt_token_ids"] == ids[:4]
    assert complete(server, ids, truncate_prompt_tokens=4, return_token_ids=True)["choices"][0]["prompt_token_ids"] == ids[-4:]
    limit = server.get("/v1/models").json["data"][0]["max_model_len"]
    if limit <= 32768:  # Kimi-VL's 131,072 take half a minute and show no more.
        long = complete(server, [5] * (limit + 50), truncate_prompt_tokens=-1)
        assert long["usage"]["prompt_tokens"] == limit - 8
    body = chat(server, truncate_prompt_tokens=3, return_token_ids=True)
    assert body["prompt_token_ids"] == chat(server, return_token_ids=True)["prompt_token_ids"][-3:]


@pytest.mark.parametrize("ask", [chat, complete])
def test_answers_do_not_repeat(server, ask):
    few = {"allowed_token_ids": list(range(50, 58)), "return_token_ids": True, "max_tokens": 20}
    for fields in ({"no_repeat_ngram_size": 3}, {"vllm_xargs": {"no_repeat_ngram_size": 3}}):
        ids = ids_of(ask(server, **few, **fields))
        triples = list(zip(ids, ids[1:], ids[2:]))
        assert len(triples) == 18 == len(set(triples)), ids
    free = ids_of(ask(server, **few))
    assert len(set(zip(free, free[1:], free[2:]))) < 18 and ids_of(ask(server, **few, no_repeat_ngram_size=100)) == free


def test_an_answer_that_repeats_ends(server):
    fields = {"allowed_token_ids": [50], "ignore_eos": True, "repetition_detection": {"max_pattern_size": 2, "min_count": 3}}
    before = server.get("/metrics").body.decode()
    whole = chat(server, **fields)
    ends = whole["choices"][0]
    assert (ends["finish_reason"], ends["stop_reason"]) == ("repetition", "repetition_detected")
    assert whole["usage"]["completion_tokens"] == 3
    assert complete(server, **fields)["choices"][0]["finish_reason"] == "repetition"
    last = stream(server, "/v1/completions", {"prompt": "hello", **fields})[-1]["choices"][0]
    assert (last["finish_reason"], last["stop_reason"]) == ("repetition", "repetition_detected")
    line = next(line for line in server.get("/metrics").body.decode().splitlines() if 'finished_reason="repetition"' in line)
    was = next(line for line in before.splitlines() if 'finished_reason="repetition"' in line)
    assert int(line.split()[-1]) == int(was.split()[-1]) + 3
    assert complete(server, **{**fields, "min_tokens": 6})["usage"]["completion_tokens"] == 6


@pytest.mark.parametrize("fields, param, parts", [
    ({"logit_bias": {"x": 1}}, "logit_bias", ['"x"']),
    ({"logit_bias": {"-1": 1}}, "logit_bias", ["from 0 to"]),
    ({"logit_bias": {"9999999": 1}}, "logit_bias", ["9999999"]),
    ({"logit_bias": {"5": "much"}}, "logit_bias", ["token 5", "a string"]),
    ({"logit_bias": [5]}, "logit_bias", ["an array"]),
    ({"logit_bias": {str(i): 1 for i in range(1025)}}, "logit_bias", ["1024"]),
    ({"allowed_token_ids": []}, "allowed_token_ids", ["at least one"]),
    ({"allowed_token_ids": [1, -5]}, "allowed_token_ids", ["allowed_token_ids[1]"]),
    ({"allowed_token_ids": 7}, "allowed_token_ids", ["an integer"]),
    ({"bad_words": "x"}, "bad_words", ["a string"]),
    ({"bad_words": [""]}, "bad_words", ["bad_words[0] must not be empty"]),
    ({"bad_words": [5]}, "bad_words", ["bad_words[0] must be a string, got an integer"]),
    ({"bad_words": [" "]}, "bad_words", ["no token"]),
    ({"bad_words": ["a\0b"]}, "bad_words", ["NUL"]),
    ({"bad_words": ["x"] * 129}, "bad_words", ["128"]),
    ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens", ["got 0"]),
    ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens", ["-2"]),
    ({"truncate_prompt_tokens": 1 << 40}, "truncate_prompt_tokens", [str(1 << 40)]),
    ({"prompt_logprobs": -1}, "prompt_logprobs", ["-1"]),
    ({"prompt_logprobs": 21}, "prompt_logprobs", ["20", "21"]),
    ({"prompt_logprobs": "all"}, "prompt_logprobs", ["all"]),
    ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs", ["stream=True"]),
    ({"truncation_side": "middle"}, "truncation_side", ["middle"]),
    ({"include_stop_str_in_output": 2}, "include_stop_str_in_output", ["true or false"]),
    ({"skip_special_tokens": "never"}, "skip_special_tokens", ["true or false"]),
    ({"return_token_ids": 2}, "return_token_ids", ["true or false"]),
])
def test_wrong_values_are_named(server, fields, param, parts):
    for reply in (server.chat("hello", **fields), server.post("/v1/completions", {"prompt": "hello", **fields})):
        assert reply.status == 400 and reply.error["param"] == param, reply.body
        assert all(part in reply.error["message"] for part in parts), reply.error["message"]


def test_prompt_logprobs(server):
    ids = server.post("/tokenize", {"prompt": "one two three four"}).json["tokens"]
    choice = complete(server, ids, prompt_logprobs=3)["choices"][0]
    entries = choice["prompt_logprobs"]
    assert len(entries) == len(ids) and entries[0] is None
    for token, entry in zip(ids[1:], entries[1:]):
        assert list(entry)[0] == str(token) and len(entry) in (3, 4)
        assert all(list(value) == ["logprob", "rank", "decoded_token"] and value["logprob"] < 0 for value in entry.values())
        assert sorted(value["rank"] for value in entry.values())[:3] == [1, 2, 3]
        likeliest = max(entry.values(), key=lambda value: value["logprob"])
        assert likeliest["rank"] == 1
        decoded = server.post("/detokenize", {"tokens": [token]}).json["prompt"]
        assert entry[str(token)]["decoded_token"] == decoded
    assert complete(server, ids, prompt_logprobs=0)["choices"][0]["prompt_logprobs"][1].keys() == {str(ids[1])}
    # the prompt is kept from before, and computed all the same
    again = complete(server, ids, prompt_logprobs=3)
    assert again["choices"][0]["prompt_logprobs"] == entries and again["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert complete(server, ids)["choices"][0]["prompt_logprobs"] is None
    body = chat(server, prompt_logprobs=1, n=2, temperature=1)
    assert len(body["prompt_logprobs"]) == body["usage"]["prompt_tokens"] and len(body["choices"]) == 2
    assert complete(server, [ids[0]], prompt_logprobs=1)["choices"][0]["prompt_logprobs"] == [None]
    two = complete(server, [ids, ids[:2]], n=2, temperature=1, prompt_logprobs=1)["choices"]
    assert [len(choice["prompt_logprobs"]) for choice in two] == [len(ids), len(ids), 2, 2]


def test_echoed_prompts_have_their_logprobs(server):
    """What evaluation harnesses ask for: the likelihood of a text."""
    prompt = "one two three four"
    ids = server.post("/tokenize", {"prompt": prompt}).json["tokens"]
    choice = complete(server, prompt, echo=True, logprobs=2, max_tokens=1)["choices"][0]
    logprobs = choice["logprobs"]
    assert len(logprobs["tokens"]) == len(ids) + 1 and "".join(logprobs["tokens"][:-1]) == prompt
    assert logprobs["token_logprobs"][0] is None and logprobs["top_logprobs"][0] is None
    scored = complete(server, ids, prompt_logprobs=2)["choices"][0]["prompt_logprobs"]
    assert logprobs["token_logprobs"][1:-1] == [entry[str(token)]["logprob"] for token, entry in zip(ids[1:], scored[1:])]
    assert all(len(entry) in (2, 3) for entry in logprobs["top_logprobs"][1:])
    assert logprobs["text_offset"] == [len("".join(logprobs["tokens"][:i])) for i in range(len(ids) + 1)]
    assert logprobs["token_logprobs"][-1] == complete(server, prompt, logprobs=2, max_tokens=1)["choices"][0]["logprobs"]["token_logprobs"][0]
    fields = {"prompt": prompt, "echo": True, "logprobs": 2, "max_tokens": 1}
    events = stream(server, "/v1/completions", fields)
    assert events[0]["choices"][0]["logprobs"] == logprobs and events[0]["choices"][0]["text"] == choice["text"]
    scores = {key: values[:-1] for key, values in logprobs.items()}
    alone = complete(server, prompt, echo=True, logprobs=2, max_tokens=0)
    assert alone["choices"][0]["text"] == prompt and alone["choices"][0]["logprobs"] == scores
    events = stream(server, "/v1/completions", {**fields, "max_tokens": 0})
    assert events[0]["choices"][0]["text"] == prompt and events[0]["choices"][0]["logprobs"] == scores
    assert server.post("/v1/completions", {"prompt": prompt, "max_tokens": 0}).status == 400
    both = complete(server, prompt, echo=True, logprobs=0, n=2, temperature=1, seed=1)["choices"]
    assert both[0]["logprobs"]["token_logprobs"][:len(ids)] == both[1]["logprobs"]["token_logprobs"][:len(ids)]
