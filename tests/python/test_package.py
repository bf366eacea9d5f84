"""The package around the operator: version, information, the example, type hints, what an import
pulls in."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import ommatidia
import pytest

ROOT = Path(__file__).resolve().parents[2]
TREE = Path(ommatidia.__file__).parent


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(TREE.parent), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_version_is_that_of_the_library():
    stated = re.search(r"project\(ommatidia VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert stated and stated.group(1) == ommatidia.__version__


def test_info():
    info = ommatidia.info()
    assert Path(info["library"]) == TREE / "libomma-attention.so"
    assert info["isa"] in ("scalar", "avx2", "avx2_vnni", "avx512", "avx512_bf16", "amx", "neon", "neon_dotprod", "neon_bf16")
    assert all(info["kernels"]["encoder"][name][72] for name in ("float32", "bfloat16", "float16"))
    assert info["kernels"]["causal"]["float16"][64] is None
    assert {*ommatidia.info([20, 300])["kernels"]["encoder"]["float32"]} == {20, 300}
    assert ommatidia.info([300])["kernels"]["encoder"]["float32"][300] is None
    assert ommatidia.info([300])["kernels"]["windows"]["float32"][300] is None


def test_info_names_the_kernel_of_windows():
    info = ommatidia.info()
    expected = "window_bf16_64_avx512_bf16" if info["isa"] == "avx512_bf16" else info["kernels"]["encoder"]["bfloat16"][80]
    assert info["kernels"]["windows"]["bfloat16"][80] == expected
    assert info["kernels"]["windows"]["float32"] == info["kernels"]["encoder"]["float32"]


def test_self_test():
    ommatidia.self_test()


def test_level_is_forced_by_the_environment():
    assert run("-c", "import ommatidia; print(ommatidia.info()['isa'])", OMMA_ISA="scalar").stdout == "scalar\n"
    unknown = run("-c", "import ommatidia; ommatidia.info()", OMMA_ISA="abacus")
    assert unknown.returncode == 1 and "abacus" in unknown.stderr.splitlines()[-1]


def test_import_pulls_in_nothing_but_numpy():
    code = "import sys, numpy; before = set(sys.modules); import ommatidia; print(*(set(sys.modules) - before))"
    added = {name.partition(".")[0] for name in run("-c", code).stdout.split()}
    assert "ommatidia" in added and not added & {"torch", "ml_dtypes", "setuptools"}
    assert added <= {"ommatidia"} | sys.stdlib_module_names


def test_missing_library_states_what_to_do(tmp_path):
    package = tmp_path / "ommatidia"
    package.mkdir()
    for source in TREE.glob("*.py"):
        (package / source.name).write_text(source.read_text())
    failed = run("-c", "import ommatidia", PYTHONPATH=str(tmp_path))
    assert failed.returncode == 1 and "make python" in failed.stderr.splitlines()[-1]


def test_plugin_without_vllm_names_what_is_missing():
    if find_spec("vllm") or not find_spec("vllm_ommatidia"):
        pytest.skip("needs the plugin without vLLM")
    failed = run("-c", "import vllm_ommatidia; vllm_ommatidia.register()")
    assert failed.returncode == 1 and "install its CPU build" in failed.stderr.splitlines()[-1]


def test_example():
    done = run(str(ROOT / "python" / "examples" / "attention.py"))
    assert done.returncode == 0 and done.stdout.count("same bits alone: True") == 3, done.stderr


def test_readme_s_example_is_true():
    text = (ROOT / "python" / "README.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.S)
    assert code
    names = {}
    exec(code.group(1), names)
    assert names["out"].shape == (1488, 16, 72) and np.isfinite(names["out"]).all()


@pytest.mark.parametrize("name", ["py.typed", "libomma-attention.so"])
def test_tree_is_complete(name):
    assert (TREE / name).is_file()
