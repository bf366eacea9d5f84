"""Many images at once through `omma bench serve`, on the demo model; and the same images again,
which need no encoder."""

import json
import pathlib
import subprocess

import pytest
from server_process import ServerProcess, check_output
from test_metrics import read

DEMO = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo"


def has_curl(omma):
    done = subprocess.run([omma, "bench", "serve", "--base-url", "http://127.0.0.1:1", "--model", "x", "--tokenizer", str(DEMO),
                           "--num-prompts", "1", "--ready-check-timeout-sec", "0"], capture_output=True, text=True)
    return "libcurl" not in done.stderr


@pytest.fixture(scope="module")
def server(omma):
    if not has_curl(omma):
        pytest.skip("built without libcurl")
    process = ServerProcess([omma, "serve", str(DEMO), "--host", "127.0.0.1", "--port", "0", "--max-model-len", "512"])
    yield process
    process.stop()
    check_output(process)


def bench(omma, server, folder, *words):
    command = [omma, "bench", "serve", "--base-url", f"http://127.0.0.1:{server.port}", "--model", "demo", "--tokenizer", str(DEMO),
               "--num-prompts", "64", "--max-concurrency", "16", "--random-input-len", "32", "--random-output-len", "8",
               "--ignore-eos", "--disable-tqdm", "--save-result", "--save-detailed", "--result-dir", str(folder), "--result-filename",
               "result.json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((folder / "result.json").read_text())
    assert result["completed"] == 64 and result["failed"] == 0 and not any(result["errors"]), result["errors"]
    assert result["total_output_tokens"] == 64 * 8
    return result


def test_images_at_once_and_again(omma, server, tmp_path):
    words = ["--backend", "openai-chat", "--dataset-name", "random-mm", "--random-mm-base-items-per-request", "1",
             "--random-mm-limit-mm-per-prompt", '{"image": 1, "video": 0}', "--random-mm-bucket-config",
             "{(64, 64, 1): 0.5, (96, 128, 1): 0.5}", "--temperature", "0"]
    first = bench(omma, server, tmp_path, *words)
    one, _ = read(server)
    again = bench(omma, server, tmp_path, *words)
    two, _ = read(server)
    assert one["omma:encoder_images_total"] == 64
    for name in ("omma:encoder_images_total", "omma:encoder_patches_total", "omma:encoder_cache_misses_total", "omma:encoder_seconds_sum"):
        assert one[name] == two[name], name
    assert two["omma:encoder_cache_hits_total"] >= one["omma:encoder_cache_hits_total"] + 64
    assert again["generated_texts"] == first["generated_texts"]


def test_completions_at_once(omma, server, tmp_path):
    bench(omma, server, tmp_path, "--backend", "openai", "--dataset-name", "random")
