"""bench/crowd.py on a running server: every answer has its length, streamed or not."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "bench" / "crowd.py"
GOLDEN = ROOT / "tests" / "golden"


@pytest.mark.real_only
@pytest.mark.parametrize("words", [[], ["--stream", "--rate", "50"], ["--size", "none"]], ids=["whole", "streams", "text"])
def test_a_round_of_each_server(start, words):
    url = f"http://127.0.0.1:{start().port}"
    command = [sys.executable, "-B", PROGRAM, "--base-url", url, "--base-url", url, "--requests", "3", "--tokens", "5",
               "--size", "96x64", "--rounds", "1", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rounds = re.findall(r"^http://127\S+ +(\S+) s +(\S+) requests/s +(\S+) tokens/s", done.stdout, re.MULTILINE)
    assert len(rounds) == 2
    for seconds, requests, tokens in rounds:
        assert float(tokens) == pytest.approx(5 * float(requests), rel=0.02) and float(seconds) > 0
    assert ("s to the first" in done.stdout) == ("--stream" in words)
    assert re.search(r"takes \d+\.\d\d times as long as", done.stdout)


@pytest.mark.real_only
def test_vectors(start):
    # The demo model gives a vector for each token, which /v1/embeddings refuses.
    url = f"http://127.0.0.1:{start(model=GOLDEN / 'qwen3_vl_tied', runner='pooling').port}"
    command = [sys.executable, "-B", PROGRAM, "--base-url", url, "--embed", "--requests", "3", "--size", "96x64", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    [(requests, tokens)] = re.findall(r" (\S+) requests/s +(\S+) tokens/s", done.stdout)
    assert float(tokens) > 3 * float(requests)


@pytest.mark.real_only
def test_a_failed_request_ends_it(start):
    command = [sys.executable, "-B", PROGRAM, "--base-url", f"http://127.0.0.1:{start().port}", "--model", "nosuch", "--requests", "2",
               "--size", "none", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "2 of 2 requests failed" in done.stderr
