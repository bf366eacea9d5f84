"""langchain-openai's chat model."""

import asyncio
import typing

import pydantic
import pytest
from langchain_core.messages import HumanMessage, ToolMessage
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


@pytest.mark.parametrize("choice", ["any", "place"])
def test_tools(tool_base_url, question, tools, check_place, choice):
    chat = ChatOpenAI(model="demo", base_url=tool_base_url, api_key="none", temperature=0, max_tokens=300, max_retries=0)
    bound = chat.bind_tools(tools[:1], tool_choice=choice, parallel_tool_calls=False)
    asked = [HumanMessage(content=question)]
    reply = bound.invoke(asked)
    [call] = reply.tool_calls
    assert call["name"] == "place" and not reply.invalid_tool_calls
    check_place(call["args"])
    gathered = None
    for chunk in bound.stream(asked):
        gathered = chunk if gathered is None else gathered + chunk
    assert [(call["name"], call["args"]) for call in gathered.tool_calls] == [(call["name"], call["args"])]
    after = chat.bind_tools(tools).bind(max_tokens=5).invoke([*asked, reply, ToolMessage("found", tool_call_id=call["id"])])
    assert after.usage_metadata["output_tokens"] > 0


def test_a_schema_by_a_tool(tool_base_url, question):
    """langchain's way to structured output with models that have no schemas."""

    class Colour(pydantic.BaseModel):
        """What colour it has."""

        colour: typing.Literal["orange", "blue"]

    chat = ChatOpenAI(model="demo", base_url=tool_base_url, api_key="none", temperature=0, max_tokens=300, max_retries=0)
    reply = chat.with_structured_output(Colour, method="function_calling").invoke([HumanMessage(content=question)])
    assert isinstance(reply, Colour)
