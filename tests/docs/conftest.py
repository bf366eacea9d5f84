"""The commands of README, docs and the folders' READMEs, run on a copy of what a clone has."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))  # gguf_files


def pytest_addoption(parser):
    parser.addoption("--build", default="build/release", help="the release build whose programs the commands run")
    parser.addoption("--long", action="store_true", help="run what is marked long, too (minutes, PyPI)")
