"""Out of memory at any allocation is a refused request or a closed connection: no crash, no leak,
no hang, and the next one works."""

import subprocess

import pytest
from images import JPEG, image_part, text_part, video_part
from server_process import make_command

MESSAGES = [{"role": "user", "content": [text_part("hello big world"), image_part(), video_part([JPEG, JPEG])]}]


def test_start_without_memory(request, kind):
    for number in range(100):
        process = subprocess.Popen(make_command(request.config, kind, {"fail_start": number}), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        line = process.stdout.readline()
        if line.startswith(b"listening"):
            process.terminate()
        output = line + process.communicate(timeout=60)[0]
        assert b"Sanitizer" not in output
        if line.startswith(b"listening"):
            assert number > 3 and process.returncode == 0
            return
        assert process.returncode == 1 and b"out of memory" in output
    raise AssertionError("the server never starts")


def read_reply(connection):
    """What comes until the reply is complete or broken off."""
    data = b""
    try:
        while not data.endswith((b"}", b"0\r\n\r\n")) and b"Content-Length: 0\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                break
            data += piece
    except ConnectionResetError:
        pass
    return data


@pytest.mark.parametrize("path, fields, end", [
    ("chat/completions", {"stream": False, "messages": MESSAGES, "logprobs": True, "stop": "big"}, b"kv_transfer_params"),
    ("chat/completions", {"stream": True, "messages": MESSAGES, "n": 2, "logprobs": True, "media_io_kwargs": {"video": {"fps": 2}},
                          "stream_options": {"include_usage": True}}, b"[DONE]"),
    ("completions", {"stream": False, "prompt": ["hello big world", "and this"], "echo": True}, b"kv_transfer_params"),
    ("completions", {"stream": True, "prompt": [65, 66], "logprobs": 1, "stream_options": {"include_usage": True}}, b"[DONE]"),
    ("responses", {"stream": True, "instructions": "a", "input": [{"type": "reasoning", "content": [{"text": "b"}]}, {
        "role": "assistant", "content": "c"}, {"role": "user", "content": "hello big world"}]}, b"response.completed"),
    ("messages", {"stream": False, "system": "a", "max_tokens": 5, "messages": [{"role": "user", "content": [
        {"type": "text", "text": "hello big world"}]}]}, b'"usage"')])
def test_request_without_memory(start, path, fields, end):
    """The n-th allocation fails, for every n that the request makes."""
    for number in range(300):
        server = start(fail_later=number)
        with server.send_post("/v1/" + path, fields) as connection:
            data = read_reply(connection)
        whole = end in data and b'"error":{' not in data and (b"usage" in data)
        assert whole or not data or data.startswith((b"HTTP/1.1 503 ", b"HTTP/1.1 200 ")), data
        past = False
        try:
            past = server.chat("still there?").status != 200
        except OSError:
            past = True
        assert not past or whole, "one failure hit two requests"
        assert server.chat("and now?").status == 200
        assert server.stop() == 0, server.output
        assert server.counters()["running"] == 0
        if past:
            assert number > 10
            return
    raise AssertionError("the request never succeeds")
