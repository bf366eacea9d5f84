"""The package and its examples under mypy --strict, with PyTorch and transformers or without."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import ommatidia
import pytest

ROOT = Path(__file__).resolve().parents[2]
TREE = Path(ommatidia.__file__).parent
# Not for a machine without PyTorch.
WITH_TORCH = ("torch.py", "transformers.py", "_handles.py")


def test_types_of_the_package_and_of_the_examples(tmp_path):
    pytest.importorskip("mypy")
    left_out = () if find_spec("torch") and find_spec("transformers") else WITH_TORCH
    # A copy, as mypy does not check what is installed.
    copy = Path(shutil.copytree(TREE, tmp_path / "tree" / "ommatidia", ignore=shutil.ignore_patterns("*.so", "__pycache__")))
    modules = [path for path in sorted(copy.glob("*.py")) if path.name not in left_out]
    examples = [*sorted((ROOT / "python" / "examples").glob("*.py")), ROOT / "examples" / "search_images.py"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), *map(str, [*modules, *examples])],
        env={**os.environ, "MYPYPATH": str(copy.parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Success" in done.stdout
