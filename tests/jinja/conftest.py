"""`--render PATH` names jinja_render."""

import json
import subprocess

import pytest


def pytest_addoption(parser):
    parser.addoption("--render", required=True)
    parser.addoption("--full", action="store_true")
    parser.addoption("--templates", help="a folder with *.jinja of other models, for test_published.py")


@pytest.fixture(scope="session")
def render(request):
    """render(template, variables) gives {"text": ...} or {"error": ...}."""
    process = subprocess.Popen([request.config.getoption("--render")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(template, variables):
        process.stdin.write(json.dumps({"template": template, "variables": variables}) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield run
    process.stdin.close()
    assert process.wait(60) == 0


@pytest.fixture(scope="session")
def is_full(request):
    return request.config.getoption("--full")
