"""The option --omma of the programs here: which omma they time."""

import argparse
import shutil
from functools import partial

DEFAULT = "build/release/omma"


def program(path: str, advice: str = "") -> str:
    """An argparse type: a program that is there and can be run."""
    if shutil.which(path) is None:
        raise argparse.ArgumentTypeError(f"{path}: no such program{advice}")
    return path


def add_omma_option(parser: argparse.ArgumentParser) -> None:
    found = partial(program, advice="; build it with make, or name the one to time")
    parser.add_argument("--omma", type=found, default=DEFAULT, help="the program to time (default: %(default)s)")
