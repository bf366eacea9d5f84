"""Every wrong request gets the status, type, param and message that clients know, and never a word
about the server's files."""

import base64
import json
import os

import pytest
from images import JPEG, data_url, image_part, png, text_part, video_part

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]


def check(reply, status, kind, param, *parts):
    assert reply.status == status, reply.body
    body = reply.json
    assert list(body) == ["error"] and list(body["error"]) == ["message", "type", "param", "code"]
    error = body["error"]
    assert (error["type"], error["param"], error["code"]) == (kind, param, status), error
    for part in parts:
        assert part in error["message"], error
    assert "/secret" not in error["message"]
    assert reply.headers["Content-Type"] == "application/json"


def bad_image(url):
    return [{"role": "user", "content": [text_part("what is this?"), {"type": "image_url", "image_url": {"url": url}}]}]


@pytest.mark.real_too
@pytest.mark.parametrize("url, param, part", [
    ("data:image/png;base64,@@@@", "image_url", "base64"),
    ("data:image/png;base64,iVBORw0", "image_url", "base64"),
    (data_url(b"this is not an image"), "image", "cannot identify image"),
    (data_url(b""), "image", "cannot identify image"),
    (data_url(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"), "image", "cannot identify image"),
    (data_url(JPEG[:-20], "image/jpeg"), "image", "image file is truncated"),
    ("data:image/png,plain", "image_url", "base64"),
    ("data:image/png;base64", "image_url", "comma"),
    ("file:///etc/passwd", "image_url", "--allowed-local-media-path"),
    ("ftp://example.com/a.png", "image_url", "ftp://"),
    ("http://127.0.0.1/a.png", "image_url", "--allowed-media-domains"),
    ("", "image_url", ""),
])
def test_bad_images(server, url, param, part):
    check(server.chat(messages=bad_image(url)), 400, "BadRequestError", param, part)


@pytest.mark.real_too
@pytest.mark.parametrize("fields, param, part", [
    ({"max_tokens": 10**20}, "max_tokens", "max_tokens must be at most 2147483647, got 100000000000000000000."),
    ({"seed": -(10**20)}, "seed", "seed must be at least -9223372036854775808, got -100000000000000000000."),
    ({"temperature": 10**20}, "temperature", "temperature must be in [0, "),
    ({"model": 10**20}, "model", "model must be a string, got a number of more than 64 bits."),
    ({"stop": 10**20}, "stop", "a number of more than 64 bits"),
    ({"messages": [{"role": "user", "content": 10**20}]}, "messages", ""),
])
def test_numbers_beyond_64_bits_are_named_so(server, fields, param, part):
    check(server.chat(**fields), 400, "BadRequestError", param, part)


@pytest.mark.real_too
def test_no_text_is_taken_for_such_a_number(server):
    """Inside they are strings that begin with U+FDD0."""
    for text in ("\ufdd012", "\ufdd01e5", "\ufdd0", "\ufdd0-"):
        assert server.chat(messages=[{"role": "user", "content": text}], max_tokens=1).status == 200
        kept = server.post("/v1/responses", {"model": "test-model", "input": text, "metadata": {"a": text, "b": "1"}, "user": text, "max_output_tokens": 16})
        assert kept.status == 200 and kept.json["metadata"] == {"a": "\ufffd" + text[1:], "b": "1"}, kept.body


@pytest.mark.real_too
def test_unknown_model(server):
    check(server.chat(model="x"), 404, "NotFoundError", "model", "The model `x` does not exist. Served here: `test-model`.")


@pytest.mark.real_too
@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_long_values_make_valid_replies(server, shift):
    for fields in ({"model": "x" * shift + "é€😀" * 500}, {"temperature": "x" * shift + "é€😀" * 500},
                   {"messages": [{"role": "x" * shift + "é€😀" * 500, "content": ""}]}):
        reply = server.chat(**fields)
        assert reply.status in (400, 404) and len(reply.error["message"]) < 800


@pytest.mark.parametrize("limit, given", [(2, 3), (0, 1)])
def test_too_many_images(start, limit, given):
    parts = [image_part() for _ in range(given)]
    reply = start(images=limit).chat(messages=[{"role": "user", "content": parts}])
    check(reply, 400, "BadRequestError", "image", f"At most {max(limit, 0)} image(s) may be provided in one prompt.")


@pytest.mark.parametrize("limit, given", [(1, 2), (0, 1)])
def test_too_many_videos(start, limit, given):
    parts = [image_part(), *[video_part([JPEG]) for _ in range(given)]]
    reply = start(videos=limit).chat(messages=[{"role": "user", "content": parts}])
    check(reply, 400, "BadRequestError", "video", f"At most {max(limit, 0)} video(s) may be provided in one prompt.")


def video_of(url):
    return [{"role": "user", "content": [{"type": "video_url", "video_url": url}]}]


@pytest.mark.real_too
@pytest.mark.parametrize("url, param, part", [
    ("data:video/mp4;base64,AAAA", "video_url", "sent as its frames"),
    ("data:video/jpeg,AAAA", "video_url", "sent as its frames"),
    ("http://127.0.0.1/a.mp4", "video_url", "sent as its frames"),
    ("", "video_url", "sent as its frames"),
    ("data:video/jpeg;base64,", "image", "cannot identify image"),
    ("data:video/jpeg;base64,@@@@", "video_url", "base64"),
    (video_part([png(), b""])["video_url"]["url"], "image", "cannot identify image"),
    (video_part([png(), b"no image"])["video_url"]["url"], "image", "cannot identify image"),
    (video_part([png(), JPEG[:-20]])["video_url"]["url"], "image", "image file is truncated"),
    ("data:video/jpeg;base64," + "," * 768, "video_url", "at most 768 frames, found 769"),
    ({}, "video_url", "has no video_url with a url"),
    (5, "video_url", "has no video_url with a url"),
])
def test_wrong_videos(server, url, param, part):
    check(server.chat(messages=video_of(url)), 400, "BadRequestError", param, part)


@pytest.mark.real_only
def test_frames_of_two_sizes(server, server_can):
    reply = server.chat(messages=[{"role": "user", "content": [video_part([png(64, 64), png(64, 96)])]}])
    part = "frame 1: expected 64 x 64 pixels as frame 0, found 64 x 96" if server_can.videos else "models take no videos"
    check(reply, 400, "BadRequestError", "video", part)


@pytest.mark.real_too
@pytest.mark.parametrize("fields, part", [
    (5, "media_io_kwargs must be an object, got an integer"), ({"video": 5}, "video must be an object, got an integer"), ({"audio": {}}, "known is video"),
    ({"video": {"backend": "opencv"}}, "known are fps and num_frames"), ({"video": {"num_frames": 0}}, "greater than 0 or -1"),
])
def test_wrong_media_options(server, fields, part):
    check(server.chat("x", media_io_kwargs=fields), 400, "BadRequestError", "media_io_kwargs", part)


@pytest.mark.real_too
@pytest.mark.parametrize("field, value", [("fps", 0), ("fps", 1001), ("fps", "two"), ("num_frames", -2), ("num_frames", 1.5)])
def test_wrong_media_numbers(server, field, value):
    check(server.chat("x", media_io_kwargs={"video": {field: value}}), 400, "BadRequestError", field, field)


def test_memory_of_all_images_together(server):
    """Each is within the limit of one image, and five are not within what the server has for
    decoding."""
    big = bytearray(png())
    big[16:24] = (11584).to_bytes(4, "big") * 2
    for parts in ([image_part(bytes(big))] * 5, [video_part([bytes(big)] * 5)]):
        check(server.chat(messages=[{"role": "user", "content": parts}]), 400, "BadRequestError", "image", "of memory, but this server allows 1610612736")


@pytest.mark.real_too
def test_prompt_too_long(server):
    limit = server.get("/v1/models").json["data"][0]["max_model_len"]
    reply = server.chat("word " * (limit + 10))
    check(reply, 400, "BadRequestError", "input_tokens", f"This model's maximum context length is {limit} tokens.")


@pytest.mark.real_too
@pytest.mark.parametrize("fields, param, parts", [
    ({"max_tokens": 100000000}, "max_tokens", ["100000000", "maximum context length"]),
    ({"max_completion_tokens": 100000000}, "max_completion_tokens", ["100000000"]),
    ({"max_tokens": 0}, "max_tokens", ["max_tokens", "0"]),
    ({"max_tokens": -1}, "max_tokens", ["max_tokens", "-1"]),
    ({"max_completion_tokens": 0}, "max_completion_tokens", ["0"]),
    ({"max_tokens": 1.5}, "max_tokens", ["1.5"]),
    ({"max_tokens": "many"}, "max_tokens", ["many"]),
    ({"n": 0}, "n", ["n must be at least 1, got 0"]),
    ({"n": 1000}, "n", ["1000"]),
    ({"best_of": 2}, "best_of", ["best_of 2 is not supported", "must equal n, which is 1"]),
    ({"n": 2, "best_of": 1}, "best_of", ["2", "1"]),
    ({"temperature": -1}, "temperature", ["temperature", "-1"]),
    ({"temperature": 2.5}, "temperature", ["2.5"]),
    ({"top_p": 0}, "top_p", ["top_p", "0"]),
    ({"top_p": 1.1}, "top_p", ["1.1"]),
    ({"top_k": -2}, "top_k", ["-2"]),
    ({"min_p": -0.1}, "min_p", ["-0.1"]),
    ({"repetition_penalty": 0}, "repetition_penalty", ["0"]),
    ({"presence_penalty": 3}, "presence_penalty", ["3"]),
    ({"frequency_penalty": -3}, "frequency_penalty", ["-3"]),
    ({"seed": "s"}, "seed", ["seed"]),
    ({"stop": [""]}, "stop", ["empty"]),
    ({"stop": ["\0"]}, "stop", ["NUL"]),
    ({"stop": 5}, "stop", ["an integer"]),
    ({"stop": ["a"] * 17}, "stop", ["16"]),
    ({"stop_token_ids": [-1]}, "stop_token_ids", ["stop_token_ids[0]"]),
    ({"stop_token_ids": [1 << 40]}, "stop_token_ids", ["stop_token_ids[0]"]),
    ({"min_tokens": 5, "max_tokens": 4}, "min_tokens", ["5", "4"]),
    ({"min_tokens": 1 << 30, "max_tokens": None}, "min_tokens", ["what the context of", str(1 << 30)]),
    ({"top_logprobs": 2}, "top_logprobs", ["logprobs"]),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", ["21"]),
    ({"logprobs": 3}, "logprobs", ["logprobs"]),
    ({"stream": "perhaps"}, "stream", ["perhaps"]),
    ({"stream_options": {"include_usage": True}}, "stream_options", ["stream"]),
    ({"stream": True, "stream_options": {"include_usages": True}}, "stream_options", ['unknown key "include_usages"; known are include_usage, ']),
    ({"response_format": {"type": "json_object", "schema": {}}}, "response_format", ['"schema"', "known are type and json_schema"]),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "mode": 1}}}, "response_format", ['json_schema: unknown key "mode"']),
    ({"vllm_xargs": {"ngram_size": 30, "window_size": 90}}, "vllm_xargs", ['unknown key "', "known are no_repeat_ngram_size and debug"]),
    ({"vllm_xargs": {"no_repeat_ngram_size": "x"}}, "no_repeat_ngram_size", ["vllm_xargs"]),
    ({"vllm_xargs": 5}, "vllm_xargs", ["an integer"]),
    ({"no_repeat_ngram_size": 2.5}, "no_repeat_ngram_size", ["2.5"]),
    ({"repetition_detection": {"max_pattern_size": 4}}, "repetition_detection", ["min_count must be at least 2, got 0"]),
    ({"repetition_detection": {"max_pattern_size": 4, "min_pattern_size": 5, "min_count": 2}}, "repetition_detection", ["at most max"]),
    ({"repetition_detection": {"pattern": 4}}, "repetition_detection", ['"pattern"']),
    ({"logit_bias": {"99999999": 1}}, "logit_bias", ["99999999"]),
    ({"response_format": {"type": "xml"}}, "response_format", ["xml", "json_schema"]),
    ({"response_format": {"type": "json_schema"}}, "response_format", ["json_schema must be an object"]),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "response_format", ["no schema"]),
    ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "guided_regex", ["response_format already"]),
    ({"structured_outputs": 5}, "structured_outputs", ["an integer"]),
    ({"structured_outputs": {}}, "structured_outputs", ["one of json"]),
    ({"structured_outputs": {"lark": "x"}}, "structured_outputs", ["lark"]),
    ({"structured_outputs": {"json": {}, "choice": ["a"]}}, "structured_outputs", ["structured_outputs.json already"]),
    ({"structured_outputs": {"regex": ["a"]}}, "structured_outputs.regex", ["must be a string"]),
    ({"guided_whitespace_pattern": " "}, "guided_whitespace_pattern", ["not supported"]),
    ({"tools": [{"type": "function"}]}, "tools", ["tools[0]: function"]),
    ({"functions": [{"name": "f", "parameters": {}}]}, "functions", ["not supported: use tools"]),
    ({"function_call": "auto"}, "function_call", ["not supported: use tools"]),
    ({"function_call": {"name": "f"}}, "function_call", ["not supported: use tools"]),
    ({"modalities": ["text", "audio"]}, "modalities", ['modalities[1]: "audio" is not supported']),
    ({"modalities": "text"}, "modalities", ["must be an array, got a string"]),
    ({"mm_processor_kwargs": {"size": 3}}, "mm_processor_kwargs", ["size"]),
    ({"mm_processor_kwargs": {"min_pixels": 0}}, "min_pixels", ["0"]),
    ({"mm_processor_kwargs": {"min_pixels": 9, "max_pixels": 8}}, "min_pixels", ["9", "8"]),
    ({"mm_processor_kwargs": 3}, "mm_processor_kwargs", ["an integer"]),
    ({"continue_final_message": True}, "continue_final_message", ["assistant"]),
    ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message", ["cannot both be true"]),
    ({"messages": []}, "messages", ["[]"]),
    ({"messages": "hi"}, "messages", ["a string"]),
    ({"messages": [5]}, "messages", ["messages[0]"]),
    ({"messages": [{"content": "x"}]}, "messages", ["role"]),
    ({"messages": [{"role": "function", "content": "x"}]}, "messages", ["function"]),
    ({"messages": [{"role": "user"}]}, "messages", ["content"]),
    ({"messages": [{"role": "user", "content": [{"type": "audio_url"}]}]}, "messages", ["audio_url"]),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages", ["messages[0].content[0]"]),
    ({"messages": [{"role": "user", "content": ["x"]}]}, "messages", ["messages[0].content[0]"]),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "image_url", ["image_url"]),
    ({"model": 5}, "model", ["an integer"]),
    ({"model": "te\0st"}, "model", ["NUL"]),
])
def test_wrong_fields(server, fields, param, parts):
    check(server.chat(**{"messages": HELLO, **fields}), 400, "BadRequestError", param, *parts)


@pytest.mark.parametrize("fields", [{"functions": []}, {"functions": None, "function_call": "none"}, {"modalities": ["text"]}], ids=str)
def test_what_asks_for_nothing_else_is_taken(server, fields):
    assert server.chat(messages=HELLO, max_tokens=1, **fields).status == 200


UNSUPPORTED = {
    "logprob_token_ids": [[1]], "chat_template": ["{{ messages }}", ""],
    "documents": [[{"text": "a"}]], "watermarking": [True], "length_penalty": [2], "repeat_penalty": [1.1], "dry_multiplier": [0.8],
    "grammar": ['root ::= "a"'], "json_schema": [{"type": "object"}], "lora_path": ["x"],
    "num_predict": [3], "max_new_tokens": [3], "stop_sequences": [["a"]], "options": [{"temperature": 0}], "system": ["x"],
    "images": [["x"]], "min_pixels": [4], "max_pixels": [4], "encoder_no_repeat_ngram_size": [3], "guidance_scale": [2],
    "negative_prompt": ["x"], "samplers": [["top_k"]], "smoothing_factor": [0.2], "tfs_z": [0.9], "top_a": [0.1],
    "return_tokens_as_token_ids": [True], "use_beam_search": [True],
}


@pytest.mark.real_too
@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_fields(server, name):
    """They would change the answer. What asks for nothing is accepted."""
    requests = {CHAT: {"messages": HELLO}, "/v1/completions": {"prompt": "hello"}}
    neutral = [None, False] if UNSUPPORTED[name] == [True] else [None, False, []]
    for path, fields in requests.items():
        for value in UNSUPPORTED[name]:
            check(server.post(path, {**fields, name: value}), 400, "BadRequestError", name, "not supported")
        for value in neutral:
            assert server.post(path, {**fields, "max_tokens": 1, name: value}).status == 200, value


@pytest.mark.real_too
def test_greedy_by_another_name(server):
    check(server.chat(messages=HELLO, do_sample=False), 400, "BadRequestError", "do_sample", "temperature 0")
    assert server.chat(messages=HELLO, do_sample=True, max_tokens=1).status == 200


@pytest.mark.real_too
@pytest.mark.parametrize("body, param, part", [
    (b"", "body", "empty"),
    (b"{", "body", "Invalid JSON"),
    (b"{}{}", "body", "Invalid JSON"),
    (b"[]", "body", "an array"),
    (b"5", "body", "an integer"),
    (b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}', "body", "Invalid JSON"),
    (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "body", "Invalid JSON"),
    (b'{"a":' * 1000 + b"1" + b"}" * 1000, "body", "deep"),
    (b"[" * 1000000, "body", "deep"),
    (b"[" + b"1," * 1100000 + b"1]", "body", "values"),
    (b"{}", "body.messages", "messages"),
    (b'{"messages": null}', "body.messages", "messages"),
    (b'{"x": "' + b"\\" * 101, "body", "Invalid JSON"),
])
def test_bodies_that_are_no_request(server, body, param, part):
    check(server.post(CHAT, body), 400, "Bad Request", param, part)


@pytest.mark.real_too
@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}, {"Content-Type": "application/jsonx"}])
def test_wrong_content_type(server, headers):
    reply = server.request("POST", CHAT, json.dumps({"messages": HELLO}), headers)
    check(reply, 400, "Bad Request", "body", "application/json")


@pytest.mark.real_too
@pytest.mark.parametrize("parameters", ["", "; charset=utf-8"])
def test_content_type_with_parameters(server, parameters):
    headers = {"Content-Type": "application/json" + parameters}
    assert server.request("POST", CHAT, json.dumps({"messages": HELLO, "max_tokens": 1}), headers).status == 200


@pytest.mark.real_too
@pytest.mark.parametrize("method, path", [("GET", "/nowhere"), ("POST", "/v1/nowhere"), ("GET", "/v1"), ("GET", "/health/")])
def test_unknown_path(server, method, path):
    check(server.request(method, path), 404, "Not Found", None,
          "Not Found: no endpoint has this path (GET /docs lists them; /v1/chat/completions is one).")


@pytest.mark.real_too
@pytest.mark.parametrize("method, path, allow", [
    ("GET", CHAT, "POST"), ("DELETE", CHAT, "POST"), ("POST", "/v1/models", "GET, HEAD"), ("PUT", "/ping", "GET, HEAD, POST"),
    ("OPTIONS", "/health", "GET, HEAD"), ("GET", "/tokenize", "POST")])
def test_wrong_method(server, method, path, allow):
    reply = server.request(method, path)
    check(reply, 405, "Method Not Allowed", None, f"Method Not Allowed: this endpoint takes {allow}.")
    assert reply.headers["Allow"] == allow


@pytest.mark.real_too
def test_key(start):
    server = start(api_key="sesame")
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "sesame"}, {"Authorization": "Bearer "},
                    {"Authorization": "Bearer sesame2"}):
        for reply in (server.get("/v1/models", headers=headers), server.chat(headers=headers),
                      server.get("/v1/nowhere", headers=headers)):
            check(reply, 401, "AuthenticationError", None, "Unauthorized")
            assert reply.headers["WWW-Authenticate"] == "Bearer"
    assert server.get("/v1/models", headers={"Authorization": "Bearer sesame"}).status == 200
    assert server.chat(headers={"Authorization": "bearer sesame"}, max_tokens=1).status == 200
    for path in ("/health", "/version", "/ping"):
        assert server.get(path).status == 200


@pytest.mark.parametrize("refusal, status", [(2, 503), (3, 500), (4, 400), (9, 500)])
def test_failures_of_the_library_tell_nothing(server, refusal, status):
    reply = server.chat(f"[[refuse={refusal}]]")
    assert reply.status == status
    if status != 400:
        assert "/secret" not in reply.body.decode()
    if status == 503:
        assert reply.headers["Retry-After"] == "1"


def test_error_in_the_answer(server):
    check(server.chat("[[tokens=9]] [[error_at=3]]"), 500, "InternalServerError", None, "Internal server error.")
    assert "scripted failure" in server.read_output()


def test_dead_engine(start):
    server = start()
    assert server.get("/health").status == 200 and server.get("/ping").status == 200
    assert server.chat("[[die=1]]").status == 500
    for path in ("/health", "/ping"):
        assert server.get(path).status == 503
    assert server.post("/ping", b"").status == 503
    assert server.chat().status == 500
    assert server.get("/v1/models").status == 200


def test_image_limits(start):
    server = start(max_image_pixels=100)
    check(server.chat(messages=bad_image(data_url(png(11, 10)))), 400, "BadRequestError", "image", "at most 100")


def test_local_files(start, tmp_path):
    allowed, other = tmp_path / "allowed", tmp_path / "allowed-not"
    allowed.mkdir()
    other.mkdir()
    (allowed / "a b.png").write_bytes(png(9, 8))
    (other / "b.png").write_bytes(png())
    (allowed / "link.png").symlink_to(other / "b.png")
    (allowed / "folder").mkdir()
    os.mkfifo(allowed / "fifo")
    server = start(allowed_local_media_path=allowed)
    good = server.chat(messages=[{"role": "user", "content": [text_part("[[show=1]]"), {
        "type": "image_url", "image_url": {"url": f"file://{allowed}/a%20b.png"}}]}])
    assert "image(9x8" in good.json["choices"][0]["message"]["content"]
    for path in (f"{other}/b.png", f"{allowed}/link.png", f"{allowed}/../allowed-not/b.png", f"{allowed}/none.png",
                 f"{allowed}/folder", f"{allowed}/fifo", f"{allowed}/a%00.png", f"{allowed}/a%2", "relative.png", "/" * 5000):
        reply = server.chat(messages=bad_image("file://" + path))
        check(reply, 400, "BadRequestError", "image_url", "cannot be read")
        assert str(tmp_path) not in reply.body.decode()


@pytest.mark.real_too
@pytest.mark.parametrize("path, body, param", [
    ("/tokenize", {}, "body.prompt"), ("/tokenize", {"prompt": 5}, "prompt"), ("/tokenize", {"messages": []}, "messages"),
    ("/tokenize", {"prompt": "x", "model": "none"}, "model"), ("/detokenize", {}, "body.tokens"),
    ("/detokenize", {"tokens": "x"}, "tokens"), ("/detokenize", {"tokens": [1, -1]}, "tokens"),
    ("/detokenize", {"tokens": [1 << 40]}, "tokens"), ("/detokenize", {"tokens": [1.5]}, "tokens")])
def test_wrong_token_requests(server, path, body, param):
    reply = server.post(path, body)
    assert reply.status in (400, 404) and reply.error["param"] == param, reply.body


def test_base64_with_line_breaks_is_taken(server):
    url = "data:image/png;base64," + base64.encodebytes(png()).decode()
    assert server.chat(messages=bad_image(url)).status == 200


@pytest.mark.parametrize("field, value, wrong", [
    ("max_tokens", ["16", " 16 ", "1_0", "+5", "0016", "1.0", "16\n", "1_0.00", True, 2.0], ["1.5", "1e3", "", "0x10", "16.", ".0", "1__0", "_1", "1_", "+ 5", "true", "1,0"]),
    ("temperature", ["0.5", " 0.5 ", "1e-1", ".5", "1.", "+.5", "0_1.5", False, "0"], ["inf", "nan", "0x1", "", "1e", "1__0", "_1.0", "1_", "true", "( 1"]),
    ("logprobs", ["true", "True", "FALSE", "1", "0", "yes", "NO", "on", "Off", "t", "F", "y", "N", 0, 1.0], [" true", "", "2", "1.0", 2, "maybe"]),
])
def test_values_are_read_as_pydantic_does(server, field, value, wrong):
    """The lists are what pydantic 2 took, and refused, of vLLM's types for these fields."""
    for each in value:
        assert server.post(CHAT, {"messages": HELLO, "max_tokens": 2, field: each}).status == 200, each
    for each in wrong:
        check(server.post(CHAT, {"messages": HELLO, "max_tokens": 2, field: each}), 400, "BadRequestError", field, field)
