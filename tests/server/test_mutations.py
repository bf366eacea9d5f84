"""Random damage to a valid body never crashes or hangs the server, and never gives a status 500."""

import json
import random

import pytest
from images import JPEG, data_url, image_part, text_part, video_part

SEED = 20240607
N_MUTATIONS = 500
PIECES = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"-1", b"1e999", b"\xff", b"\0", b"\\u0000", b"\\ud800", b"true",
          b"99999999999999999999", b'"messages"', b'"image_url"', b"data:image/png;base64,", b'"video_url"',
          b"data:video/jpeg;base64,", b"0.5", b"{}", b"[]"]


def mutate(body, source):
    body = bytearray(body)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(body) + 1)
        choice = source.randrange(4)
        if choice == 0 and at < len(body):
            body[at] = source.randrange(256)
        elif choice == 1:
            del body[at:at + source.randint(1, 20)]
        elif choice == 2:
            body[at:at] = source.choice(PIECES)
        else:
            start = source.randrange(len(body) + 1)
            body[at:at] = body[start:start + source.randint(1, 40)]
    return bytes(body)


@pytest.mark.real_too
def test_mutations(server, server_can):
    source = random.Random(SEED)
    video = [video_part([JPEG, JPEG])] if server_can.videos else []
    least = {"min_pixels": 1} if server_can.enlarges else {}
    body = json.dumps({"model": "test-model", "messages": [
        {"role": "system", "content": "be short"},
        {"role": "user", "content": [text_part("what é is this?"), image_part(), *video,
                                     {"type": "input_text", "text": "?"}]},
        {"role": "assistant", "content": "a"}, {"role": "user", "content": "why"}],
        "max_tokens": 2, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "n": 2, "seed": 7, "stop": ["x", "y"], "stop_token_ids": [1],
        "logprobs": True, "top_logprobs": 2, "stream": False, "mm_processor_kwargs": {**least, "max_pixels": 100000},
        "media_io_kwargs": {"video": {"fps": 2, "num_frames": 2}}, "response_format": {"type": "text"}}).encode()
    seen = set()
    for number in range(N_MUTATIONS):
        path = ["/v1/chat/completions", "/tokenize", "/detokenize"][0 if number % 8 else number // 8 % 3]
        reply = server.post(path, mutate(body, source), timeout=60)
        assert reply.status in (200, 400, 404), (SEED, number, reply.status, reply.body)
        seen.add(reply.status)
    assert {200, 400} <= seen
    assert server.get("/health").status == 200


RESPONSES = {"instructions": "be short", "input": [
    {"role": "user", "content": [{"type": "input_text", "text": "what é is this?"}, {"type": "input_image", "image_url": data_url(JPEG)}]},
    {"type": "reasoning", "summary": []}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
    {"role": "user", "content": "why"}], "max_output_tokens": 2, "reasoning": {"effort": "low"}, "include": ["message.output_text.logprobs"],
    "top_logprobs": 2, "text": {"format": {"type": "text"}}, "tool_choice": "none", "tools": [{"type": "function", "name": "f"}], "metadata": {"a": "b"}}
MESSAGES = {"system": [{"type": "text", "text": "be short"}], "messages": [
    {"role": "user", "content": [{"type": "text", "text": "what é is this?"}, {"type": "image", "source": {
        "type": "base64", "media_type": "image/jpeg", "data": data_url(JPEG).split(",")[1]}}]},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "a"}]},
    {"role": "user", "content": "why"}], "max_tokens": 2, "stop_sequences": ["x"], "thinking": {"type": "enabled", "budget_tokens": 5},
    "output_config": {"effort": "low"}, "tool_choice": {"type": "none"}, "metadata": {"user_id": "b"}}


@pytest.mark.real_too
@pytest.mark.parametrize("path, body", [("/v1/responses", RESPONSES), ("/v1/messages", MESSAGES), ("/v1/messages/count_tokens", MESSAGES)])
def test_mutations_of_other_interfaces(server, path, body):
    source = random.Random(SEED)
    assert server.post(path, body).status == 200
    for number in range(N_MUTATIONS // 4):
        reply = server.post(path, mutate(json.dumps(body).encode(), source), timeout=60)
        assert reply.status in (200, 400, 404), (SEED, number, reply.status, reply.body)
    assert server.get("/health").status == 200
