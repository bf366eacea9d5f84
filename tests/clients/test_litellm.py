"""litellm, which turns many interfaces into OpenAI's."""

import asyncio
import json

import litellm
import pytest


@pytest.fixture
def words(base_url, question):
    return {"model": "openai/demo", "api_base": base_url, "api_key": "none", "messages": [{"role": "user", "content": question}],
            "temperature": 0, "max_tokens": 100}


def test_chat(words, answer):
    reply = litellm.completion(**words)
    assert reply.choices[0].message.content == answer and reply.usage.completion_tokens > 0


def test_stream(words, answer):
    chunks = list(litellm.completion(**words, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == answer


def test_asynchronous(words, answer):
    async def run():
        return await asyncio.gather(litellm.acompletion(**words), litellm.acompletion(**words))

    assert [reply.choices[0].message.content for reply in asyncio.run(run())] == [answer, answer]


def test_as_vllm(words, answer):
    """The name of the provider that users of vLLM give."""
    reply = litellm.completion(**{**words, "model": "hosted_vllm/demo"})
    assert reply.choices[0].message.content == answer


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "place"}}], ids=["required", "named"])
def test_tools(words, tool_base_url, tools, check_place, choice):
    """litellm 1.106.2 would want the package mcp as soon as there are tools, whether or not one of
    them is an MCP server's."""
    fields = {**words, "_skip_mcp_handler": True, "model": "hosted_vllm/demo", "api_base": tool_base_url, "tools": tools[:1], "tool_choice": choice, "parallel_tool_calls": False,
              "max_tokens": 300}
    [call] = litellm.completion(**fields).choices[0].message.tool_calls
    assert call.function.name == "place"
    check_place(json.loads(call.function.arguments))
    chunks = list(litellm.completion(**fields, stream=True))
    [streamed] = litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls
    assert (streamed.function.name, streamed.function.arguments) == (call.function.name, call.function.arguments)


def test_errors(words):
    with pytest.raises(litellm.BadRequestError, match="temperature"):
        litellm.completion(**{**words, "temperature": -1})
