"""The files of deploy/ with the programs that read them: HAProxy, promtool, Kubernetes' own
schemas. What is not installed is skipped, with --full it fails.

    python -m pytest tests/deploy --omma build/release/omma"""

import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "server"))

from server_process import ServerProcess, check_output, make_command  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--omma", required=True, help="the program")
    parser.addoption("--model", default=str(ROOT / "models" / "demo"), help="the model that is served")
    parser.addoption("--full", action="store_true", help="fail where something is not installed")


def pytest_configure(config):
    for name in ("real_too", "real_only"):  # of tests/server, whose helpers are used here
        config.addinivalue_line("markers", f"{name}: see tests/server/conftest.py")


@pytest.fixture(scope="session")
def need(request):
    """need(NAME): the path of a program; skips or fails where it is not installed."""

    def find(name):
        path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin:/sbin")
        if not path:
            (pytest.fail if request.config.getoption("--full") else pytest.skip)(f"{name} is not installed")
        return path

    return find


@pytest.fixture
def start(request):
    """start(port=0, **options) makes a server of its own; all are ended after the test, and must
    end well."""
    servers = []

    def make(port=0, **options):
        command = make_command(request.config, "real", options)
        command[command.index("--port") + 1] = str(port)
        servers.append(ServerProcess(command))
        return servers[-1]

    yield make
    for server in servers:
        if server.process.poll() is None:
            server.stop()
        check_output(server)
