"""/v1/responses through the openai package, and through langchain-openai."""

import asyncio

import openai
import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI


@pytest.fixture
def words(question):
    url = question[0]["image_url"]["url"]
    content = [{"type": "input_image", "image_url": url, "detail": "auto"}, {"type": "input_text", "text": question[1]["text"]}]
    return {"model": "demo", "input": [{"role": "user", "content": content}], "temperature": 0, "max_output_tokens": 100}


@pytest.fixture
def client(base_url):
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        yield client


def test_response(client, words, answer):
    reply = client.responses.create(**words)
    assert reply.output_text == answer and reply.status == "completed" and reply.usage.output_tokens > 0


def test_stream(client, words, answer):
    with client.responses.stream(**words) as stream:
        pieces = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert "".join(pieces) == stream.get_final_response().output_text == answer


def test_asynchronous(base_url, words, answer):
    async def run():
        async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            return await asyncio.gather(client.responses.create(**words), client.responses.create(**words))

    assert [reply.output_text for reply in asyncio.run(run())] == [answer, answer]


def test_langchain(base_url, question, answer):
    chat = ChatOpenAI(model="demo", base_url=base_url, api_key="none", temperature=0, max_tokens=100, max_retries=0, use_responses_api=True)
    assert chat.invoke([HumanMessage(content=question)]).text == answer
