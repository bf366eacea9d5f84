"""What a user of `vllm serve` gets from this program with the same command line and the same curl
call."""

import shutil
import subprocess

import pytest
from images import image_part, png, text_part
from server_process import ServerProcess, check_output
from test_chat import CHOICE_KEYS, MESSAGE_KEYS, REPLY_KEYS, USAGE_KEYS

FLAGS = ["--dtype", "bfloat16", "--limit-mm-per-prompt", '{"image": 1}', "--max-model-len", "256", "--max-num-batched-tokens", "16384",
         "--no-async-scheduling"]


@pytest.fixture(scope="module")
def program(omma, model):
    process = ServerProcess([omma, "serve", model, "--host", "127.0.0.1", "--port", "0", *FLAGS])
    yield process
    process.stop()
    check_output(process)


def messages(*images):
    parts = [*(images or [image_part(png(64, 48))]), text_part("what is this?")]
    return [{"role": "system", "content": "Answer in few words."}, {"role": "user", "content": parts}]


def ask(program, **fields):
    reply = program.chat(**{"messages": messages(), "max_tokens": 4, "temperature": 0, **fields})
    assert reply.status == 200, reply.body
    return reply.json


def test_every_key_in_order(program):
    body = ask(program)
    assert (list(body), list(body["choices"][0])) == (REPLY_KEYS, CHOICE_KEYS)
    assert (list(body["choices"][0]["message"]), list(body["usage"])) == (MESSAGE_KEYS, USAGE_KEYS)
    assert body["usage"]["prompt_tokens"] > len(program.post("/tokenize", {"prompt": "what is this?"}).json["tokens"])


def test_the_path_is_a_name_too(program, model):
    assert ask(program, model=model)["model"] == model and ask(program)["choices"] == ask(program, model=model)["choices"]
    assert program.chat(**{"messages": messages(), "model": model + "x"}).status == 404


@pytest.mark.parametrize("word", ["auto", "-1"])
def test_the_checkpoints_length(omma, model, word):
    limits = []
    for more in ([], ["--max-model-len", word]):
        process = ServerProcess([omma, "serve", model, "--host", "127.0.0.1", "--port", "0", *more])
        limits.append(process.get("/v1/models").json["data"][0]["max_model_len"])
        process.stop()
        check_output(process)
    assert limits[0] == limits[1] >= 256


def test_a_chat_template_that_cannot_be_rendered(omma, model, tmp_path):
    folder = tmp_path / "other"
    shutil.copytree(model, folder)
    (folder / "chat_template.jinja").write_text("{{- 'You are a pirate.' }}{% include 'pirate' %}")
    command = [omma, "serve", str(folder), "--host", "127.0.0.1", "--port", "0", "--max-model-len", "256"]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    for part in (b"chat_template.jinja: line 1: this statement is not supported at include", b"--chat-template FILE", b"--trust-family-chat-template"):
        assert part in done.stderr, done.stderr
    process = ServerProcess([*command, "--trust-family-chat-template"])
    template = process.get("/v1/models").json["data"][0]["chat_template"]
    assert template["checkpoint_has_it"] is False and template["rendered_as"]
    assert process.chat(messages=messages(), max_tokens=1).status == 200
    process.stop()
    assert "warning: " in process.output.decode() and "line 1: this statement" in process.output.decode()
    process.output = process.output.replace(b"warning: ", b"")
    check_output(process)


@pytest.mark.parametrize("words", [["--min-pixels", "100000", "--max-pixels", "60000"], ["--mm-processor-kwargs", '{"min_pixels": 100000, "max_pixels": 60000}']])
def test_limits_that_no_image_could_meet(omma, model, words):
    """Said at the start, by the options' names; the server began, and refused each image."""
    done = subprocess.run([omma, "serve", model, "--host", "127.0.0.1", "--port", "0", *words], capture_output=True, timeout=60, check=False)
    assert done.returncode == 1 and done.stderr.startswith(b"omma: --min-pixels: ") and done.stderr.count(b"\n") == 1, done.stderr
    assert b"this model never enlarges images" in done.stderr or b"expected at most --max-pixels, which is 60000, found 100000" in done.stderr


def test_one_image_at_most(program):
    reply = program.chat(messages=messages(image_part(), image_part()), max_tokens=1)
    assert reply.status == 400 and reply.error["param"] == "image" and "At most 1 image(s)" in reply.error["message"]


def test_pixels_of_one_request(program, model_can):
    fields = {"messages": messages(image_part(png(128, 128)))}
    few = ask(program, mm_processor_kwargs={"max_pixels": 32 * 32}, **fields)
    assert few["usage"]["prompt_tokens"] < ask(program, **fields)["usage"]["prompt_tokens"]
    fields = {"messages": messages(image_part(png(32, 32))), "mm_processor_kwargs": {"min_pixels": 128 * 128}}
    if model_can.enlarges:
        assert few["usage"]["prompt_tokens"] < ask(program, **fields)["usage"]["prompt_tokens"]
    else:
        reply = program.chat(**fields)
        assert reply.status == 400 and "never enlarges" in reply.error["message"]


def test_length_fields(program):
    assert ask(program, ignore_eos=True, max_tokens=7)["usage"]["completion_tokens"] == 7
    assert ask(program, min_tokens=5, max_tokens=6)["usage"]["completion_tokens"] >= 5


def first_whole_token(program, fields):
    """The index, id and text of the first token of an answer that is a text of its own, not seen
    before in that answer."""
    seen = ""
    for index, entry in enumerate(ask(program, logprobs=True, **fields)["choices"][0]["logprobs"]["content"]):
        ids = program.post("/tokenize", {"prompt": entry["token"], "add_special_tokens": False}).json["tokens"]
        if len(ids) == 1 and entry["token"].isprintable() and "\ufffd" not in entry["token"] and entry["token"] not in seen:
            return index, ids[0], entry["token"]
        seen += entry["token"]
    return None


def test_stop_tokens_and_strings(program):
    questions = ["what is this?", "a cat", "1 2 3", "Hello!", "why", "x"]
    for question in questions:
        fields = {"messages": [{"role": "user", "content": question}], "ignore_eos": True, "max_tokens": 24}
        found = first_whole_token(program, fields)
        if found:
            break
    assert found, "no answer has a token that is a text of its own: ask something else"
    index, token, text = found
    body = ask(program, stop_token_ids=[token], **fields)
    choice = body["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"], body["usage"]["completion_tokens"]) == ("stop", token, index + 1)
    whole = ask(program, **fields)["choices"][0]["message"]["content"]
    choice = ask(program, stop=[text], **fields)["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", text)
    assert choice["message"]["content"] == whole[:whole.index(text)]


def test_choices_and_seeds(program):
    body = ask(program, n=2, seed=5, temperature=1, ignore_eos=True)
    again = ask(program, n=2, seed=5, temperature=1, ignore_eos=True)
    assert len(body["choices"]) == 2 and body["choices"] == again["choices"]
    assert body["choices"][1]["message"] == ask(program, seed=6, temperature=1, ignore_eos=True)["choices"][0]["message"]
    assert body["usage"]["completion_tokens"] == 8


def test_logprobs(program):
    entries = ask(program, logprobs=True, top_logprobs=3, ignore_eos=True)["choices"][0]["logprobs"]["content"]
    assert len(entries) == 4 and all(list(entry) == ["token", "logprob", "bytes", "top_logprobs"] for entry in entries)
    assert all(len(entry["top_logprobs"]) == 3 and entry["top_logprobs"][0]["logprob"] == entry["logprob"] for entry in entries)


def test_penalties_change_the_answer(program):
    plain = ask(program, ignore_eos=True, max_tokens=24)["choices"][0]["message"]["content"]
    for fields in ({"repetition_penalty": 5}, {"presence_penalty": 2, "frequency_penalty": 2}):
        assert ask(program, ignore_eos=True, max_tokens=24, **fields)["choices"][0]["message"]["content"] != plain, fields
