"""The openai package: chats, streams, structured answers and completions; responses are in test_responses.py."""

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


def test_completions(client):
    reply = client.completions.create(model="demo", prompt=["one", "two"], max_tokens=2, n=2, logprobs=1)
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3] and reply.choices[0].logprobs.tokens


def test_models_and_errors(client):
    assert [model.id for model in client.models.list()] == ["demo"]
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=messages("x"))
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model="demo", messages=messages("x"), temperature=-1)
