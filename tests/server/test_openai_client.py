"""The client library that most users have."""

import asyncio

import pytest
from images import image_part, text_part

openai = pytest.importorskip("openai")


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.real_too
def test_chat(client):
    reply = client.chat.completions.create(model="test-model", messages=[{"role": "user", "content": "hello there"}], max_tokens=2)
    assert reply.choices[0].message.role == "assistant" and reply.usage.completion_tokens <= 2


@pytest.mark.real_too
def test_stream(client):
    stream = client.chat.completions.create(model="test-model", messages=[
        {"role": "user", "content": [text_part("hello there"), image_part()]}], max_tokens=3, stream=True, logprobs=True, top_logprobs=1,
        stream_options={"include_usage": True})
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[-1].usage.total_tokens > 0
    assert chunks[-2].choices[0].finish_reason


@pytest.mark.real_too
def test_asynchronous(server):
    """Two whole answers and a stream at the same time."""
    messages = [{"role": "user", "content": [text_part("hello there"), image_part()]}]

    async def run():
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0) as client:
            async def streamed():
                stream = await client.chat.completions.create(model="test-model", messages=messages, max_tokens=3, temperature=0, stream=True)
                return [chunk async for chunk in stream]

            whole = [client.chat.completions.create(model="test-model", messages=messages, max_tokens=3, temperature=0) for _ in range(2)]
            return await asyncio.gather(*whole, streamed())

    first, second, chunks = asyncio.run(run())
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert first.choices[0].finish_reason and chunks[-1].choices[0].finish_reason
    assert first.choices[0].message.content == second.choices[0].message.content == text


@pytest.mark.real_too
def test_models(client):
    assert [model.id for model in client.models.list()] == ["test-model"]


@pytest.mark.real_too
def test_errors(client):
    messages = [{"role": "user", "content": "hello"}]
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="other", messages=messages)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model="test-model", messages=messages, temperature=-1)


def test_error_in_mid_stream(client):
    stream = client.chat.completions.create(
        model="test-model", messages=[{"role": "user", "content": "[[tokens=9]] [[error_at=2]]"}], stream=True)
    with pytest.raises(openai.APIError, match="Internal server error"):
        list(stream)
