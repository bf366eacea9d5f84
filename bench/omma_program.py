"""The option --omma of the programs here: which omma they time."""

import argparse
import shutil

DEFAULT = "build/release/omma"


def omma_program(path: str) -> str:
    """An argparse type: a program that is there and can be run."""
    if shutil.which(path) is None:
        raise argparse.ArgumentTypeError(f"{path}: no such program; build it with make, or name the one to time")
    return path


def add_omma_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--omma", type=omma_program, default=DEFAULT, help="the program to time (default: %(default)s)")
