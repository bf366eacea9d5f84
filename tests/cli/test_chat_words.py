"""Command lines as newcomers type them: words without options, images from anywhere, files that are
something else.

Run with: pytest tests/cli --omma build/release/omma
"""

import json
import os
import shutil
import struct
import subprocess
import threading
import zlib

import pytest

from omma_program import refused

ANSWER = ["--max-tokens", "4", "--ignore-eos", "--json"]


@pytest.fixture(scope="module")
def ids(omma, model):
    """The prompt that a command line asks, as token ids."""

    def ids(*words, stdin=b"", command=("chat", "--model", model)):
        return omma.json(*command, *ANSWER, *words, stdin=stdin)["prompt_token_ids"]

    return ids


@pytest.fixture(scope="module")
def tile(images):
    return images / "tile_64x64.png"


@pytest.fixture(scope="module")
def stamp(images):
    return images / "stamp_20x10.png"


QUESTION = "What is this?"


def png(width, height):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes(3 * width)) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_words_are_images_and_the_question(ids, tile, stamp):
    one = ids("--image", tile, "--prompt", QUESTION)
    both = ids("--image", tile, "--image", stamp, "--prompt", QUESTION)
    assert len(both) > len(one)
    for words in ([tile, QUESTION], [QUESTION, tile], ["--image", tile, QUESTION], ["-i", tile, "--prompt", QUESTION]):
        assert ids(*words) == one, words
    for words in ([tile, stamp, QUESTION], ["--image", tile, stamp, QUESTION], ["--image", tile, stamp, "-p", QUESTION],
                  ["--image", tile, "--prompt", QUESTION, stamp], ["--image", tile, stamp, "--", QUESTION]):
        assert ids(*words) == both, words
    assert ids(tile, stdin=QUESTION.encode()) == one
    assert ids("Hello") == ids("--prompt", "Hello")


def test_images_within_the_question(omma, ids, tile, stamp, tmp_path):
    """A question that is one word of the command line; that of --prompt is taken as it is."""
    one, both = ids(tile, QUESTION), ids(tile, stamp, QUESTION)
    odd = tmp_path / "a b.png"
    shutil.copy(tile, odd)
    for words in ([f"{tile} {QUESTION}"], [f"{QUESTION} {tile}"], [f"'{odd}' {QUESTION}"], [f"file://{tile}: {QUESTION}"]):
        assert ids(*words) == one, words
    for words in ([tile, f"{stamp} {QUESTION}"], [f"{tile} {stamp} {QUESTION}"], [f"{QUESTION} {tile}\n{stamp}"]):
        assert ids(*words) == both, words
    assert ids(f"What is in {tile}?") == ids(tile, f"What is in {tile.name}?")
    for words in (["--prompt", f"{tile} {QUESTION}"], ["-p", f"{QUESTION} /none/such.png"]):
        assert ids(*words) == ids(stdin=words[1].encode())
    warned = omma("chat", *ANSWER, "--prompt", f"{tile} {QUESTION}")
    assert warned.returncode == 0 and f"--image {tile} shows it to the model" in warned.stderr.decode()


@pytest.mark.parametrize("question, why", [
    ("/none/such.png what is it?", "/none/such.png: no such file"),
    ("What is in '/none/my cat.jpg'?", "/none/my cat.jpg: no such file"),
    ("What is in https://example.org/a.png?", "not fetched"),
])
def test_missing_images_within_the_question(omma, question, why):
    refused(omma("chat", question), 1, why, "--prompt TEXT takes a question as it stands")


def test_words_with_slashes_are_asked(omma, model, ids):
    for question in ("Is it and/or?", "1/2 of it", "What is in /etc?"):
        done = omma("chat", "--model", model, *ANSWER, question)
        assert done.returncode == 0 and done.stderr == b""
        assert ids(question) == ids("--prompt", question)


def test_images_from_anywhere(ids, tile, tmp_path):
    one = ids("--image", tile, "--prompt", QUESTION)
    odd = tmp_path / "a b.png"
    shutil.copy(tile, odd)
    address = "file://" + str(odd).replace(" ", "%20")
    for words in (["--image", address, "-p", QUESTION], [address, QUESTION], ["--image", "file://localhost" + address[7:], QUESTION]):
        assert ids(*words) == one, words
    for words in (["--image", "-", "--prompt", QUESTION], ["-", QUESTION]):
        assert ids(*words, stdin=tile.read_bytes()) == one, words


def test_standard_input_as_an_image(omma, tile, no_weights):
    plan = ["plan", "--model", no_weights, "--json"]
    assert omma.json(*plan, "-", stdin=tile.read_bytes())["images"][0]["width"] == 64
    refused(omma("chat", "--image", "-", stdin=tile.read_bytes()), 2, "--prompt", "standard input is the image")
    refused(omma("chat", "-", "-", QUESTION), 2, "standard input")
    refused(omma("chat", "-", QUESTION, stdin=b""), 1, "standard input", "0 bytes")
    refused(omma("chat", "-", QUESTION, stdin=b"%PDF-1.7"), 1, "standard input", "a PDF")


def test_pipes_are_images(omma, model, ids, tile, no_weights, tmp_path):
    """A shell's <(command) is /dev/fd/N, which is a pipe, and so may be /dev/stdin."""
    one, tile_bytes = ids("--image", tile, "--prompt", QUESTION), tile.read_bytes()
    for words in (["/dev/stdin", QUESTION], ["--image", "/dev/fd/0", "--prompt", QUESTION]):
        assert ids(*words, stdin=tile_bytes) == one, words
    pipe = tmp_path / "pipe"
    for name in (str(pipe), "/dev/fd/{}"):
        read, write = os.pipe()
        os.write(write, tile_bytes)
        os.close(write)
        words = [omma.path, "chat", "--model", model, *ANSWER, name.format(read), QUESTION]
        if name == str(pipe):
            os.mkfifo(pipe)
            threading.Thread(target=pipe.write_bytes, args=(tile_bytes,)).start()
        done = subprocess.run(words, pass_fds=[read], capture_output=True, timeout=60)
        os.close(read)
        assert done.returncode == 0 and json.loads(done.stdout)["prompt_token_ids"] == one, done.stderr
    refused(omma("chat", "/dev/stdin", stdin=tile_bytes), 2, "--prompt", "standard input is the image")
    refused(omma("plan", "--model", no_weights, "/dev/null"), 1, "/dev/null", "0 bytes")


def test_images_that_the_model_refuses_are_named(omma, tile, images, tmp_path):
    thin = tmp_path / "thin.png"
    thin.write_bytes(png(2000, 4))
    done = omma("chat", tile, thin, QUESTION)
    refused(done, 1, f"{thin}: image is too narrow: 2000 x 4 pixels")
    assert b"image 0" not in done.stderr and b"image 1" not in done.stderr


@pytest.fixture(scope="module")
def no_weights(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    for name in ("config.json", "preprocessor_config.json", "tokenizer.json"):
        shutil.copy(f"{model}/{name}", folder)
    return folder


def test_the_model_as_a_word(ids, model, tile):
    asked = ids(tile, QUESTION)
    assert ids(tile, QUESTION, command=("chat", model)) == asked
    assert ids(tile, QUESTION, command=("run", model)) == asked
    assert ids(tile, QUESTION, command=("run", "--model", model)) == asked


@pytest.mark.parametrize(
    "words, code, why",
    [
        (["run"], 2, "which model"),
        (["run", "qwen3-vl:2b", "Hello"], 1, "qwen3-vl:2b: no such file or directory"),
        (["chat", "Qwen/Qwen3-VL-2B-Instruct", "Hello"], 1, "no such file or directory"),
        (["chat", "none.png", QUESTION], 1, "none.png: no such file"),
        (["chat", "*.jpg", QUESTION], 1, "*.jpg: no such file"),
        (["chat", "--image", "none", "--prompt", QUESTION], 1, "none"),
        (["chat", "What", "is", "this?"], 2, "in quotes"),
        (["chat", "Hello", "--prompt", "Hello"], 2, "already"),
        (["chat", "https://example.org/a.png", "Hello"], 2, "not fetched"),
    ],
)
def test_words_that_are_nothing(omma, words, code, why):
    refused(omma(*words), code, why)


def test_directories_that_are_no_model(omma, model, tmp_path):
    refused(omma("chat", tmp_path, QUESTION), 2, f"--video {tmp_path}", f"{tmp_path}/* gives the images in it")
    refused(omma("chat", model, model, QUESTION), 2, "given already")


@pytest.mark.parametrize("question", ["", "  ", "\n\t "])
def test_an_empty_question(omma, tile, question):
    refused(omma("chat", "--image", tile, "--prompt", question), 2, "nothing to ask")
    refused(omma("chat", tile, question), 2, "nothing to ask")
    refused(omma("chat", "--image", tile, stdin=question.encode()), 2, "nothing to ask")


def test_tokens_as_words(omma, model):
    made = omma.json("tokenize", "--model", model, "two red circles")
    assert made == omma.json("tokenize", "--model", model, "--text", "two red circles")
    back = omma("detokenize", "--model", model, *made["tokens"])
    assert back.stdout == b"two red circles"


def test_gguf_files_are_models(omma, tmp_path):
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF" + bytes(60))
    for words in (["chat", "--model", gguf, "Hello"], ["run", gguf, "Hello"], ["serve", gguf], ["info", "--model", gguf],
                  ["plan", gguf], ["plan", gguf, "64x64"], ["chat", gguf, "Hello"], ["chat", "--model", tmp_path, "Hello"],
                  ["run", tmp_path, "Hello"], ["chat", tmp_path, "Hello"], ["plan", tmp_path]):
        done = omma(*words, stdin=b"")
        refused(done, 1, gguf, "GGUF version 0 is not supported")
        assert b"cannot identify image" not in done.stderr
    refused(omma("chat", "--model", __file__, "Hello"), 1, __file__, "neither a directory nor a GGUF file")
    broken = tmp_path / "a.gguf"
    broken.write_text("GGU")
    for words in (["chat", broken, "Hello"], ["embed", broken, "-o", "-"], ["plan", broken], ["tokenize", broken, "a"]):
        refused(omma(*words), 1, "a.gguf: neither a directory nor a GGUF file")


def test_the_model_is_looked_for_before_the_question(omma):
    refused(omma("run", "llama3", stdin=b""), 1, "llama3: no such file or directory", "nothing is downloaded")
    refused(omma("chat", "--model", "llama3", stdin=b""), 1, "llama3: no such file or directory")


def test_a_configuration_of_another_name(omma, model, tmp_path):
    shutil.copy(f"{model}/config.json", tmp_path / "some-7b.json")
    refused(omma("plan", tmp_path / "some-7b.json", "640x480"), 1, "some-7b.json", "must be called config.json")
    shutil.copy(f"{model}/config.json", tmp_path)
    assert omma("plan", tmp_path / "config.json", "640x480").returncode == 0


def test_a_slash_at_the_end_of_the_model(omma, tmp_path):
    done = omma("plan", f"{tmp_path}/")
    refused(done, 1, f"{tmp_path}/: a directory without config.json")
    assert b"//" not in done.stderr


@pytest.mark.parametrize(
    "start, name, hint",
    [
        (b"%PDF-1.7\n", "a PDF", "pdftoppm"),
        (b"<?xml version='1.0'?>\n<svg xmlns='http://www.w3.org/2000/svg'/>", "an SVG", "rsvg-convert"),
        (b"\n<!DOCTYPE html><html><body><svg/></body>", "an HTML page", "address"),
        (b"\0\0\0\x20ftypisom\0\0\2\0isom", "a video", "--video"),
        (b"\xff\x0a" + bytes(20), "a JPEG XL image", "djxl"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer", "git lfs pull"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "a WAV recording", "sound is not supported"),
        (b"ID3\4\0\0\0\0\0\0", "an MP3 recording", "sound is not supported"),
        (b"\xff\xfb\x90\x64\0\0\0\0", "an MP3 recording", "sound is not supported"),
        (b"\0\0\0\x20ftypM4A \0\0\2\0M4A ", "an M4A recording", "sound is not supported"),
        (b"no image at all", "JPEG, PNG, WebP, GIF", "magick"),
    ],
)
def test_files_that_are_no_image(omma, model, no_weights, tmp_path, start, name, hint):
    file = tmp_path / "thing.jpg"
    file.write_bytes(start)
    for words in (["plan", file, "--model", no_weights], ["chat", file, QUESTION, "--model", no_weights],
                  ["encode", file, "-o", tmp_path / "out", "--model", model]):  # opened first
        done = omma(*words)
        refused(done, 1, file, name, hint)
        assert (b"magick" in done.stderr) == (hint == "magick")


def test_broken_images_need_no_converter(omma, tile, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(tile.read_bytes()[:100])
    done = omma("chat", broken, QUESTION)
    refused(done, 1, broken)
    assert b"magick" not in done.stderr


def test_boxes_of_the_demo_model(omma, images, tmp_path):
    """The line of README.md."""
    cross = images.parents[2] / "models/demo/images/cross.png"
    out = tmp_path / "out.png"
    done = omma("chat", cross, "Where is the orange cross?", "--boxes", out)
    assert done.returncode == 0 and b"bbox_2d" in done.stdout
    assert out.read_bytes().startswith(b"\x89PNG")
    found = omma.json("chat", cross, "Where is the orange cross?", "--json")
    assert found["boxes"][0]["label"] == "orange cross" and json.loads(found["text"])
