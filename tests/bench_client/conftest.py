"""The client under test: `--omma PATH`; `--model DIR` has the tokenizer."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "tests/support"))
import builds

# For a program that was built with sanitizers and draws a PNG.
os.environ.setdefault("LSAN_OPTIONS", f"suppressions={REPOSITORY}/tests/support/leaks.supp:print_suppressions=0")


def pytest_addoption(parser):
    parser.addoption("--omma", required=True, help="the program to test")
    parser.addoption("--model", default=str(REPOSITORY / "models/demo"), help="a model directory")
    builds.add_option(parser)


def pytest_configure(config):
    builds.add_marks(config)


def pytest_collection_modifyitems(config, items):
    builds.select(config, items)


@pytest.fixture(scope="session")
def model(request):
    return request.config.getoption("--model")


class Result:
    """What a run of the client printed and wrote."""

    def __init__(self, done, path):
        self.returncode, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
        self.json = json.loads(path.read_text()) if path.exists() else None


@pytest.fixture
def bench(request, tmp_path, model):
    """bench(server, *words): runs omma bench serve against the stub, with the detailed result."""
    omma = request.config.getoption("--omma")

    def run(server, *words, chat=True, tokenizer=True, timeout=120):
        port = server if isinstance(server, int) else server.port
        path = tmp_path / "result.json"
        path.unlink(missing_ok=True)
        command = [omma, "bench", "serve", "--backend", "openai-chat" if chat else "openai", "--port", str(port),
                   "--save-result", "--save-detailed", "--result-filename", str(path)]
        if tokenizer:
            command += ["--tokenizer", model]
        if "--model" not in words:
            command += ["--model", "stub-model"]
        done = subprocess.run(command + [str(word) for word in words], capture_output=True, text=True, timeout=timeout)
        return Result(done, path)

    return run


@pytest.fixture
def lines(tmp_path):
    """lines(row, ...): a JSONL file with these rows."""

    def write(*rows, name="data.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


@pytest.fixture
def images():
    return REPOSITORY / "tests/golden/images"
