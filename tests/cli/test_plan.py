"""`omma plan`: estimates of models, also of configurations alone, and what they warn of.

Run with: pytest tests/cli --omma build/release/omma
"""

import os
import pathlib
import re
import shutil

import pytest

from omma_program import GOLDEN, limited_to, refused


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
    assert plan["read_gbps"] == max(plan["reads"]) > 0 and len(plan["reads"]) == 3
    assert (plan["read_note"] is not None) == (min(plan["reads"]) < 0.95 * max(plan["reads"]))
    assert (plan["peak_note"] is not None) == (min(plan["peaks"]) < 0.95 * max(plan["peaks"]))


def test_plan_of_nothing_is_that_of_the_demo_model(omma):
    for words in ([], ["--max-num-seqs", "4"]):
        (image,) = omma.json("plan", *words, "--json")["images"]
        assert (image["source"], image["width"]) == ("1024x1024", 1024)


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


def test_plan_of_several_engines(omma, no_weights):
    """What each engine has comes as often as there are engines, the weights once."""
    options = ("plan", "640x480", "--model", no_weights, "--threads", "1", "--kv-cache-bytes", "64M", "--max-num-seqs", "4")
    one, three = (omma.json(*options, "--data-parallel-size", n, "--json") for n in ("1", "3"))
    assert one["engines"]["n_engines"] == one["engines"]["n_weight_copies"] == 1
    assert three["engines"]["n_engines"] == 3 and three["engines"]["n_threads"] == 1
    memory = three["memory"]
    copies = three["engines"]["n_weight_copies"]  # of memory nodes, at most 3
    assert memory["weight_bytes"] == copies * one["memory"]["weight_bytes"] and 1 <= copies <= 3
    for name in ("kv_cache_bytes", "kv_cache_tokens", "vision_workspace_bytes", "language_workspace_bytes", "table_bytes",
                 "encoder_cache_bytes", "max_sequences"):
        assert memory[name] == 3 * one["memory"][name] > 0, name
    assert memory["max_model_len"] == one["memory"]["max_model_len"]
    assert three["engines"]["engine_bytes"] == (memory["total_bytes"] - memory["weight_bytes"]) // 3
    assert one["engines"]["engine_bytes"] == one["memory"]["total_bytes"] - one["memory"]["weight_bytes"]
    text = omma(*options, "--data-parallel-size", "3").stdout.decode()
    assert re.search(r"^  engines +3, of 1 thread and \S+ [KMG]iB each, over \d+ cop(y|ies) of the weights$", text, re.M), text
    assert not re.search("^  engines ", omma(*options).stdout.decode(), re.M)
    refused(omma(*options, "--data-parallel-size", "65"), 2, "--data-parallel-size: expected 1 to 64 or auto, found 65")
    auto = omma.json(*options, "--data-parallel-size", "auto", "--json")["engines"]
    assert auto["n_engines"] == auto["n_weight_copies"]


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


@pytest.mark.long
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


@pytest.mark.parametrize("size", ["0x10", "10x0", "0x0"])
def test_plan_of_nothing(omma, no_weights, size):
    refused(omma("plan", size, "--model", no_weights), 2, f"plan: {size}: an image has a width and a height of 1 or more")


@pytest.mark.parametrize("size", ["10x", "x10", "10x10x10", "100x100x", "1e9x10", "10Xx10", "99999999999x1", "1920by1080"])
def test_plan_of_no_size(omma, no_weights, size):
    """Unlike a file that is missing."""
    said = "neither an image file (No such file"
    refused(omma("plan", size, "--model", no_weights), 2, f"{size}: {said}", "a size WIDTHxHEIGHT")
    refused(omma("plan", f"{size}.png", "--model", no_weights), 1, f"{size}.png: {said}")


def test_plan_takes_a_large_x(omma, no_weights):
    small, large = (omma.json("plan", f"192{x}108", "--model", no_weights, "--json")["images"][0] for x in "xX")
    assert large.pop("source") == "192X108" and small.pop("source") == "192x108"
    assert (large["width"], large["height"], large["n_tokens"]) == (192, 108, small["n_tokens"])


def test_plan_of_videos(omma, no_weights):
    words = ["plan", "118x54", "--model", no_weights, "--json"]
    still, video = (omma.json(*words, *more)["images"][0] for more in ([], ["--frames", "5"]))
    assert still["grid_thw"][0] == still["n_segments"] == 1 and video["grid_thw"][0] == video["n_segments"] == 3
    refused(omma(*words, "--frames", "1"), 1, "at least 2 frames")


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


def test_a_text_that_is_too_long_is_asked_to_be_shorter_once(omma, no_weights):
    done = omma("chat", "--model", no_weights, "--prompt", "hello " * 1000, "--max-model-len", "100")
    assert done.returncode == 1 and done.stderr.endswith(b"Please reduce the length of the input prompt\n")


def test_more_answer_tokens_than_there_is_room_for(omma, no_weights):
    question = ["chat", "--model", no_weights, "--prompt", "hello", "--max-model-len", "100", "--max-tokens"]
    refused(omma(*question, "99"), 1, "safetensors")
    assert b"--max-tokens 100: prompt and answer may have 100 tokens together, so an answer ends earlier" in omma(*question, "100").stderr


def test_memory_is_printed_before_weights_are_loaded(omma, no_weights, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "a"}}\n')
    for words in (["serve", "--port", "0"], ["batch", "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl"],
                  ["serve", "--port", "0", "--mm-encoder-only"]):
        said = omma(*words, "--model", no_weights).stderr.decode()
        assert re.search(r"(?s)memory: (tower )?weights .* in all, .*safetensors", said), said


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


@pytest.mark.release_only
def test_plan_warns_of_a_total_that_does_not_fit(omma, no_weights, tmp_path):
    shutil.copy(CONFIGS / "qwen3-vl-2b.json", tmp_path / "config.json")
    warnings = limited_to(omma, 5000000, "plan", tmp_path, "4032x3024")
    free = r"an estimated [0-9.]+ GiB are needed in all, and [0-9.]+ [MG]iB of memory are free: .*--kv-cache-bytes.*--max-num-seqs"
    assert re.search(free, warnings) or "the weights take" in warnings, warnings
    assert not limited_to(omma, 5000000, "plan", no_weights, "100x100", "--max-pixels", "100K")


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


def test_plan_prints_the_resize(omma, no_weights):
    plan = omma.json("plan", "--model", no_weights, "--json", "64x64", "1024x64", "--max-pixels", 4096)
    same, smaller = plan["images"]
    assert (same["resized_width"], same["resized_height"]) == (64, 64) and same["resize_bytes"] == 0
    assert smaller["resized_width"] < 1024 and smaller["resize_bytes"] > 0


def test_plan_counts_requests_at_once(omma, model):
    one, many = (omma.json("plan", model, "640x480", "--kv-cache-bytes", "64M", "--max-num-seqs", n, "--json")["memory"] for n in (1, 32))
    assert (one["max_sequences"], many["max_sequences"]) == (1, 32)
    assert many["table_bytes"] > one["table_bytes"] and many["request_bytes"] == one["request_bytes"]
    assert many["total_bytes"] - one["total_bytes"] >= 31 * one["request_bytes"]
