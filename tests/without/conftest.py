"""The program that tools/test_without.sh built: with none of the optional libraries."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("server", "cli"):
    sys.path.insert(0, str(ROOT / "tests" / folder))


def pytest_addoption(parser):
    parser.addoption("--omma", required=True, help="the program to test")


@pytest.fixture(scope="session")
def omma(request):
    from omma_program import Omma

    return Omma(request.config.getoption("--omma"))
