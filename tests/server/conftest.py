"""`--fake PATH` names the server over the scripted engine; `--omma PATH --model DIR` the real program. Tests marked `real_too` run on
both (where given), the others on the fake alone."""

import os
import re

import pytest

from server_process import ServerProcess


def pytest_addoption(parser):
    parser.addoption("--fake", default=os.environ.get("OMMA_FAKE_SERVER"))
    parser.addoption("--omma", default=os.environ.get("OMMA_BINARY"))
    parser.addoption("--model", default=os.environ.get("OMMA_MODEL"))


def pytest_configure(config):
    config.addinivalue_line("markers", "real_too: makes sense with the real program as well")


def pytest_generate_tests(metafunc):
    if "kind" not in metafunc.fixturenames:
        return
    kinds = []
    if metafunc.config.getoption("--fake"):
        kinds.append("fake")
    if metafunc.config.getoption("--omma") and metafunc.definition.get_closest_marker("real_too"):
        kinds.append("real")
    metafunc.parametrize("kind", kinds, scope="session")


def make_command(config, kind, options):
    if kind == "fake":
        command = [config.getoption("--fake")]
    else:
        command = [config.getoption("--omma"), "serve", "--host", "127.0.0.1"]
        if config.getoption("--model"):
            command += ["--model", config.getoption("--model")]
    command += ["--port", "0", "--served-model-name", "test-model"]
    for key, value in options.items():
        command += ["--" + key.replace("_", "-"), str(value)]
    return command


def check_end(process):
    status = process.stop()
    text = process.output.decode(errors="replace")
    assert not re.search(r"Sanitizer|runtime error", text), text
    assert status == 0, text


@pytest.fixture(scope="session")
def server(request, kind):
    """One server with default options for many tests."""
    process = ServerProcess(make_command(request.config, kind, {}))
    yield process
    check_end(process)


@pytest.fixture
def start(request, kind):
    """start(option=value, ...) gives a server of its own; it is stopped and checked at the end unless the test did that."""
    processes = []

    def run(**options):
        processes.append(ServerProcess(make_command(request.config, kind, options)))
        return processes[-1]

    yield run
    for process in processes:
        if not process.process.stdout.closed:
            check_end(process)
        else:
            text = process.output.decode(errors="replace")
            assert process.process.returncode == 0 and not re.search(r"Sanitizer|runtime error", text), text
