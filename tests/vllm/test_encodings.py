"""What the connector takes from an encoder node, and what it refuses; without vLLM."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from encoder_node import EncoderNode, whole_server
from vllm_ommatidia._encodings import Expected, Refused, check_nodes, node_of, read_encoding, sources
from vllm_ommatidia._fingerprint import checkpoint_fingerprint
from vllm_ommatidia._node_card import WrongNode

UUID, IMAGE = "first", "meadow_163x97.jpg"


class Published:
    """An image's embeddings, at a node and in its directory."""

    def __init__(self, node: EncoderNode, model: Path, image: Path, files: Path) -> None:
        grid = node.encode(image, UUID)["ec_transfer_params"][UUID]["metadata"]["image_grid_thw"]
        self.node, self.files, self.rows = node, files, grid[0] * grid[1] * grid[2] // 4
        self.file = files / UUID / "encoder_cache.safetensors"
        self.whole = self.file.read_bytes()
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))["vision_config"]
        width = config["out_hidden_size"] * (1 + len(config["deepstack_visual_indexes"]))
        self.expected = Expected(width, torch.float32, ("f32",), checkpoint_fingerprint(str(model)))


@pytest.fixture(scope="module")
def published(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    files, model = tmp_path_factory.mktemp("files"), golden / "qwen3_vl_tied"
    with EncoderNode(model, files=files) as node:
        yield Published(node, model, golden / "images" / IMAGE, files)


@pytest.fixture
def file(published: Published) -> Iterator[Path]:
    yield published.file
    published.file.write_bytes(published.whole)


def read(published: Published, **changes: object) -> torch.Tensor:
    expected = dataclasses.replace(published.expected, **changes)
    return read_encoding(sources({"shared_storage_path": str(published.files)}, None), UUID, published.rows, expected, None)


def test_the_node_names_its_checkpoint_as_this_package_does(published: Published) -> None:
    assert published.expected.fingerprint == published.node.fingerprint


def test_nodes_and_directories_have_the_same(published: Published) -> None:
    nodes = sources({"encoder_urls": ["http://127.0.0.1:1", published.node.url]}, None)
    from_node = read_encoding(nodes, UUID, published.rows, published.expected, f"{published.node.url}/")
    assert from_node.shape == (published.rows, published.expected.width) and from_node.dtype == torch.float32
    assert torch.equal(from_node, read(published))
    assert from_node.numpy().tobytes() == published.whole[-from_node.nbytes :]


def with_header(whole: bytes, change: Callable[[dict[str, dict[str, object]]], object]) -> bytes:
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + whole[8 + size :]


@pytest.mark.parametrize("damage, reason", [
    (lambda whole: b"", "truncated"),
    (lambda whole: whole[:7], "truncated"),
    (lambda whole: whole[:100], "truncated"),
    (lambda whole: whole[:-1], "truncated"),
    (lambda whole: whole + b"\0", "longer"),
    (lambda whole: struct.pack("<Q", 1 << 40) + whole[8:], "not a safetensors file"),
    (lambda whole: struct.pack("<Q", 4) + b"nope", "not a safetensors file"),
    (lambda whole: struct.pack("<Q", 2) + b"[]", "not a safetensors file"),
    (lambda whole: struct.pack("<Q", 2) + b"{}", "no encoder node's file"),
    (lambda whole: with_header(whole, lambda h: h.update(more={})), "no encoder node's file"),
    (lambda whole: with_header(whole, lambda h: h["__metadata__"].update(fingerprint="0" * 64)), "checkpoint 000"),
    (lambda whole: with_header(whole, lambda h: h["__metadata__"].pop("fingerprint")), "checkpoint None"),
    (lambda whole: with_header(whole, lambda h: h["__metadata__"].update(numeric_mode="int8")), "numeric mode int8"),
    (lambda whole: with_header(whole, lambda h: h["ec_cache"].update(dtype="BF16")), "type BF16"),
    (lambda whole: with_header(whole, lambda h: h["ec_cache"].update(shape=[1, 2])), "shape"),
    (lambda whole: with_header(whole, lambda h: h["ec_cache"].update(shape={"a": 1})), "shape"),
    (lambda whole: with_header(whole, lambda h: h["ec_cache"].update(data_offsets=[4, 8])), "offsets"),
    (lambda whole: whole[:-4] + struct.pack("<f", float("nan")), "NaN"),
])
def test_damaged_and_foreign_files_are_refused(
    published: Published, file: Path, damage: Callable[[bytes], bytes], reason: str
) -> None:
    file.write_bytes(damage(published.whole))
    with pytest.raises(Refused, match=reason):
        read(published)


def test_another_image_of_the_same_name_is_refused(published: Published) -> None:
    with pytest.raises(Refused, match="shape"):
        read_encoding(sources({"encoder_urls": published.node.url}, None), UUID, published.rows + 1, published.expected, None)


def test_missing_ones_and_dead_nodes_are_reported(published: Published) -> None:
    places = sources({"encoder_urls": [published.node.url], "shared_storage_path": str(published.files)}, None)
    with pytest.raises(Refused, match="missing at http"):
        read_encoding(places, "nobody", published.rows, published.expected, None)
    with pytest.raises(Refused, match=r"127\.0\.0\.1:1: .*refused"):
        read_encoding(sources({"encoder_urls": ["http://127.0.0.1:1"]}, None), UUID, published.rows, published.expected, None)


@pytest.mark.parametrize("key", ["../first", "a/b", "", "x" * 129, "first\n"])
def test_names_lead_nowhere_else(published: Published, key: str) -> None:
    with pytest.raises(Refused, match="no encoder node publishes"):
        read_encoding(sources({"shared_storage_path": str(published.files)}, None), key, published.rows, published.expected, None)


@pytest.mark.parametrize("options", [{}, {"encoder_urls": []}, {"encoder_urls": ["file:///etc"]}])
def test_places_must_be_some(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="encoder_urls"):
        sources(options, None)


def test_missing_weights_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='as the fingerprint'):
        checkpoint_fingerprint(str(tmp_path))


def test_nodes_that_do_not_fit_are_found_at_the_start(published: Published, golden: Path) -> None:
    dead = "http://127.0.0.1:1"
    (silent,) = check_nodes(sources({"encoder_urls": [published.node.url, dead]}, None), published.expected)
    assert silent.startswith(f"{dead} does not answer: ")
    nodes = sources({"encoder_urls": [published.node.url]}, None)
    for changes, reason in (
        ({"fingerprint": "0" * 64}, "has a model with the fingerprint"), ({"modes": ("bf16",)}, "gives f32, vLLM needs bf16"),
        ({"dtype": torch.bfloat16}, "gives F32, vLLM needs BF16"),
    ):
        with pytest.raises(WrongNode, match=reason):
            check_nodes(nodes, dataclasses.replace(published.expected, **changes))


def test_a_wrong_key_and_another_server_are_found_at_the_start(published: Published, golden: Path) -> None:
    model = golden / "qwen3_vl_tied"
    with EncoderNode(model, key="right") as node:
        for key, reason in ((None, "requires a key: set OMMA_API_KEY"), ("wrong", "refuses the key of OMMA_API_KEY")):
            with pytest.raises(WrongNode, match=reason):
                check_nodes(sources({"encoder_urls": [node.url]}, key), published.expected)
        assert check_nodes(sources({"encoder_urls": [node.url]}, "right"), published.expected) == []
    with whole_server(model) as server, pytest.raises(WrongNode, match="is no encoder node"):
        check_nodes(sources({"encoder_urls": [server.url]}, None), published.expected)


NAMED = {"encoder_url": "http://127.0.0.1:8100"}


@pytest.mark.parametrize(
    "params, node",
    [
        ({UUID: NAMED}, NAMED["encoder_url"]),
        ({UUID: NAMED | {"modality": "image", "item_indices": [0]}}, NAMED["encoder_url"]),
        ({UUID: NAMED | {"modality": "video"}}, None),
        ({"another": NAMED}, None),
        *((params, None) for params in (None, [], [1], {}, {UUID: None}, {UUID: "x"}, {UUID: [1]}, {UUID: {"encoder_url": 7}})),
    ],
)
def test_which_node_a_request_names(params: object, node: str | None) -> None:
    assert node_of(params, UUID) == node
