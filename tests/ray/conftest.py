"""`--omma PATH`: the program that the workers run."""

import pathlib

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def pytest_addoption(parser):
    parser.addoption("--omma", required=True, help="the program to test")


@pytest.fixture(scope="session")
def omma(request):
    return pathlib.Path(request.config.getoption("--omma")).resolve()
