"""The plugin's tests run inside a vLLM environment of their own: `make test-vllm` makes it."""

from __future__ import annotations

import os
import signal

# Servers here end by SIGINT, which programs in a shell's background are started to ignore, and
# theirs with them.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Read by vLLM when it is first imported.
os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO")
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

from pathlib import Path  # noqa: E402

import pytest  # noqa: E402
from checkpoints import weights_only  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def own_compile_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """vLLM's cache of compiled graphs does not know the plugin; it must not meet graphs made
    without it."""
    os.environ["VLLM_CACHE_ROOT"] = str(tmp_path_factory.mktemp("vllm-cache"))


@pytest.fixture(scope="session")
def golden() -> Path:
    return Path(__file__).parent.parent / "golden"


@pytest.fixture(scope="session")
def checkpoint(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3-VL in a form that vLLM loads."""
    return weights_only(golden / "qwen3_vl_tied", tmp_path_factory.mktemp("checkpoint") / "qwen3_vl_tied")
