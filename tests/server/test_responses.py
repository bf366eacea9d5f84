"""POST /v1/responses: as the openai package's client uses it, and by its bytes."""

import asyncio
import json

import jsonschema
import pytest

from images import data_url, image_part, png
from server_process import parse_events, read_until, split_chunks
from typed_events import typed_events

openai = pytest.importorskip("openai")

PATH = "/v1/responses"
IMAGE = {"type": "input_image", "image_url": data_url(png(64, 48)), "detail": "auto"}
SCHEMA = {"type": "object", "properties": {"color": {"enum": ["red", "blue"]}, "count": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["color", "count"], "additionalProperties": False}


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(server, text, **fields):
    reply = server.post(PATH, {"input": text, **fields})
    assert reply.status == 200, reply.body
    return reply.json


def show(server, **fields):
    """What arrived at the engine."""
    return ask(server, fields.pop("input", "[[show=1]]"), **fields)["output"][0]["content"][0]["text"]


# ---- by its bytes ----

def test_a_whole_response(server):
    reply = server.post(PATH, {"model": "test-model", "input": "[[tokens=3]]", "instructions": "Be short.", "max_output_tokens": 9,
                               "metadata": {"a": "b"}, "temperature": 0.5, "user": "me", "store": True}, {"x-request-id": "one"}).json
    assert reply.pop("created_at") > 1.7e9
    assert reply == {
        "id": "resp_one", "object": "response", "status": "completed", "error": None, "incomplete_details": None, "model": "test-model",
        "output": [{"id": "msg_one_0", "type": "message", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "w0 w1 w2 "}]}],
        "instructions": "Be short.", "max_output_tokens": 9, "max_tool_calls": None, "metadata": {"a": "b"}, "parallel_tool_calls": True,
        "reasoning": None, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_logprobs": None,
        "truncation": "disabled", "user": "me", "temperature": 0.5, "top_p": 1, "background": False, "previous_response_id": None,
        "prompt": None, "service_tier": "auto", "store": False,
        "usage": {"input_tokens": 21, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 3,
                  "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 24}}


def test_a_stream(server):
    events = typed_events(server, PATH, {"x-request-id": "one"}, input="[[tokens=2]]")
    item = {"item_id": "msg_one_0", "output_index": 0, "content_index": 0}
    empty = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    full = {**empty, "text": "w0 w1 "}
    message = {"id": "msg_one_0", "type": "message", "role": "assistant"}
    done = {**message, "status": "completed", "content": [full]}
    whole = server.post(PATH, {"input": "[[tokens=2]]"}, {"x-request-id": "one"}).json
    whole["created_at"] = events[-1][1]["response"]["created_at"]
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    expected = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
        ("response.output_item.added", {"output_index": 0, "item": {**message, "status": "in_progress", "content": []}}),
        ("response.content_part.added", {**item, "part": empty}),
        ("response.output_text.delta", {**item, "delta": "w0 ", "logprobs": []}),
        ("response.output_text.delta", {**item, "delta": "w1 ", "logprobs": []}),
        ("response.output_text.done", {**item, "text": "w0 w1 ", "logprobs": []}),
        ("response.content_part.done", {**item, "part": full}),
        ("response.output_item.done", {"output_index": 0, "item": done}),
        ("response.completed", {"response": whole}),
    ]
    assert events == [(name, {"type": name, "sequence_number": i, **data}) for i, (name, data) in enumerate(expected)]


def test_a_reasoning_is_an_item(thinking):
    asked = "[[tokens=4]] [[think=2]]"
    whole = ask(thinking, asked)
    assert [(item["type"], item["content"][0]["text"]) for item in whole["output"]] == [("reasoning", "w0 w1 "), ("message", "w2 w3 ")]
    assert whole["usage"]["output_tokens_details"] == {"reasoning_tokens": 2}
    events = typed_events(thinking, PATH, input=asked)
    assert [name.removeprefix("response.") for name, _ in events] == [
        "created", "in_progress", "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.delta",
        "reasoning_text.done", "content_part.done", "output_item.done", "output_item.added", "content_part.added", "output_text.delta",
        "output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed"]
    texts = [{**item, "id": None} for item in events[-1][1]["response"]["output"]]
    assert texts == [{**item, "id": None} for item in whole["output"]]
    assert "budget=0" in show(thinking, reasoning={"effort": "none"})
    assert "budget=-1" in show(thinking, reasoning={"effort": "high", "summary": "auto"})


def test_an_answer_that_is_cut_off(server):
    whole = ask(server, "[[tokens=9]]", max_output_tokens=2)
    assert whole["status"] == "incomplete" and whole["incomplete_details"] == {"reason": "max_output_tokens"}
    assert whole["output"][0]["status"] == "incomplete"
    name, last = typed_events(server, PATH, input="[[tokens=9]]", max_output_tokens=2)[-1]
    assert name == "response.incomplete" and last["response"]["status"] == "incomplete"


def test_what_the_engine_gets(server):
    items = [{"role": "developer", "content": "Be short."}, {"role": "user", "content": [{"type": "input_text", "text": "[[show=1]]"}, IMAGE]},
             {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
             {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
              "content": [{"type": "output_text", "text": "Yes.", "annotations": []}]},
             {"role": "user", "content": "So?"}]
    shown = show(server, input=items, temperature=0.25, top_p=0.5, top_k=4, seed=9)
    assert shown.startswith("t=0.25 p=0.5 m=0 k=4 seed=9 ")
    assert shown.endswith(" c=0 role0:text(9) role1:text(10) role1:image(64x48,0,0) role2:text(4)"
                          ' role2+{"reasoning_content":"hm","reasoning":"hm"} role1:text(3)')
    last = show(server, input=[{"role": "user", "content": "[[show=1]]"},
                               {"type": "message", "role": "assistant", "status": "incomplete", "content": "So"}])
    assert " c=1 " in last
    assert show(server, instructions="Answer.").endswith(" role0:text(7) role1:text(10)")


def test_log_probabilities_where_they_are_asked_for(server):
    wish = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    part = ask(server, "[[tokens=2]]", **wish)["output"][0]["content"][0]
    assert len(part["logprobs"]) == 2 and all(set(entry) == {"token", "logprob", "bytes", "top_logprobs"} for entry in part["logprobs"])
    assert len(part["logprobs"][0]["top_logprobs"]) == 2
    events = typed_events(server, PATH, input="[[tokens=2]]", **wish)
    streamed = [event["logprobs"] for name, event in events if name == "response.output_text.delta"]
    assert sum(streamed, []) == part["logprobs"] == events[-1][1]["response"]["output"][0]["content"][0]["logprobs"]
    assert ask(server, "[[tokens=2]]", top_logprobs=2)["output"][0]["content"][0]["logprobs"] == []


def test_own_figures(server):
    whole = ask(server, "[[tokens=2]]", ommatidia={"details": True})
    assert "timings" in whole["ommatidia"]
    events = typed_events(server, PATH, input="[[tokens=2]]", ommatidia={"details": True})
    assert "timings" in events[-1][1]["response"]["ommatidia"]


def test_a_client_that_leaves_cancels(start):
    server = start()
    with server.send_post(PATH, {"stream": True, "input": "[[tokens=1000]] [[pace_ms=20]]"}) as connection:
        read_until(connection, b"response.output_text.delta")
    server.stop()
    assert server.counters()["cancelled"] == 1


def test_an_error_in_mid_stream(server):
    connection = server.send_post(PATH, {"stream": True, "input": "[[tokens=9]] [[error_at=2]]"})
    with connection:
        _, chunks = split_chunks(read_until(connection, b"0\r\n\r\n"))
    last = b"".join(chunks).decode().split("\n\n")[-2]
    assert last.startswith("event: error\ndata: ")
    error = json.loads(last.split("\ndata: ")[1])
    assert error["type"] == "error" and error["message"] == error["error"]["message"] == "Internal server error."


@pytest.mark.parametrize("fields, param, part", [
    ({}, "body.input", "Field required: input"),
    ({"input": 5}, "input", "a string or an array, got an integer"),
    ({"input": []}, "input", "at least one item"),
    ({"input": [5]}, "input", "input[0] must be an object"),
    ({"input": [{"type": 5}]}, "type", "input[0]"),
    ({"input": [{"type": "web_search_call"}]}, "input", 'input[0]: type "web_search_call"'),
    ({"input": [{"content": "x"}]}, "input", "input[0] has no role"),
    ({"input": [{"role": "user"}]}, "input", "input[0]: content"),
    ({"input": [{"role": "x", "content": "x"}]}, "input", "input[0]: role"),
    ({"instructions": "a", "input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input", "input[0].content[0]: unknown part"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]}, "image_url", "input[0].content[0] has no image_url"),
    ({"instructions": "a", "input": [{"role": "user", "content": [{**IMAGE, "image_url": "data:image/png;base64,@"}]}]}, "image_url",
     "input[0].content[0]: The data is not valid base64"),
    ({"input": [{"type": "function_call", "name": "f"}]}, "input", "input[0]: a function_call needs"),
    ({"input": [{"type": "function_call_output", "call_id": "f"}]}, "input", "input[0]: a function_call_output needs"),
    ({"input": "x", "instructions": 5}, "instructions", "a string"),
    ({"input": "x", "max_output_tokens": 0}, "max_output_tokens", "max_output_tokens must be at least 1, got 0"),
    ({"input": "x", "max_output_tokens": "five"}, "max_output_tokens", "max_output_tokens must be an integer"),
    ({"input": "x", "max_output_tokens": 99999}, "max_output_tokens", "max_output_tokens is too large: 99999"),
    ({"input": "x", "temperature": 3}, "temperature", "[0, 2], got 3"),
    ({"input": "x", "previous_response_id": "resp_1"}, "previous_response_id", "not stored"),
    ({"input": "x", "conversation": "conv_1"}, "conversation", "not stored"),
    ({"input": "x", "background": True}, "background", "background true"),
    ({"input": "x", "prompt": {"id": "p"}}, "prompt", "prompt"),
    ({"input": "x", "truncation": "auto"}, "truncation", '"disabled" is'),
    ({"input": "x", "n": 2}, "n", "at most 1, got 2"),
    ({"input": "x", "text": 5}, "text", "an object"),
    ({"input": "x", "text": {"format": {"type": "xml"}}}, "text.format", 'text.format type "xml"'),
    ({"input": "x", "text": {"format": {"type": "json_schema"}}}, "text.format", "text.format: json_schema has no schema"),
    ({"input": "x", "text": {"format": "json"}}, "text.format", "text.format must be an object"),
    ({"input": "x", "reasoning": "low"}, "reasoning", "an object"),
    ({"input": "x", "include": "all"}, "include", "an array"),
    ({"input": "x", "tools": {}}, "tools", "an array"),
    ({"input": "x", "tools": [{"type": "web_search"}]}, "tools", 'tools[0]: type "web_search"'),
    ({"input": "x", "tools": [5]}, "tools", "tools[0]"),
    ({"input": "x", "tools": []}, "tools", "must not be empty"),
    ({"input": "x", "tool_choice": "required"}, "tool_choice", "When using `tool_choice`, `tools` must be set"),
    ({"input": "x", "tool_choice": "bogus"}, "tool_choice", "When using `tool_choice`, `tools` must be set"),
    ({"input": "x", "tool_choice": {"type": "function", "name": "f"}}, "tool_choice", "When using `tool_choice`, `tools` must be set"),
    ({"input": "x", "tool_choice": {"type": "bogus"}}, "tool_choice", 'type "bogus" is not supported'),
    ({"input": "x", "stream": "maybe"}, "stream", "true or false"),
])
def test_wrong_requests(server, fields, param, part):
    reply = server.post(PATH, fields)
    assert reply.status == 400 and reply.error["param"] == param and part in reply.error["message"], reply.body


def test_other_errors(server):
    assert server.post(PATH, {"input": "x", "model": "other"}).status == 404
    assert server.get(PATH).status == 405 and server.get(PATH + "/resp_1").status == 404
    reply = server.post(PATH, {"input": "x", "text": {"format": {"type": "json_schema", "name": "a", "schema": "!x"}}})
    assert reply.status == 400 and reply.error["message"].startswith("text.format.schema: #/x"), reply.body


# ---- the client that most users have ----

@pytest.mark.real_too
def test_create(client):
    response = client.responses.create(model="test-model", input=[{"role": "user", "content": [{"type": "input_text", "text": "hello there"}, IMAGE]}],
                                       instructions="Be short.", max_output_tokens=3, temperature=0)
    assert response.output_text and response.usage.output_tokens <= 3 and response.usage.input_tokens > 3
    chat = client.chat.completions.create(model="test-model", max_tokens=3, temperature=0, messages=[
        {"role": "system", "content": "Be short."}, {"role": "user", "content": [{"type": "text", "text": "hello there"}, image_part(png(64, 48))]}])
    assert chat.choices[0].message.content == response.output_text
    assert chat.usage.prompt_tokens == response.usage.input_tokens


@pytest.mark.real_too
def test_stream_with_the_client(client):
    with client.responses.stream(model="test-model", input="hello there", max_output_tokens=500, temperature=0) as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    events = list(client.responses.create(model="test-model", input="hello there", max_output_tokens=500, temperature=0, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response.output_text == text and events[0].type == "response.created"
    assert events[-1].type in ("response.completed", "response.incomplete")


@pytest.mark.real_too
def test_asynchronous(server):
    async def run():
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0) as client:
            fields = {"model": "test-model", "input": "hello there", "max_output_tokens": 4, "temperature": 0}

            async def streamed():
                stream = await client.responses.create(**fields, stream=True)
                return [event async for event in stream]

            return await asyncio.gather(client.responses.create(**fields), streamed())

    whole, events = asyncio.run(run())
    assert whole.output_text == events[-1].response.output_text


@pytest.mark.real_only
def test_a_schema(client):
    response = client.responses.create(model="test-model", input="What is it?", max_output_tokens=200, temperature=1, extra_body={"seed": 3}, text={
        "format": {"type": "json_schema", "name": "thing", "schema": SCHEMA, "strict": True}})
    jsonschema.validate(json.loads(response.output_text), SCHEMA)


@pytest.mark.real_only
def test_a_reasoning_and_a_schema(thinking):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{thinking.port}/v1", api_key="none", max_retries=0) as client:
        response = client.responses.create(model="test-model", input="What is it?", max_output_tokens=200, temperature=1, extra_body={
            "seed": 3, "thinking_token_budget": 5}, text={"format": {"type": "json_schema", "name": "thing", "schema": SCHEMA}})
    assert [item.type for item in response.output] == ["reasoning", "message"]
    jsonschema.validate(json.loads(response.output_text), SCHEMA)
    assert 5 <= response.usage.output_tokens_details.reasoning_tokens < 16


@pytest.mark.real_too
def test_errors_with_the_client(client):
    with pytest.raises(openai.BadRequestError, match="not stored"):
        client.responses.create(model="test-model", input="hello", previous_response_id="resp_1")
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.responses.create(model="other", input="hello")


def test_an_error_in_mid_stream_with_the_client(client):
    with pytest.raises(openai.APIError, match="Internal server error"):
        list(client.responses.create(model="test-model", input="[[tokens=9]] [[error_at=2]]", stream=True))
