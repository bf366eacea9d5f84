"""Replies cut in every place, with every kind of line end, and with what else servers send."""

import json

import pytest
from stub_server import END, StubServer, chunk, event, head, stream, token, usage

RANDOM = ["--dataset-name", "random", "--random-input-len", "8", "--num-prompts"]
TEXTS = ["né", "漢字", "🙂", " end"]


def body(end="\n\n"):
    events = [event(token(text), end) for text in TEXTS]
    return ("".join(events) + event(usage(3, 4), end) + event("[DONE]", end)).encode()


def check(result, n=1):
    assert result.returncode == 0, result.stderr
    assert result.json["generated_texts"] == ["".join(TEXTS)] * n
    assert result.json["output_lens"] == [4] * n and result.json["input_lens"] == [3] * n
    assert all(len(gaps) == 3 for gaps in result.json["itls"])


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r", "\n\r\n"])
def test_cut_in_every_place(bench, end):
    whole = json.dumps  # plain UTF-8 in the events, so that cuts fall into characters
    events = "".join(f"data: {whole(token(text), ensure_ascii=False)}{end}" for text in TEXTS)
    data = (events + event(usage(3, 4), end) + event("[DONE]", end)).encode()
    step = 7

    def script(request):
        cut = request.index * step % len(data)
        return [head(), chunk(data[: cut + 1]), 0.002, chunk(data[cut + 1 : cut + 2] or b"\n"), 0.002, chunk(data[cut + 2 :] or b"\n"), END]

    n = len(data) // step
    with StubServer(script) as server:
        check(bench(server, *RANDOM, n, "--max-concurrency", 32), n)


def test_byte_by_byte(bench):
    with StubServer(lambda request: [head()] + [part for byte in body("\r\n\r\n") for part in (chunk(bytes([byte])), 0.0001)] + [END]) as server:
        check(bench(server, *RANDOM, 1))


def test_all_in_one_write(bench):
    with StubServer(lambda request: [head() + chunk(body()) + END]) as server:
        check(bench(server, *RANDOM, 1))


def test_comments_other_fields_and_no_blank_after_the_colon(bench):
    events = [f"data:{json.dumps(token(text))}\n\n" for text in TEXTS]
    noise = ": keep-alive\n\nevent: message\nid: 4\nretry: 100\n"
    data = noise.join([""] + events) + event(usage(3, 4)) + event("[DONE]")
    with StubServer(lambda request: [head(), chunk(data), END]) as server:
        check(bench(server, *RANDOM, 1))


def test_data_over_several_lines(bench):
    spread = ["data: " + json.dumps(token(text), indent=1).replace("\n", "\ndata: ") + "\n\n" for text in TEXTS]
    with StubServer(lambda request: [head(), chunk("".join(spread) + event(usage(3, 4))), END]) as server:
        check(bench(server, *RANDOM, 1))


def test_no_done_and_no_empty_line_in_the_end(bench):
    with StubServer(lambda request: [head(), chunk(body()[: -len("data: [DONE]\n\n") - 2]), END]) as server:
        check(bench(server, *RANDOM, 1))


def test_role_usage_and_empty_choices_count_as_they_should(bench):
    """A first event without text is the first token; usage next to choices is not read; other
    events are nothing."""
    first = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}], "usage": {"completion_tokens": 99, "prompt_tokens": 99}}
    data = [event(first), event({"choices": []}), event({"x": 1}), event(token("a")), event(usage(3, 4))]
    with StubServer(lambda request: [head()] + [chunk(piece) for piece in data] + [END]) as server:
        result = bench(server, *RANDOM, 1)
    assert result.returncode == 0, result.stderr
    assert result.json["generated_texts"] == ["a"] and result.json["output_lens"] == [4] and len(result.json["itls"][0]) == 1


def test_reply_until_the_connection_closes(bench):
    start = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    with StubServer(lambda request: [start, body(), "close"]) as server:
        check(bench(server, *RANDOM, 3), 3)


def test_long_events(bench):
    long = "x" * 300_000
    with StubServer(lambda request: stream([long, "y"])) as server:
        result = bench(server, *RANDOM, 2)
    assert result.returncode == 0 and result.json["generated_texts"] == [long + "y"] * 2
