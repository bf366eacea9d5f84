"""Models, files, tokens, memory and the server, as users of the command line meet them.

Run with: pytest tests/cli --omma build/release/omma
"""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

from omma_program import limited_to, refused

TEXTS = ["two red circles", "", " leading and trailing ", "line\nbreak\ttab", "Grüße, 世界, 🙂", "<|im_start|>user\nhi<|im_end|>"]


def test_missing_model(omma, tmp_path):
    missing = tmp_path / "nowhere"
    for command in (["chat", "--prompt", "x"], ["tokenize", "--text", "x"], ["plan", "10x10"], ["info"], ["verify"]):
        refused(omma(*command, "--model", missing), 1, missing)
    refused(omma("serve", missing), 1, missing)


def test_empty_model(omma, tmp_path):
    refused(omma("tokenize", "--text", "x", "--model", tmp_path), 1, "config.json")


def test_broken_config(omma, no_weights, tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(no_weights, folder)
    (folder / "config.json").write_text('{"model_type": ')
    refused(omma("tokenize", "--text", "x", "--model", folder), 1, "config.json")


def test_model_without_weights(omma, no_weights):
    refused(omma("chat", "--prompt", "x", "--model", no_weights), 1, "model.safetensors")


def test_missing_image(omma, model, tmp_path):
    missing = tmp_path / "none.png"
    refused(omma("plan", missing, "--model", model), 1, missing)
    refused(omma("chat", "--image", missing, "--prompt", "x", "--model", model), 1, missing)
    refused(omma("encode", missing, "--output", tmp_path / "o", "--model", model), 1, missing)
    refused(omma("preprocess", missing, "--output", tmp_path / "o", "--model", model), 1, missing)


def test_no_image(omma, model, tmp_path):
    text = tmp_path / "text.png"
    text.write_text("this is not an image at all, whatever its name says")
    refused(omma("plan", text, "--model", model), 1, text)


@pytest.mark.parametrize("source", ["https://example.org/a.png", "http://127.0.0.1/a.png", "ftp://x/y"])
def test_addresses_are_refused(omma, model, source):
    refused(omma("chat", "--image", source, "--prompt", "x", "--model", model), 2, source, "not fetched")


@pytest.mark.parametrize("source", ["data:image/png;base64", "data:image/png,abc", "data:image/png;base64,@@@@", "data:;base64,aGVsbG8="])
def test_wrong_data_url(omma, model, source):
    refused(omma("plan", source, "--model", model), 1, "data:")


def test_names_with_control_characters_stay_on_one_line(omma, model):
    refused(omma("plan", "a\nb\x1b[31m.png", "--model", model), 1)


def test_unwritable_output(omma, model, images, tmp_path):
    target = tmp_path / "no" / "such" / "folder.safetensors"
    refused(omma("preprocess", images / "tile_64x64.png", "--output", target, "--model", model), 1, target)


def test_full_output(omma, model):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full:
        words = [omma.path, "tokenize", "--text", "x", "--model", model]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("text", TEXTS)
def test_round_trip(omma, no_weights, text):
    made = omma.json("tokenize", "--model", no_weights, "--text", text)
    assert made["count"] == len(made["tokens"]) and all(isinstance(token, int) for token in made["tokens"])
    assert omma.json("tokenize", "--model", no_weights, stdin=text.encode()) == made
    back = omma("detokenize", "--model", no_weights, stdin=json.dumps(made).encode())
    assert back.returncode == 0 and back.stdout == text.encode()
    listed = ",".join(str(token) for token in made["tokens"])
    assert omma.json("detokenize", "--model", no_weights, "--tokens", listed, "--json") == {"text": text}


def test_detokenize_forms(omma, no_weights):
    for form in ("72 101", "72,101", "[72,101]", '{"tokens":[72,101]}', "72\n101\n"):
        done = omma("detokenize", "--model", no_weights, "--tokens", form)
        assert done.returncode == 0, done.stderr
        assert done.stdout == omma("detokenize", "--model", no_weights, "--tokens", "72 101").stdout


@pytest.mark.parametrize("form, code", [("72 x", 2), ("-1", 2), ("4294967296", 2), ("[1.5]", 1), ("{}", 1), ("[1", 1), ("2147483647", 1)])
def test_wrong_tokens(omma, no_weights, form, code):
    refused(omma("detokenize", "--model", no_weights, f"--tokens={form}"), code)


def test_invalid_utf8(omma, no_weights):
    refused(omma("tokenize", "--model", no_weights, stdin=b"abc\xff"), 1, "3")


@pytest.mark.release_only
@pytest.mark.parametrize("command", [["chat", "hello"], ["serve", "--port", "0"]])
def test_engine_that_gets_no_memory_states_what_helps(omma, model, command):
    error = limited_to(omma, 2000000, *command, "--model", model, "--kv-cache-bytes", "64G", "--threads", "1").splitlines()[-1]
    assert "out of memory" in error and "smaller --kv-cache-bytes" in error and "omma plan" in error, error


def test_verbose_prints_where_the_time_went(omma, model, images):
    done = omma("chat", "--model", model, "-v", "--image", images / "meadow_163x97.jpg", "-p", "hello", "--max-tokens", "2")
    assert re.search(r"decode image 0\.\d+ s, preprocess .* together \d+\.\d+ s", done.stderr.decode())
    timings = omma.json("chat", "--model", model, "--image", images / "meadow_163x97.jpg", "-p", "hello", "--max-tokens", "2",
                        "--json")["timings"]
    assert list(timings) == ["decode_image", "queue", "preprocess", "encode", "prefill", "decode"] and timings["decode_image"] > 0


def test_log_level_debug_logs_the_steps(omma, model):
    words = ["chat", "--model", model, "-p", "xyzzy", "--max-tokens", "2"]
    traced, plain = omma(*words, "--log-level", "debug"), omma(*words, "--log-level", "warning")
    lines = traced.stderr.decode().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT[0-9:.]+Z DEBUG trace [a-z ]+[0-9]*: .", line) for line in lines), lines
    assert any(" 1 sequence, " in line for line in lines) and not any(re.search(r"(?<![.\d])1 [a-z]+s,", line) for line in lines)
    assert any("request 1: admitted" in line for line in lines) and "xyzzy" not in traced.stderr.decode()
    assert traced.stdout == plain.stdout and plain.stderr == b""


def test_serve_states_the_context_that_fits(omma, model):
    process = subprocess.Popen([omma.path, "serve", "--model", model, "--port", "0", "--kv-cache-bytes", "128K"],
                               stderr=subprocess.PIPE)
    said = process.stderr.readline().decode()
    fits = int(re.search(r"may have (\d+) tokens together, not", said)[1])
    assert "warning" in said and "--kv-cache-bytes" in said and f"--max-model-len {fits}" in said
    line = said
    while "http://" not in line:
        line = process.stderr.readline().decode()
    address = re.search(r"http://127\.0\.0\.1:\d+/v1", line)[0]
    with urllib.request.urlopen(address + "/models") as reply:
        assert json.load(reply)["data"][0]["max_model_len"] == fits
    process.terminate()
    assert process.wait(60) == 0
    process.stderr.close()


def changed_config(model, tmp_path, change):
    folder = tmp_path / "changed"
    shutil.copytree(model, folder)
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("command", [["plan"], ["verify"], ["info"], ["chat", "--prompt", "x"]])
def test_unknown_quantizations_are_refused(omma, model, tmp_path, command):
    folder = changed_config(model, tmp_path, lambda config: config.update(quantization_config={"quant_method": "bitsandbytes"}))
    done = omma(*command, "--model", folder)
    refused(done, 1, "quantization_config: bitsandbytes is not supported", "compressed-tensors, fp8, awq and gptq are", "the checkpoint that it was made from")


@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
@pytest.mark.parametrize("name", ["generation_config.json", "tokenizer_config.json", "chat_template.jinja", "tokenizer.json"])
def test_what_is_no_file_is_not_missing(omma, model, tmp_path, kind, name):
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    path = folder / name
    path.unlink(missing_ok=True)
    {"fifo": os.mkfifo, "folder": os.mkdir, "link": lambda path: path.symlink_to("nowhere")}[kind](path)
    refused(omma("plan", "--model", folder), 1, name)


def wait_for_line(process, pattern, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        line = process.stderr.readline()
        if not line:
            break
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"no line with {pattern}")


def test_serve_starts_and_stops(omma, model):
    words = [omma.path, "serve", model, "--port", "0", "--max-num-seqs", "4", "--limit-mm-per-prompt", '{"image": 2, "video": 0}']
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        port = int(wait_for_line(process, r"http://127\.0\.0\.1:(\d+)/v1").group(1))
        assert port > 0
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        assert process.stdout.read() == ""


def test_private_media_addresses_need_media_domains(omma):
    done = omma("serve", "no-such-model", "--allow-private-media-addresses")
    assert done.returncode == 1 and b"nothing is fetched without --allowed-media-domains" in done.stderr
    done = omma("serve", "no-such-model", "--allow-private-media-addresses", "--allowed-media-domains", "example.org")
    assert done.returncode == 1 and b"allowed-media-domains" not in done.stderr


def test_directory_without_a_model(omma, tmp_path):
    for words in (["chat", "--model", tmp_path, "hi"], ["tokenize", "--model", tmp_path, "hi"], ["verify", tmp_path]):
        refused(omma(*words), 1, f"{tmp_path}: a directory without config.json: a model is")


def test_the_demo_model_is_named_where_none_is(omma, images, tmp_path):
    image = next(images.glob("*.png"))
    demo = pathlib.Path(__file__).parents[2] / "models" / "demo"
    said = b"no model is named: the demo model answers, a toy"
    for words in (["chat", "-p", "a", "--max-tokens", "1", "--json"], ["embed", "--text", "a", "-o", "-"],
                  ["rerank", "--query", "a", "--text", "b", "--json"], ["encode", image, "-o", tmp_path / "e.safetensors", "--json"]):
        done, named = omma(*words), omma(*words, "--model", demo)
        assert done.returncode == named.returncode == 0, done.stderr.decode()
        assert done.stderr.count(b"omma: " + words[0].encode() + b": " + said) == 1 and said not in named.stderr
        assert said not in done.stdout and all(json.loads(line) for line in done.stdout.splitlines())


def test_port_in_use(omma):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = omma("serve", "--port", port)
    assert done.returncode == 1 and f"cannot listen on 127.0.0.1 port {port}: Address already in use".encode() in done.stderr
    assert b"--port 0 any free one" in done.stderr


def test_an_address_that_cannot_be_taken_is_named_before_the_model_is_opened(omma, tmp_path):
    path, stale = tmp_path / "taken", tmp_path / "stale"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(stale))
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        port = str(taken.getsockname()[1])
        for words, reason in ((["--port", port], f"cannot listen on 127.0.0.1 port {port}: Address already in use"),
                              (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1 port 8000: Cannot assign requested address"),
                              (["--uds", path], f"cannot listen on {path}: another program listens there"),
                              (["--uds", tmp_path / "none" / "x"], "cannot listen on"), (["--uds", "x" * 120], "--uds: expected")):
            refused(omma("serve", "no-such-model", *words), 1, reason)
    for words in (["--port", port], ["--uds", stale], ["--uds", tmp_path / "new"]):
        refused(omma("serve", "no-such-model", *words), 1, "model: no-such-model: no such file")
    assert stale.exists() and not (tmp_path / "new").exists()
