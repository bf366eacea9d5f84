"""`--fake PATH` names the server over the scripted engine; `--omma PATH --model DIR` the real
program. Tests marked `real_too` run on both (where given), those marked `real_only` on the real
program, the others on the fake alone. A test whose program is not given is deselected, which pytest
counts."""

import json
import os
import pathlib

import pytest

from server_process import ServerProcess, check_output, end_all, make_command

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
NONE_GIVEN = "none given"


def pytest_addoption(parser):
    parser.addoption("--fake", default=os.environ.get("OMMA_FAKE_SERVER"), help="the server over the scripted engine")
    parser.addoption("--omma", default=os.environ.get("OMMA_BINARY"), help="the program to test")
    parser.addoption("--model", default=str(GOLDEN / "qwen3_vl_tied"), help="a model directory with weights")
    parser.addoption("--full", action="store_true", help="more runs of the tests that can have any number of them")


def pytest_configure(config):
    config.addinivalue_line("markers", "real_too: makes sense with the real program as well")
    config.addinivalue_line("markers", "real_only: makes sense with the real program alone")


def pytest_generate_tests(metafunc):
    if "kind" not in metafunc.fixturenames:
        return
    real_too, real_only = (metafunc.definition.get_closest_marker(name) for name in ("real_too", "real_only"))
    kinds = []
    if metafunc.config.getoption("--fake") and not real_only:
        kinds.append("fake")
    if metafunc.config.getoption("--omma") and (real_too or real_only):
        kinds.append("real")
    metafunc.parametrize("kind", kinds or [NONE_GIVEN], scope="session")


def can_run(item):
    if hasattr(item, "callspec") and item.callspec.params.get("kind") == NONE_GIVEN:
        return False
    return bool(item.config.getoption("--omma")) or "omma" not in item.fixturenames


def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items if not can_run(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if can_run(item)]


@pytest.fixture(scope="module")
def thinking(request, kind):
    """A server that separates reasoning."""
    process = ServerProcess(make_command(request.config, kind, {"reasoning_parser": {"fake": "angles", "real": "qwen3"}[kind]}))
    yield process
    process.stop()
    check_output(process)


@pytest.fixture(scope="session")
def omma(request):
    """The real program's path."""
    return request.config.getoption("--omma")


@pytest.fixture(scope="session")
def model(request):
    """The directory of the real program's model."""
    return request.config.getoption("--model")


class Abilities:
    """What the families do not have in common."""

    def __init__(self, model_type):
        self.videos = model_type != "kimi_vl"
        self.keep_int8_cache = model_type != "kimi_vl"  # of compressed rows (MLA)
        self.raises_max_pixels = model_type != "kimi_vl"  # by a request's mm_processor_kwargs
        self.enlarges = model_type != "kimi_vl"  # small images, up to min_pixels


@pytest.fixture(scope="session")
def model_can(model):
    """The abilities of the real program's model."""
    return Abilities(json.loads((pathlib.Path(model) / "config.json").read_text())["model_type"])


@pytest.fixture(scope="session")
def server_can(request, kind):
    """The abilities of `server`'s model."""
    return Abilities("scripted") if kind == "fake" else request.getfixturevalue("model_can")


@pytest.fixture(scope="session")
def server(request, kind):
    """One server with default options for many tests."""
    process = ServerProcess(make_command(request.config, kind, {}))
    yield process
    process.stop()
    check_output(process)


@pytest.fixture
def launch():
    """launch(command) gives a server of its own, env its environment; it is stopped and checked at
    the end, however the test ends, unless the test did that."""
    processes = []

    def run(command, env=None):
        processes.append(ServerProcess(command, env=env))
        return processes[-1]

    yield run
    end_all(processes)


@pytest.fixture
def start(request, kind, launch):
    """The same of options: start(option=value, ...)."""
    return lambda env=None, **options: launch(make_command(request.config, kind, options), env=env)
