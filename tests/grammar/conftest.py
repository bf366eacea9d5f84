"""`--walk PATH` names grammar_walk, `--model DIR` the directory of a tokenizer."""

import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def pytest_addoption(parser):
    parser.addoption("--walk", required=True)
    parser.addoption("--model", default="models/demo")
    parser.addoption("--full", action="store_true")
    parser.addoption("--schemas", type=pathlib.Path)
    parser.addoption("--half", choices=["development", "held-out", "all"], default="all")


@pytest.fixture(scope="session")
def walk(request):
    """walk(requests) gives the answers of one run of the program."""
    def run(requests):
        lines = "".join(json.dumps(each) + "\n" for each in requests)
        done = subprocess.run([request.config.getoption("--walk"), request.config.getoption("--model")], input=lines, text=True,
                              capture_output=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]
    return run


@pytest.fixture(scope="session")
def tokenizer_file(request):
    return pathlib.Path(request.config.getoption("--model")) / "tokenizer.json"


@pytest.fixture(scope="session")
def is_full(request):
    return request.config.getoption("--full")
