"""`omma bench attention`, `encoder`, `decode` and `scale`: figures, and what is refused.

Run with: pytest tests/cli --omma build/release/omma
"""

import json
import pathlib
import re
import signal
import subprocess

import pytest

from omma_program import GOLDEN, refused

UNSTEADY = "this machine is not steady"
OFF = "off by more than a tenth: memory, clocks or other programs changed meanwhile"


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


@pytest.mark.long
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


@pytest.mark.release_only
@pytest.mark.parametrize("level", ["scalar", "avx2", "avx2_vnni", "avx512", "avx512_bf16", "amx", "neon", "neon_dotprod", "neon_bf16"])
def test_bench_encoder_holds_its_estimate(omma, level):
    demo = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo"
    if level not in omma.json("info", "--json")["levels"]:
        pytest.skip(f"this CPU lacks the level {level}")
    words = ["--model", demo, "--image-size", "700x1024", "--isa", level, "--threads", 2]
    result = omma.json("bench", "encoder", *words, "--repeat", 1, "--json")
    # The C library's heap is in no estimate either, and the kernel counts pages in lots of 64 for
    # each thread.
    assert 0 < result["peak_bytes"] <= result["estimated_bytes"] + (1 << 20) and result["code_bytes"] >= 0
    done = omma("bench", "encoder", *words, "--repeat", 1)
    assert re.search(rb"memory besides weights .* estimated .*\n  code, not in the estimate ", done.stdout)


@pytest.mark.long
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


@pytest.mark.long
def test_bench_scale(omma, model):
    words = ["bench", "scale", "--model", model, "--threads", 2, "--image-size", "112x84", "--context", 70, "--repeat", 1,
             "--warmup", 0, "--memory-gbps", 300, "--tokens", 150]
    result = omma.json(*words, "--json")
    assert result["threads"] == 2 and result["memory_gbps"] == 300 and result["run_us_alone"] > 0 <= result["run_us_per_doubling"]
    assert 0 < result["read_gbps_least"] <= result["read_gbps"] and result["images"] == 1
    assert [work["work"] for work in result["works"]] == ["tower", "prefill", "decode, 1 row", "decode, 16 rows"]
    for work in result["works"]:
        assert work["runs"] > 0 and work["tasks"] >= work["runs"] and work["measured_ms"] > 0 < work["predicted_here_ms"]
        assert work["steps"] == 1 if "decode" not in work["work"] else work["steps"] >= 1
        # the demo's weights lie in the cache: no reading is slower than another
        assert work["slower_reading_shown"] == 0.5 and not work["slower_reading_measured"]
        times = {size["workers"]: size["ms"] for size in work["predicted"]}
        assert list(times) == [1, 2, 4, 8, 16, 32, 64, 96, 192]
        assert times[1] == pytest.approx(work["alone_ms"]) and work["serial_ms"] == work["predicted"][0]["serial_ms"]
        for size in work["predicted"]:
            # of the same record: teams of other sizes have records of their own
            assert 0 < size["serial_ms"] <= size["ms"]
            assert size["efficiency"] == pytest.approx(times[1] / size["workers"] / size["ms"])


@pytest.mark.long
@pytest.mark.parametrize("work, names", [
    ("tower", ["tower"]), ("prefill", ["prefill"]), ("decode", ["decode, 1 row", "decode, 16 rows"]),
])
def test_bench_scale_of_one_work(omma, model, work, names):
    """With the fewest tokens: two steps of all answers, one in each way of running them."""
    words = ["bench", "scale", "--model", model, "--threads", 2, "--image-size", "112x84", "--context", 70, "--repeat", 1,
             "--warmup", 0, "--tokens", 3, "--work", work]
    result = omma.json(*words, "--json")
    assert [found["work"] for found in result["works"]] == names
    assert result["read_note"] == (UNSTEADY if result["read_gbps_least"] < 0.95 * result["read_gbps"] else None)
    for found in result["works"]:
        assert found["steps"] == 1
        share = found["predicted_here_ms"] / found["measured_ms"]
        assert found["predicted_over_measured"] == pytest.approx(share)
        assert found["measured_note"] == (OFF if abs(share - 1) > 0.1 else None)
    here = r"here +[\d.]+ ms on 2 threads; predicted [\d.]+ ms, [\d.]+ of what was measured"
    done = omma(*words)
    assert len(re.findall(here, done.stdout.decode())) == len(names)
    assert done.stderr.startswith(b"omma: warning: bench scale: --repeat 1: one pass cannot show ")


@pytest.mark.long
def test_bench_scale_checks_this_machine_alone(omma, model):
    words = ["bench", "scale", "--model", model, "--threads", 2, "--image-size", "112x84", "--context", 70, "--repeat", 2,
             "--warmup", 0, "--tokens", 3, "--check-only"]
    done = omma(*words)
    assert done.returncode == 0 and len(re.findall(r"here +[\d.]+ ms on 2 threads; predicted ", done.stdout.decode())) == 4
    assert b"workers" not in done.stdout.replace(b"of the workers", b"") and b"--repeat" not in done.stderr
    for found in omma.json(*words, "--json")["works"]:
        assert found["predicted"] == [] and found["measured_ms"] > 0 < found["predicted_here_ms"]
        assert "slower_reading_shown" not in found


@pytest.mark.long
def test_bench_scale_interrupted(omma):
    with subprocess.Popen([omma.path, "bench", "scale", "--threads", "1", "--repeat", "1000"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        # progress, after 10 s
        while not (line := process.stderr.readline()).startswith("omma: bench scale: "):
            assert line, process.wait()
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert error.splitlines()[-1] == "omma: interrupted: bench scale: no work was measured completely"


@pytest.mark.long
def test_bench_scale_of_steps_needs_no_room_for_a_prompt(omma):
    """The demo model's, whose context is longer than the default --context."""
    found = omma.json("bench", "scale", "--threads", 1, "--repeat", 1, "--warmup", 0, "--tokens", 3, "--work", "decode", "--json")
    assert [work["work"] for work in found["works"]] == ["decode, 1 row", "decode, 16 rows"]


@pytest.mark.long
def test_bench_scale_shows_its_progress(omma, model):
    words = [ "bench", "scale", "--model", model, "--threads", "1", "--image-size", "112x84", "--context", "70",
             "--repeat", "8", "--warmup", "1", "--tokens", "20"]
    shown = omma.on_terminal(*words).split("\r")
    lines = [line for line in shown if "bench scale [" in line]
    for line in lines:
        assert re.fullmatch(r"bench scale \[[#.]+\] +\d+ %  [\d.]+ s  [a-z]+(, \d+ rows?)?, "
                            r"(tasks for \d+ workers?|1 thread here), round \d of [89]\x1b\[K", line), line
    assert lines and len({line.split(",")[-1] for line in lines}) > 1


@pytest.mark.long
def test_bench_scale_of_several_images(omma, model):
    words = ["bench", "scale", "--model", model, "--threads", 1, "--image-size", "112x84", "--context", 2, "--repeat", 1,
             "--warmup", 0, "--tokens", 60, "--dtype", "float32"]
    # float32: in bf16 a tile of level amx takes the rows of all three
    one, three = (omma.json(*words, "--images", n, "--json") for n in (1, 3))
    assert one["images"] == 1 and three["images"] == 3
    assert three["works"][0]["tasks"] > 2 * one["works"][0]["tasks"]
    assert three["works"][1]["tasks"] == one["works"][1]["tasks"]


def test_bench_scale_refuses(omma, no_weights, model):
    refused(omma("bench", "scale", "--model", model, "--image-size", "7"), 2, "--image-size: '7' is not a size")
    refused(omma("bench", "scale", "--model", model, "--context", "1"), 2, "context")
    refused(omma("bench", "scale", "--model", model, "--images", "0"), 2, "images")
    refused(omma("bench", "scale", "--model", model, "--tokens", "2"), 2, "tokens")
    refused(omma("bench", "scale", "--model", model, "--work", "head"), 2, "--work", "tower, prefill")
    refused(omma("bench", "scale", "--model", model, "--check-only", "--memory-gbps", "300"), 2, "--memory-gbps", "--check-only")
    demo = GOLDEN.parents[1] / "models" / "demo"
    refused(omma("bench", "scale", "--model", demo, "--context", "2048"), 1, "--context: 2048 tokens and one more", "limit is 2048")
    refused(omma("bench", "scale", "--model", demo, "--tokens", "1729"), 1, "--tokens: 1729", "limit is 2048")
    refused(omma("bench", "scale", "--model", no_weights), 1, "no_weights")


@pytest.mark.long
def test_bench_decode_of_many_answers(omma, model):
    result = omma.json("bench", "decode", "--model", model, "--threads", 1, "--tokens", 600, "--context", "70", "--repeat", 1,
                       "--warmup", 0, "--batch", 3, "--temperature", 0.8, "--top-p", 0.9, "--json")
    (context,) = result["contexts"]
    assert result["batch"] == 3 and 0 <= result["draw_and_schedule_share"] < 1
    assert context["decode_tokens_per_s"] == pytest.approx(3e3 / context["decode_ms_min"])
    assert "prefill_ms_min" not in context


@pytest.mark.long
def test_bench_decode_shows_its_progress(omma, model):
    """One line for all runs, which counts them."""
    words = [ "bench", "decode", "--model", model, "--threads", "1", "--context", "9,65", "--tokens", "100",
             "--repeat", "300", "--warmup", "1"]
    shown = omma.on_terminal(*words).split("\r")
    lines = [line for line in shown if "prompts and tokens [" in line]
    form = r"prompts and tokens \[[#.]+\] +(\d+) %  [\d.]+ s  run (\d+) of 602, prompt of (9|65)\x1b\[K"
    found = [re.fullmatch(form, line) for line in lines]
    assert found and all(found), lines
    shares, runs = ([int(match.group(i)) for match in found] for i in (1, 2))
    assert shares == sorted(shares) and runs == sorted(runs) and runs[-1] > runs[0]
    for share, run in zip(shares, runs):
        assert (run - 1) / 602 * 100 - 1 < share < run / 602 * 100 + 1


def test_bench_decode_refuses(omma, no_weights):
    words = ["bench", "decode", "--model", no_weights, "--context"]
    for lengths in ("", "0", "7,", "7,x", "1x2", ",".join(["7"] * 65)):
        refused(omma(*words, lengths), 2, "bench decode: --context: ")
    refused(omma(*words, "7", "--tokens", 1), 2, "tokens")
    limit = json.loads((no_weights / "config.json").read_text())["text_config"]["max_position_embeddings"]
    refused(omma(*words, f"7,{limit - 3}", "--tokens", 4), 1, limit - 3, limit + 1, f"limit is {limit}")
