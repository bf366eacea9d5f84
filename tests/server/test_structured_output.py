"""response_format, structured_outputs and the guided_* fields: answers have the form that was asked
for, however they are asked, drawn and sent, and what is not supported is a 400 that names the key.
docs/structured-output.md."""

import concurrent.futures
import json
import re

import jsonschema
import pytest

SCHEMA = {"type": "object", "properties": {"color": {"enum": ["red", "blue"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99},
                                           "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3}},
          "required": ["color", "count"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "thing", "strict": True, "schema": SCHEMA}}

pytestmark = pytest.mark.real_only


def contents(reply):
    assert reply.status == 200, reply.body
    return [choice["message"]["content"] if "message" in choice else choice["text"] for choice in reply.json["choices"]]


def ask(server, **fields):
    return contents(server.chat("What is it?", **{"max_tokens": 250, "seed": 3, "temperature": 1, **fields}))


@pytest.mark.parametrize("fields", [
    {"response_format": FORMAT}, {"structured_outputs": {"json": SCHEMA}}, {"guided_json": SCHEMA}, {"guided_json": json.dumps(SCHEMA)},
], ids=["response_format", "structured_outputs", "guided_json", "guided_json text"])
def test_a_schema_is_followed(server, fields):
    texts = ask(server, n=4, **fields)
    assert len(texts) == 4
    for text in texts:
        jsonschema.validate(json.loads(text), SCHEMA)
    # The same wish in other words is the same answer.
    assert texts == ask(server, n=4, response_format=FORMAT)


def test_any_object(server):
    """Models with random weights may not come to an end."""
    reply = server.chat("What is it?", n=4, response_format={"type": "json_object"}, max_tokens=400, temperature=0.7)
    for text, choice in zip(contents(reply), reply.json["choices"]):
        assert text.startswith("{")
        assert choice["finish_reason"] == "length" or isinstance(json.loads(text), dict)


def test_choice_regex_and_grammar(server):
    assert set(ask(server, n=8, structured_outputs={"choice": ["yes", "no"]}, temperature=2)) <= {"yes", "no"}
    for text in ask(server, n=4, guided_regex="[A-Z]{2}-\\d{3}"):
        assert re.fullmatch("[A-Z]{2}-[0-9]{3}", text)
    for text in ask(server, n=4, guided_grammar='root ::= "<" [a-z]{1,9} "/>"'):
        assert re.fullmatch("<[a-z]{1,9}/>", text)


def test_completions_have_it_too(server):
    reply = server.post("/v1/completions", {"prompt": ["one", "two"], "max_tokens": 60, "structured_outputs": {"regex": "(red|blue){1,2}!"}})
    assert all(re.fullmatch("(red|blue){1,2}!", text) for text in contents(reply))


def test_compact_json(server, start):
    text, = ask(server, structured_outputs={"json": SCHEMA, "disable_any_whitespace": True})
    assert text == json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
    other = start(structured_outputs_config='{"backend": "auto", "disable_any_whitespace": true}')
    assert ask(other, response_format=FORMAT) == [text]


def test_ends(server):
    """Neither min_tokens nor ignore_eos makes an answer go on that cannot, a stop string cuts it
    off, and so does max_tokens."""
    for fields in ({"min_tokens": 100}, {"ignore_eos": True}, {"stop_token_ids": list(range(100)), "min_tokens": 50}):
        reply = server.chat("What is it?", max_tokens=120, structured_outputs={"regex": "[a-z]{3}"}, **fields)
        # A token that ends an answer and is the only one left does end it, before its text.
        assert re.fullmatch("[a-z]{2,3}" if "stop_token_ids" in fields else "[a-z]{3}", contents(reply)[0])
        assert reply.json["choices"][0]["finish_reason"] == "stop"
    reply = server.chat("What is it?", max_tokens=120, stop=["c"], structured_outputs={"regex": "abcd"})
    assert contents(reply) == ["ab"] and reply.json["choices"][0]["finish_reason"] == "stop"
    reply = server.chat("What is it?", max_tokens=1, structured_outputs={"regex": "[a-z]{30}"})
    assert reply.json["choices"][0]["finish_reason"] == "length"


def test_allowed_tokens_and_bad_words_leave_the_end(server):
    """A complete answer ends, though neither list has room for its end."""
    digits = [server.post("/tokenize", {"prompt": digit, "add_special_tokens": False}).json["tokens"][0] for digit in "123"]
    for fields in ({}, {"min_tokens": 20}, {"bad_words": ["<|im_end|>"]}):
        reply = server.chat("hello", max_tokens=20, structured_outputs={"regex": "[0-9]{4}"}, allowed_token_ids=digits, **fields)
        assert re.fullmatch("[1-3]{4}", contents(reply)[0])
        assert reply.json["choices"][0]["finish_reason"] == "stop"


def test_log_probabilities_are_the_models_own(server):
    reply = server.chat("What is it?", max_tokens=50, logprobs=True, top_logprobs=3, structured_outputs={"choice": ["zebra"]})
    entries = reply.json["choices"][0]["logprobs"]["content"]
    assert "".join(entry["token"] for entry in entries).startswith("zebra")
    assert any(entry["token"] not in [top["token"] for top in entry["top_logprobs"]] for entry in entries)


def test_many_at_once_are_each_the_one_alone(server):
    wishes = [{"response_format": FORMAT}, {"guided_choice": ["yes", "no"]}, {"guided_regex": "[a-z]{5}"}, {}]
    alone = [ask(server, **wish, max_tokens=60) for wish in wishes]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        together = list(pool.map(lambda i: ask(server, **wishes[i % 4], max_tokens=60), range(24)))
    assert together == [alone[i % 4] for i in range(24)]


@pytest.mark.parametrize("fields, param, part", [
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": {"a": {"contains": {}}}}}}}, "response_format",
     "response_format.json_schema.schema: #/properties/a/contains: this key is not supported"),
    ({"structured_outputs": {"json": '{"type": "objekt"}'}}, "structured_outputs", "structured_outputs.json: #/type: expected"),
    ({"structured_outputs": {"json": "{"}}, "structured_outputs", "invalid JSON"),
    ({"guided_regex": "(?=a)b"}, "guided_regex", "guided_regex: the pattern's byte 2: lookahead"),
    ({"guided_choice": ["a", 5]}, "guided_choice", "entry 1"),
    ({"guided_grammar": "start: WORD"}, "guided_grammar", "the grammar's line 1"),
    ({"guided_json": {"type": "string", "pattern": "^(a|b)*a(a|b){40}$", "maxLength": 90}}, "guided_json", "too much work"),
])
def test_what_is_not_supported_is_named(server, fields, param, part):
    reply = server.chat("What is it?", **fields)
    assert reply.status == 400 and reply.json["error"]["param"] == param and part in reply.json["error"]["message"], reply.body


LARGE = 123456789012345678901234567890


def test_numbers_beyond_64_bits_keep_their_digits(server):
    """In bounds and in constants."""
    schema = {"type": "object", "properties": {"id": {"const": LARGE}, "n": {"type": "integer", "minimum": 7, "maximum": 2**64 - 1},
                                               "of": {"enum": [2**64, -2**64]}}, "required": ["id", "n", "of"]}
    for wish in (schema, json.dumps(schema)):
        for text in ask(server, n=2, guided_json=wish):
            jsonschema.validate(json.loads(text), schema)
