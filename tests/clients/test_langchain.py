"""langchain-openai's chat model."""

import asyncio

import pydantic
import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI


class Place(pydantic.BaseModel):
    """Where something is."""

    colour: str
    x: int


@pytest.fixture
def chat(base_url):
    return ChatOpenAI(model="demo", base_url=base_url, api_key="none", temperature=0, max_tokens=100, max_retries=0)


def test_invoke(chat, question, answer):
    reply = chat.invoke([HumanMessage(content=question)])
    assert reply.content == answer and reply.usage_metadata["output_tokens"] > 0


def test_stream(chat, question, answer):
    assert "".join(chunk.content for chunk in chat.stream([HumanMessage(content=question)])) == answer


def test_batch_and_asynchronous(chat, question, answer):
    asked = [[HumanMessage(content=question)]] * 3
    assert [reply.content for reply in chat.batch(asked)] == [answer] * 3
    assert [reply.content for reply in asyncio.run(chat.abatch(asked))] == [answer] * 3


def test_a_schema(chat, question):
    structured = chat.model_copy(update={"max_tokens": 200}).with_structured_output(Place, method="json_schema", include_raw=True)
    reply = structured.invoke([HumanMessage(content=question)])
    finished = reply["raw"].response_metadata["finish_reason"] == "stop"
    assert not finished or isinstance(reply["parsed"], Place)
