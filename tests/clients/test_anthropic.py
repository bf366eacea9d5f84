"""The anthropic package: messages about an image, whole and in streams, and their tokens counted."""

import base64

import anthropic
import pytest


@pytest.fixture
def client(server):
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.port}", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def words(picture):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(picture.read_bytes()).decode()}}
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


def test_errors(client, words):
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        client.messages.create(**words, max_tokens=0)
