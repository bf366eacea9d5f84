"""vLLM fed by encoder nodes answers as with its own tower, which does not run: its weights are NaN.
What is not whole or not of the same model is refused with a line, and vLLM encodes the image
itself."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import weights_only, write_qwen2_5_vl
from encoder_node import EncoderNode, Proxy, example_connector, image_part, own_connector, whole_server
from safetensors.torch import load_file, save_file
from vllm_server import serve

IMAGES = (
    "meadow_163x97.jpg", "harbour_301x211.jpg", "tower_33x200.png", "tile_64x64.png", "banner_150x40.png", "clip_0_118x54.jpg",
    "clip_1_118x54.jpg", "clip_2_118x54.jpg", "clip_3_118x54.jpg", "clip_4_118x54.jpg",
)
PROMPT = (
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What is in this image?<|im_end|>\n<|im_start|>assistant\n"
)
FAMILIES = ("qwen3_vl", "qwen2_5_vl")


def without_tower(checkpoint: Path, folder: Path) -> Path:
    """The same checkpoint, but that the tower gives NaN for every image."""
    shutil.copytree(checkpoint, folder)
    (folder / "model.safetensors").unlink()
    weights = load_file(checkpoint / "model.safetensors")
    poisoned = {name: torch.full_like(value, float("nan")) if "visual." in name else value for name, value in weights.items()}
    assert any(bool(value.isnan().all()) for value in poisoned.values())
    save_file(poisoned, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def uuid_of(name: str) -> str:
    return name.replace(".", "-")


class Models:
    """Two families, each with its tower and without."""

    def __init__(self, golden: Path, folder: Path) -> None:
        write_qwen2_5_vl(folder / "qwen2_5_vl", golden / "qwen3_vl_tied")
        self.golden = golden
        self.whole = {"qwen3_vl": weights_only(golden / "qwen3_vl_tied", folder / "qwen3_vl"), "qwen2_5_vl": folder / "qwen2_5_vl"}
        self.poisoned = {name: without_tower(path, folder / f"{name}_poisoned") for name, path in self.whole.items()}

    def cases(self, names: tuple[str, ...] = IMAGES, uuids: bool = True) -> list[dict[str, Any]]:
        return [
            {"prompt": PROMPT, "images": [str(self.golden / "images" / name)]} | ({"uuids": [uuid_of(name)]} if uuids else {})
            for name in names
        ]

    def encode_all(self, node: EncoderNode) -> None:
        for name in IMAGES:
            node.encode(self.golden / "images" / name, uuid_of(name))


def generate(tasks: list[dict[str, Any]], folder: Path) -> tuple[list[list[list[int]]], str]:
    """Answers to the tasks, and what vLLM said. A process of its own: a connector stays in one."""
    folder.mkdir()
    (folder / "tasks.json").write_text(json.dumps(tasks), encoding="utf-8")
    program = Path(__file__).with_name("generate.py")
    done = subprocess.run(
        [sys.executable, str(program), str(folder / "tasks.json"), str(folder / "answers.json")],
        env=os.environ | {"VLLM_PLUGINS": "none", "VLLM_CACHE_ROOT": str(folder / "cache")},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return json.loads((folder / "answers.json").read_text(encoding="utf-8")), done.stdout


@pytest.fixture(scope="module")
def models(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(golden, tmp_path_factory.mktemp("encoder-models"))


@pytest.fixture(scope="module")
def own_tower(models: Models, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[int]]]:
    """vLLM's answers with its own tower."""
    tasks = [{"model": str(models.whole[name]), "cases": models.cases(uuids=False)} for name in FAMILIES]
    answers, _ = generate(tasks, tmp_path_factory.mktemp("own") / "run")
    return dict(zip(FAMILIES, answers))


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Iterator[str]:
    yield str(request.param)


def test_images_make_a_difference(own_tower: dict[str, list[list[int]]], family: str) -> None:
    assert len({tuple(tokens) for tokens in own_tower[family]}) > len(IMAGES) // 2


def test_same_tokens_over_http(models: Models, own_tower: dict[str, list[list[int]]], family: str, tmp_path: Path) -> None:
    with EncoderNode(models.whole[family]) as node:
        models.encode_all(node)
        config = own_connector(encoder_urls=[node.url], fingerprint=node.fingerprint)
        task = {"model": str(models.poisoned[family]), "cases": models.cases(), "ec_transfer_config": config}
        (answers,), said = generate([task], tmp_path / "run")
    assert answers == own_tower[family]
    assert "refused" not in said


def test_same_tokens_from_files_of_the_example_connector(
    models: Models, own_tower: dict[str, list[list[int]]], family: str, tmp_path: Path
) -> None:
    with EncoderNode(models.whole[family], files=tmp_path / "files") as node:
        models.encode_all(node)
    config = example_connector("ec_consumer", tmp_path / "files")
    task = {"model": str(models.poisoned[family]), "cases": models.cases(), "ec_transfer_config": config}
    (answers,), _ = generate([task], tmp_path / "run")
    assert answers == own_tower[family]


def encoding_file(files: Path, name: str) -> Path:
    return files / uuid_of(name) / "encoder_cache.safetensors"


def edit_metadata(file: Path, old: bytes, new: bytes) -> None:
    data = file.read_bytes()
    assert len(old) == len(new) and data.count(old) == 1
    file.write_bytes(data.replace(old, new))


def test_what_is_refused_is_encoded_by_vllm(models: Models, own_tower: dict[str, list[list[int]]], tmp_path: Path) -> None:
    files, checkpoint = tmp_path / "files", models.whole["qwen3_vl"]
    missing, truncated, foreign, stale, reused, fine = IMAGES[:6]
    with EncoderNode(checkpoint, files=files) as node:
        models.encode_all(node)
    shutil.rmtree(encoding_file(files, missing).parent)
    whole = encoding_file(files, truncated).read_bytes()
    encoding_file(files, truncated).write_bytes(whole[:-5])
    encoding_file(files, foreign).write_bytes(struct.pack("<Q", 1 << 40) + b"not of an encoder node")
    edit_metadata(encoding_file(files, stale), node.fingerprint.encode(), bytes(64).replace(b"\0", b"0"))
    shutil.copy(encoding_file(files, fine), encoding_file(files, reused))
    dead = "http://127.0.0.1:1"
    config = own_connector(encoder_urls=[dead], shared_storage_path=str(files))
    task = {"model": str(checkpoint), "cases": models.cases(IMAGES[:6]), "ec_transfer_config": config}
    (answers,), said = generate([task], tmp_path / "run")
    assert answers == own_tower["qwen3_vl"][:6]
    lines = [line for line in said.splitlines() if "Ommatidia: embeddings of" in line]
    reasons = {missing: dead, truncated: "truncated", foreign: "not a safetensors file", stale: "checkpoint 0000", reused: "shape"}
    assert len(lines) == len(reasons)
    for name, reason in reasons.items():
        (line,) = [line for line in lines if uuid_of(name) in line]
        assert reason in line and "vLLM encodes the image itself" in line


def ask(url: str, image: Path) -> str:
    part = image_part(image, "any")
    del part["uuid"]
    content = [part, {"type": "text", "text": "What is in this image?"}]
    body = {"model": "tiny", "temperature": 0, "max_tokens": 12, "messages": [{"role": "user", "content": content}]}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        return str(json.load(reply)["choices"][0]["message"]["content"])


@pytest.mark.parametrize("options, reason", [
    ({"fingerprint": "0" * 64}, "has a model with the fingerprint"), ({"numeric_mode": "int8"}, "gives f32, vLLM needs int8"),
])
def test_what_does_not_fit_is_known_at_the_start(models: Models, tmp_path: Path, options: dict[str, str], reason: str) -> None:
    with EncoderNode(models.whole["qwen3_vl"]) as node:
        config = own_connector(encoder_urls=[node.url], **options)
        task = {"model": str(models.whole["qwen3_vl"]), "cases": models.cases(IMAGES[:1]), "ec_transfer_config": config}
        with pytest.raises(AssertionError, match=reason):
            generate([task], tmp_path / "run")


def test_a_server_with_the_proxy_and_two_nodes(models: Models, tmp_path: Path) -> None:
    """vLLM gets neither pixels nor a tower that works, and answers as vLLM alone and as this tree's
    own server do, both with the whole model: also when one of the nodes is gone."""
    checkpoint, images = models.whole["qwen3_vl"], [models.golden / "images" / name for name in IMAGES]
    with whole_server(checkpoint) as whole:
        here = [ask(whole.url, image) for image in images]
    (tmp_path / "alone").mkdir()
    with serve(checkpoint, tmp_path / "alone", "--dtype", "float32") as alone:
        expected = [ask(f"http://127.0.0.1:{alone.port}", image) for image in images]
    assert len(set(expected)) > len(images) // 2
    # vLLM leaves out the bytes of a character that was cut off by max_tokens.
    assert [text.rstrip("\ufffd") for text in here] == [text.rstrip("\ufffd") for text in expected]
    with EncoderNode(checkpoint) as first, EncoderNode(checkpoint) as second:
        urls = [first.url, second.url]
        config = own_connector(encoder_urls=urls, fingerprint=first.fingerprint)
        options = ("--dtype", "float32", "--ec-transfer-config", json.dumps(config))
        with serve(models.poisoned["qwen3_vl"], tmp_path, *options) as server:
            with Proxy(f"http://127.0.0.1:{server.port}", *urls) as front:
                assert [ask(front.url, image) for image in images] == expected
                counts = [front.encoded(url) for url in urls]
                assert min(counts) > 0 and sum(counts) == len(images) + 1  # the probe of the start
                first.kill()
                assert [ask(front.url, image) for image in images] == expected
            assert "2 of 2 encoder nodes are up" in front.said and "images_to_vllm" not in front.said
        assert "refused" not in server.log.read_text()
