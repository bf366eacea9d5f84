"""The tests of the Python package run on an importable tree (make python), or on what is installed
when none is named."""

import sys


def pytest_addoption(parser):
    parser.addoption("--tree", help="a folder with the package ommatidia and its library")
    parser.addoption("--omma", help="the program that the installed wheel brought")


def pytest_configure(config):
    tree = config.getoption("--tree")
    if tree:
        sys.path.insert(0, tree)
