"""The program while calls of the C library fail, one at a time: it ends with an error, or with the
right answer. And within limits of memory, which stop everything at once."""

import bisect
import os
import pathlib
import re
import subprocess

import pytest

from omma_program import Omma

pytestmark = pytest.mark.release_only
# Without a budget it follows the free memory.
# What is chosen by the free memory differs from limit to limit.
BUDGET = ["--kv-cache-bytes", "25165824"]
COMMANDS = {
    "tokenize": ["tokenize", "--text", "two red circles, e\u0301 and so on"],
    "plan": ["plan", "64x64", "--json", "--max-num-seqs", "8", *BUDGET],
    "chat": ["chat", "--prompt", "hello", "--max-tokens", "2", "--json", *BUDGET],
    "encode": ["encode"],
}
# Runs of each test, and with --full. A plan measures the machine, which takes a second.
FEW, MANY = {"tokenize": 16, "plan": 7, "chat": 16, "encode": 16}, 1200


def command(omma, model, name, images, tmp_path):
    words = [omma, *COMMANDS[name], "--model", model, "--threads", "1"]
    if name == "encode":
        words += [str(images / "meadow_163x97.jpg"), "--max-pixels", "4096", "--output", str(tmp_path / "out.safetensors")]
    return words


@pytest.fixture
def library(request):
    path = pathlib.Path(request.config.getoption("--omma")).resolve().parent / "tests" / "omma_fail_calls.so"
    if not path.exists():
        pytest.skip("built with a sanitizer, next to which nothing can be preloaded")
    return path


@pytest.fixture
def omma(request):
    return request.config.getoption("--omma")


@pytest.fixture
def full(request):
    return request.config.getoption("--full")


def outcome(run, out):
    """What may be compared: times differ from run to run."""
    text = re.sub(rb'"(peak\w*|timings|reads|read_gbps|read_note|expected_\w*)":(\{[^}]*\}|\[[^\]]*\]|"[^"]*"|[^,}]*)', b"", run.stdout)
    return text, out.read_bytes() if out.exists() else None


def points(count, most):
    """At most `most` of 1 ... count: each near the end, where results are written, and evenly
    spread ones before."""
    tail = range(max(1, count - most // 3), count + 1)
    step = max(1, count // (most - len(tail)) + 1)
    return sorted({*range(1, count + 1, step), *tail})


@pytest.mark.parametrize("call", ["malloc", "read", "open", "mmap"])
@pytest.mark.parametrize("name", list(COMMANDS))
def test_each_nth_call_fails(library, omma, full, model, images, tmp_path, name, call):
    words, out, report = command(omma, model, name, images, tmp_path), tmp_path / "out.safetensors", tmp_path / "report"

    def run(at):
        out.unlink(missing_ok=True)
        given = {"LD_PRELOAD": str(library), "OMMA_FAIL_CALL": call, "OMMA_FAIL_AT": str(at), "OMMA_FAIL_REPORT": str(report)}
        return subprocess.run(words, env={**os.environ, **given}, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)

    good = run(0)
    assert good.returncode == 0, good.stderr
    expected, count = outcome(good, out), int(report.read_text())
    for at in points(count, MANY if full else FEW[name]):
        ended = run(at)
        place = f"{call} {at} of {count}"
        assert ended.returncode >= 0, f"{place}: signal {-ended.returncode}: {ended.stderr}"
        assert b"invalid JSON" not in ended.stderr, place
        if ended.returncode == 0:
            assert outcome(ended, out) == expected, f"{place}: {ended.stdout} {ended.stderr}"
        else:
            assert ended.stderr.strip(), f"{place}: no message"


def limits(name, full):
    """In MiB; smaller steps where the program begins to start. A plan needs 128 MiB at once to
    measure the machine, fails there or measures, and is slower than the others at both."""
    if name == "plan" and not full:
        return [*(n / 2 for n in range(60, 80)), *range(40, 160, 8), *range(160, 600, 160)]
    return [*(n / 2 for n in range(60, 200)), *range(100, 600, 4 if full else 20)]


@pytest.mark.parametrize("level", [None, "scalar", "avx2"])
@pytest.mark.parametrize("name", list(COMMANDS))
def test_within_a_limit_of_memory(library, omma, full, model, images, tmp_path, name, level):
    """`library`: a sanitizer needs terabytes of addresses. Levels have kernels, and memory for
    them, of their own."""
    if level and (name not in ("chat", "encode") or level not in Omma(omma).json("info", "--json")["levels"]):
        pytest.skip(f"the same at {level}, or no such level on this machine")
    words, out = command(omma, model, name, images, tmp_path), tmp_path / "out.safetensors"
    words += ["--isa", level] if level else []

    def run(mebibytes):
        out.unlink(missing_ok=True)
        # By a shell: to run Python between fork and exec, all of its process is copied.
        limited = ["/bin/sh", "-c", 'ulimit -v "$0" && exec "$@"', str(int(mebibytes * 1024)), *words]
        return subprocess.run(limited, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)

    expected = outcome(run(8192), out)
    started = 0
    # The smallest steps below what suffices: a command that loads no weights needs little more than
    # its libraries.
    enough = bisect.bisect_left(range(600), True, lo=20, key=lambda mebibytes: run(mebibytes).returncode == 0)
    below = [enough - 1 + n / 8 for n in range(8)]
    for mebibytes in sorted({*limits(name, full), *below}):
        ended = run(mebibytes)
        # Before main the loader and the libraries' own start give up in their own ways.
        started += b"omma: " in ended.stderr and b"shared librar" not in ended.stderr
        if not started and ended.returncode != 0:
            continue
        assert ended.returncode in (0, 1), f"{mebibytes} MiB: {ended.returncode}: {ended.stderr}"
        if ended.returncode == 0:
            assert outcome(ended, out) == expected
        else:
            assert b"omma: " in ended.stderr or b"libgomp" in ended.stderr, ended.stderr
    assert started
