"""What the programs of bench/ say on wrong use: one line, no traceback; and their help.

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


def test_help_needs_no_packages():
    command = [sys.executable, "-B", "-S", BENCH / "tower_peers.py", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stderr == "" and "--python-transformers" in done.stdout


def test_peer_without_its_packages_says_so():
    command = [sys.executable, "-B", "-S", BENCH / "tower_worker.py", "transformers", "model", "patches", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "" and json.loads(done.stdout) == {"refused": "this Python has no torch"}
