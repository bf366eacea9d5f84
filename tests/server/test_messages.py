"""POST /v1/messages and /v1/messages/count_tokens: as Anthropic's client uses them, and by their
bytes."""

import asyncio
import base64
import json

import jsonschema
import pytest

from images import data_url, image_part, png
from server_process import read_until, split_chunks
from typed_events import typed_events

anthropic = pytest.importorskip("anthropic")

PATH = "/v1/messages"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png(64, 48)).decode()}}
IMAGE_URL = {"type": "image", "source": {"type": "url", "url": data_url(png(32, 24))}}
SCHEMA = {"type": "object", "properties": {"color": {"enum": ["red", "blue"]}}, "required": ["color"], "additionalProperties": False}


@pytest.fixture
def client(server):
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.port}", api_key="none", max_retries=0) as client:
        yield client


def user(*content):
    return [{"role": "user", "content": content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)}]


def ask(server, *content, headers=None, **fields):
    reply = server.post(PATH, {"max_tokens": 50, "messages": user(*content), **fields}, headers)
    assert reply.status == 200, reply.body
    return reply.json


def show(server, **fields):
    """What arrived at the engine."""
    fields.setdefault("messages", user("[[show=1]]"))
    return ask(server, "", **fields)["content"][0]["text"]


# ---- by their bytes ----

def test_a_whole_message(server):
    assert ask(server, "[[tokens=3]]", headers={"x-request-id": "one"}) == {
        "id": "msg_one", "type": "message", "role": "assistant", "model": "test-model", "content": [{"type": "text", "text": "w0 w1 w2 "}],
        "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 12, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 3}}


def test_a_stream(server):
    usage = {"input_tokens": 12, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    events = typed_events(server, PATH, {"x-request-id": "one"}, max_tokens=50, messages=user("[[tokens=2]]"))
    assert events == [(name, {"type": name, **data}) for name, data in [
        ("message_start", {"message": {"id": "msg_one", "type": "message", "role": "assistant", "model": "test-model", "content": [],
                                       "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 0}}}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "w0 "}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "w1 "}}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {**usage, "output_tokens": 2}}),
        ("message_stop", {}),
    ]]


def test_why_it_ends(server):
    whole = ask(server, "[[tokens=9]]", max_tokens=2)
    assert whole["stop_reason"] == "max_tokens" and whole["content"][0]["text"] == "w0 w1 "
    whole = ask(server, "[[tokens=9]]", stop_sequences=["x", "w2"])
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("stop_sequence", "w2")
    events = typed_events(server, PATH, max_tokens=9, stop_sequences=["w2"], messages=user("[[tokens=9]]"))
    assert events[-2][1]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "w2"}


def test_a_reasoning_is_a_block(thinking):
    asked = "[[tokens=4]] [[think=2]]"
    whole = ask(thinking, asked, headers={"x-request-id": "one"})
    assert whole["content"] == [{"type": "thinking", "thinking": "w0 w1 ", "signature": "msg_one"}, {"type": "text", "text": "w2 w3 "}]
    assert whole["usage"]["output_tokens_details"] == {"thinking_tokens": 2}
    events = typed_events(thinking, PATH, {"x-request-id": "one"}, max_tokens=50, messages=user(asked))
    assert [data for name, data in events if name.startswith("content")] == [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "w0 "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "w1 "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "msg_one"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "w2 "}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "w3 "}},
        {"type": "content_block_stop", "index": 1},
    ]
    assert "budget=7" in show(thinking, thinking={"type": "enabled", "budget_tokens": 7})
    assert "budget=0" in show(thinking, thinking={"type": "disabled"})
    assert "budget=-1" in show(thinking, thinking={"type": "adaptive"})


def test_what_the_engine_gets(server):
    messages = [{"role": "user", "content": [{"type": "text", "text": "[[show=1]]", "cache_control": {"type": "ephemeral"}}, IMAGE, IMAGE_URL]},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "Yes."}]},
                {"role": "user", "content": "So?"}]
    shown = show(server, messages=messages, system=[{"type": "text", "text": "Be"}, {"type": "text", "text": "short."}], temperature=0.25,
                 top_p=0.5, top_k=4, metadata={"user_id": "me"}, thinking={"type": "enabled", "budget_tokens": 1024})
    assert shown.startswith("t=0.25 p=0.5 m=0 k=4 ")
    assert shown.endswith(" c=0 role0:text(2) role0:text(6) role1:text(10) role1:image(64x48,0,0) role1:image(32x24,0,0) role2:text(4)"
                          ' role2+{"reasoning_content":"hm","reasoning":"hm"} role1:text(3)')
    assert show(server, system="Answer.").endswith(" role0:text(7) role1:text(10)")
    late = [*user("[[show=1]]"), {"role": "system", "content": "Late."}, {"role": "user", "content": "So?"}]
    assert show(server, system="First.", messages=late).endswith(" role0:text(6) role0:text(5) role1:text(10) role1:text(3)")
    assert " c=1 " in show(server, messages=[*user("[[show=1]]"), {"role": "assistant", "content": "So"}])


def test_tokens_are_counted(server):
    reply = server.post(PATH + "/count_tokens", {"system": "Be.", "messages": user({"type": "text", "text": "hello"}, IMAGE)})
    assert reply.status == 200 and reply.json == {"input_tokens": 3 + 5 + 16}


def test_silence_is_filled_with_pings(start):
    server = start(keep_alive_ms=50)
    events = typed_events(server, PATH, max_tokens=5, messages=user("[[tokens=1]] [[first_ms=400]]"))
    assert events[0] == ("ping", {"type": "ping"}) and events[-1][0] == "message_stop"


def test_a_client_that_leaves_cancels(start):
    server = start()
    with server.send_post(PATH, {"stream": True, "max_tokens": 2000, "messages": user("[[tokens=1000]] [[pace_ms=20]]")}) as connection:
        read_until(connection, b"text_delta")
    server.stop()
    assert server.counters()["cancelled"] == 1


def test_an_error_in_mid_stream(server):
    connection = server.send_post(PATH, {"stream": True, "max_tokens": 20, "messages": user("[[tokens=9]] [[error_at=2]]")})
    with connection:
        _, chunks = split_chunks(read_until(connection, b"0\r\n\r\n"))
    last = b"".join(chunks).decode().split("\n\n")[-2]
    assert last.startswith("event: error\ndata: ")
    assert json.loads(last.split("\ndata: ")[1])["error"] == {"type": "api_error", "message": "Internal server error."}


def check(reply, status, kind, *parts):
    assert reply.status == status and reply.headers["Content-Type"] == "application/json", reply.body
    body = reply.json
    assert list(body) == ["type", "error", "request_id"] and body["type"] == "error" and list(body["error"]) == ["type", "message"]
    assert body["request_id"] == reply.headers["request-id"] == reply.headers["x-request-id"]
    assert body["error"]["type"] == kind, body
    for part in parts:
        assert part in body["error"]["message"], body


@pytest.mark.parametrize("fields, part", [
    ({"messages": None}, "Field required: messages"),
    ({"messages": []}, "at least one message"),
    ({"messages": "x"}, "messages must be an array"),
    ({"messages": [5]}, "messages[0] must be an object"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]: role must be user, assistant or system"),
    ({"messages": [{"role": "user"}]}, "messages[0]: content must be"),
    ({"messages": user("a", 5)}, "messages[0].content[0]"),
    ({"system": "a", "messages": [{"role": "user", "content": [{"type": "document"}]}]}, 'messages[0].content[0]: type "document"'),
    ({"system": "a", "messages": user({"type": "text"}, {"type": "text", "text": "b"})}, "messages[0].content[0] has no text"),
    ({"messages": user({"type": "image"}, IMAGE)}, "messages[0].content[0] has no source"),
    ({"messages": user({"type": "image", "source": {"type": "file", "file_id": "f"}}, IMAGE)}, "messages[0].content[0] has no source"),
    ({"messages": user({"type": "image", "source": {"type": "base64"}}, IMAGE)}, "has no source with data"),
    ({"messages": user({"type": "image", "source": {"type": "url"}}, IMAGE)}, "has no source with a url"),
    ({"system": "a", "messages": user(IMAGE, {"type": "image", "source": {"type": "base64", "data": "@@"}})}, "messages[0].content[1]: The data is not valid base64"),
    ({"messages": user({"type": "image", "source": {"type": "base64", "data": "AAAA"}}, IMAGE)}, "cannot identify image"),
    ({"messages": user({"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/a.png"}}, IMAGE)}, "--allowed-media-domains"),
    ({"messages": user({"type": "tool_result", "content": "x"}, IMAGE)}, "a tool_result needs tool_use_id"),
    ({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}]}, "a tool_use needs id and name"),
    ({"system": 5}, "system must be a string or an array"),
    ({"system": [IMAGE]}, "system[0] must be a text block"),
    ({"max_tokens": None}, "Field required: max_tokens"),
    ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
    ({"max_tokens": 99999}, "max_tokens is too large: 99999"),
    ({"stop_sequences": "x"}, "stop_sequences must be an array"),
    ({"stop_sequences": [""]}, "stop_sequences must not hold an empty string"),
    ({"stop_sequences": ["a"] * 17}, "stop_sequences must hold at most 16"),
    ({"temperature": -1}, "temperature"),
    ({"thinking": {"type": "on"}}, "thinking: type must be"),
    ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "thinking: budget_tokens must be at least 1"),
    ({"thinking": {"type": "enabled"}}, 'thinking: budget_tokens is required with type "enabled"'),
    ({"output_config": {"format": {"type": "xml"}}}, "output_config.format: type"),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format: json_schema has no schema"),
    ({"output_config": {"format": {"type": "json_schema", "schema": "!x"}}}, "output_config.format.schema: #/x"),
    ({"container": "c"}, "container is not supported"),
    ({"tools": {}}, "tools must be an array"),
    ({"tool_choice": {"type": "any"}}, "When using `tool_choice`, `tools` must be set"),
    ({"tool_choice": {"type": "tool", "name": "f"}}, "When using `tool_choice`, `tools` must be set"),
    ({"tool_choice": {"type": "bogus"}}, 'tool_choice: type must be auto, any, none or tool with a name, got "bogus"'),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, 'tools[0]: type "web_search_20250305"'),
    ({"stream": 2}, "stream must be true or false"),
])
def test_wrong_requests(server, fields, part):
    whole = {"max_tokens": 9, "messages": user("hello"), **fields}
    check(server.post(PATH, {key: value for key, value in whole.items() if value is not None}), 400, "invalid_request_error", part)


def test_other_errors(server, start):
    check(server.post(PATH, {"max_tokens": 9, "messages": user("hello"), "model": "other"}), 404, "not_found_error", "does not exist")
    check(server.get(PATH), 405, "not_found_error")
    check(server.post(PATH + "/batches", {}), 404, "not_found_error")
    check(server.post(PATH, "{"), 400, "invalid_request_error", "Invalid JSON")
    check(server.post(PATH, {"max_tokens": 9, "messages": user("[[refuse=9]]")}), 500, "api_error", "Internal server error")
    keyed = start(api_key="secret", queue_limit=1)
    check(keyed.post(PATH, {}), 401, "authentication_error", "x-api-key")
    check(keyed.post(PATH, {}, {"x-api-key": "wrong"}), 401, "authentication_error")
    asked = {"max_tokens": 9, "messages": user("[[tokens=1]]")}
    assert keyed.post(PATH, asked, {"x-api-key": "secret"}).status == 200
    assert keyed.post(PATH, asked, {"Authorization": "Bearer secret"}).status == 200
    with keyed.send_post("/v1/messages", {**asked, "stream": True}) as connection:
        assert b"401" in connection.recv(100)


# ---- Anthropic's client ----

GREEDY = {"temperature": 0}  # which the client itself has no name for


@pytest.mark.real_too
def test_create(client, server):
    message = client.messages.create(model="test-model", max_tokens=3, extra_body=GREEDY, system="Be short.", messages=user(
        {"type": "text", "text": "hello there"}, IMAGE))
    chat = server.chat(max_tokens=3, temperature=0, messages=[{"role": "system", "content": "Be short."}, {"role": "user", "content": [
        {"type": "text", "text": "hello there"}, image_part(png(64, 48))]}]).json
    assert message.content[0].text == chat["choices"][0]["message"]["content"]
    assert message.usage.input_tokens + message.usage.cache_read_input_tokens == chat["usage"]["prompt_tokens"]
    counted = client.messages.count_tokens(model="test-model", system="Be short.", messages=user({"type": "text", "text": "hello there"}, IMAGE))
    assert counted.input_tokens == chat["usage"]["prompt_tokens"]
    assert message._request_id


@pytest.mark.real_too
def test_stream_with_the_client(client):
    fields = {"model": "test-model", "max_tokens": 4, "extra_body": GREEDY, "messages": user("hello there")}
    with client.messages.stream(**fields) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert final.content[0].text == text == client.messages.create(**fields).content[0].text
    assert final.stop_reason in ("max_tokens", "end_turn") and final.usage.output_tokens <= 4


@pytest.mark.real_too
def test_asynchronous(server):
    async def run():
        async with anthropic.AsyncAnthropic(base_url=f"http://127.0.0.1:{server.port}", api_key="none", max_retries=0) as client:
            fields = {"model": "test-model", "max_tokens": 4, "extra_body": GREEDY, "messages": user("hello there")}

            async def streamed():
                async with client.messages.stream(**fields) as stream:
                    return await stream.get_final_text()

            return await asyncio.gather(client.messages.create(**fields), streamed())

    whole, text = asyncio.run(run())
    assert whole.content[0].text == text


@pytest.mark.real_only
def test_the_answer_begins_with_the_given_text(client):
    message = client.messages.create(model="test-model", max_tokens=20, extra_body={
        "structured_outputs": {"regex": "yes"}}, messages=[*user("Is it?"), {"role": "assistant", "content": "Well,"}])
    assert message.content[0].text == "yes"


@pytest.mark.real_only
def test_a_schema_and_reasoning(client, thinking):
    config = {"format": {"type": "json_schema", "schema": SCHEMA}}
    message = client.messages.create(model="test-model", max_tokens=100, messages=user("What is it?"), output_config=config)
    jsonschema.validate(json.loads(message.content[0].text), SCHEMA)
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{thinking.port}", api_key="none", max_retries=0) as thinker:
        message = thinker.messages.create(model="test-model", max_tokens=100, messages=user("What is it?"), output_config=config, thinking={
            "type": "enabled", "budget_tokens": 5})
    assert [block.type for block in message.content] == ["thinking", "text"] and message.content[0].thinking
    jsonschema.validate(json.loads(message.content[1].text), SCHEMA)


@pytest.mark.real_too
def test_errors_with_the_client(client):
    with pytest.raises(anthropic.BadRequestError, match="temperature") as caught:
        client.messages.create(model="test-model", max_tokens=4, extra_body={"temperature": -1}, messages=user("hello"))
    assert caught.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.NotFoundError, match="does not exist"):
        client.messages.create(model="other", max_tokens=4, messages=user("hello"))


def test_an_error_in_mid_stream_with_the_client(client):
    with pytest.raises(anthropic.APIStatusError, match="Internal server error"):
        list(client.messages.create(model="test-model", max_tokens=20, messages=user("[[tokens=9]] [[error_at=2]]"), stream=True))
