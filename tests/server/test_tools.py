"""Tools: what may be asked for, how calls are sent, whole and in streams, and what is refused. The
scripted engine repeats the question's words, so that it can be made to call; the real one calls
because a grammar has it so. docs/serve.md."""

import json
import pathlib
import re

import jsonschema
import pytest
from server_process import ServerProcess, check_output, make_command, stream_events

openai = pytest.importorskip("openai")

TEMPLATE = pathlib.Path(__file__).resolve().parent.parent / "data/chat/templates/qwen3_vl_instruct.jinja"
PARAMETERS = {"type": "object", "properties": {"city": {"enum": ["Köln", "Rome"]}, "days": {"$ref": "#/$defs/days"}}, "required": ["city", "days"],
              "additionalProperties": False, "$defs": {"days": {"type": "integer", "minimum": 1, "maximum": 9}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": PARAMETERS}},
         {"type": "function", "function": {"name": "time"}}]
QUESTION = [{"role": "user", "content": "What weather?"}]
NAMED = {"type": "function", "function": {"name": "weather"}}
CALL = '<tool_call> {"name": "weather", "arguments": {"city": "Rome", "days": 2}} </tool_call>'


@pytest.fixture(scope="module")
def tool_server(request, kind):
    own = {} if kind == "fake" else {"chat_template": TEMPLATE, "threads": 1}
    process = ServerProcess(make_command(request.config, kind, {"enable_auto_tool_choice": True, "tool_call_parser": "hermes", **own}))
    yield process
    process.stop()
    check_output(process)


@pytest.fixture
def client(tool_server):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{tool_server.port}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(client, messages=QUESTION, **fields):
    return client.chat.completions.create(model="test-model", messages=messages, **{"tools": TOOLS, "max_tokens": 300, "seed": 1, **fields})


def gather(stream):
    """Per choice the content, the calls as [id, name, arguments], the last reason; names come
    before arguments."""
    choices = {}
    for chunk in stream:
        for choice in chunk.choices:
            mine = choices.setdefault(choice.index, {"content": "", "calls": [], "reason": None})
            mine["content"] += choice.delta.content or ""
            mine["reason"] = choice.finish_reason or mine["reason"]
            for call in choice.delta.tool_calls or []:
                if call.index == len(mine["calls"]):
                    assert call.id and call.type == "function" and call.function.name
                    mine["calls"].append([call.id, call.function.name, call.function.arguments])
                else:
                    assert call.index == len(mine["calls"]) - 1 and not call.id and not call.function.name
                    mine["calls"][-1][2] += call.function.arguments
    return choices


def check_weather(arguments):
    jsonschema.validate(json.loads(arguments), PARAMETERS)


# ---- the model's own choice ----


@pytest.mark.parametrize("n", [1, 3])
def test_auto(client, n):
    asked = [{"role": "user", "content": f"Well. {CALL}\n{CALL} bye"}]
    reply = ask(client, asked, n=n)
    assert len(reply.choices) == n
    for choice in reply.choices:
        assert choice.finish_reason == "tool_calls" and choice.message.content == "Well. "
        assert [(call.type, call.function.name, call.function.arguments) for call in choice.message.tool_calls] == [
            ("function", "weather", '{"city": "Rome", "days": 2}')] * 2
        assert len({call.id for call in choice.message.tool_calls}) == 2
        assert all(re.fullmatch("chatcmpl-tool-[0-9a-f]{32}", call.id) for call in choice.message.tool_calls)
    for choice in gather(ask(client, asked, n=n, stream=True)).values():
        assert choice["content"] == "Well. " and choice["reason"] == "tool_calls"
        assert [call[1:] for call in choice["calls"]] == [["weather", '{"city": "Rome", "days": 2}']] * 2


def test_text_without_a_call(client):
    for text in ("Just text.", "a <tool_ca b", '<tool_call> {"name": 3} </tool_call> and more'):
        asked = [{"role": "user", "content": text}]
        choice = ask(client, asked).choices[0]
        assert choice.message.content == text and choice.message.tool_calls is None and choice.finish_reason == "stop"
        streamed = gather(ask(client, asked, stream=True))[0]
        assert streamed == {"content": text, "calls": [], "reason": "stop"}


def test_a_call_that_is_cut_off_is_text(client):
    asked = [{"role": "user", "content": CALL}]
    choice = ask(client, asked, max_tokens=5).choices[0]
    assert choice.finish_reason == "length" and choice.message.tool_calls is None and choice.message.content.startswith("<tool_call>")
    streamed = gather(ask(client, asked, max_tokens=5, stream=True))[0]
    assert streamed["reason"] == "length" and streamed["calls"][0][1:] == ["weather", '{"city": ']


def test_none_finds_no_calls(client):
    choice = ask(client, [{"role": "user", "content": CALL}], tool_choice="none").choices[0]
    assert choice.message.content == CALL and choice.message.tool_calls is None


def test_the_form_of_events(tool_server):
    """vLLM's: the name first, then pieces of the arguments, no event for what is held back."""
    events = stream_events(tool_server, CALL, tools=TOOLS)
    deltas = [event["choices"][0]["delta"] for event in events if isinstance(event, dict)]
    assert deltas[0] == {"role": "assistant", "content": ""}
    first = deltas[1]["tool_calls"][0]
    assert list(first) == ["index", "id", "type", "function"] and first["function"]["name"] == "weather"
    assert all(list(delta) in (["tool_calls"], ["content"]) for delta in deltas[1:])
    assert all(list(delta["tool_calls"][0]) == ["index", "function"] for delta in deltas[2:] if "tool_calls" in delta)


# ---- choices that a grammar enforces ----


@pytest.mark.real_only
def test_required(client):
    reply = ask(client, n=3, tool_choice="required", max_tokens=800)
    for choice in reply.choices:
        if choice.finish_reason == "length":  # random weights may call again and again
            continue
        assert choice.finish_reason == "tool_calls" and choice.message.content is None
        for call in choice.message.tool_calls:
            assert call.function.name in ("weather", "time")
            if call.function.name == "weather":
                check_weather(call.function.arguments)
    one = ask(client, tool_choice="required", parallel_tool_calls=False, tools=TOOLS[:1])
    assert one.choices[0].finish_reason == "tool_calls" and len(one.choices[0].message.tool_calls) == 1
    streamed = gather(ask(client, tool_choice="required", parallel_tool_calls=False, tools=TOOLS[:1], stream=True))[0]
    call = one.choices[0].message.tool_calls[0]
    assert streamed["calls"][0][1:] == [call.function.name, call.function.arguments] and streamed["reason"] == "tool_calls"
    assert streamed["content"] == ""


@pytest.mark.real_only
def test_named(client):
    choice = ask(client, tool_choice=NAMED).choices[0]
    assert choice.finish_reason == "stop" and [call.function.name for call in choice.message.tool_calls] == ["weather"]
    check_weather(choice.message.tool_calls[0].function.arguments)
    streamed = gather(ask(client, tool_choice=NAMED, stream=True))[0]
    assert streamed["calls"][0][1:] == ["weather", choice.message.tool_calls[0].function.arguments]


@pytest.mark.real_only
@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
def test_an_enforced_call_that_is_cut_off(client, choice):
    """It is there as far as it came, whole as in streams, and never content."""
    wanted = {"tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {
        "text": {"type": "string", "minLength": 500}}, "required": ["text"]}}}], "tool_choice": choice, "temperature": 0}
    for max_tokens in (1, 4, 60):
        whole, streamed = ask(client, **wanted, max_tokens=max_tokens).choices[0], gather(ask(client, **wanted, max_tokens=max_tokens, stream=True))[0]
        calls = [[call.function.name, call.function.arguments] for call in whole.message.tool_calls or []]
        assert whole.finish_reason == streamed["reason"] == "length" and not whole.message.content and streamed["content"] == ""
        assert [call[1:] for call in streamed["calls"]] == calls
    # A model that knows no JSON may fill the list's beginning with blanks; a named call has nothing
    # before its arguments.
    assert calls or choice == "required"
    assert all(name == "weather" and re.match(r'\{\s*("|$)', arguments) for name, arguments in calls)


@pytest.mark.real_only
def test_a_conversation_with_tools(client, tool_server):
    """The answer goes back with what the tool gave; the prompt is the checkpoint's template's."""
    called = ask(client, tool_choice=NAMED).choices[0].message
    call = called.tool_calls[0]
    messages = [*QUESTION, called.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "12 degrees"}]
    assert ask(client, messages, tool_choice="none", max_tokens=4).usage.completion_tokens > 0
    reply = tool_server.post("/tokenize", {"messages": messages, "tools": TOOLS})
    text = tool_server.post("/detokenize", {"tokens": reply.json["tokens"]}).json["prompt"]
    arguments = json.dumps(json.loads(call.function.arguments), ensure_ascii=False)
    assert f'<tool_call>\n{{"name": "weather", "arguments": {arguments}}}\n</tool_call><|im_end|>\n' in text
    assert "<|im_start|>user\n<tool_response>\n12 degrees\n</tool_response><|im_end|>\n<|im_start|>assistant\n" in text
    assert f"<tools>\n{json.dumps(TOOLS[0], ensure_ascii=False)}\n{json.dumps(TOOLS[1])}\n</tools>" in text


@pytest.mark.real_only
def test_switches_of_the_template(tool_server):
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    assert tool_server.post("/v1/chat/completions", {**body, "chat_template_kwargs": {"add_vision_id": True}}).status == 200
    assert tool_server.post("/v1/chat/completions", {**body, "chat_template_kwargs": {}}).status == 200
    reply = tool_server.post("/v1/chat/completions", {**body, "chat_template_kwargs": {"enable_thinking": False}})
    assert reply.status == 400 and reply.error["param"] == "chat_template_kwargs"
    assert '"enable_thinking" is nothing that this model\'s chat template reads; it reads: add_vision_id' in reply.error["message"]


# ---- what is refused ----


@pytest.mark.parametrize("fields, param, words", [
    ({"tools": []}, "tools", "must not be empty"),
    ({"tools": {}}, "tools", "must be an array"),
    ({"tools": [{"type": "search"}]}, "tools", 'tools[0]: type must be "function"'),
    ({"tools": [{"type": "function", "function": {}}]}, "tools", "tools[0]: function.name"),
    ({"tools": [*TOOLS, {"type": "function", "function": {"name": "x", "parameters": 1}}]}, "tools", "tools[2]: function.parameters must be"),
    ({"tools": None, "tool_choice": "auto"}, "tool_choice", "`tools` must be set"),
    ({"tool_choice": "often"}, "tool_choice", '"none", "auto" and "required"'),
    ({"tool_choice": {"type": "function"}}, "tool_choice", "my_function"),
    ({"tool_choice": {"type": "function", "function": {"name": "dance"}}}, "tool_choice", '"dance", is none of tools'),
    ({"parallel_tool_calls": "perhaps"}, "parallel_tool_calls", "true or false"),
    ({"chat_template_kwargs": []}, "chat_template_kwargs", "must be an object"),
    ({"messages": [*QUESTION, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]}, "messages",
     "messages[1].tool_calls[0]: arguments"),
    ({"messages": [*QUESTION, {"role": "assistant", "tool_calls": [{"id": "x"}]}]}, "messages", "messages[1].tool_calls[0]"),
    ({"messages": [*QUESTION, {"role": "tool", "tool_call_id": 3, "content": "x"}]}, "messages", "tool_call_id must be a string"),
], ids=lambda value: value if isinstance(value, str) else None)
def test_refusals(tool_server, fields, param, words):
    reply = tool_server.post("/v1/chat/completions", {"messages": QUESTION, "tools": TOOLS, "max_tokens": 2, **fields})
    assert reply.status == 400 and reply.error["param"] == param and words in reply.error["message"], reply.body


@pytest.mark.real_only
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}], ids=["required", "named"])
def test_a_schema_that_is_not_supported(tool_server, choice):
    tools = [TOOLS[0], {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "number", "multipleOf": 0.1}}}}}]
    reply = tool_server.post("/v1/chat/completions", {"messages": QUESTION, "tools": tools, "tool_choice": choice})
    assert reply.status == 400 and reply.error["param"] == "tools"
    assert "tools[1].function.parameters: #/properties/x/multipleOf" in reply.error["message"]


@pytest.mark.real_only
def test_without_flags(server):
    """`server` has neither the flags nor a template with tools."""
    for fields in ({}, {"tool_choice": "auto"}):
        reply = server.post("/v1/chat/completions", {"messages": QUESTION, "tools": TOOLS, **fields})
        assert reply.status == 400 and reply.error["param"] == "tool_choice"
        assert '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set' in reply.error["message"]
    for messages in (QUESTION, [*QUESTION, {"role": "tool", "content": "x"}]):
        reply = server.post("/v1/chat/completions", {"messages": messages, "tools": TOOLS, "tool_choice": "required"})
        assert reply.status == 400 and "this model's chat template has no tools" in reply.error["message"]


@pytest.mark.real_only
def test_a_template_without_tools(start):
    """A warning at the start; tools that must not be called are left out."""
    server = start(enable_auto_tool_choice=True, tool_call_parser="hermes", threads=1)
    assert "warning: serve: --enable-auto-tool-choice: this model's chat template has no tools" in server.read_output()
    asked = {"messages": QUESTION, "max_tokens": 2}
    reply = server.post("/v1/chat/completions", {**asked, "tools": TOOLS})
    assert reply.status == 400 and "--chat-template gives the model another one" in reply.error["message"]
    reply = server.post("/v1/chat/completions", {**asked, "tools": TOOLS, "tool_choice": "none"})
    assert reply.status == 200 and reply.json["usage"]["prompt_tokens"] == server.chat(**asked).json["usage"]["prompt_tokens"]


@pytest.mark.real_only
def test_a_template_with_tools_has_no_warning(tool_server):
    assert "has no tools" not in tool_server.read_output()


@pytest.mark.real_only
def test_prompts_keep_the_digits_of_large_numbers(tool_server):
    arguments = '{"id": 123456789012345678901234567890, "of": [-18446744073709551616, 1.5], "text": "a\\\\ud83d"}'
    calls = [{"id": "a", "type": "function", "function": {"name": "time", "arguments": arguments.replace("\\\\", "\\")}}]
    messages = [*QUESTION, {"role": "assistant", "tool_calls": calls}, {"role": "tool", "content": "x", "tool_call_id": "a"}]
    tools = [{"type": "function", "function": {"name": "time", "parameters": {"properties": {"id": {"maximum": 2**64 - 1}}}}}]
    reply = tool_server.post("/tokenize", {"messages": messages, "tools": tools})
    assert reply.status == 200, reply.body
    prompt = tool_server.post("/detokenize", {"tokens": reply.json["tokens"]}).json["prompt"]
    assert '{"id": 123456789012345678901234567890, "of": [-18446744073709551616, 1.5], "text": "a\ufffd"}' in prompt
    assert '"maximum": 18446744073709551615' in prompt
