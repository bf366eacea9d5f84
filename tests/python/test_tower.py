"""ommatidia.Tower: a vision tower of libomma on NumPy arrays and PyTorch tensors. That its
embeddings are right is shown in C (tests/unit/test_tower.c) and compared with vLLM's towers
(tests/vllm/test_towers.py)."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import ommatidia
import pytest
from ommatidia import _tower
from oracle import same_bits

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
MODELS = ("qwen3_vl_tied", "qwen2_5_vl_tied", "kimi_vl")
IMAGES = [[1, 4, 6], [1, 10, 8]]

if not _tower.LIBRARY_PATH.exists():
    pytest.skip("this package was built without libomma", allow_module_level=True)


def patches(tower, grid=IMAGES, dtype=np.float32):
    n_patches = sum(t * rows * columns for t, rows, columns in grid)
    values = np.random.default_rng(n_patches).standard_normal((n_patches, tower.info()["patch_dim"]), dtype=np.float32)
    return values.astype(dtype)


def read_tensors(folder):
    """A safetensors file without a library for it; bfloat16 as its 16 bits expanded to float32."""
    content = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little")
    found = {}
    for name, entry in json.loads(content[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        first, last = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(content[first:last], np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(content[first:last], {"F32": np.float32, "F16": np.float16, "I64": np.int64}[entry["dtype"]])
        found[name] = values.reshape(entry["shape"])
    return found


@pytest.mark.parametrize("name", MODELS)
def test_images_are_packed_and_do_not_see_each_other(name):
    tower = ommatidia.Tower(GOLDEN / name, "float32")
    info, pixels = tower.info(), patches(tower)
    both = tower.encode(pixels, IMAGES)
    assert [x.shape for x in both] == [(1 + info["n_deepstack"], n, info["width"]) for n in (6, 20)]
    assert all(np.isfinite(x).all() and x.any() for x in both)
    for threads in (1, 2):
        [alone] = tower.encode(pixels[24:], np.array(IMAGES[1:]), threads=threads)
        assert same_bits(alone, both[1])


@pytest.mark.parametrize("name", MODELS)
def test_weights_from_memory(name):
    expected = ommatidia.Tower(GOLDEN / name, "float32")
    tensors = read_tensors(GOLDEN / name)
    tower = ommatidia.Tower(GOLDEN / name, "float32", tensors=tensors)
    for tensor in tensors.values():
        tensor.flags.writeable and tensor.fill(0)  # packed: nothing of them is read any more
    del tensors
    for found, wanted in zip(*(x.encode(patches(tower), IMAGES) for x in (tower, expected)), strict=True):
        assert same_bits(found, wanted)


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    tower = ommatidia.Tower(GOLDEN / "qwen3_vl_tied", "bfloat16")
    pixels = torch.from_numpy(patches(tower)).bfloat16()
    found = tower.encode(pixels, torch.tensor(IMAGES), team="openmp")
    expected = tower.encode(pixels.float().numpy(), IMAGES)
    assert all(isinstance(x, torch.Tensor) and same_bits(x.numpy(), y) for x, y in zip(found, expected, strict=True))


def test_int8_is_near():
    exact, small = (ommatidia.Tower(GOLDEN / "qwen3_vl_wide", weights) for weights in ("float32", "int8"))
    assert small.info()["weights"] == "int8" and small.info()["weight_bytes"] < exact.info()["weight_bytes"]
    for found, expected in zip(*(x.encode(patches(exact), IMAGES) for x in (small, exact)), strict=True):
        assert 0 < np.linalg.norm(found - expected) < 0.1 * np.linalg.norm(expected)


def test_calls_from_threads_take_turns():
    tower = ommatidia.Tower(GOLDEN / "qwen3_vl_tied", "float32")
    expected, found = tower.encode(patches(tower), IMAGES), []
    threads = [threading.Thread(target=lambda: found.append(tower.encode(patches(tower), IMAGES))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(same_bits(x, y) for result in found for x, y in zip(result, expected, strict=True))


def test_what_is_shown_says_something():
    tower = ommatidia.Tower(GOLDEN / "qwen3_vl_tied", "float32")
    assert all(word in repr(tower) for word in ("qwen3_vl_tied", "qwen3_vl,", tower.info()["weights"], f"width {tower.info()['width']}"))
    assert repr(ommatidia.Segmentation([0, 5, 7])) == "<ommatidia.Segmentation of 7 tokens in 2 segments>"


def test_no_images():
    tower = ommatidia.Tower(GOLDEN / "qwen3_vl_tied", "float32")
    assert tower.encode(np.empty((0, tower.info()["patch_dim"]), np.float32), np.empty((0, 3), np.int64)) == []


def test_configuration_alone(tmp_path):
    shutil.copy(GOLDEN / "qwen3_vl_tied" / "config.json", tmp_path)
    tower = ommatidia.Tower(tmp_path, "float32", config_only=True)
    assert tower.info()["model_type"] == "qwen3_vl"
    with pytest.raises(ValueError, match="without its weights"):
        tower.encode(patches(tower), IMAGES)


def test_refusals(tmp_path):
    tower = ommatidia.Tower(GOLDEN / "qwen3_vl_tied", "float32")
    pixels = patches(tower)
    for grid, values, message in (
        ([[1, 4, 6]], pixels, "expected 36864 values"),
        ([[1, 3, 6]], pixels, "multiples of 2"),
        ([[0, 4, 6]], pixels, "multiples of 2"),
        ([1, 4, 6], pixels, r"\[n, 3\]"),
        (IMAGES, pixels[:, ::2], "contiguous"),
        (IMAGES, pixels.astype(np.float16), "image 0: patches of another type than f32 and the tower's own, f32"),
        (IMAGES, pixels.astype(np.float64), "expected float32"),
    ):
        with pytest.raises(ValueError, match=message):
            tower.encode(values, grid)
    for call, message in (
        (lambda: pickle.dumps(tower), "^a tower is neither copied nor sent to another process"),
        (lambda: tower.encode(None), "^images: expected images or a single one, found NoneType"),
        (lambda: tower.encode(pixels, IMAGES, threads="2"), "^threads: expected an integer, found '2'"),
        (lambda: tower.preprocess(["a.png"], min_pixels="x"), "^min_pixels: expected an integer, found 'x'"),
        (lambda: ommatidia.Tower(GOLDEN / "qwen3_vl_tied", threads="2"), "^threads: expected an integer, found '2'"),
        (lambda: ommatidia.set_num_threads("2"), "^threads: expected an integer, found '2'"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(ValueError, match="cannot open"):
        ommatidia.Tower(tmp_path)
    with pytest.raises(ValueError, match="expected one of auto"):
        ommatidia.Tower(GOLDEN / "qwen3_vl_tied", "bf16")
    with pytest.raises(ValueError, match="model.visual"):
        ommatidia.Tower(GOLDEN / "qwen3_vl_tied", tensors={"a": np.zeros(3, np.float32)})


def test_without_libomma_the_rest_works(tmp_path):
    shutil.copytree(Path(ommatidia.__file__).parent, tmp_path / "ommatidia", ignore=shutil.ignore_patterns("libomma.so"))
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import ommatidia; ommatidia.self_test()\n"
        "from pathlib import Path; from ommatidia import _tower\n"
        "_tower.LIBRARY_NAME = 'libomma.so.missing'\n"
        f"ommatidia.Tower({str(GOLDEN / 'qwen3_vl_tied')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "Towers need libomma" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", MODELS)
def test_images_are_preprocessed_as_by_the_program(name, request, tmp_path):
    """And encoded as their patches are."""
    from served import program

    files = [GOLDEN / "images" / file for file in sorted(os.listdir(GOLDEN / "images")) if file.endswith((".png", ".jpg"))][:2]
    tower = ommatidia.Tower(GOLDEN / name, "float32")
    values, grid = tower.preprocess(files)
    assert values.dtype == np.float32 and values.shape == (grid.prod(axis=1).sum(), tower.info()["patch_dim"])
    command = [program(request.config), "preprocess", GOLDEN / name, *files, "--output", tmp_path / "model.safetensors"]
    subprocess.run([str(word) for word in command], capture_output=True, check=True)
    wanted = read_tensors(tmp_path)
    assert same_bits(values, np.concatenate([wanted[f"image.{i}.pixel_values"] for i in range(2)]))
    assert np.array_equal(grid, [wanted[f"image.{i}.grid_thw"].reshape(3) for i in range(2)])
    direct, packed = tower.encode(files), tower.encode(values, grid)
    assert all(same_bits(a, b) for a, b in zip(direct, packed, strict=True))
    smaller = tower.preprocess(files[0], max_pixels=64 * 64)
    assert smaller.grid_thw[0].prod() <= grid[0].prod()
    assert tower.preprocess([]).grid_thw.shape == (0, 3)
    with pytest.raises(ValueError, match="grid_thw"):
        tower.encode(values)
