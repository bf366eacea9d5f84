"""The anthropic package: messages about an image, whole and in streams, and their tokens
counted."""

import base64

import anthropic
import pytest


@pytest.fixture
def client(server):
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.port}", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def words(image):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(image.read_bytes()).decode()}}
    content = [image, {"type": "text", "text": "Where is the orange cross?"}]
    return {"model": "demo", "messages": [{"role": "user", "content": content}]}


def test_message(client, words, answer):
    reply = client.messages.create(**words, max_tokens=100, extra_body={"temperature": 0})
    assert [block.text for block in reply.content] == [answer] and reply.stop_reason == "end_turn"
    assert reply.usage.input_tokens + reply.usage.cache_read_input_tokens == client.messages.count_tokens(**words).input_tokens


def test_stream(client, words, answer):
    with client.messages.stream(**words, max_tokens=100, extra_body={"temperature": 0}) as stream:
        assert "".join(stream.text_stream) == answer
        assert stream.get_final_message().content[0].text == answer


@pytest.mark.parametrize("choice", [{"type": "any", "disable_parallel_tool_use": True}, {"type": "tool", "name": "place"}], ids=["any", "named"])
def test_tools(tool_server, words, place_schema, check_place, choice):
    fields = {**words, "max_tokens": 300, "tools": [{"name": "place", "description": "Where something is.", "input_schema": place_schema}],
              "tool_choice": choice, "extra_body": {"temperature": 0}}
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{tool_server.port}", api_key="none", max_retries=0) as client:
        reply = client.messages.create(**fields)
        [call] = reply.content
        assert (call.type, call.name, reply.stop_reason) == ("tool_use", "place", "tool_use")
        check_place(call.input)
        with client.messages.stream(**fields) as stream:
            [streamed] = stream.get_final_message().content
        assert (streamed.name, streamed.input) == (call.name, call.input)
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "found"}]}
        after = client.messages.create(**{**fields, "messages": [*words["messages"], {"role": "assistant", "content": reply.content}, result],
                                          "tool_choice": {"type": "auto"}, "max_tokens": 5})
        assert after.usage.output_tokens > 0


def test_errors(client, words):
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        client.messages.create(**words, max_tokens=0)
