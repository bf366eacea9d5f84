"""Tools in /v1/responses and /v1/messages, by the clients of each. The scripted engine repeats the
question's words, so that it can be made to call; the real one calls because a grammar has it so."""

import json
import pathlib

import jsonschema
import pytest

from server_process import ServerProcess, check_output, make_command
from typed_events import typed_events

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

TEMPLATE = pathlib.Path(__file__).resolve().parent.parent / "data/chat/templates/qwen3_vl_instruct.jinja"
PARAMETERS = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
              "required": ["city", "days"], "additionalProperties": False}
FUNCTIONS = [{"type": "function", "name": "weather", "description": "The weather.", "parameters": PARAMETERS, "strict": True},
             {"type": "function", "name": "time", "parameters": {"type": "object", "properties": {}}}]
TOOLS = [{"name": "weather", "description": "The weather.", "input_schema": PARAMETERS}, {"name": "time", "input_schema": {"type": "object", "properties": {}}}]
CALL = '<tool_call> {"name": "weather", "arguments": {"city": "Rome", "days": 2}} </tool_call>'
ARGUMENTS = '{"city": "Rome", "days": 2}'


@pytest.fixture(scope="module")
def tool_server(request, kind):
    own = {"reasoning_parser": "angles"} if kind == "fake" else {"chat_template": TEMPLATE, "threads": 1}
    process = ServerProcess(make_command(request.config, kind, {"enable_auto_tool_choice": True, "tool_call_parser": "hermes", **own}))
    yield process
    process.stop()
    check_output(process)


@pytest.fixture
def responses(tool_server):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{tool_server.port}/v1", api_key="none", max_retries=0) as client:
        yield client.responses


@pytest.fixture
def messages(tool_server):
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{tool_server.port}", api_key="none", max_retries=0) as client:
        yield client.messages


# ---- responses ----

def test_calls_are_items(responses):
    fields = {"model": "test-model", "input": f"Well. {CALL}\n{CALL}", "tools": FUNCTIONS}
    whole = responses.create(**fields)
    assert [item.type for item in whole.output] == ["message", "function_call", "function_call"]
    assert [(call.name, call.arguments, call.status) for call in whole.output[1:]] == [("weather", ARGUMENTS, "completed")] * 2
    assert whole.output[1].call_id != whole.output[2].call_id and whole.status == "completed"
    events = list(responses.create(**fields, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [(item.type, getattr(item, "arguments", None)) for item in events[-1].response.output] == [
        ("message", None), ("function_call", ARGUMENTS), ("function_call", ARGUMENTS)]
    deltas = [event for event in events if event.type == "response.function_call_arguments.delta"]
    for index in (1, 2):
        assert "".join(event.delta for event in deltas if event.output_index == index) == ARGUMENTS
        done = next(event for event in events if event.type == "response.function_call_arguments.done" and event.output_index == index)
        assert done.arguments == ARGUMENTS and done.item_id == events[-1].response.output[index].id


def test_a_stream_with_a_call_and_reasoning(tool_server):
    events = typed_events(tool_server, "/v1/responses", {"x-request-id": "one"}, tools=FUNCTIONS[:1], input=f"[[think=2]] hm {CALL}")
    names = [name.removeprefix("response.") for name, _ in events]
    assert names[2:9] == ["output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.delta", "reasoning_text.done",
                          "content_part.done", "output_item.done"]
    added = events[9][1]
    call_id = added["item"].pop("call_id")
    assert added == {"type": "response.output_item.added", "sequence_number": 9, "output_index": 1, "item": {
        "id": "fc_one_1", "type": "function_call", "status": "in_progress", "name": "weather", "arguments": ""}}
    assert set(names[10:-3]) == {"function_call_arguments.delta"}
    assert names[-3:] == ["function_call_arguments.done", "output_item.done", "completed"]
    assert events[-2][1]["item"] == {"id": "fc_one_1", "type": "function_call", "status": "completed", "call_id": call_id, "name": "weather",
                                     "arguments": ARGUMENTS}


def test_a_conversation_with_calls_reaches_the_template(responses, tool_server):
    first = responses.create(model="test-model", input=f"[[think=1]] {CALL}", tools=FUNCTIONS)
    items = [{"role": "user", "content": "[[show=1]]"}, *[item.model_dump(exclude_none=True) for item in first.output],
             {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "sunny"}]
    shown = responses.create(model="test-model", input=items, tools=FUNCTIONS, tool_choice="none").output_text
    fields = json.JSONDecoder().raw_decode(shown.split(" role2+")[1])[0]
    assert fields["reasoning"] == "[[think=1]] " and fields["tool_calls"][0]["id"] == first.output[-1].call_id
    assert fields["tool_calls"][0]["function"] == {"name": "weather", "arguments": json.loads(ARGUMENTS)}
    assert f' role3:text(5) role3+{{"tool_call_id":"{first.output[-1].call_id}"}}' in shown
    tools = json.JSONDecoder().raw_decode(shown.split(" tools=")[1])[0]
    assert tools[0]["function"]["name"] == "weather" and tools[0]["function"]["parameters"] == PARAMETERS


@pytest.mark.real_only
@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "weather"}])
def test_responses_must_call(responses, choice):
    fields = {"model": "test-model", "input": "What weather?", "tools": FUNCTIONS[:1], "tool_choice": choice, "max_output_tokens": 300,
              "temperature": 0}
    whole = responses.create(**fields)
    calls = [item for item in whole.output if item.type == "function_call"]
    assert calls and len(calls) == len(whole.output)
    for call in calls:
        assert call.name == "weather"
        jsonschema.validate(json.loads(call.arguments), PARAMETERS)
    streamed = list(responses.create(**fields, stream=True))[-1].response.output
    assert [(item.name, item.arguments) for item in streamed] == [(item.name, item.arguments) for item in calls]


# ---- messages ----

def test_calls_are_blocks(messages):
    fields = {"model": "test-model", "max_tokens": 100, "messages": [{"role": "user", "content": f"Well. {CALL}\n{CALL}"}], "tools": TOOLS}
    whole = messages.create(**fields)
    assert [block.type for block in whole.content] == ["text", "tool_use", "tool_use"] and whole.stop_reason == "tool_use"
    assert [(block.name, block.input) for block in whole.content[1:]] == [("weather", json.loads(ARGUMENTS))] * 2
    with messages.stream(**fields) as stream:
        final = stream.get_final_message()
    assert [(block.type, getattr(block, "input", None)) for block in final.content] == [
        (block.type, getattr(block, "input", None)) for block in whole.content]
    assert final.stop_reason == "tool_use"


def test_events_of_a_call(tool_server):
    events = typed_events(tool_server, "/v1/messages", max_tokens=100, tools=TOOLS, messages=[{"role": "user", "content": CALL}])
    data = [event for name, event in events if name.startswith("content")]
    assert data[0].pop("content_block").keys() == {"type", "id", "name", "input"}
    assert data[0] == {"type": "content_block_start", "index": 0} and data[-1] == {"type": "content_block_stop", "index": 0}
    assert {event["delta"]["type"] for event in data[1:-1]} == {"input_json_delta"}
    assert "".join(event["delta"]["partial_json"] for event in data[1:-1]) == ARGUMENTS


def test_results_reach_the_template(messages):
    asked = [{"role": "user", "content": "[[show=1]]"},
             {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "Well."},
                                               {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Rome", "days": 2}}]},
             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "sunny"}]},
                                          {"type": "text", "text": "So?"}]}]
    shown = messages.create(model="test-model", max_tokens=100, messages=asked, tools=TOOLS, tool_choice={"type": "none"}).content[0].text
    fields = json.JSONDecoder().raw_decode(shown.split(" role2+")[1])[0]
    assert fields["reasoning"] == "hm" and fields["tool_calls"][0]["function"] == {"name": "weather", "arguments": {"city": "Rome", "days": 2}}
    assert ' role2:text(5) role2+' in shown and ' role3:text(5) role3+{"tool_call_id":"call_1"} role1:text(3)' in shown
    assert json.JSONDecoder().raw_decode(shown.split(" tools=")[1])[0][0] == {
        "type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": PARAMETERS}}


@pytest.mark.real_only
@pytest.mark.parametrize("choice", [{"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "weather"}])
def test_messages_must_call(messages, choice):
    fields = {"model": "test-model", "max_tokens": 300, "messages": [{"role": "user", "content": "What weather?"}], "tools": TOOLS[:1],
              "tool_choice": choice, "extra_body": {"temperature": 0}}
    whole = messages.create(**fields)
    assert [block.type for block in whole.content] == ["tool_use"] and whole.stop_reason == "tool_use"
    jsonschema.validate(whole.content[0].input, PARAMETERS)
    with messages.stream(**fields) as stream:
        assert stream.get_final_message().content[0].input == whole.content[0].input
    plain = messages.count_tokens(model="test-model", messages=fields["messages"]).input_tokens
    assert messages.count_tokens(model="test-model", messages=fields["messages"], tools=TOOLS).input_tokens > plain


@pytest.mark.real_only
def test_a_call_that_is_cut_off(messages, responses):
    """A message has no place for half an object."""
    schema = {"type": "object", "properties": {"text": {"type": "string", "minLength": 500}}, "required": ["text"]}
    whole = messages.create(model="test-model", max_tokens=60, messages=[{"role": "user", "content": "Hi"}], extra_body={"temperature": 0},
                            tools=[{"name": "write", "input_schema": schema}], tool_choice={"type": "tool", "name": "write"})
    assert [(block.type, block.name, block.input) for block in whole.content] == [("tool_use", "write", {})] and whole.stop_reason == "max_tokens"
    response = responses.create(model="test-model", input="Hi", max_output_tokens=60, tools=[{"type": "function", "name": "write", "parameters": schema}],
                                tool_choice={"type": "function", "name": "write"})
    assert response.status == "incomplete" and [(item.type, item.status) for item in response.output] == [("function_call", "incomplete")]


@pytest.mark.parametrize("path, fields, part", [
    ("/v1/responses", {"input": "x", "tools": FUNCTIONS, "tool_choice": {"type": "allowed_tools"}}, 'tool_choice: type "allowed_tools"'),
    ("/v1/responses", {"input": "x", "tools": FUNCTIONS, "tool_choice": {"type": "function"}}, "tool_choice has no name"),
    ("/v1/responses", {"input": "x", "tools": FUNCTIONS, "tool_choice": "maybe"}, "tool_choice"),
    ("/v1/responses", {"input": "x", "tools": [{"type": "function"}]}, "tools[0]"),
    ("/v1/messages", {"tools": TOOLS, "tool_choice": {"type": "some"}}, "tool_choice: type must be"),
    ("/v1/messages", {"tools": TOOLS, "tool_choice": {"type": "tool"}}, "tool_choice: type must be"),
    ("/v1/messages", {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "other"}}, "other"),
    ("/v1/messages", {"tools": [{"input_schema": {}}]}, "tools[0]"),
])
def test_wrong_wishes(tool_server, path, fields, part):
    if path == "/v1/messages":
        fields = {"max_tokens": 5, "messages": [{"role": "user", "content": "x"}], **fields}
    reply = tool_server.post(path, fields)
    assert reply.status == 400 and part in reply.error["message"], reply.body
