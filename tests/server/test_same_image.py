"""bench/same_image.py on a running server: the encoder sees each image once."""

import pathlib
import re
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "same_image.py"


@pytest.mark.real_only
def test_the_encoder_sees_an_image_once(start):
    command = [sys.executable, "-B", PROGRAM, "--base-url", f"http://127.0.0.1:{start().port}", "--size", "96x64", "--rounds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "2 of 6 images went through the encoder" in done.stdout
    assert len(re.findall(r"^  (?:a new image|another question|the same question) +\d+\.\d{3} s +\d+\.\d{3} of the first$", done.stdout,
                          re.MULTILINE)) == 3
