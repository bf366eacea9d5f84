"""The openai package: chats, streams, structured output and completions; responses are in
test_responses.py."""

import asyncio
import json

import openai
import pydantic
import pytest


class Place(pydantic.BaseModel):
    colour: str
    x: int


@pytest.fixture
def client(base_url):
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        yield client


def messages(content):
    return [{"role": "user", "content": content}]


def test_chat(client, question, answer):
    reply = client.chat.completions.create(model="demo", messages=messages(question), temperature=0, max_tokens=100)
    assert reply.choices[0].message.content == answer
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_stream(client, question, answer):
    with client.chat.completions.stream(model="demo", messages=messages(question), temperature=0, max_tokens=100) as stream:
        pieces = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert "".join(pieces) == final.choices[0].message.content == answer


def test_asynchronous(base_url, question, answer):
    async def run():
        async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            async def streamed():
                stream = await client.chat.completions.create(model="demo", messages=messages(question), temperature=0, max_tokens=100, stream=True)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            whole = client.chat.completions.create(model="demo", messages=messages(question), temperature=0, max_tokens=100)
            return await asyncio.gather(whole, streamed(), streamed())

    whole, *streams = asyncio.run(run())
    assert streams == [answer, answer] and whole.choices[0].message.content == answer


def test_a_schema(client, question):
    reply = client.chat.completions.parse(model="demo", messages=messages(question), temperature=0, max_tokens=200, response_format=Place)
    if reply.choices[0].finish_reason == "stop":
        assert isinstance(reply.choices[0].message.parsed, Place)


def test_any_object(client, question):
    reply = client.chat.completions.create(model="demo", messages=messages(question), temperature=0, max_tokens=200,
                                           response_format={"type": "json_object"})
    if reply.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(reply.choices[0].message.content), dict)


@pytest.fixture
def tool_client(tool_base_url):
    with openai.OpenAI(base_url=tool_base_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "place"}}], ids=["required", "named"])
def test_a_tool_that_must_be_called(tool_client, question, tools, check_place, choice):
    fields = {"model": "demo", "messages": messages(question), "tools": tools[:1], "tool_choice": choice, "parallel_tool_calls": False, "temperature": 0,
              "max_tokens": 300}
    whole = tool_client.chat.completions.create(**fields).choices[0]
    assert whole.finish_reason == ("tool_calls" if choice == "required" else "stop") and not whole.message.content
    [call] = whole.message.tool_calls
    assert call.function.name == "place"
    check_place(json.loads(call.function.arguments))
    with tool_client.chat.completions.stream(**fields) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        [streamed] = stream.get_final_completion().choices[0].message.tool_calls
    assert [event.arguments for event in done] == [streamed.function.arguments] == [call.function.arguments] and streamed.function.name == "place"


def test_a_conversation_with_tools(tool_client, question, tools):
    """The call and what the tool gave go back; then the model may answer as it likes."""
    fields = {"model": "demo", "tools": tools, "temperature": 0, "max_tokens": 60}
    called = tool_client.chat.completions.create(**fields, messages=messages(question), tool_choice={"type": "function", "function": {"name": "time"}})
    call = called.choices[0].message.tool_calls[0]
    assert json.loads(call.function.arguments) == {}
    talk = [*messages(question), called.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "12:30"}]
    after = tool_client.chat.completions.create(**fields, messages=talk)
    assert after.usage.prompt_tokens > called.usage.prompt_tokens and after.choices[0].message.tool_calls is None


def test_a_call_that_is_cut_off(tool_client, tools):
    fields = {"model": "demo", "messages": messages("Hi"), "tools": tools[:1], "tool_choice": {"type": "function", "function": {"name": "place"}},
              "max_tokens": 4, "temperature": 0}
    choice = tool_client.chat.completions.create(**fields).choices[0]
    assert choice.finish_reason == "length" and choice.message.tool_calls[0].function.name == "place"
    with pytest.raises(openai.LengthFinishReasonError):
        tool_client.chat.completions.parse(**{**fields, "tools": [openai.pydantic_function_tool(Place, name="place")]})


def test_completions(client):
    reply = client.completions.create(model="demo", prompt=["one", "two"], max_tokens=2, n=2, logprobs=1)
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3] and reply.choices[0].logprobs.tokens


def test_models_and_errors(client):
    listed = client.models.list().data
    assert [model.id for model in listed] == ["demo", "org/demo"]
    assert [client.models.retrieve(model.id) for model in listed] == listed
    with pytest.raises(openai.NotFoundError, match="`org/other` does not exist") as caught:
        client.models.retrieve("org/other")
    assert caught.value.param == "model" and caught.value.type == "NotFoundError"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=messages("x"))
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model="demo", messages=messages("x"), temperature=-1)
