"""`--fake PATH` names the server over the scripted engine; `--omma PATH --model DIR` the real program. Tests marked `real_too` run on
both (where given), the others on the fake alone."""

import os
import pathlib

import pytest

from server_process import ServerProcess, check_output, make_command

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"


def pytest_addoption(parser):
    parser.addoption("--fake", default=os.environ.get("OMMA_FAKE_SERVER"), help="the server over the scripted engine")
    parser.addoption("--omma", default=os.environ.get("OMMA_BINARY"), help="the program to test")
    parser.addoption("--model", default=str(GOLDEN / "qwen3_vl_tied"), help="a model directory with weights")


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


@pytest.fixture(scope="session")
def server(request, kind):
    """One server with default options for many tests."""
    process = ServerProcess(make_command(request.config, kind, {}))
    yield process
    process.stop()
    check_output(process)


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
            process.stop()
        check_output(process)
