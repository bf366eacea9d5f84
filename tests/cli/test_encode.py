"""`omma preprocess` and `omma encode`: files with pixels and embeddings.

Run with: pytest tests/cli --omma build/release/omma
"""

import base64
import os
import shutil
import subprocess

import pytest
from PIL import Image

from omma_program import read_safetensors, refused


def test_data_url(omma, no_weights, images):
    encoded = base64.b64encode((images / "tile_64x64.png").read_bytes()).decode()
    plan = omma.json("plan", "data:image/png;base64," + encoded, "--model", no_weights, "--json")
    assert (plan["images"][0]["width"], plan["images"][0]["height"]) == (64, 64)


def test_images_are_known_by_their_content(omma, no_weights, images, tmp_path):
    """Whatever the name or the media type."""
    sources = []
    for image, name in (("tile_64x64.png", "a.jpg"), ("meadow_163x97.jpg", "b.webp"), ("stamp_20x10.png", "no ending")):
        shutil.copy(images / image, tmp_path / name)
        sources += [tmp_path / name, "data:text/plain;base64," + base64.b64encode((images / image).read_bytes()).decode()]
    plan = omma.json("plan", *sources, "--model", no_weights, "--json")
    sizes = [(image["width"], image["height"]) for image in plan["images"]]
    assert sizes == [(64, 64)] * 2 + [(163, 97)] * 2 + [(20, 10)] * 2


def test_preprocess(omma, no_weights, images, tmp_path):
    names = ["tile_64x64.png", "meadow_163x97.jpg"]
    target = tmp_path / "patches.safetensors"
    done = omma.json("preprocess", *(images / name for name in names), "-o", target, "--model", no_weights, "--json")
    header, _ = read_safetensors(target)
    assert set(header) == {f"image.{i}.{what}" for i in range(2) for what in ("pixel_values", "grid_thw")}
    for i, image in enumerate(done["images"]):
        assert header[f"image.{i}.pixel_values"]["dtype"] == "F32" and header[f"image.{i}.grid_thw"]["dtype"] == "I64"
        assert header[f"image.{i}.pixel_values"]["shape"] == [image["n_patches"], image["patch_dim"]]
        assert header[f"image.{i}.grid_thw"]["shape"] == [3]
    assert [file.name for file in tmp_path.iterdir()] == [target.name]


def test_preprocess_for_the_times(omma, no_weights, images):
    done = omma.json("preprocess", *[images / "meadow_163x97.jpg"] * 2, "--model", no_weights, "--json")
    assert done["output"] is None and len(done["images"]) == 2
    assert all(image["decode_ms"] > 0 and image["preprocess_ms"] > 0 for image in done["images"])


def test_encode(omma, model, images, tmp_path):
    sources = [images / "tile_64x64.png", images / "meadow_163x97.jpg"]
    results = []
    for how in ("together", "separate"):
        target = tmp_path / f"{how}.safetensors"
        done = omma.json("encode", *sources, "--output", target, "--pack", how, "--model", model, "--json")
        header, data = read_safetensors(target)
        for i, image in enumerate(done["images"]):
            shape = [image["n_tokens"], image["width"]]
            assert header[f"image.{i}.embeddings"]["shape"] == shape
            assert header[f"image.{i}.grid_thw"]["dtype"] == "I64"
            for j in range(image["n_deepstack"]):
                assert header[f"image.{i}.deepstack.{j}"]["shape"] == shape
        results.append((header, data))
    assert results[0] == results[1]


def test_encode_names_a_bad_file_and_writes_the_others(omma, model, images, tmp_path):
    bad, target = tmp_path / "bad.png", tmp_path / "out.safetensors"
    bad.write_bytes((images / "tile_64x64.png").read_bytes()[:90])
    narrow = tmp_path / "narrow.png"
    Image.new("RGB", (2000, 4)).save(narrow)
    sources = [images / "tile_64x64.png", bad, narrow, images / "meadow_163x97.jpg"]
    words = ["encode", *sources, "--output", target, "--model", model]
    done = omma(*words)
    errors = done.stderr.decode().splitlines()
    assert done.returncode == 1 and len(errors) == 3, errors
    assert str(bad) in errors[0] and str(narrow) in errors[1] and "2 of 4 images are in" in errors[2]
    header, _ = read_safetensors(target)
    assert {name.split(".")[1] for name in header} == {"0", "3"}
    target.unlink()
    refused(omma(*words, "--fail-fast"), 1, str(bad))
    assert not target.exists() and sorted(file.name for file in tmp_path.iterdir()) == ["bad.png", "narrow.png"]


@pytest.mark.release_only
def test_encode_takes_memory_for_a_group_of_images_alone(omma, request, model, tmp_path):
    """40 images of 18 MB decoded: the growth from 4 of them is far from 36 of them."""
    photo = tmp_path / "photo.jpg"
    Image.new("RGB", (3000, 2000), (90, 140, 60)).save(photo)

    def peak(count):
        target = tmp_path / f"{count}.safetensors"
        words = [request.config.getoption("--omma"), "encode", *[str(photo)] * count, "--max-pixels", "65536", "--output", str(target), "--model", model]
        started = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        assert started.returncode == 0 and len(read_safetensors(target)[0]) >= 2 * count
        return usage.ru_maxrss / 1024

    few, many = peak(4), peak(40)
    assert many < few + 40, f"{few:.0f} MiB for 4 images, {many:.0f} MiB for 40"


@pytest.mark.parametrize("command", ["encode", "preprocess", "embed"])
def test_output_that_cannot_be_made(omma, model, images, tmp_path, command):
    """Said before the model's weights are read: there are none."""
    words = [command, images / "meadow_163x97.jpg", "--model", tmp_path / "model"]
    shutil.copytree(model, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    ending = ".npy" if command == "embed" else ""
    (tmp_path / f"folder{ending}").mkdir()
    refused(omma(*words, "-o", tmp_path / "no" / f"a{ending}"), 1, f"--output {tmp_path}/no/a{ending}: the folder that it is to lie in is missing")
    refused(omma(*words, "-o", tmp_path / f"folder{ending}"), 1, f"--output {tmp_path}/folder{ending}: Is a directory")
    if command != "embed":
        done = subprocess.run([omma.path, *map(str, words), "-o", "-"], cwd=tmp_path, capture_output=True, timeout=60, check=False)
        refused(done, 2, "--output -: the file is not written to standard output: give it a name")
        assert not (tmp_path / "-").exists()
