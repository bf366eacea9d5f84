"""Replies: keys and their order, streams, usage, log-probabilities, fields' way to the engine."""

import json
import re
import select
import shutil
import subprocess
import time

import pytest
from images import JPEG, data_url, image_part, png, text_part, video_part
from server_process import parse_events, read_until, split_chunks, stream_events
from waiting import wait_for_engine, wait_for_load

REPLY_KEYS = ["id", "object", "created", "model", "choices", "service_tier", "system_fingerprint", "usage", "prompt_logprobs",
              "prompt_token_ids", "prompt_text", "kv_transfer_params", "ec_transfer_params", "metrics"]
CHOICE_KEYS = ["index", "message", "logprobs", "finish_reason", "stop_reason", "token_ids", "routed_experts"]
MESSAGE_KEYS = ["role", "content", "refusal", "annotations", "audio", "function_call", "reasoning"]
USAGE_KEYS = ["prompt_tokens", "total_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details"]
CHUNK_KEYS = ["id", "object", "created", "model", "choices"]


def content(reply):
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]["content"]


def show(server, **fields):
    """The sampling fields and parts as the engine got them."""
    return content(server.chat("[[show=1]]", **fields))


@pytest.mark.real_too
def test_whole_reply(server):
    reply = server.chat("hello world", max_tokens=4)
    body = reply.json
    assert list(body) == REPLY_KEYS
    assert list(body["choices"][0]) == CHOICE_KEYS
    assert list(body["choices"][0]["message"]) == MESSAGE_KEYS
    assert list(body["usage"]) == USAGE_KEYS
    assert body["object"] == "chat.completion" and body["model"] == "test-model" and abs(body["created"] - time.time()) < 60
    choice, usage = body["choices"][0], body["usage"]
    assert choice["index"] == 0 and choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] in ("stop", "length") and choice["stop_reason"] is None and choice["logprobs"] is None
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] and usage["completion_tokens"] <= 4
    assert reply.headers["Content-Type"] == "application/json"


def test_text_and_usage(server):
    body = server.chat("hello big world").json
    assert body["choices"][0]["message"]["content"] == "hello big world"
    assert body["usage"]["prompt_tokens"] == 15 and body["usage"]["completion_tokens"] == 3
    with_image = server.chat(messages=[{"role": "user", "content": [text_part("hello big world"), image_part()]}]).json
    assert with_image["usage"]["prompt_tokens"] == 31


@pytest.mark.parametrize("text", ["quotes \" and \\ and /", "tabs\tand\nnew\r\nlines", "\x01\x1f\x7f", "é€😀 ﷽ \u2028", "nul \0 inside",
                                  "</script>", "data: x"])
def test_any_text_comes_back(server, text):
    if "\0" not in text:
        assert content(server.chat(text)) == text
        events = stream_events(server, text)
        assert "".join(e["choices"][0]["delta"]["content"] for e in events[:-1]) == text
    else:
        assert server.post("/tokenize", {"prompt": text}).json["tokens"] == list(text.encode())
    tokens = server.post("/tokenize", {"prompt": text}).json["tokens"]
    assert server.post("/detokenize", {"tokens": tokens}).json == {"prompt": text}


def test_finish_reasons(server):
    one = server.chat("[[tokens=9]]", max_tokens=3).json["choices"][0]
    assert (one["finish_reason"], one["stop_reason"], one["message"]["content"]) == ("length", None, "w0 w1 w2 ")
    one = server.chat("[[tokens=9]]", stop="w4").json["choices"][0]
    assert (one["finish_reason"], one["stop_reason"], one["message"]["content"]) == ("stop", "w4", "w0 w1 w2 w3 ")
    one = server.chat("[[tokens=9]]", stop=["nothing", "w2"]).json["choices"][0]
    assert (one["finish_reason"], one["stop_reason"]) == ("stop", "w2")
    one = server.chat("[[tokens=9]]", stop_token_ids=[ord("w")]).json["choices"][0]
    assert (one["finish_reason"], one["stop_reason"]) == ("stop", ord("w"))


@pytest.mark.real_too
def test_max_completion_tokens_wins(server):
    assert server.chat("hello there you", max_tokens=3, max_completion_tokens=1).json["usage"]["completion_tokens"] == 1
    assert server.chat("hello there you", max_tokens=1, max_completion_tokens=2, ignore_eos=True).json["usage"][
        "completion_tokens"] == 2


@pytest.mark.real_too
def test_accepted(server):
    """What clients send that must not matter."""
    for fields in ({"unknown": {"deep": [1, 2]}}, {"user": "me"}, {"stop": None}, {"temperature": None}, {"top_k": -1}, {"top_k": 0},
                   {"max_tokens": 2.0}, {"response_format": {"type": "text"}}, {"logit_bias": {}}, {"priority": 3},
                   {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"}, {"tool_choice": "none"}, {"seed": -5}, {"seed": 1 << 62}, {"stream": None}, {"n": 1},
                   {"best_of": 1}, {"chat_template_kwargs": {}}, {"model": "test-model"}, {"add_generation_prompt": True}):
        assert server.chat(**{"max_tokens": 1, **fields}).status == 200, fields


def test_fields_reach_the_engine(server):
    assert show(server).startswith("t=1 p=1 m=0 k=0 seed=")
    text = show(server, temperature=0.5, top_p=0.25, min_p=0.125, top_k=7, seed=11, repetition_penalty=1.5, presence_penalty=-1,
                frequency_penalty=2, min_tokens=3, ignore_eos=True)
    assert text.startswith("t=0.5 p=0.25 m=0.125 k=7 seed=11 r=1.5 pp=-1 fp=2 min=3 eos=1 c=0")
    assert show(server).split("seed=")[1].split()[0] != show(server).split("seed=")[1].split()[0]


def test_repetition_reaches_the_engine(server):
    detection = {"max_pattern_size": 9, "min_pattern_size": 2, "min_count": 3}
    assert " ngram=7 repeat=9,2,3" in show(server, no_repeat_ngram_size=7, repetition_detection=detection)
    # As mineru-vl-utils sends it.
    assert " ngram=100 " in show(server, vllm_xargs={"no_repeat_ngram_size": 100, "debug": False})
    assert " ngram=8 " in show(server, vllm_xargs={"no_repeat_ngram_size": 100}, no_repeat_ngram_size=8)
    for fields in ({"vllm_xargs": {}}, {"vllm_xargs": {"no_repeat_ngram_size": -3}}, {"no_repeat_ngram_size": None},
                   {"repetition_detection": {}}, {"repetition_detection": {"max_pattern_size": 0}}):
        assert "ngram=" not in show(server, **fields)


def test_messages_reach_the_engine(server):
    text = content(server.chat(continue_final_message=True, add_generation_prompt=False, messages=[
        {"role": "developer", "content": "[[show=1]]"}, {"role": "system", "content": [text_part("abc"), text_part("")]},
        {"role": "user", "content": [{"type": "input_text", "text": "ab"}, image_part(png(9, 7)),
                                     {"type": "input_image", "image_url": data_url(JPEG)}]},
        {"role": "assistant", "content": None}, {"role": "assistant", "content": "yes"}]))
    assert "c=1 role0:text(10) role0:text(3) role0:text(0) role1:text(2) role1:image(9x7,0,0) role1:image(8x8,0,0) role2:text(3)" in text


def test_videos_reach_the_engine(server):
    def shown(frames, part=None, **fields):
        messages = [{"role": "user", "content": [text_part("[[show=1]]"), video_part(frames, **(part or {}))]}]
        return content(server.chat(messages=messages, **fields)).split(" role1:")[2]

    frames = [png(9, 7), JPEG, png(), JPEG]
    assert shown(frames) == "video(4x9x7,1,)"
    assert shown(frames, {"uuid": "clip"}, media_io_kwargs={"video": {"fps": 0.5}}) == "video(4x9x7,0.5,clip)"
    assert shown(frames, media_io_kwargs={"video": {"num_frames": 3}}) == "video(3x9x7,1,)"
    assert shown(frames, media_io_kwargs={"video": {"num_frames": -1}}) == "video(4x9x7,1,)"
    assert shown(frames, media_io_kwargs={}) == "video(4x9x7,1,)"


@pytest.mark.real_only
def test_videos_are_those_of_the_command_line(server, server_can, omma, model, tmp_path):
    """The same tokens of prompt and answer as omma chat --video, which is compared with the
    official code, or the same refusal."""
    frames = [png(64, 64)] * 3
    for i, frame in enumerate(frames):
        (tmp_path / f"{i}.png").write_bytes(frame)
    words = ["chat", "--model", model, "--prompt", "What?", "--video", tmp_path, "--fps", "4", "--json",
             "--max-tokens", "8", "--temperature", "0"]
    done = subprocess.run([omma, *map(str, words)], capture_output=True)
    reply = server.chat(messages=[{"role": "user", "content": [video_part(frames), text_part("What?")]}], max_tokens=8, temperature=0,
                        media_io_kwargs={"video": {"fps": 4}})
    if not server_can.videos:
        assert (done.returncode, reply.status) == (1, 400)
        assert b"models take no videos" in done.stderr and "models take no videos" in reply.error["message"]
        return
    said, reply = json.loads(done.stdout), reply.json
    assert reply["choices"][0]["message"]["content"] == said["text"], (reply, said)
    assert reply["usage"]["prompt_tokens"] == said["usage"]["prompt_tokens"]


def test_pixel_limits_reach_the_engine(start):
    server = start(min_pixels=100)

    def limits(part, **fields):
        messages = [{"role": "user", "content": [text_part("[[show=1]]"), part]}]
        return content(server.chat(messages=messages, **fields)).split("8x8,")[1].split(")")[0]

    kwargs = {"mm_processor_kwargs": {"min_pixels": 200, "max_pixels": 900}}
    assert limits(image_part()) == "100,0"
    assert limits(image_part(), **kwargs) == "200,900"
    assert limits(image_part(max_pixels=800), **kwargs) == "200,800"
    assert limits({"type": "image_url", "image_url": {"url": data_url(png()), "min_pixels": 300}}, **kwargs) == "300,900"


@pytest.mark.real_too
def test_a_request_stays_within_the_operators_pixels(start, kind):
    """vLLM lets a request's processor options win; here the operator's limit is one."""
    server = start(max_pixels=100000)
    part = {"type": "image_url", "image_url": {"url": data_url(png(64, 64))}}
    text = {"type": "text", "text": "what?"}
    assert server.chat([part, text], max_tokens=1, mm_processor_kwargs={"max_pixels": 100000}).status == 200
    too_large = [
        {"content": [part, text], "mm_processor_kwargs": {"max_pixels": 100001}},
        {"content": [part, text], "mm_processor_kwargs": {"min_pixels": 100001}},
        {"content": [{**part, "max_pixels": 100001}, text]},
        {"content": [{**part, "image_url": {**part["image_url"], "min_pixels": 100001}}, text]},
    ]
    for fields in too_large:
        reply = server.chat(max_tokens=1, **fields)
        assert reply.status == 400 and "100001" in reply.error["message"] and "max_pixels 100000" in reply.error["message"]
        assert reply.error["param"] in ("max_pixels", "min_pixels")



@pytest.mark.real_too
def test_images_are_sniffed(server):
    for data, kind in ((png(), "image/jpeg"), (JPEG, "text/plain"), (png(), ""), (png(40, 30), "image/png")):
        reply = server.chat(messages=[{"role": "user", "content": [text_part("What?"), image_part(data, kind)]}], max_tokens=2)
        assert reply.status == 200, reply.body


@pytest.mark.real_too
def test_logprobs(server):
    body = server.chat("hello world", logprobs=True, top_logprobs=2, max_tokens=2).json
    entries = body["choices"][0]["logprobs"]["content"]
    assert list(body["choices"][0]["logprobs"]) == ["content"] and len(entries) == body["usage"]["completion_tokens"]
    for entry in entries:
        assert list(entry) == ["token", "logprob", "bytes", "top_logprobs"] and entry["logprob"] <= 0
        assert bytes(entry["bytes"]).decode(errors="replace") == entry["token"]
        assert len(entry["top_logprobs"]) == 2 and list(entry["top_logprobs"][0]) == ["token", "logprob", "bytes"]
    plain = server.chat("hello world", logprobs=True, max_tokens=2).json["choices"][0]["logprobs"]["content"]
    assert [entry["top_logprobs"] for entry in plain] == [[]] * len(plain)


@pytest.mark.real_too
def test_streamed_logprobs(server):
    events = stream_events(server, "hello world", logprobs=True, top_logprobs=1, max_tokens=2)
    assert events[0]["choices"][0]["logprobs"] is None
    for event in events[1:-1]:
        assert len(event["choices"][0]["logprobs"]["content"]) == 1


@pytest.mark.real_too
def test_n(server):
    body = server.chat("hello world", n=3, seed=5, max_tokens=3).json
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert body["usage"]["completion_tokens"] <= 9
    events = stream_events(server, "hello world", n=3, max_tokens=3, stream_options={"include_usage": True})
    for index in range(3):
        mine = [e["choices"][0] for e in events[:-2] if e["choices"][0]["index"] == index]
        assert mine[0]["delta"]["role"] == "assistant" and mine[-1]["finish_reason"]
        assert [c["finish_reason"] for c in mine[:-1]] == [None] * (len(mine) - 1)
    assert events[-2]["choices"] == [] and events[-2]["usage"]["completion_tokens"] <= 9


def test_n_draws_with_different_seeds(server):
    texts = [c["message"]["content"] for c in server.chat("[[show=1]]", n=3, seed=5).json["choices"]]
    assert [text.split("seed=")[1].split()[0] for text in texts] == ["5", "6", "7"]


@pytest.mark.real_too
def test_stream_on_the_wire(server):
    """One chunk per event, `data: ` and two line feeds, the role first, reasons with the last
    token, usage, [DONE]."""
    with server.open_stream("hello big world", max_tokens=3, ignore_eos=True, stream_options={"include_usage": True}) as connection:
        data = read_until(connection, b"0\r\n\r\n")
    head, chunks = split_chunks(data)
    assert b"\r\nContent-Type: text/event-stream" in head and b"\r\nTransfer-Encoding: chunked" in head
    for chunk in chunks:
        assert chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") and chunk.count(b"\n") == 2 and b"\r" not in chunk
    assert chunks[-1] == b"data: [DONE]\n\n"
    events = parse_events(chunks)
    assert len(events) == 6
    for event in events[:-1]:
        assert list(event)[:5] == CHUNK_KEYS and event["object"] == "chat.completion.chunk" and event["id"] == events[0]["id"]
    assert events[0]["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}]
    for event in events[1:3]:
        assert list(event["choices"][0]) == ["index", "delta", "logprobs", "finish_reason", "token_ids"]
        assert list(event["choices"][0]["delta"]) == ["content"] and event["choices"][0]["finish_reason"] is None
        assert "usage" not in event
    assert events[3]["choices"][0]["finish_reason"] in ("stop", "length") and "stop_reason" in events[3]["choices"][0]
    assert events[4]["choices"] == [] and list(events[4]["usage"]) == USAGE_KEYS[:4]
    assert events[4]["usage"]["completion_tokens"] == 3


@pytest.mark.real_too
def test_stream_without_usage(server):
    events = stream_events(server, "hello big world", max_tokens=2)
    assert all("usage" not in event for event in events[:-1]) and events[-1] == "data: [DONE]"
    assert events[-2]["choices"][0]["finish_reason"]


@pytest.mark.real_too
def test_continuous_usage(server):
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = stream_events(server, "hello big world", max_tokens=3, ignore_eos=True, stream_options=options)
    assert [event["usage"]["completion_tokens"] for event in events[:-1]] == [0, 1, 2, 3, 3]


@pytest.mark.real_too
def test_stream_and_whole_reply_agree(server):
    whole = server.chat("tell me about the sea", max_tokens=8, temperature=0).json["choices"][0]
    events = stream_events(server, "tell me about the sea", max_tokens=8, temperature=0)
    assert "".join(e["choices"][0]["delta"]["content"] for e in events[:-1]) == whole["message"]["content"]
    assert events[-2]["choices"][0]["finish_reason"] == whole["finish_reason"]


def test_nothing_comes_before_the_first_token(start):
    server = start(keep_alive_ms=600000)
    with server.open_stream("[[tokens=2]] [[first_ms=600000]]") as connection:
        wait_for_engine(server, 1)
        assert not select.select([connection], [], [], 0.3)[0]


def test_tokens_come_as_they_are_made(server):
    """The first arrives though the second is ten minutes away."""
    with server.open_stream("[[tokens=6]] [[pace_ms=600000]]") as connection:
        read_until(connection, b'"content":"w0 "')


def test_comments_fill_the_silence(start):
    """Before the first token there are two at least; a stall of the machine may bring more, between
    tokens as well."""
    comment = ": keep-alive"
    server = start(keep_alive_ms=100)
    with server.open_stream("[[tokens=3]] [[first_ms=2000]]") as connection:
        data = read_until(connection, b"0\r\n\r\n")
    head, chunks = split_chunks(data)
    assert chunks[:2] == [f"{comment}\n\n".encode()] * 2
    events = [event for event in parse_events(chunks) if event != comment]
    assert events[0]["choices"][0]["delta"]["role"] == "assistant" and len(events) == 5


def test_error_in_mid_stream(server):
    events = stream_events(server, "[[tokens=9]] [[error_at=2]]")
    assert [e["choices"][0]["delta"]["content"] for e in events[:-2]] == ["", "w0 ", "w1 "]
    assert list(events[-2]) == ["error"] and events[-2]["error"]["code"] == 500 and events[-1] == "data: [DONE]"
    assert "/secret" not in str(events)


def test_error_before_the_stream(server):
    with server.open_stream("[[tokens=9]] [[error_at=0]]") as connection:
        assert read_until(connection, b"}}").startswith(b"HTTP/1.1 500 ")


def test_error_after_a_comment(start):
    server = start(keep_alive_ms=100)
    events = stream_events(server, "[[tokens=9]] [[first_ms=2000]] [[error_at=0]]")
    assert events[0] == ": keep-alive" and events[-2]["error"]["code"] == 500 and events[-1] == "data: [DONE]"


@pytest.mark.real_too
def test_request_id(server):
    reply = server.chat(headers={"X-Request-Id": "abc-123"}, max_tokens=1)
    assert reply.headers["x-request-id"] == "abc-123" and reply.json["id"] == "chatcmpl-abc-123"
    assert server.chat(request_id="mine", max_tokens=1).json["id"] == "chatcmpl-mine"
    first, second = server.chat(max_tokens=1), server.chat(max_tokens=1)
    assert first.json["id"] == "chatcmpl-" + first.headers["x-request-id"] != second.json["id"]
    assert server.chat(headers={"X-Request-Id": "x" * 128}, max_tokens=1).headers["x-request-id"] == "x" * 128
    for strange in ("", "x" * 129, "x" * 500, "a b", "a\tb"):
        own = server.chat(headers={"X-Request-Id": strange}, max_tokens=1).headers["x-request-id"]
        assert re.fullmatch("[0-9a-f]{32}", own), strange


@pytest.mark.real_too
def test_models(server):
    body = server.get("/v1/models").json
    assert list(body) == ["object", "data"] and body["object"] == "list"
    model = body["data"][0]
    fields = ["id", "object", "created", "owned_by", "root", "parent", "max_model_len", "permission", "chat_template"]
    reads = {"capabilities": {"ocr": True}} if shutil.which("pdftoppm") and shutil.which("pdfinfo") else {}
    assert list(model) == [*fields, *reads] and reads.items() <= model.items()
    assert list(model["chat_template"]) == ["rendered_as", "checkpoint_has_it"] and model["chat_template"]["checkpoint_has_it"] is True
    assert model["id"] == "test-model" and model["object"] == "model" and model["max_model_len"] > 0


@pytest.mark.real_too
def test_small_endpoints(server):
    for path in ("/health", "/ping"):
        reply = server.get(path)
        assert (reply.status, reply.body) == (200, b"")
    assert server.request("POST", "/ping").status == 200
    assert server.request("POST", "/ping", b"whatever").status == 200
    assert server.request("HEAD", "/health").status == 200
    assert list(server.get("/version").json) == ["version"]
    wait_for_load(server, 0)  # the request before may not be off the list yet
    assert server.get("/load").json == {"server_load": 0}
    page = server.get("/")
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html") and b"Ommatidia" in page.body
    assert server.get("/v1/models?x=1").status == 200


def test_load_counts(server):
    wait_for_load(server, 0)
    with server.open_stream("[[tokens=3]] [[first_ms=600000]]"):
        wait_for_load(server, 1)
    wait_for_load(server, 0)


@pytest.mark.real_too
def test_tokenize(server):
    body = server.post("/tokenize", {"model": "test-model", "prompt": "hello"}).json
    assert list(body) == ["count", "max_model_len", "tokens", "token_strs"]
    assert body["count"] == len(body["tokens"]) > 0 and body["token_strs"] is None
    assert server.post("/detokenize", {"tokens": body["tokens"]}).json == {"prompt": "hello"}
    texts = server.post("/tokenize", {"prompt": "hello", "return_token_strs": True}).json["token_strs"]
    assert "".join(texts) == "hello"
    assert server.post("/tokenize", {"prompt": ""}).json["count"] == 0
    assert server.post("/detokenize", {"tokens": []}).json == {"prompt": ""}


@pytest.mark.real_too
def test_tokenize_messages_counts_what_chat_counts(server):
    messages = [{"role": "user", "content": [text_part("what is this?"), image_part(png(64, 48))]}]
    count = server.post("/tokenize", {"messages": messages}).json["count"]
    assert server.chat(messages=messages, max_tokens=1).json["usage"]["prompt_tokens"] == count


def test_several_names(start):
    server = start(**{"served-model-name": "org/second"})
    assert [m["id"] for m in server.get("/v1/models").json["data"]] == ["test-model", "org/second"]
    assert server.chat(model="org/second").json["model"] == "org/second"
    assert server.chat().json["model"] == "test-model"


def test_one_model(start):
    server = start(**{"served-model-name": "org/second"})
    listed = server.get("/v1/models").json["data"]
    for path, index in (("test-model", 0), ("org/second", 1), ("org%2Fsecond", 1), ("org%2fsecond?x=1", 1)):
        assert server.get("/v1/models/" + path).json["id"] == listed[index]["id"]
    assert server.get("/v1/models/org/second").json.keys() == listed[1].keys()
    for path, name in (("second", "second"), ("org", "org"), ("org/second/", "org/second/"), ("%ff%22", "\ufffd\""), ("x" * 3000, "x" * 200)):
        reply = server.get("/v1/models/" + path)
        assert reply.status == 404 and reply.error["param"] == "model" and reply.error["type"] == "NotFoundError" and reply.error["code"] == 404
        assert reply.error["message"] == f"The model `{name}` does not exist. Served here: `test-model`, `org/second`."
    assert server.get("/v1/models/").error["type"] == "Not Found"
    assert server.post("/v1/models/test-model", {}).status == 405 and server.request("HEAD", "/v1/models/test-model").status == 200
    assert 'handler="/v1/models/{model}"' in server.get("/metrics").body.decode()
