"""examples/ray_batch.py: a Ray of this machine with two workers answers as `omma batch` alone does.

Run with: make test-ray
"""

import base64
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

from conftest import REPOSITORY

MODEL = REPOSITORY / "models" / "demo"
N_TEXTS = 24
# Each worker's program waits until both have started, and keeps what it was fed.
TWO_WORKERS = """#!/bin/sh
: > {folder}/fed.$$
until [ "$(ls {folder}/fed.* | wc -l)" -ge 2 ]; do sleep 0.05; done
tee {folder}/fed.$$ | {omma} "$@"
"""


def line(custom_id, content, **fields):
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": 8, "temperature": 0, "ignore_eos": True, **fields}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body})


def question(image):
    url = "data:image/png;base64," + base64.b64encode(image.read_bytes()).decode()
    return [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What do you see?"}]


class Batch:
    def __init__(self, folder, omma):
        self.input, self.output, self.omma = folder / "in.jsonl", folder / "out.jsonl", omma
        images = sorted((MODEL / "images").glob("*.png"))[:3]
        self.lines = [line(f"image {i}", question(image)) for i, image in enumerate(images)] + ["no JSON"]
        self.lines += [line(f"text {i}", f"Hello {i}") for i in range(N_TEXTS)] + [line("field", "Hello", temperature=9)]
        self.write(self.lines)

    def write(self, lines):
        self.input.write_text("".join(text + "\n" for text in lines))

    def run(self, *words):
        # its paths must be short: there are sockets in it
        with tempfile.TemporaryDirectory(prefix="omma-ray-") as folder:
            environment = {**os.environ, "RAY_TMPDIR": folder, "HOME": folder, "RAY_USAGE_STATS_ENABLED": "0",
                           "RAY_raylet_start_wait_time_s": "300"}
            command = [sys.executable, str(REPOSITORY / "examples" / "ray_batch.py"), str(MODEL), "-i", str(self.input), "-o",
                       str(self.output), "--workers", "2", "--block", "2", "--omma", str(self.omma), *words]
            return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


@pytest.fixture
def batch(tmp_path, omma):
    return Batch(tmp_path, omma)


def answers(path):
    """What each request got, without what is different each time."""
    found = {}
    for text in pathlib.Path(path).read_text().splitlines():
        row = json.loads(text)
        key = row["custom_id"] or row["error"]["line"]
        assert key not in found
        body = row["response"]["body"]
        choices = [choice["message"] for choice in body.get("choices", [])]
        found[key] = (row["response"]["status_code"], choices, body.get("usage", {}).get("completion_tokens"), row["error"])
    return found


def test_two_workers_answer_as_one_program(batch, omma, tmp_path):
    alone = tmp_path / "alone.jsonl"
    subprocess.run([omma, "batch", MODEL, "-i", batch.input, "-o", alone], stderr=subprocess.PIPE)
    expected = answers(alone)
    assert len(expected) == len(batch.lines) and {expected[key][0] for key in ("text 0", "image 0")} == {200}

    batch.omma = tmp_path / "two_workers.sh"
    batch.omma.write_text(TWO_WORKERS.format(folder=tmp_path, omma=omma))
    batch.omma.chmod(0o755)
    done = batch.run()
    assert done.returncode == 1 and f"{len(batch.lines)} lines answered, 0 done before, 2 failed" in done.stderr, done.stderr
    assert answers(batch.output) == expected
    fed = [path.read_text().splitlines() for path in tmp_path.glob("fed.*")]
    assert len(fed) == 2 and all(fed) and sorted(fed[0] + fed[1]) == sorted(batch.lines)

    # Torn in its last line: that request and the bad line are asked again, and nothing else is.
    whole = batch.output.read_bytes()
    n_kept = whole.count(b"\n") - 1 - sum(b'"line": ' in row for row in whole.splitlines()[:-1])
    batch.output.write_bytes(whole[:-20])
    batch.omma = omma
    done = batch.run()
    assert done.returncode == 1 and f"{n_kept} done before, 2 failed" in done.stderr, done.stderr
    assert answers(batch.output) == expected

    # The program itself takes the same file up, and so does the script after it.
    said = subprocess.run([omma, "batch", MODEL, "-i", batch.input, "-o", batch.output], capture_output=True, text=True).stderr
    assert f"0 answered, 0 failed, {len(batch.lines)} done before" in said


def test_failed_requests_are_asked_again_when_configured(batch):
    batch.write([line("a", "Hello", temperature=9)])
    assert batch.run().returncode == 1
    batch.write([line("a", "Hello")])
    done = batch.run("--retry-failed")
    assert done.returncode == 0 and answers(batch.output)["a"][0] == 200, done.stderr


def test_usage_error(batch):
    """Said before Ray is started."""
    batch.write([line("a", "Hello"), line("b", "Hello"), line("a", "again")])
    assert "lines 1 and 3 have the same custom_id 'a'" in batch.run().stderr
    batch.output.write_text("my notes\n")
    assert "not of a batch's output" in batch.run().stderr and batch.output.read_text() == "my notes\n"
    batch.output.write_text("")
    with open(batch.output) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert "another batch is writing this file" in batch.run().stderr


def test_a_program_that_fails_is_reported(batch):
    done = batch.run("--", "--no-such-option")
    assert done.returncode == 1 and "--no-such-option" in done.stderr and "omma batch ended with status 2" in done.stderr
