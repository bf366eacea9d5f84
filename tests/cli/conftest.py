"""What the tests of the command line run on: the program and a model directory."""

import pathlib
import shutil
import sys

import pytest

from omma_program import GOLDEN, Omma

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import builds


def pytest_addoption(parser):
    parser.addoption("--omma", required=True, help="the program to test")
    parser.addoption("--model", default=str(GOLDEN / "qwen3_vl_tied"), help="a model directory with weights")
    parser.addoption("--full", action="store_true", help="more runs of the tests that can have any number of them")
    builds.add_option(parser)


def pytest_configure(config):
    builds.add_marks(config)


def pytest_collection_modifyitems(config, items):
    builds.select(config, items)


@pytest.fixture(scope="session")
def model(request):
    return request.config.getoption("--model")


@pytest.fixture(scope="session")
def images():
    return GOLDEN / "images"


@pytest.fixture(scope="session")
def omma(request):
    return Omma(request.config.getoption("--omma"))


@pytest.fixture(scope="session")
def no_weights(model, tmp_path_factory):
    """The model's directory without its tensors."""
    folder = tmp_path_factory.mktemp("no_weights")
    for file in pathlib.Path(model).iterdir():
        if file.is_file() and not file.name.startswith("model"):
            shutil.copy(file, folder / file.name)
    return folder
