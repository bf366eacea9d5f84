"""Options that all Python tests share."""

import os
import pathlib

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"


def pytest_addoption(parser):
    parser.addoption("--omma", default=os.environ.get("OMMA_BINARY"), help="the program to test")
    parser.addoption("--model", default=str(GOLDEN / "qwen3_vl_tied"), help="a model directory with weights")
    parser.addoption("--fake", default=os.environ.get("OMMA_FAKE_SERVER"), help="the server over the scripted engine")
