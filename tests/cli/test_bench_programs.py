"""What the programs of bench/ say on a usage error: one line, no traceback; and their help.

Run with: pytest tests/cli --omma build/release/omma
"""

import json
import pathlib
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parent.parent.parent / "bench"


def refused(program, *words):
    command = [sys.executable, "-B", BENCH / program, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("program", ["attention_peers.py", "encoder_bounds.py"])
def test_missing_omma_is_named(program, tmp_path):
    nowhere = str(tmp_path / "omma")
    line = refused(program, "--omma", nowhere)
    assert nowhere in line and "no such program" in line and "make" in line


def test_unknown_case_lists_those_there_are(request):
    line = refused("attention_peers.py", "--omma", request.config.getoption("--omma"), "--case", "64 windows", "--case", "nosuch")
    assert "nosuch" in line and "256 windows of 64, D 80" in line and "one segment of 4096, D 72" in line


@pytest.mark.parametrize("words, why", [
    (["--size", "0x3"], "WIDTHxHEIGHT"), (["--rounds", "0"], "integer from 1"), (["--base-url", "localhost:8000"], "http://HOST:PORT"),
])
def test_same_image_wants_a_size_and_a_server(words, why):
    assert why in refused("same_image.py", *words)


@pytest.mark.parametrize("program, option", [
    ("tower_peers.py", "--python-transformers"), ("encoder_accuracy.py", "--image-size"), ("quant_accuracy.py", "--methods"),
    ("decode_peers.py", "--llama"),
])
def test_help_needs_no_packages(program, option):
    command = [sys.executable, "-B", "-S", BENCH / program, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stderr == "" and option in done.stdout


@pytest.mark.parametrize("program", [
    "attention_accuracy.py", "client_load.py", "encoder_accuracy.py", "make_random_model.py", "preprocess_peers.py",
])
def test_missing_numpy_is_one_line(program, request):
    words = ["--model", BENCH, "--omma", request.config.getoption("--omma")] if program == "encoder_accuracy.py" else []
    command = [sys.executable, "-B", "-S", BENCH / program, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"{program}: this Python has no NumPy: pip install numpy\n"


@pytest.mark.parametrize("name", ["qwen3_vl_tied", "qwen3_5_tied", "qwen3_5_untied"])
def test_decode_peers_writes_what_a_converter_does(name, tmp_path):
    """But for the draft head, which llama-bench would not use."""
    gguf = pytest.importorskip("gguf")
    from gguf_files import convert

    source, made = BENCH.parent / "tests" / "golden" / name, tmp_path / "made.gguf"
    script = "import pathlib, sys; sys.path.insert(0, sys.argv[1]); from decode_peers import write_gguf; write_gguf(*map(pathlib.Path, sys.argv[2:]))"
    subprocess.run([sys.executable, "-B", "-c", script, BENCH, source, made], check=True, timeout=60)
    layers = json.loads((source / "config.json").read_text())["text_config"]["num_hidden_layers"]
    expected, found = ({tensor.name: (tensor.tensor_type, tensor.shape.tolist(), tensor.data.tobytes()) for tensor in gguf.GGUFReader(path).tensors}
                       for path in (convert(source, tmp_path, "BF16")[0], made))
    assert found == {tensor: value for tensor, value in expected.items() if not tensor.startswith(f"blk.{layers}.")}


def test_encoder_accuracy_of_noise(request, model, tmp_path):
    pytest.importorskip("numpy")
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-B", BENCH / "encoder_accuracy.py", "--omma", request.config.getoption("--omma"), "--model", model,
               "--image-size", "64x96", "--dtypes", "bf16", "--json", figures]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stderr == ""
    result = json.loads(figures.read_text())
    assert result["n_images"] == 1 and result["n_tokens"] == 6
    outputs = result["cosines"]["bf16"]
    assert list(outputs) == ["embeddings", "deepstack.0", "deepstack.1"]
    for name, cosine in outputs.items():
        assert 0.999 < cosine["worst"] <= cosine["mean"] < 1 and f"{name} " in done.stdout


def test_encoder_accuracy_prints_what_omma_printed(request, tmp_path):
    pytest.importorskip("numpy")
    command = [sys.executable, "-B", BENCH / "encoder_accuracy.py", "--omma", request.config.getoption("--omma"), "--model", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("encoder_accuracy.py: f32: omma: ") and "config.json" in done.stderr


@pytest.mark.parametrize("words, why", [
    (["--dtypes", "bf16,int4"], "'int4'"), (["--image-size", "64"], "WIDTHxHEIGHT"), (["--image", "nosuch.png"], "nosuch.png"),
])
def test_encoder_accuracy_names_a_wrong_option(words, why, request):
    assert why in refused("encoder_accuracy.py", "--omma", request.config.getoption("--omma"), "--model", BENCH, *words)


def test_peer_without_its_packages_reports_it():
    command = [sys.executable, "-B", "-S", BENCH / "tower_worker.py", "transformers", "model", "patches", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "" and json.loads(done.stdout) == {"refused": "this Python has no torch"}
