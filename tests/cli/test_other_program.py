"""`omma bench serve` is the program omma-bench: how omma finds it, and what it says where it is
missing.

Run with: pytest tests/cli --omma build/release/omma
"""

import os
import pathlib
import shutil
import subprocess

import pytest

from omma_program import refused

SCRIPT = '#!/bin/sh\necho "{where}" "$@"\nexit 5\n'


def run(program, *words, path="/nowhere"):
    return subprocess.run([program, *words], env={**os.environ, "PATH": str(path)}, capture_output=True, timeout=60, check=False)


def script(folder, where):
    folder.mkdir(exist_ok=True)
    program = folder / "omma-bench"
    program.write_text(SCRIPT.format(where=where))
    program.chmod(0o755)
    return program


@pytest.fixture
def alone(omma, tmp_path):
    """A copy of omma with nothing next to it."""
    return shutil.copy(omma.path, tmp_path / "omma")


@pytest.mark.parametrize("words", [["bench", "serve"], ["bench", "serve", "--model", "m"], ["bench", "serve", "--help"],
                                   ["help", "bench", "serve"], ["help", "--man", "bench", "serve"], ["__complete", "bench", "serve", "--"]])
def test_one_line_says_what_is_missing(alone, words):
    refused(run(alone, *words), 1, "bench serve: the program omma-bench is neither next to omma nor in PATH", "run `make` in a source checkout",
            "CMake option OMMA_BENCH", "package ommatidia-bench")


def test_all_else_needs_it_not(omma, alone):
    for words in (["help"], ["bench", "--help"], ["help", "bench"], ["bench"], ["__complete", "bench", ""], ["bench", "decode", "--help"]):
        expected, found = run(omma.path, *words), run(alone, *words)
        assert (found.returncode, found.stdout, found.stderr) == (expected.returncode, expected.stdout, expected.stderr), words
    assert b"bench serve " in run(alone, "help").stdout


def test_it_is_found_in_the_path_and_rather_next_to_it(alone, tmp_path):
    """With the words as they are, and its exit code."""
    script(tmp_path / "bin", "in PATH")
    words = ["bench", "serve", "--model", "two words", ""]
    found = run(alone, *words, path=tmp_path / "bin")
    assert (found.returncode, found.stdout, found.stderr) == (5, b"in PATH bench serve --model two words \n", b"")
    script(tmp_path, "next to omma")
    assert run(alone, *words, path=tmp_path / "bin").stdout == b"next to omma bench serve --model two words \n"
    assert run(alone, "help", "--man", "bench", "serve", path=tmp_path / "bin").stdout == b"next to omma help --man bench serve\n"
    link = tmp_path / "bin" / "omma"
    link.symlink_to(alone)
    assert run(link, "bench", "serve", path=tmp_path / "bin").stdout == b"next to omma bench serve\n"


def test_one_that_cannot_be_started(alone, tmp_path):
    if os.geteuid() == 0:
        (tmp_path / "omma-bench").mkdir()  # root may start any file that someone may
    else:
        script(tmp_path, "next to omma").chmod(0o644)
    refused(run(alone, "bench", "serve"), 1, f"bench serve: {tmp_path}/omma-bench: cannot start: Permission denied")


def test_by_its_own_name(omma):
    program = pathlib.Path(omma.path).parent / "omma-bench"
    expected = run(omma.path, "bench", "serve", "--help").stdout
    assert expected.startswith(b"Usage: omma bench serve ")
    for words in (["--help"], ["serve", "--help"], ["bench", "serve", "--help"], ["help"]):
        assert run(program, *words).stdout == expected, words
    assert run(program, "--version").stdout == omma("--version").stdout
    refused(run(program, "serve", "--num-promts", "1"), 2, "bench serve: --num-promts: unknown option, did you mean --num-prompts?")
    refused(run(program, "attention"), 2, "bench serve: ", "attention")


def test_omma_has_nothing_of_it(omma):
    parts = (b"Serving Benchmark Result", b"librsvg")
    program = pathlib.Path(omma.path)
    assert all(part in program.with_name("omma-bench").read_bytes() for part in parts)
    assert not any(part in program.read_bytes() for part in parts)
