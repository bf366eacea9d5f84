"""What the tests of the command line run on: the program and a model directory."""

import pathlib

import pytest

from omma_program import Omma

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"


def pytest_addoption(parser):
    parser.addoption("--omma", required=True, help="the program to test")
    parser.addoption("--model", default=str(GOLDEN / "qwen3_vl_tied"), help="a model directory with weights")
    parser.addoption("--full", action="store_true", help="more runs of the tests that can have any number of them")


@pytest.fixture(scope="session")
def model(request):
    return request.config.getoption("--model")


@pytest.fixture(scope="session")
def images():
    return GOLDEN / "images"


@pytest.fixture(scope="session")
def omma(request):
    return Omma(request.config.getoption("--omma"))
