"""The operator runs on the OpenMP threads of PyTorch's own operators, whichever runtime they come
from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch


def bundled_gomp() -> Path | None:
    """What vLLM preloads into its workers where nothing is preloaded."""
    folder = Path(torch.__file__).parent
    return next(iter(sorted([*folder.glob("lib/libgomp*.so*"), *folder.parent.glob("torch.libs/libgomp*.so*")])), None)


def intel_openmp() -> Path | None:
    """What vLLM's documentation recommends to preload."""
    path = Path(sys.prefix) / "lib" / "libiomp5.so"
    return path if path.exists() else None


@pytest.mark.parametrize("preloaded", (None, bundled_gomp(), intel_openmp()), ids=("nothing", "libgomp", "libiomp5"))
def test_same_threads_as_pytorch(preloaded: Path | None, request: pytest.FixtureRequest) -> None:
    if preloaded is None and "nothing" not in request.node.name:
        pytest.skip("not installed")
    program = Path(__file__).with_name("busy_threads.py")
    environment = os.environ | {"LD_PRELOAD": str(preloaded or ""), "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert preloaded is None or preloaded.name in found["runtimes"]
    assert found["n_threads"] == 2 and len(found["product"]) == 2
    assert found["attention"] == found["product"]
