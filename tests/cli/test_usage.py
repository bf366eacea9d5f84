"""Help, words, options and values of every command: what is shown, and what is refused how.

Run with: pytest tests/cli --omma build/release/omma
"""

import re

import pytest

from omma_program import refused

COMMANDS = ["chat", "run", "serve", "batch", "read", "embed", "rerank", "encode", "preprocess", "plan", "tokenize", "detokenize",
            "info", "verify", "bench attention", "bench encoder", "bench decode", "bench read", "bench serve",
            "bench scale"]


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
    assert len(warnings) == 3 and warnings[0].endswith("means nothing to this program")
    assert "--gpu-memory-utilization: " in warnings[2] and warnings[2].endswith("; what comes nearest is --kv-cache-bytes")
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
