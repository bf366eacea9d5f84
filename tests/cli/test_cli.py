"""The command line as its users meet it: exit codes, messages, help, JSON, files.

Run with: pytest tests/cli --omma build/release/omma
"""

import base64
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import urllib.request

import pytest
from PIL import Image

from omma_program import refused

COMMANDS = ["chat", "run", "serve", "batch", "read", "embed", "rerank", "encode", "preprocess", "plan", "tokenize", "detokenize",
            "info", "verify", "bench attention", "bench encoder", "bench decode", "bench read", "bench serve",
            "bench scale"]
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
TEXTS = ["two red circles", "", " leading and trailing ", "line\nbreak\ttab", "Grüße, 世界, 🙂", "<|im_start|>user\nhi<|im_end|>"]


@pytest.fixture(scope="session")
def no_weights(model, tmp_path_factory):
    """The model's directory without its tensors."""
    folder = tmp_path_factory.mktemp("no_weights")
    for file in pathlib.Path(model).iterdir():
        if file.is_file() and not file.name.startswith("model"):
            shutil.copy(file, folder / file.name)
    return folder


def read_safetensors(path):
    """Header without metadata, and the bytes of the tensors."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return header, data[8 + size :]


# ---- help and version


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_lists_every_command(omma, words):
    done = omma(*words)
    assert done.returncode == 0 and done.stderr == b""
    for command in COMMANDS:
        assert re.search(rf"^  {command}\b", done.stdout.decode(), re.M), command


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_command(omma, command):
    done = omma(*command.split(), "--help")
    assert done.returncode == 0 and done.stderr == b""
    text = done.stdout.decode()
    assert text.startswith(f"Usage: omma {command} ")
    assert f"Examples:\n  omma {command}" in text or f"| omma {command}" in text
    assert all(len(line) <= 120 and line == line.rstrip() for line in text.splitlines())
    assert omma("help", *command.split()).stdout == done.stdout


@pytest.mark.parametrize("words", [["bench", "--help"], ["bench", "-h"], ["help", "bench"]])
def test_help_of_bench_lists_its_commands(omma, words):
    done = omma(*words)
    assert done.returncode == 0 and done.stderr == b""
    listed = re.findall(r"^  (\w+ \w+) +[a-z]", done.stdout.decode(), re.M)
    assert listed == [command for command in COMMANDS if command.startswith("bench ")]
    assert done.stdout.startswith(b"Usage: omma bench ") and b"chat" not in done.stdout


def test_bench_alone_lists_which_there_are(omma):
    refused(omma("bench"), 2, "attention, encoder, decode, read, serve")
    refused(omma("bench", "--json"), 2, "attention, encoder, decode, read, serve")


def test_help_wins_over_missing_arguments(omma):
    assert omma("encode", "--help").returncode == 0
    assert omma("chat", "--prompt", "x", "--help").returncode == 0


def test_alias(omma):
    assert omma("generate", "--help").stdout == omma("chat", "--help").stdout


def test_defaults_are_shown(omma):
    text = omma("serve", "--help").stdout.decode()
    assert "default: 8000" in text and "default: 127.0.0.1" in text


def test_units_and_what_turns_a_flag_off_are_shown(omma):
    text = omma("serve", "--help").stdout.decode()
    assert re.search(r"--max-model-len SIZE\b", text) and "SIZE is a number, with a unit or without: 8k is 8000" in text
    assert "(default: on; --no-enable-prefix-caching turns it off)" in " ".join(text.split())
    assert "SIZE" not in omma("tokenize", "--help").stdout.decode()


def test_last_of_a_flag_and_its_opposite_counts(omma):
    """--kv-events-config is refused without a prefix cache."""
    events = ["serve", "--model", "nowhere", "--kv-events-config", "{}"]
    assert b"--no-enable-prefix-caching" in omma(*events, "--enable-prefix-caching", "--no-enable-prefix-caching").stderr
    assert b"--no-enable-prefix-caching" not in omma(*events, "--no-enable-prefix-caching", "--enable_prefix_caching").stderr


def test_version(omma):
    assert omma("-V").stdout == omma("--version").stdout
    for words in (["chat", "-V"], ["serve", "--model", "nowhere", "--version"], ["bench", "serve", "-V"]):
        assert omma(*words).stdout == omma("--version").stdout
    done = omma("--version")
    assert done.returncode == 0 and re.fullmatch(rb"omma \d+\.\d+\.\d+\n", done.stdout)


def test_no_command(omma):
    done = omma()
    assert done.returncode == 2 and done.stdout == b"" and b"Usage" in done.stderr


# ---- usage error


@pytest.mark.parametrize(
    "words, meant",
    [
        (["cht"], "chat"),
        (["tokenise"], "tokenize"),
        (["bench", "atention"], "bench attention"),
        (["help", "plna"], "plan"),
        (["generat"], "generate"),
    ],
)
def test_unknown_command(omma, words, meant):
    refused(omma(*words), 2, f"did you mean {meant}?")


def test_unknown_command_unlike_any(omma):
    done = omma("zzzzzzzz")
    refused(done, 2, "zzzzzzzz", "unknown command")
    assert b"did you mean" not in done.stderr
    refused(omma("--promt"), 2, "command")


@pytest.mark.parametrize(
    "words, meant",
    [
        (["chat", "--promt", "x"], "--prompt"),
        (["chat", "--temprature=1"], "--temperature"),
        (["chat", "--max-token", "3"], "--max-tokens"),
        (["plan", "--jsno", "1x1"], "--json"),
        (["serve", "--max-model-length", "100"], "--max-model-len"),
        (["serve", "--no-async-schedulng"], "--no-async-scheduling"),
        (["serve", "--max_num_bached_tokens", "9"], "--max-num-batched-tokens"),
        (["serve", "--tensor-paralel-size=1"], "--tensor-parallel-size"),
        (["bench", "attention", "--headdim", "64"], "--head-dim"),
        (["serve", "--ctx-size", "4096"], "--max-model-len"),
        (["chat", "--predict=128"], "--max-tokens"),
        (["serve", "--parallel", "4"], "--max-num-seqs"),
        (["bench", "decode", "--temp", "0"], "--temperature"),
        (["chat", "--gpu-memory-utilization", "0.9"], "--kv-cache-bytes"),
    ],
)
def test_unknown_option(omma, words, meant):
    refused(omma(*words), 2, f"did you mean {meant}?")


def test_options_of_llama_cpp(omma, model):
    """Those that mean the same have a short name, or llama.cpp's."""
    by_name = ["--model", model, "--threads", "1", "--max-model-len", "512", "--temperature", "0.5", "--max-tokens", "5"]
    asked = omma.json("chat", *by_name, "--json", "Hello")
    for words in (["-m", model, "-t", "1", "-c", "512", "--temp", "0.5", "-n", "5"],
                  ["-m", model, "-t", "1", "--ctx_size", "512", "--temp=0.5", "--n-predict", "5"]):
        said = omma.json("chat", *words, "--json", "Hello")
        assert [said[key] for key in ("token_ids", "finish_reason")] == [asked[key] for key in ("token_ids", "finish_reason")]
        assert len(said["token_ids"]) <= 5
    refused(omma("chat", "-c", "10", "-m", model, "Hello"), 1, "maximum context length is 10")
    refused(omma("chat", "-n", "0", "Hello"), 2, "--max-tokens '0'")
    refused(omma("chat", "--temp", "3", "Hello"), 2, "--temp '3'", "from 0 to 2")
    refused(omma("plan", "-t", "0", "10x10"), 2, "--threads '0'")
    assert omma.json("info", "-m", model, "--json")["model"]
    assert omma("plan", "-m", model, "-c", "4k", "-t", "2").returncode == 0


@pytest.mark.parametrize("words, hint", [
    (["pull", "qwen3-vl"], "hf download"),
    (["list"], "/v1/models"),
    (["ls"], "/v1/models"),
    (["ps"], "/metrics"),
    (["show", "DIR"], "omma info DIR"),
    (["stop"], "SIGTERM"),
    (["bench", "throughput", "--model", "DIR"], "omma bench serve"),
    (["bench", "latency"], "omma bench decode"),
])
def test_commands_of_other_programs(omma, words, hint):
    name = " ".join(words[: 2 if words[0] == "bench" else 1])
    refused(omma(*words), 2, f"{name}: no such command: ", hint)


def test_the_model_is_a_word_of_every_command(omma, model, images, tmp_path):
    """As its --model, before the other words."""
    tile, out = images / "tile_64x64.png", tmp_path / "out.safetensors"
    for name, *further in (["encode", tile, "-o", out, "--json"], ["preprocess", tile, "-o", out]):
        assert omma(name, "--model", model, *further).returncode == 0
        bytes_of_option = out.read_bytes()
        out.unlink()
        assert omma(name, model, *further).returncode == 0
        assert out.read_bytes() == bytes_of_option
        refused(omma(name, "--model", model, model, *further), 2, "given by --model already")
        refused(omma(name, model, "-o", out), 2, "images are missing")
        refused(omma(name, images, "-o", out), 1, f"{images}: a directory without config.json", f"{images}/*")
    made = omma.json("tokenize", "--model", model, "two red circles")
    assert omma.json("tokenize", model, "two red circles") == omma.json("tokenize", model, stdin=b"two red circles") == made
    assert omma("detokenize", model, *made["tokens"]).stdout == b"two red circles"
    assert omma.json("tokenize", model, "--text", model) == omma.json("tokenize", "-m", model, "--text", model)

    # A directory that is no model is a text.
    assert omma.json("tokenize", tmp_path) == omma.json("tokenize", "--text", tmp_path)
    refused(omma("bench", "decode", model, "--model", model), 2, "given by --model already")
    quick = ["--repeat", "1", "--warmup", "0", "--json"]
    assert omma.json("bench", "encoder", model, "--image-size", "56x56", *quick)
    assert omma.json("bench", "decode", model, "--context", "8", "--tokens", "2", *quick)


@pytest.mark.parametrize(
    "words, why",
    [
        (["chat", "-hf", "Qwen/Qwen3-VL-2B-Instruct-GGUF"], "nothing is downloaded"),
        (["serve", "-ngl", "99"], "computed by the CPU alone"),
        (["chat", "--device", "cuda"], "computed by the CPU alone"),
        (["chat", "--load-in-4bit"], "--quantization int4"),
        (["serve", "--metrics"], "/metrics is always there"),
        (["chat", "--flash-attn"], "always computed in tiles"),
    ],
)
def test_options_of_other_programs_without_a_match(omma, words, why):
    done = omma(*words)
    refused(done, 2, f"{words[0]}: {words[1]}: unknown option: ", why)
    assert b"did you mean" not in done.stderr


def test_hints_name_options_that_the_command_has(omma):
    refused(omma("info", "-n", "3"), 2, "info: -n: unknown option (")


def test_flags_of_vllm_serve(omma):
    """What means nothing here passes with one warning each; a value after it is not taken for the
    model."""
    done = omma("serve", "--no-async-scheduling", "--tensor-parallel-size", "1", "--gpu_memory_utilization=0.9", "--help")
    assert done.returncode == 0
    warnings = [line for line in done.stderr.decode().splitlines() if "means nothing" in line]
    assert len(warnings) == 3 and "--gpu-memory-utilization" in warnings[2]
    refused(omma("serve", "--quantization", "bitsandbytes"), 2, "--quantization", "bitsandbytes", "int8")
    refused(omma("serve", "--max_model_len", "x"), 2, "--max-model-len", "integer")
    refused(omma("serve", "--max-model-len", "-2"), 2, "--max-model-len", "1 or more")
    refused(omma("serve", "--dtype", "half"), 2, "--dtype", "f32", "bf16")
    refused(omma("chat", "--no-async-scheduling"), 2, "unknown option")


@pytest.mark.parametrize("words", [["chat", "--xyzzyplugh"], ["chat", "-j"], ["chat", "--zeppelin", "out.png"], ["info", "--=3"]])
def test_unknown_option_unlike_any(omma, words):
    refused(omma(*words), 2, "unknown option")


@pytest.mark.parametrize(
    "words, name, why",
    [
        (["chat", "--temperature", "3"], "--temperature", "from 0 to 2"),
        (["chat", "--temperature", "warm"], "--temperature", "number"),
        (["chat", "--temperature", "nan"], "--temperature", "number"),
        (["chat", "--top-p", "0"], "--top-p", "above 0"),
        (["chat", "--top-k", "1.5"], "--top-k", "integer"),
        (["chat", "--top-k=-2"], "--top-k", "-1 or more"),
        (["chat", "--max-tokens", "0"], "--max-tokens", "1 or more"),
        (["chat", "--max-tokens", "99999999999999999999"], "--max-tokens", "integer"),
        (["chat", "--max-tokens", ""], "--max-tokens", "integer"),
        (["chat", "--logprobs", "21", "--json"], "--logprobs", "from 0 to 20"),
        (["chat", "--dtype", "int3"], "--dtype", "one of"),
        (["chat", "--dtype", "int8"], "--dtype", "int8"),
        (["serve", "--vision-dtype", "int4"], "--vision-dtype", "int8"),
        (["serve", "--kv-cache-dtype", "fp8"], "--kv-cache-dtype", "int8_per_token_head"),
        (["chat", "--isa", "mmx"], "--isa", "avx2"),
        (["chat", "--threads", "0"], "--threads", "from 1"),
        (["chat", "--json=yes"], "--json", "no value"),
        (["serve", "--port", "65536"], "--port", "from 0 to 65535"),
        (["serve", "--kv-cache-bytes", "2X"], "--kv-cache-bytes", "unit"),
        (["serve", "--speculative-config", '{"method": "eagle", "model": "x"}'], "--speculative-config", "draft_model"),
        (["serve", "--speculative-config", '{"method": "draft_model", "num_speculative_tokens": 2}'], "--speculative-config", "model: expected the directory"),
        (["serve", "--speculative-config", '{"model": "x"}'], "--speculative-config", "num_speculative_tokens"),
        (["serve", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 16}'], "--speculative-config", "expected 1 to 15"),
        (["serve", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2, "prompt_lookup_max": 2}'],
         "--speculative-config", "prompt_lookup_max"),
        (["serve", "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 2, "prompt_lookup_min": 3}'],
         "--speculative-config", '"prompt_lookup_min": expected 1 to'),
        (["serve", "--kv-cache-bytes", "9999999999T"], "--kv-cache-bytes", "integer"),
        (["serve", "--limit-mm-per-prompt", "4"], "--limit-mm-per-prompt", ""),
        (["serve", "--limit-mm-per-prompt", '{"image": -1}'], "--limit-mm-per-prompt", "image"),
        (["serve", "--limit-mm-per-prompt", '{"images": 1}'], "--limit-mm-per-prompt", "images"),
        (["serve", "--mm-processor-kwargs", '{"min_pixel": 1}'], "--mm-processor-kwargs", "min_pixel"),
        (["encode", "x.png", "--output", "o", "--pack", "tight"], "--pack", "separate"),
        (["bench", "attention", "--head-dim", "257", "--heads", "1"], "--head-dim", "from 1 to 256"),
    ],
)
def test_wrong_value(omma, words, name, why):
    refused(omma(*words), 2, name, why)


def test_missing_value(omma):
    refused(omma("chat", "--prompt"), 2, "--prompt", "value is missing")
    refused(omma("chat", "-p"), 2, "--prompt", "value is missing")


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--api-key", "--port", "1"],
        ["chat", "--prompt", "--json"],
        ["chat", "--prompt", "--anything"],
        ["chat", "--prompt", "-v"],
        ["chat", "-p", "--", "x"],
        ["chat", "--image", "--prompt", "x"],
        ["chat", "--max-tokens", "--seed", "1"],
    ],
)
def test_an_option_is_no_value(omma, words):
    refused(omma(*words), 2, "a value is missing", f"{words[2]}, is an option", f"={words[2]} gives it")


@pytest.mark.parametrize("words", [["--prompt=--json"], ["--prompt", "-5 or 5?"], ["--prompt", "- a list"], ["--prompt", "---\na diff"]])
def test_values_that_begin_with_dashes(omma, no_weights, words):
    """They come as far as the weights that are not there."""
    refused(omma("chat", "--model", no_weights, *words), 1, "model.safetensors")


@pytest.mark.parametrize(
    "words, why",
    [
        (["encode", "x.png"], "--output"),
        (["preprocess", "x.png"], "--output"),
        (["encode", "--output", "o"], "arguments are missing"),
        (["plan"], "arguments are missing"),
        (["tokenize", "one", "two"], "in quotes"),
        (["tokenize", "one", "--text", "two"], "--text"),
        (["detokenize", "1", "--tokens", "2"], "--tokens"),
        (["serve", "one", "two"], "unexpected argument"),
        (["serve", "one", "--model", "two"], "--model"),
        (["plan", ".", "--model", "two"], "--model"),
        (["chat", "--prompt", "x", "--logprobs", "1"], "--json"),
        (["chat", "--prompt", "x", "--boxes", "out.png"], "--boxes: needs --image"),
        (["chat", "--prompt", "x", "--stop", ""], "--stop"),
        (["chat", "--prompt", ""], "nothing to ask"),
        (["chat", "--prompt", "x", "--regex", "a", "--grammar", "root ::= 'a'"], "--grammar: only one of it and --regex"),
        (["chat", "--prompt", "x", "--json-schema", "no/such/file"], "--json-schema: neither a text of that kind nor a file"),
        (["chat", "--prompt", "x", *["--stop", "y"] * 17], "--stop"),
        (["bench", "attention", "--heads", "4"], "--head-dim"),
        (["bench", "attention", "--heads", "4", "--head-dim", "8", "--kv-heads", "3"], "--kv-heads"),
        (["bench", "attention", "--heads", "4", "--head-dim", "8", "--window", "9"], "--window: needs --causal"),
        (["bench", "attention", "--heads", "4", "--head-dim", "8", "--segments", "64x"], "--segments"),
        (["bench", "attention", "--heads", "4", "--head-dim", "8", "--segments", "0"], "--segments"),
        (["bench", "encoder", "--image-size", "64"], "'64' is not a size"),
        (["bench", "encoder", "--image-size", "64x64,"], "'' is not a size"),
        (["bench", "encoder", "--image-size", "0x64"], "'0x64' is not a size"),
        (["bench", "encoder", "--repeat", "0"], "--repeat"),
    ],
)
def test_usage_error(omma, words, why):
    refused(omma(*words), 2, why)


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


# ---- files that are not there or are no good


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


# ---- tokens


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


# ---- plans


def test_plan_without_weights(omma, no_weights, images):
    harbour = images / "harbour_301x211.jpg"
    plan = omma.json("plan", harbour, "301x211", "640x480", "--max-pixels", "1M", "--model", no_weights, "--json")
    first, second, third = plan["images"]
    assert first["source"] == str(harbour) and (first["width"], first["height"]) == (301, 211)
    assert {**first, "source": ""} == {**second, "source": ""}
    for image in plan["images"]:
        time_, rows, columns = image["grid_thw"]
        assert time_ * rows * columns == image["n_patches"] > image["n_tokens"] > 0
        assert image["flops"] > 0 and image["expected_seconds"] > 0
    assert third["n_tokens"] > first["n_tokens"]
    for count in ("n_patches", "n_tokens", "n_segments", "n_windows"):
        assert plan["total"][count] == sum(image[count] for image in plan["images"])
    memory = plan["memory"]
    parts = ["weight_bytes", "kv_cache_bytes", "vision_workspace_bytes", "language_workspace_bytes", "linear_scratch_bytes",
             "table_bytes"]
    assert memory["total_bytes"] >= max(memory[part] for part in parts) > 0
    assert memory["encoder_cache_bytes"] == 512 << 20 and memory["known_image_bytes"] == 64 << 20
    assert plan["peak_gflops"] == max(plan["peaks"]) > 0 and len(plan["peaks"]) == 3
    assert (plan["peak_note"] is not None) == (min(plan["peaks"]) < 0.95 * max(plan["peaks"]))


def test_plan_as_table(omma, no_weights):
    done = omma("plan", "640x480", "320x240", "--model", no_weights)
    text = done.stdout.decode()
    assert done.returncode == 0 and done.stderr == b""
    assert "640x480" in text and "total" in text and "Memory" in text
    assert all(len(line) <= 100 for line in text.splitlines() if not line.startswith("  linear layers ")), text
    rows = [line.split() for line in text[text.index("\nChoices\n"):].splitlines()]
    names = [row[0] for row in rows if len(row) == 8 and row[0] != "f32," and float(row[-1]) > 0]
    assert names[:2] == ["f32", "bf16"] and {"int8", "int4"} <= set(names)


def test_plan_of_a_quantised_model(omma, no_weights):
    """Its own memory is that of the choice, which does not depend on what is asked for."""
    plans = {name: omma.json("plan", "64x64", "--quantization", name, "--model", no_weights, "--json") for name in ("int8", "int4", "none")}
    for name, plan in plans.items():
        choices = {choice["name"]: choice for choice in plan["choices"]}
        assert choices["bf16" if name == "none" else name]["weight_bytes"] == plan["memory"]["weight_bytes"]
        assert name == "none" or plan["model"]["kept_weights"] == name
        assert [c["weight_bytes"] for c in plan["choices"]] == [c["weight_bytes"] for c in plans["none"]["choices"]]


# family, layers, billions of parameters, whether embeddings and outputs share their weights
RELEASED = {
    "qwen2-vl-2b": ("qwen2_vl", 28, 2.21, True),
    "qwen2-vl-7b": ("qwen2_vl", 28, 8.29, False),
    "qwen2-vl-72b": ("qwen2_vl", 80, 73.4, False),
    "qwen2.5-vl-3b": ("qwen2_5_vl", 36, 3.75, True),
    "qwen2.5-vl-7b": ("qwen2_5_vl", 28, 8.29, False),
    "qwen2.5-vl-32b": ("qwen2_5_vl", 64, 33.45, False),
    "qwen2.5-vl-72b": ("qwen2_5_vl", 80, 73.4, False),
    "qwen3-vl-2b": ("qwen3_vl", 28, 2.13, True),
    "qwen3-vl-4b": ("qwen3_vl", 36, 4.44, True),
    "qwen3-vl-8b": ("qwen3_vl", 36, 8.77, False),
    "qwen3-vl-32b": ("qwen3_vl", 64, 33.36, False),
    "qwen3.5-0.8b": ("qwen3_5", 24, 0.853, True),
    "qwen3-vl-30b-a3b": ("qwen3_vl_moe", 48, 31.07, False),
    "qwen3-vl-235b-a22b": ("qwen3_vl_moe", 94, 235.7, False),
    "kimi-vl-a3b-instruct": ("kimi_vl", 27, 16.4, False),
    "kimi-vl-a3b-thinking-2506": ("kimi_vl", 27, 16.4, False),
    "paddleocr-vl-0.9b": ("paddleocr_vl", 18, 0.9056, False),
    "glm-ocr": ("glm_ocr", 16, 1.1074, False),
    "lighton-ocr-2-1b": ("lighton_ocr", 28, 1.0056, True),
    "dots-ocr": ("dots_ocr", 28, 3.0392, False),
}
CONFIGS = pathlib.Path(__file__).resolve().parent.parent / "data" / "configs"


def test_every_stored_config_is_estimated():
    assert {file.stem for file in CONFIGS.glob("*.json")} == set(RELEASED)


@pytest.mark.parametrize("name", RELEASED)
def test_plan_of_config_alone(omma, tmp_path, name):
    family, n_layers, billions, tied = RELEASED[name]
    shutil.copy(CONFIGS / f"{name}.json", tmp_path / "config.json")
    plan = omma.json("plan", tmp_path, "1920x1080", "--dtype", "f32", "--json")
    model, memory, (image,) = plan["model"], plan["memory"], plan["images"]
    assert (model["model_type"], model["n_layers"]) == (family, n_layers)
    assert model["n_parameters"] == pytest.approx(billions * 1e9, rel=2e-3)
    # the rest stays in its file
    kept = model["n_parameters"] - (0 if tied else model["vocab_size"] * model["hidden_size"])
    assert 2 * kept <= memory["weight_bytes"] <= 1.02 * 2 * kept  # as stored, whatever computes
    assert memory["total_bytes"] > memory["weight_bytes"] and memory["kv_cache_tokens"] > 0
    assert image["n_segments"] == 1 and (image["n_windows"] > 0) == (family == "qwen2_5_vl")
    assert "published values" in model["published_values"]
    f32, bf16, int8, int4 = plan["choices"]
    assert f32["weight_bytes"] == bf16["weight_bytes"] == memory["weight_bytes"]
    assert bf16["weight_bytes"] > int8["weight_bytes"] > int4["weight_bytes"] > 0.25 * bf16["weight_bytes"]
    assert bf16["expected_tokens_per_s"] < int8["expected_tokens_per_s"] < int4["expected_tokens_per_s"]
    if name != next(other for other, row in RELEASED.items() if row[0] == family):
        return  # the table has the same of each of a family
    done = omma("plan", tmp_path / "config.json")
    text = done.stdout.decode()
    assert done.returncode == 0 and "1024x1024" in text
    # The larger ones may not fit into the memory of the machine that this runs on.
    said = ("fit", "the weights take", "an estimated", "prompt and answer may have")
    assert all(any(part in line for part in said) for line in done.stderr.decode().splitlines())
    for part in (family, f"{n_layers} layers", "segments", "windows", "keys and values", "total",
                 f"preprocessor_config.json   not found: {model['published_values']}"):
        assert part in text


def test_plan_prints_nothing_about_files_that_are_there(omma, no_weights):
    assert omma.json("plan", no_weights, "--json")["model"]["published_values"] is None
    assert b"not found" not in omma("plan", "--model", no_weights).stdout


def test_plan_of_broken_config(omma, tmp_path):
    config = tmp_path / "config.json"
    for text, *words in (("", "config.json"), ("[]", "config.json"), ('{"model_type": "llava"}', "llava", "qwen3_vl"),
                         ((CONFIGS / "qwen3-vl-8b.json").read_text()[:700], "config.json"),
                         ((CONFIGS / "qwen3-vl-8b.json").read_text().replace("27", "-27"), "depth", "-27")):
        config.write_text(text)
        refused(omma("plan", tmp_path), 1, *words)
        refused(omma("plan", config), 1, *words)


def test_other_commands_on_config_alone(omma, tmp_path, images):
    shutil.copy(CONFIGS / "qwen3-vl-2b.json", tmp_path / "config.json")
    refused(omma("tokenize", "--text", "x", "--model", tmp_path), 1, "tokenizer.json")
    image, output = images / "tile_64x64.png", tmp_path / "o.safetensors"
    refused(omma("preprocess", image, "--output", output, "--model", tmp_path), 1, "preprocessor_config.json: no such file")
    refused(omma("encode", image, "--output", output, "--model", tmp_path), 1, "preprocessor_config.json: no such file")
    assert not output.exists()
    assert omma.json("info", "--model", tmp_path, "--json")["model"]["published_values"] == "Qwen3-VL's published values"


def test_plan_limits(omma, no_weights):
    words = ["plan", "2000x1500", "--model", no_weights, "--json", "--max-pixels"]
    large, small = (omma.json(*words, most) for most in ("1M", "100k"))
    assert small["total"]["n_tokens"] < large["total"]["n_tokens"]
    image = small["images"][0]
    assert image["resized_width"] * image["resized_height"] <= 100_000


@pytest.mark.parametrize(
    "limits, said",
    [
        (["--min-pixels", "1000G"], "--min-pixels: expected 1 to 178956970 pixels, found 1073741824000"),
        (["--max-pixels", "1000G"], "--max-pixels: expected 1 to 178956970 pixels, found 1073741824000"),
        (["--min-pixels", "4", "--max-pixels", "1000G"], "--max-pixels: expected 1 to 178956970"),
        (["--min-pixels", "1000G", "--max-pixels", "4"], "--min-pixels: expected 1 to 178956970"),
        (["--min-pixels", "5000", "--max-pixels", "4000"], "--min-pixels: expected at most --max-pixels, which is 4000, found 5000"),
    ],
)
def test_the_wrong_limit_is_named(omma, no_weights, limits, said):
    for words in (["10x10"], ["10x10", "--frames", "4"]):
        done = omma("plan", *words, "--model", no_weights, *limits)
        refused(done, 1, said)
        assert done.stderr.count(b"found") == 1


@pytest.mark.parametrize(
    "words, said",
    [
        (["plan", "10x10", "--max-model-len", "100G"], "omma: --max-model-len: expected 1 to "),
        (["plan", "10x10", "--kv-cache-bytes", "100"], "omma: --kv-cache-bytes: one page of 64 tokens takes "),
        (["plan", "10x10", "--quantization", "fp8"], "omma: --quantization: fp8: this checkpoint is not quantised"),
        (["plan", "10x10", "--kv-cache-dtype", "f32", "--dtype", "bf16"], "omma: --kv-cache-dtype: keys and values are bf16 where "),
        (["plan", "10x10", "--mmproj", "max_pixels/x.gguf"], "omma: --mmproj: "),
        (["serve", "--ssl-keyfile", "key"], "omma: --ssl-certfile: a certificate is needed for TLS"),
    ],
)
def test_errors_name_options(omma, no_weights, words, said):
    refused(omma(words[0], "--model", no_weights, *words[1:]), 1, said)


@pytest.mark.parametrize("size", ["0x10", "10x0"])
def test_plan_of_nothing(omma, no_weights, size):
    refused(omma("plan", size, "--model", no_weights), 1)


@pytest.mark.parametrize("size", ["10x", "x10", "10x10x10", "100x100x", "1e9x10", "10Xx10", "99999999999x1"])
def test_plan_of_no_size(omma, no_weights, size):
    refused(omma("plan", size, "--model", no_weights), 1, f"{size}: neither an image file (No such file", "a size WIDTHxHEIGHT")


def test_plan_takes_a_large_x(omma, no_weights):
    small, large = (omma.json("plan", f"192{x}108", "--model", no_weights, "--json")["images"][0] for x in "xX")
    assert large.pop("source") == "192X108" and small.pop("source") == "192x108"
    assert (large["width"], large["height"], large["n_tokens"]) == (192, 108, small["n_tokens"])


def test_data_url(omma, no_weights, images):
    encoded = base64.b64encode((images / "tile_64x64.png").read_bytes()).decode()
    plan = omma.json("plan", "data:image/png;base64," + encoded, "--model", no_weights, "--json")
    assert (plan["images"][0]["width"], plan["images"][0]["height"]) == (64, 64)


def test_images_are_known_by_their_content(omma, no_weights, images, tmp_path):
    """Whatever the name or the media type."""
    sources = []
    for image, name in (("tile_64x64.png", "a.jpg"), ("meadow_163x97.jpg", "b.webp"), ("stamp_20x10.png", "no ending")):
        shutil.copy(images / image, tmp_path / name)
        sources += [tmp_path / name, "data:text/plain;base64," + base64.b64encode((images / image).read_bytes()).decode()]
    plan = omma.json("plan", *sources, "--model", no_weights, "--json")
    sizes = [(image["width"], image["height"]) for image in plan["images"]]
    assert sizes == [(64, 64)] * 2 + [(163, 97)] * 2 + [(20, 10)] * 2


# ---- tensors


def test_preprocess(omma, no_weights, images, tmp_path):
    names = ["tile_64x64.png", "meadow_163x97.jpg"]
    target = tmp_path / "patches.safetensors"
    done = omma.json("preprocess", *(images / name for name in names), "-o", target, "--model", no_weights, "--json")
    header, _ = read_safetensors(target)
    assert set(header) == {f"image.{i}.{what}" for i in range(2) for what in ("pixel_values", "grid_thw")}
    for i, image in enumerate(done["images"]):
        assert header[f"image.{i}.pixel_values"]["dtype"] == "F32" and header[f"image.{i}.grid_thw"]["dtype"] == "I64"
        assert header[f"image.{i}.pixel_values"]["shape"] == [image["n_patches"], image["patch_dim"]]
        assert header[f"image.{i}.grid_thw"]["shape"] == [3]
    assert [file.name for file in tmp_path.iterdir()] == [target.name]


def test_preprocess_for_the_times(omma, no_weights, images):
    done = omma.json("preprocess", *[images / "meadow_163x97.jpg"] * 2, "--model", no_weights, "--json")
    assert done["output"] is None and len(done["images"]) == 2
    assert all(image["decode_ms"] > 0 and image["preprocess_ms"] > 0 for image in done["images"])


def test_encode(omma, model, images, tmp_path):
    sources = [images / "tile_64x64.png", images / "meadow_163x97.jpg"]
    results = []
    for how in ("together", "separate"):
        target = tmp_path / f"{how}.safetensors"
        done = omma.json("encode", *sources, "--output", target, "--pack", how, "--model", model, "--json")
        header, data = read_safetensors(target)
        for i, image in enumerate(done["images"]):
            shape = [image["n_tokens"], image["width"]]
            assert header[f"image.{i}.embeddings"]["shape"] == shape
            assert header[f"image.{i}.grid_thw"]["dtype"] == "I64"
            for j in range(image["n_deepstack"]):
                assert header[f"image.{i}.deepstack.{j}"]["shape"] == shape
        results.append((header, data))
    assert results[0] == results[1]


def test_encode_names_a_bad_file_and_writes_the_others(omma, model, images, tmp_path):
    bad, target = tmp_path / "bad.png", tmp_path / "out.safetensors"
    bad.write_bytes((images / "tile_64x64.png").read_bytes()[:90])
    narrow = tmp_path / "narrow.png"
    Image.new("RGB", (2000, 4)).save(narrow)
    sources = [images / "tile_64x64.png", bad, narrow, images / "meadow_163x97.jpg"]
    words = ["encode", *sources, "--output", target, "--model", model]
    done = omma(*words)
    errors = done.stderr.decode().splitlines()
    assert done.returncode == 1 and len(errors) == 3, errors
    assert str(bad) in errors[0] and str(narrow) in errors[1] and "2 of 4 images are in" in errors[2]
    header, _ = read_safetensors(target)
    assert {name.split(".")[1] for name in header} == {"0", "3"}
    target.unlink()
    refused(omma(*words, "--fail-fast"), 1, str(bad))
    assert not target.exists() and sorted(file.name for file in tmp_path.iterdir()) == ["bad.png", "narrow.png"]


def test_encode_takes_memory_for_a_group_of_images_alone(omma, request, model, tmp_path):
    """40 images of 18 MB decoded: the growth from 4 of them is far from 36 of them."""
    if omma.is_instrumented():
        pytest.skip("a sanitizer keeps memory of its own")
    photo = tmp_path / "photo.jpg"
    Image.new("RGB", (3000, 2000), (90, 140, 60)).save(photo)

    def peak(count):
        target = tmp_path / f"{count}.safetensors"
        words = [request.config.getoption("--omma"), "encode", *[str(photo)] * count, "--max-pixels", "65536", "--output", str(target), "--model", model]
        started = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        assert started.returncode == 0 and len(read_safetensors(target)[0]) >= 2 * count
        return usage.ru_maxrss / 1024

    few, many = peak(4), peak(40)
    assert many < few + 40, f"{few:.0f} MiB for 4 images, {many:.0f} MiB for 40"


# ---- chat


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


def test_plan_of_videos(omma, no_weights):
    words = ["plan", "118x54", "--model", no_weights, "--json"]
    still, video = (omma.json(*words, *more)["images"][0] for more in ([], ["--frames", "5"]))
    assert still["grid_thw"][0] == still["n_segments"] == 1 and video["grid_thw"][0] == video["n_segments"] == 3
    refused(omma(*words, "--frames", "1"), 1, "at least 2 frames")


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


def test_an_image_that_cannot_fit_is_refused_before_weights_are_packed(omma, model, no_weights, images):
    """The model has no weights here: had they been looked for, the message would be another."""
    question = ["chat", "--model", no_weights, "--image", images / "meadow_163x97.jpg", "--min-pixels", "500000", "--prompt", "hello"]
    refused(omma(*question, "--kv-cache-bytes", "128K"), 1, "tokens", "of images", "--max-pixels", "--kv-cache-bytes")
    error = omma(*question, "--kv-cache-bytes", "128K").stderr.decode()
    assert "kv_cache_bytes" not in error
    enough = re.search(r"--kv-cache-bytes (\d+M)", error)[1]
    refused(omma(*question, "--kv-cache-bytes", enough), 1, "safetensors")
    refused(omma(*question, "--max-model-len", "100"), 1, "maximum context length is 100 tokens", "--max-pixels")
    refused(omma("chat", "--model", no_weights, "--prompt", "hello " * 1000, "--kv-cache-bytes", "128K"), 1, "shorten the prompt")


def test_plan_warns_of_images_that_do_not_fit(omma, no_weights):
    small = ["--kv-cache-bytes", "256K"]
    done = omma("plan", no_weights, "1000x1000", "100x100", *small, "--max-pixels", "1M")
    warnings = done.stderr.decode().splitlines()
    assert done.returncode == 0 and len(warnings) == 2, warnings
    assert re.search(r"prompt and answer may have \d+ tokens together, not the context limit's \d+", warnings[0])
    assert "1000x1000" in warnings[1] and "--max-pixels" in warnings[1] and "--kv-cache-bytes" in warnings[1]
    bytes_needed = re.search(r"--kv-cache-bytes (\d+M)", warnings[1])[1]
    assert b"1000x1000" not in omma("plan", no_weights, "1000x1000", "--max-pixels", "1M", "--kv-cache-bytes", bytes_needed).stderr
    assert not omma("plan", no_weights, "1000x1000", "--max-pixels", "1M").stderr


def test_plan_warns_of_weights_that_do_not_fit(omma, tmp_path):
    shutil.copy(GOLDEN.parent / "data/configs/qwen3-vl-235b-a22b.json", tmp_path / "config.json")
    warnings = omma("plan", tmp_path, "--dtype", "f32").stderr.decode()
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    if free < 450e9:
        assert re.search(r"the weights take 4\d\d GiB, and [0-9.]+ [MG]iB of memory are free", warnings), warnings


def limited_to(omma, kilobytes, *words):
    """The stderr of omma where it has that many kilobytes of addresses."""
    if omma.is_instrumented():
        pytest.skip("a sanitizer needs terabytes of addresses")
    limited = ["sh", "-c", f'ulimit -v {kilobytes}; exec "$@"', "sh", omma.path, *map(str, words)]
    return subprocess.run(limited, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False).stderr.decode()


def test_plan_warns_of_a_total_that_does_not_fit(omma, no_weights, tmp_path):
    shutil.copy(CONFIGS / "qwen3-vl-2b.json", tmp_path / "config.json")
    warnings = limited_to(omma, 5000000, "plan", tmp_path, "4032x3024")
    free = r"an estimated [0-9.]+ GiB are needed in all, and [0-9.]+ [MG]iB of memory are free: .*--kv-cache-bytes.*--max-num-seqs"
    assert re.search(free, warnings) or "the weights take" in warnings, warnings
    assert not limited_to(omma, 5000000, "plan", no_weights, "100x100", "--max-pixels", "100K")


@pytest.mark.parametrize("command", [["chat", "hello"], ["serve", "--port", "0"]])
def test_engine_that_gets_no_memory_states_what_helps(omma, model, command):
    error = limited_to(omma, 2000000, *command, "--model", model, "--kv-cache-bytes", "64G", "--threads", "1").splitlines()[-1]
    assert "out of memory" in error and "smaller --kv-cache-bytes" in error and "omma plan" in error, error


def test_plan_prints_what_is_free(omma, no_weights):
    assert re.search(r"free on this machine +[0-9.]+ [KMGT]iB", omma("plan", no_weights).stdout.decode())
    plan = omma.json("plan", no_weights, "--kv-cache-bytes", "1M", "--json")["memory"]
    assert omma.json("plan", no_weights, "--kv-cache-memory-bytes", "1M", "--json")["memory"] == plan
    assert plan["max_model_len"] == plan["kv_cache_tokens"]


def test_an_int8_cache_has_room_for_more_tokens(omma, no_weights):
    room = [omma.json("plan", no_weights, "--kv-cache-bytes", "10M", "--kv-cache-dtype", dtype, "--json")["memory"]["kv_cache_tokens"]
            for dtype in ("bf16", "int8", "int8_per_token_head")]
    assert room[1] == room[2] and 1.7 * room[0] < room[1] < 2 * room[0]
    assert "keys and values as int8" in omma("plan", no_weights, "--kv-cache-dtype", "int8").stdout.decode()


def test_compressed_rows_refuse_an_int8_cache(omma):
    done = omma("plan", GOLDEN / "kimi_vl", "--kv-cache-dtype", "int8")
    error = done.stderr.decode()
    assert done.returncode == 1 and "kimi_vl" in error and "expected auto, bf16 or f32" in error and done.stdout == b"", error


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


# ---- info, verify, bench


def test_info(omma, no_weights):
    info = omma.json("info", "--json")
    assert "scalar" in info["levels"] and info["f32_gflops"] > 0 and info["kernels"] and "model" not in info
    with_model = omma.json("info", "--json", "--model", no_weights)
    assert with_model["model"]["n_layers"] > 0 and with_model["model"]["memory"]["total_bytes"] > 0
    assert omma.json("info", "--json", no_weights)["model"] == with_model["model"]
    assert omma("info", no_weights, "--model", no_weights).returncode == 2
    done = omma("info", "--model", no_weights)
    assert done.returncode == 0 and b"Kernels" in done.stdout and b"Model" in done.stdout


def test_info_names_window_kernels(omma):
    for level in omma.json("info", "--json")["levels"]:
        kernels = {kernel["operation"]: kernel["kernel"] for kernel in omma.json("info", "--json", "--isa", level)["kernels"]}
        expected = "window_bf16_64_avx512_bf16" if level == "avx512_bf16" else None
        assert kernels.get("attention windows bf16") == expected
        assert "attention windows f32" not in kernels


def test_info_states_why_a_level_is_used(omma, monkeypatch):
    def why(*words):
        found = {finding["operation"]: finding["kernel"] for finding in omma.json("info", "--json", *words)["kernels"]}
        return found["cpu level"], found["cpu level, why"]

    monkeypatch.delenv("OMMA_ISA", raising=False)
    best, reason = why()
    assert "the highest there is" in reason or "this machine lacks" in reason
    assert ("AMX" in reason) == (best == "amx")
    assert why("--isa", "scalar") == ("scalar", f"forced by isa; the best here is {best}")
    monkeypatch.setenv("OMMA_ISA", "scalar")
    assert why() == ("scalar", f"forced by OMMA_ISA; the best here is {best}")
    assert b"forced by OMMA_ISA" in omma("info").stdout


def test_info_names_a_kernel_for_every_head_dimension(omma):
    kernels = {kernel["operation"]: kernel["kernel"] for kernel in omma.json("info", "--json")["kernels"]}
    for form, types, most in (("encoder", ("f32", "bf16", "f16"), 256), ("causal", ("f32", "bf16"), 256), ("decode", ("f32", "bf16"), 1024)):
        for dtype in types:
            ranges = [name.split("D ")[1].split("-") for name in kernels if name.startswith(f"attention {form} {dtype}, D ")]
            dims = [dim for first, last in ranges for dim in range(int(first), int(last) + 1)]
            assert dims == list(range(1, most + 1))
    assert "multiples of 8" in kernels["attention head dimensions D"]


def test_info_of_a_level(omma):
    assert omma.json("info", "--json", "--isa", "scalar", "--threads", "1")["threads"] == 1
    missing = {"avx2", "avx2_vnni", "neon"} - set(omma.json("info", "--json")["levels"])
    for level in missing:
        refused(omma("info", "--isa", level), 1, level)


def test_verify(omma, model):
    found = omma.json("verify", "--json")
    assert found["ok"] is True and found["kernels"] and "files" not in found
    found = omma.json("verify", "--json", "--model", model)
    assert found["ok"] is True and found["files"]


def test_verify_finds_a_broken_tensor(omma, model, tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(model, folder)
    weights = sorted(folder.glob("*.safetensors"))
    file = next((path for path in weights if path.name.startswith("model")), None)
    header, data = read_safetensors(file)
    name, entry = next((name, entry) for name, entry in header.items() if entry["dtype"] in ("F32", "BF16"))
    whole = bytearray(file.read_bytes())
    start = len(whole) - len(data) + entry["data_offsets"][0]
    size = 4 if entry["dtype"] == "F32" else 2
    whole[start : start + size] = b"\xff" * size
    file.write_bytes(whole)
    done = omma("verify", "--json", "--model", folder)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    found = json.loads(done.stdout)
    assert found["ok"] is False
    assert any(not check["ok"] and name in check["what"] + check["details"] for check in found["files"])


@pytest.mark.parametrize("change, said", [({"shape": [-1]}, "expected shape"), ({"dtype": "I16"}, "expected type")])
def test_verify_reports_a_wrong_tensor_once(omma, model, tmp_path, change, said):
    folder = tmp_path / "wrong"
    shutil.copytree(model, folder)
    file = next(path for path in sorted(folder.glob("*.safetensors")) if path.name.startswith("model"))
    header, data = read_safetensors(file)
    # The same bytes as numbers of the same size, or all in one row.
    name, entry = next((name, entry) for name, entry in header.items() if entry["dtype"] == "BF16" and len(entry["shape"]) > 1)
    entry.update(change)
    if entry["shape"] == [-1]:
        entry["shape"] = [(entry["data_offsets"][1] - entry["data_offsets"][0]) // 2]
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)
    done = omma("verify", "--json", "--model", folder)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    wrong = [check for check in json.loads(done.stdout)["files"] if not check["ok"]]
    assert [check["what"] for check in wrong] == [name] and said in wrong[0]["details"]


def test_verify_shows_names_without_what_terminals_obey(omma, model, tmp_path):
    folder = tmp_path / "named"
    shutil.copytree(model, folder)
    file = next(path for path in sorted(folder.glob("*.safetensors")) if path.name.startswith("model"))
    header, data = read_safetensors(file)
    name = next(name for name in header if name != "__metadata__")
    header["\x1b[2Jevil\x9b5m\u202etensor"] = header.pop(name)
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)
    done = omma("verify", "--model", folder)
    assert done.returncode == 1
    assert b" [2Jevil  5m   tensor" in done.stdout and b"\x1b" not in done.stdout and b"\xc2\x9b" not in done.stdout


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


@pytest.mark.parametrize("segments", ["96", "64x3", "20,7,33", "8x2,100"])
def test_bench_attention(omma, segments):
    words = ["bench", "attention", "--head-dim", "32", "--heads", "4", "--kv-heads", "2", "--segments", segments]
    words += ["--dtype", "f32", "--seconds", "0", "--threads", "1", "--json"]
    result = omma.json(*words)
    assert 0 < result["ms_min"] <= result["ms_median"] and result["peak_gflops"] > 0 and result["kernel"]
    assert result["fraction_of_peak"] == pytest.approx(result["gflops"] / result["peak_gflops"], rel=1e-6)
    lengths = []
    for entry in segments.split(","):
        length, _, count = entry.partition("x")
        lengths += [int(length)] * int(count or 1)
    assert result["n_tokens"] == sum(lengths) and result["n_segments"] == len(lengths)
    assert result["flops"] == sum(2 * (32 + 32) * 4 * length * length for length in lengths)
    seen = [min(position + 1, 10) for length in lengths for position in range(length)]
    assert omma.json(*words, "--causal", "--window", "10")["flops"] == 2 * (32 + 32) * 4 * sum(seen)


@pytest.mark.parametrize(("threads", "said"), [(1, "on 1 thread"), (2, "on 2 threads")])
def test_counts_of_one_are_no_plurals(omma, no_weights, model, threads, said):
    machine = ["--threads", threads]
    words = ["bench", "attention", "--head-dim", 16, "--heads", 1, "--segments", 1, "--dtype", "f32", "--seconds", 0]
    for command in (
        words,
        ["info"],
        ["plan", "64x64", "--verbose", "--model", no_weights],
        ["bench", "encoder", "--image-size", "64x64", "--repeat", 1, "--model", model],
        ["bench", "decode", "--context", 1, "--tokens", 2, "--repeat", 1, "--model", model],
    ):
        done = omma(*command, *machine)
        printed = (done.stdout + done.stderr).decode()
        assert done.returncode == 0 and re.search(rf"\b{said}\b", printed)
        assert not re.search(r"(?<![\d.])1 (threads|tokens|segments|runs|images)\b", printed)


def test_bench_attention_from_file(omma, tmp_path):
    file = tmp_path / "lengths.txt"
    file.write_text("12 30\n5x2\n")
    words = ["bench", "attention", "--head-dim", "16", "--heads", "2", "--dtype", "f32", "--seconds", "0", "--json", "--segments"]
    assert omma.json(*words, file)["n_tokens"] == 52
    assert omma.json(*words, "32", "--causal")["flops"] == 2 * (16 + 16) * 2 * (32 * 33 // 2)
    refused(omma(*words, tmp_path / "none.txt"), 1, "none.txt")
    file.write_text("12 thirty")
    refused(omma(*words, file), 2, "thirty")


@pytest.mark.parametrize(("sizes", "batch"), [("96x64", 1), ("96x64,65x33", 2)])
def test_bench_encoder(omma, model, sizes, batch):
    words = ["--model", model, "--threads", "1"]
    plans = omma.json("plan", *sizes.split(","), *words, "--json")["total"]
    result = omma.json("bench", "encoder", "--image-size", sizes, "--batch", batch, "--repeat", 2, "--slice-ms", 1, *words,
                       "--json")
    assert result["n_patches"] == batch * plans["n_patches"] and result["n_tokens"] == batch * plans["n_tokens"]
    assert result["flops"] == pytest.approx(batch * plans["flops"])
    assert 0 < result["ms_min"] <= result["ms_median"] and result["runs"] == 2
    assert result["times_peak"] == pytest.approx(result["ms_min"] * 1e6 * result["peak_gflops"] / result["flops"])
    assert set(result["parts"]) == {"preprocess", "patch_embed", "attention", "linear", "rest"}
    assert sum(result["parts"].values()) == pytest.approx(result["ms_min"]) and min(result["parts"].values()) >= 0
    assert result["peak_gflops"] == max(result["peaks"]) and len(result["peaks"]) == 4 and result["estimated_bytes"] > 0
    doubtful = result["times_peak"] < 1 or min(result["peaks"]) < 0.95 * max(result["peaks"])
    assert (result["peak_note"] is not None) == doubtful
    assert result["slices"]["number"] >= 1 and 0 < result["slices"]["ms_longest"] <= result["ms_min"]
    assert (result["separate"] is None) == (result["n_images"] == 1)
    if result["separate"]:
        ratio = result["images_per_s"] / result["separate"]["images_per_s"]
        assert result["separate"]["packed_is_faster_by"] == pytest.approx(ratio)


@pytest.mark.parametrize("level", ["scalar", "avx2", "avx2_vnni", "avx512", "avx512_bf16", "amx", "neon", "neon_dotprod", "neon_bf16"])
def test_bench_encoder_holds_its_estimate(omma, level):
    demo = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo"
    if level not in omma.json("info", "--json")["levels"]:
        pytest.skip(f"this CPU lacks the level {level}")
    if omma.is_instrumented():
        pytest.skip("a sanitizer's shadow memory counts as taken")
    words = ["--model", demo, "--image-size", "700x1024", "--isa", level, "--threads", 2]
    result = omma.json("bench", "encoder", *words, "--repeat", 1, "--json")
    # The C library's heap is in no estimate either, and the kernel counts pages in lots of 64 for
    # each thread.
    assert 0 < result["peak_bytes"] <= result["estimated_bytes"] + (1 << 20) and result["code_bytes"] >= 0
    done = omma("bench", "encoder", *words, "--repeat", 1)
    assert re.search(rb"memory besides weights .* estimated .*\n  code, not in the estimate ", done.stdout)


def test_plan_prints_the_resize(omma, no_weights):
    plan = omma.json("plan", "--model", no_weights, "--json", "64x64", "1024x64", "--max-pixels", 4096)
    same, smaller = plan["images"]
    assert (same["resized_width"], same["resized_height"]) == (64, 64) and same["resize_bytes"] == 0
    assert smaller["resized_width"] < 1024 and smaller["resize_bytes"] > 0


@pytest.mark.parametrize("name", ["qwen3_vl_tied", "qwen3_vl_moe", "kimi_vl"])
def test_bench_decode(omma, name):
    words = ["bench", "decode", "--model", GOLDEN / name, "--threads", 1, "--tokens", 4, "--repeat", 2, "--dtype", "f32", "--json"]
    result = omma.json(*words, "--context", "9,65")
    assert [context["context"] for context in result["contexts"]] == [9, 65]
    assert (result["tokens"], result["runs"], result["threads"], result["weights"]) == (4, 2, 1, "f32")
    assert result["peak_gflops"] == max(result["peaks"]) > 0 and result["read_gbps"] == max(result["reads"]) > 0
    for found in result["contexts"]:
        seconds, step = found["prefill_ms_min"] / 1e3, found["decode_ms_min"] / 1e3
        assert 0 < seconds <= found["prefill_ms_median"] / 1e3 and 0 < step <= found["decode_ms_median"] / 1e3
        assert found["prefill_tokens_per_s"] == pytest.approx(found["context"] / seconds)
        assert found["prefill_times_peak"] == pytest.approx(seconds * 1e9 * result["peak_gflops"] / found["prefill_flops"])
        assert found["prefill_fraction_of_peak"] == pytest.approx(1 / found["prefill_times_peak"])
        assert found["decode_tokens_per_s"] == pytest.approx(1 / step)
        assert found["decode_gbps"] == pytest.approx(found["bytes_per_step"] / step * 1e-9)
        assert found["fraction_of_bandwidth"] == pytest.approx(found["decode_gbps"] / result["read_gbps"])
        assert 0 < found["decode_ms_fastest"] <= found["decode_ms_min"]
        fastest = found["bytes_per_step"] / found["decode_ms_fastest"] * 1e-6 / result["read_gbps"]
        assert found["fastest_fraction_of_bandwidth"] == pytest.approx(fastest)
    # 56 tokens of keys and values lie between the two; the elements of one are those of
    # tests/unit/test_model_calls.c.
    config = json.loads((GOLDEN / name / "config.json").read_text())["text_config"]
    kept = 32 if name == "kimi_vl" else 2 * config["num_key_value_heads"] * config["head_dim"]
    short, long = (found["bytes_per_step"] for found in result["contexts"])
    assert long - short == 56 * config["num_hidden_layers"] * kept * 4


def test_bench_scale(omma, model):
    result = omma.json("bench", "scale", "--model", model, "--threads", 2, "--image-size", "112x84", "--context", 70,
                       "--repeat", 1, "--warmup", 0, "--memory-gbps", 300, "--tokens", 800, "--json")
    assert result["threads"] == 2 and result["memory_gbps"] == 300 and result["run_us_alone"] > 0 <= result["run_us_per_doubling"]
    assert [work["work"] for work in result["works"]] == ["tower", "prefill", "decode, 1 row", "decode, 16 rows"]
    for work in result["works"]:
        assert work["runs"] > 0 and work["tasks"] >= work["runs"] and work["measured_ms"] > 0 < work["predicted_here_ms"]
        assert work["steps"] == 1 if "decode" not in work["work"] else work["steps"] > 1
        times = {size["workers"]: size["ms"] for size in work["predicted"]}
        assert list(times) == [1, 2, 4, 8, 16, 32, 64, 96, 192]
        assert work["serial_ms"] <= min(times.values()) and times[1] == pytest.approx(work["alone_ms"])
        for size in work["predicted"]:
            assert size["efficiency"] == pytest.approx(times[1] / size["workers"] / size["ms"])


def test_bench_scale_refuses(omma, no_weights, model):
    refused(omma("bench", "scale", "--model", model, "--image-size", "7"), 2, "--image-size: '7' is not a size")
    refused(omma("bench", "scale", "--model", model, "--context", "1"), 2, "context")
    refused(omma("bench", "scale", "--model", no_weights), 1, "no_weights")


def test_bench_decode_of_many_answers(omma, model):
    result = omma.json("bench", "decode", "--model", model, "--threads", 1, "--tokens", 600, "--context", "70", "--repeat", 1,
                       "--warmup", 0, "--batch", 3, "--temperature", 0.8, "--top-p", 0.9, "--json")
    (context,) = result["contexts"]
    assert result["batch"] == 3 and 0 <= result["draw_and_schedule_share"] < 1
    assert context["decode_tokens_per_s"] == pytest.approx(3e3 / context["decode_ms_min"])
    assert "prefill_ms_min" not in context


def test_plan_counts_requests_at_once(omma, model):
    one, many = (omma.json("plan", model, "640x480", "--kv-cache-bytes", "64M", "--max-num-seqs", n, "--json")["memory"] for n in (1, 32))
    assert (one["max_sequences"], many["max_sequences"]) == (1, 32)
    assert many["table_bytes"] > one["table_bytes"] and many["request_bytes"] == one["request_bytes"]
    assert many["total_bytes"] - one["total_bytes"] >= 31 * one["request_bytes"]


def test_bench_decode_refuses(omma, no_weights):
    words = ["bench", "decode", "--model", no_weights, "--context"]
    for lengths in ("", "0", "7,", "7,x", "1x2", ",".join(["7"] * 65)):
        refused(omma(*words, lengths), 2, "bench decode: --context: ")
    refused(omma(*words, "7", "--tokens", 1), 2, "tokens")
    limit = json.loads((no_weights / "config.json").read_text())["text_config"]["max_position_embeddings"]
    refused(omma(*words, f"7,{limit - 3}", "--tokens", 4), 1, limit - 3, limit + 1, f"limit is {limit}")


# ---- serve and signals


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


def test_interrupt_ends_an_answer(omma, model):
    words = [omma.path, "chat", "--model", model, "--ignore-eos", "--prompt", "Hello", "--temperature", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        code = process.wait(timeout=30)
        error = process.stderr.read().decode()
    assert (code, error) == (130, "omma: interrupted\n")


def test_directory_without_a_model(omma, tmp_path):
    for words in (["chat", "--model", tmp_path, "hi"], ["tokenize", "--model", tmp_path, "hi"], ["verify", tmp_path]):
        refused(omma(*words), 1, f"{tmp_path}: a directory without config.json: a model is")


def test_port_in_use(omma):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = omma("serve", "--port", port)
    assert done.returncode == 1 and f"cannot listen on 127.0.0.1 port {port}: Address already in use".encode() in done.stderr
    assert b"--port 0 any free one" in done.stderr
