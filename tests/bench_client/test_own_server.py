"""The client against this project's own server."""

import re
import subprocess

import pytest


@pytest.fixture(scope="module")
def own_server(request):
    """The port of omma serve with the model."""
    omma, model = (request.config.getoption(name) for name in ("--omma", "--model"))
    process = subprocess.Popen([omma, "serve", model, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = iter(process.stdout.readline, "")
    port = next(int(found[1]) for found in (re.search(r"http://[0-9.]+:(\d+)", line) for line in lines) if found)
    yield port
    process.terminate()
    process.communicate(timeout=30)


def test_noise(bench, own_server):
    result = bench(own_server, "--model", "demo", "--dataset-name", "random-mm", "--num-prompts", 4, "--random-input-len", 16,
                   "--random-output-len", 6, "--random-mm-bucket-config", "{(64, 96, 1): 1}", "--max-concurrency", 2)
    assert result.returncode == 0, result.stderr
    assert result.json["output_lens"] == [6] * 4 and all(n > 16 for n in result.json["input_lens"])


def test_images_and_answers(bench, own_server, lines, images):
    files = sorted(str(path) for path in images.glob("*.png"))[:3]
    rows = [{"prompt": "What is in the picture?", "image_files": [path], "answers": ["a dog"]} for path in files]
    result = bench(own_server, "--model", "demo", "--dataset-name", "custom_image", "--dataset-path", lines(*rows), "--num-prompts", 3,
                   "--custom-ensure-client-side-data", "--custom-output-len", 8, "--temperature", 0)
    assert result.returncode == 0, result.stderr
    assert result.json["accuracy"]["judged"] == 3 and all(result.json["generated_texts"])


def test_refused_requests(bench, own_server, lines):
    result = bench(own_server, "--model", "demo", "--dataset-name", "custom_image", "--dataset-path",
                   lines({"prompt": "x", "image_files": ["/nowhere.png"]}), "--num-prompts", 2)
    assert result.returncode == 1 and "HTTP 400 Bad Request: " in result.stderr
