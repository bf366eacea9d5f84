"""`omma chat`: answers, videos, boxes, templates, interrupts.

Run with: pytest tests/cli --omma build/release/omma
"""

import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from omma_program import refused


@pytest.mark.parametrize("words, pattern", [
    (["--json-schema", '{"properties": {"n": {"enum": ["eight", "nine"]}}, "required": ["n"]}'], r'\{\s*"n":\s*"(eight|nine)"\s*\}'),
    (["--json-schema", "FILE"], "true|false"),
    (["--regex", "[a-c]{2}x"], "[a-c]{2}x"),
    (["--grammar", 'root ::= "yes" | "no" '], "yes|no"),
], ids=["schema", "file", "regex", "grammar"])
def test_answers_have_the_form(omma, model, tmp_path, words, pattern):
    (tmp_path / "schema.json").write_text('{"type": "boolean"}')
    words = [str(tmp_path / "schema.json") if word == "FILE" else word for word in words]
    done = omma("chat", "--model", model, "--prompt", "x", "--max-tokens", "100", *words)
    assert done.returncode == 0 and re.fullmatch(pattern, done.stdout.decode().strip()), done


def test_an_unsupported_format_is_reported_before_the_weights(omma, model):
    refused(omma("chat", "--model", model, "--prompt", "x", "--json-schema", '{"contains": {}}'), 1, "--json-schema: #/contains: this key is not supported")


def test_chat_without_anything_to_ask(omma):
    refused(omma("chat", stdin=b""), 2, "nothing to ask")


def test_chat_json(omma, model, images):
    words = ["chat", "--model", model, "--image", images / "tile_64x64.png", "--prompt", "What is this?"]
    words += ["--max-tokens", "5", "--json", "--logprobs", "2", "--ignore-eos"]
    answer = omma.json(*words)
    assert answer["finish_reason"] == "length"
    usage = answer["usage"]
    assert usage["completion_tokens"] == len(answer["token_ids"]) == 5
    assert usage["prompt_tokens"] == len(answer["prompt_token_ids"])
    assert usage["total_tokens"] == usage["prompt_tokens"] + 5
    assert isinstance(answer["text"], str) and answer["boxes"] == []
    assert set(answer["timings"]) == {"decode_image", "queue", "preprocess", "encode", "prefill", "decode"}
    assert [entry["id"] for entry in answer["logprobs"]] == answer["token_ids"]
    for entry in answer["logprobs"]:
        assert entry["logprob"] <= 0 and len(entry["top"]) == 2
    again = omma.json(*words)
    assert {**again, "timings": 0} == {**answer, "timings": 0}
    plain = omma("chat", "--model", model, "--prompt", "What is this?", "--image", words[4], "--max-tokens", "5", "--ignore-eos")
    assert plain.returncode == 0 and plain.stderr == b""
    assert plain.stdout.decode().rstrip("\n") == answer["text"].rstrip("\n")


def test_chat_video(omma, model, images, tmp_path):
    """A folder's frames come in the order of their numbers, and are the same video as a list of
    files."""
    frames = [images / f"clip_{i}_118x54.jpg" for i in range(4)]
    for i, frame in enumerate(frames):
        shutil.copy(frame, tmp_path / f"frame_{[2, 9, 10, 100][i]}.jpg")
    (tmp_path / ".hidden").write_text("no image")
    words = ["chat", "--model", model, "--max-tokens", "3", "--ignore-eos", "--json", "--prompt", "What moves?", "--logprobs", "0"]
    folder, files, backward = (
        omma.json(*words, "--fps", "1", "--video", video)
        for video in (tmp_path, ",".join(map(str, frames)), ",".join(map(str, frames[::-1])))
    )
    assert folder["prompt_token_ids"] == files["prompt_token_ids"] == backward["prompt_token_ids"]
    assert folder["logprobs"] == files["logprobs"] != backward["logprobs"]
    slower = omma.json(*words, "--fps", "0.1", "--video", tmp_path)
    assert slower["prompt_token_ids"] != folder["prompt_token_ids"]
    both = omma.json(*words, "--video", tmp_path, "--image", images / "tile_64x64.png")
    assert both["usage"]["prompt_tokens"] > folder["usage"]["prompt_tokens"]


def test_chat_wrong_video(omma, model, images, tmp_path):
    words = ["chat", "--model", model, "--prompt", "x", "--video"]
    tile, clip = images / "tile_64x64.png", images / "clip_0_118x54.jpg"
    refused(omma(*words, "video.mp4"), 2, "video.mp4", "folder of frames")
    refused(omma(*words, f"{tile},,{tile}"), 2, "empty")
    refused(omma(*words, f"{tile},{clip}"), 1, "frame 1", "64 x 64", "118 x 54")
    refused(omma(*words, f"{tile},{tmp_path / 'none.png'}"), 1, "none.png")
    refused(omma(*words, tmp_path), 1, tmp_path, "no files")
    refused(omma(*words, f"{tile},{tile}", "--fps", "0"), 2, "--fps")
    for i in range(769):
        (tmp_path / f"{i}.png").write_bytes(b"")
    refused(omma(*words, tmp_path), 1, "more than 768 frames")


def test_chat_prompt_from_stdin(omma, model):
    words = ["chat", "--model", model, "--max-tokens", "3", "--ignore-eos", "--json"]
    given, piped = omma.json(*words, "--prompt", "Hello"), omma.json(*words, stdin=b"Hello\n")
    assert given["prompt_token_ids"] == piped["prompt_token_ids"] and given["token_ids"] == piped["token_ids"]
    assert "logprobs" not in given and "boxes" not in given


def test_chat_system(omma, model):
    words = ["chat", "--model", model, "--max-tokens", "1", "--ignore-eos", "--json", "--prompt", "Hello"]
    assert len(omma.json(*words, "--system", "Be brief.")["prompt_token_ids"]) > len(omma.json(*words)["prompt_token_ids"])


def test_chat_seed(omma, model):
    words = ["chat", "--model", model, "--max-tokens", "8", "--ignore-eos", "--json", "--prompt", "Hello", "--temperature", "2"]
    assert omma.json(*words, "--seed", "1")["token_ids"] == omma.json(*words, "--seed", "1")["token_ids"]


def test_chat_prompt_too_long(omma, model):
    refused(omma("chat", "--model", model, "--max-model-len", "64", "--prompt", "one two three " * 100), 1, "64")


def test_chat_without_a_box(omma, model, images, tmp_path):
    words = ["chat", "--model", model, "--image", images / "tile_64x64.png", "--prompt", "Hello", "--max-tokens", "3"]
    done = omma(*words, "--ignore-eos", "--boxes", tmp_path / "out.png")
    assert done.returncode == 1 and done.stdout and not list(tmp_path.iterdir())
    assert re.fullmatch(r"omma: boxes: no box found in the answer: .*/out\.png is not written\n", done.stderr.decode())


@pytest.fixture
def boxes(omma, tmp_path):
    """omma chat --boxes of a model that is not there: what is refused before was refused before a
    model is opened."""

    def boxes(output, *images):
        words = [word for image in images for word in ("--image", image)]
        return omma("chat", "--model", tmp_path / "none", *words, "--prompt", "Hello", "--boxes", output)

    return boxes


def test_boxes_go_to_a_file_that_can_be_written(boxes, images, tmp_path):
    image, whole = images / "tile_64x64.png", tmp_path / "taken.png"
    whole.mkdir()
    refused(boxes(tmp_path / "no/such/out.png", image), 1, "no/such/out.png: cannot be written: No such file")
    refused(boxes(whole, image), 1, "taken.png: cannot be written: Is a directory")
    refused(boxes(tmp_path / ("a" * 5000 + ".png"), image), 1, "too long")
    refused(boxes(tmp_path / "out.png", image), 1, "no such file or directory: a model is")
    if os.getuid():
        whole.chmod(0o500)
        refused(boxes(whole / "out.png", image), 1, "cannot be written: Permission denied")
    assert list(tmp_path.iterdir()) == [whole]


def test_boxes_go_to_a_png(boxes, images, tmp_path):
    for name in ("out.jpg", "out", "png", "out.png.bak"):
        refused(boxes(tmp_path / name, images / "tile_64x64.png"), 2, f"{name}: the name must end in .png")
    refused(boxes(tmp_path / "OUT.PNG", images / "tile_64x64.png"), 1, "no such file or directory: a model is")


def test_boxes_never_replace_the_image(boxes, images, tmp_path):
    mine, link, second = (tmp_path / name for name in ("mine.png", "link.png", "link-2.png"))
    shutil.copy(images / "tile_64x64.png", mine)
    link.symlink_to(mine)
    refused(boxes(mine, mine), 2, "mine.png: is the image")
    refused(boxes(link, images / "tile_64x64.png", mine), 2, "link.png: is the image")
    link.unlink()
    shutil.copy(mine, second)
    refused(boxes(link, mine, second), 2, "link-2.png: is the image")
    assert mine.read_bytes() == second.read_bytes() == (images / "tile_64x64.png").read_bytes()


def test_chat_threads_agree(omma, model):
    words = ["chat", "--model", model, "--max-tokens", "8", "--ignore-eos", "--json", "--prompt", "Hello"]
    assert omma.json(*words, "--threads", "1")["token_ids"] == omma.json(*words, "--threads", "2")["token_ids"]


def test_int8_tower(omma, model, no_weights, images, tmp_path):
    image = images / "tile_64x64.png"
    int8 = ["--vision-dtype", "int8"]
    words = ["--model", model, *int8]
    asked = ["--image", image, "--prompt", "Hello", "--max-tokens", "8", "--ignore-eos", "--json"]
    answers = [omma.json("chat", *words, *asked, "--threads", threads)["token_ids"] for threads in ("1", "2")]
    assert answers[0] == answers[1] and len(answers[0]) == 8
    assert omma("encode", *words, image, "--output", tmp_path / "tokens.safetensors").returncode == 0
    sizes = [omma.json("info", "--model", no_weights, "--json", *more)["model"] for more in (["--vision-dtype", "f32"], int8)]
    assert [size["vision_weights"] for size in sizes] == ["f32", "int8"]
    assert sizes[1]["memory"]["weight_bytes"] < sizes[0]["memory"]["weight_bytes"]
    plan = omma.json("plan", "--model", no_weights, "--json", *int8, "64x64")
    assert plan["memory"]["weight_bytes"] == sizes[1]["memory"]["weight_bytes"]


def test_another_chat_template(omma, model, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}\n{{ m.content }}\x1b[2J{% endfor %}")
    found = omma.json("info", "--model", folder, "--json")["model"]
    assert found["chat_template"] == "its own" and found["chat_template_difference"] is None
    done = omma("chat", "--model", folder, "--prompt", "x", "--max-tokens", "1", "--threads", "1")
    assert done.returncode == 0 and b"warning" not in done.stderr
    (folder / "chat_template.jinja").write_text("{% for m in messages %}\n{% include '\x1b[2J' %}{% endfor %}")
    words = ["chat", "--model", folder, "--prompt", "x", "--max-tokens", "1", "--threads", "1"]
    refused(omma(*words), 1, "chat_template.jinja: line ", "--trust-family-chat-template")
    done = omma(*words, "--trust-family-chat-template")
    assert done.returncode == 0 and b"omma: warning: " in done.stderr and b"prompts are rendered in the form of" in done.stderr
    assert b"\x1b" not in done.stderr
    found = omma.json("info", "--model", folder, "--json")["model"]
    assert "line " in found["chat_template_difference"]
    (folder / "chat_template.jinja").unlink()
    if "chat_template" not in json.loads((folder / "tokenizer_config.json").read_text()):
        refused(omma(*words), 1, "no chat template", "--trust-family-chat-template")
    (tmp_path / "given.jinja").write_text("{% for m in messages %}{{ m.content }}")
    refused(done := omma(*words, "--chat-template", tmp_path / "given.jinja"), 1,
            "given.jinja: line 1: {% for %} is not closed: {% endfor %} is missing; ", "--trust-family-chat-template uses the form of its family")
    assert b"--chat-template FILE" not in done.stderr
    # No hint at the option where it would not help.
    (folder / "chat_template.json").write_text('{"chat_template": 3}')
    refused(done := omma(*words), 1, "chat_template.json", "expected a string")
    assert b"--trust-family-chat-template" not in done.stderr
    (folder / "chat_template.json").unlink()
    # What asks nothing of a chat does not care.
    assert omma("plan", "--model", folder).returncode == 0
    bench = omma("bench", "decode", "--model", folder, "--threads", "1", "--context", "8", "--tokens", "2", "--repeat", "1",
                 "--warmup", "0", "--json")
    assert bench.returncode == 0 and b"template" not in bench.stderr


def test_interrupt_ends_an_answer(omma, model):
    words = [omma.path, "chat", "--model", model, "--ignore-eos", "--prompt", "Hello", "--temperature", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        code = process.wait(timeout=30)
        error = process.stderr.read().decode()
    assert (code, error) == (130, "omma: interrupted\n")
