"""Standard input, output and errors that are closed, as some supervisors start programs.

Run with: pytest tests/cli/test_standard_files.py --omma build/release/omma
"""

import json
import subprocess

import pytest


def run(omma, closed, *words):
    """The words run by a shell that closes those files; what is left of stdout and stderr."""
    line = ["sh", "-c", f'exec "$@" {closed}', "sh", omma.path, *map(str, words)]
    return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("words", [["tokenize"], ["detokenize"], ["chat"], ["chat", "--image", "-", "--prompt", "a"],
                                   ["embed", "--input", "-", "--output", "-"], ["batch", "-i", "-", "-o", "-"]])
def test_closed_input_is_an_error(omma, model, words):
    """It was the descriptor of signals, which is read for ever."""
    done = run(omma, "<&-", words[0], "--model", model, *words[1:])
    assert done.returncode == 1 and (b"Bad file descriptor" in done.stderr or b"cannot be read" in done.stderr), done


def test_closed_output_is_an_error(omma, model):
    for words in (["tokenize", "--model", model, "a"], ["info"], ["help"], ["bench", "serve", "--help"]):
        done = run(omma, ">&-", *words)
        assert done.returncode == 1 and b"cannot write standard output: Bad file descriptor" in done.stderr, done


def test_what_is_printed_goes_into_no_result(omma, model, images, tmp_path):
    """The file with the results had the number of stdout or stderr, and their lines in it."""
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "a", "max_tokens": 1}}))
    assert run(omma, "<&- >&- 2>&-", "batch", model, "-i", source, "-o", out).returncode == 0
    assert [json.loads(line)["custom_id"] for line in out.read_text().splitlines()] == ["a"]
    image = next(images.glob("*.png"))
    for closed, name in (("", "a"), ("<&- 2>&-", "b")):
        assert run(omma, closed, "encode", "--model", model, image, "-o", tmp_path / name).returncode == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
