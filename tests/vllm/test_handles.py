"""The handle that carries a segmentation through vLLM: it spares the layers work, and never decides
what they compute."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from ommatidia import _handles, _plans, _segmentation
from towers import TOWERS, vllm_context
from vllm.model_executor.layers.attention import MMEncoderAttention

TOKENS = 1234
WINDOWS = np.arange(0, TOKENS + 1, 2, dtype=np.int32)
FULL = np.array([0, TOKENS], np.int32)


@pytest.fixture(autouse=True)
def inside_vllm() -> Iterator[None]:
    with vllm_context(torch.float32):
        yield


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> _handles.HandleTable:
    fresh = _handles.HandleTable()
    monkeypatch.setattr(_handles, "table", fresh)
    return fresh


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one with each cu_seqlens that is converted."""
    seen: list[str] = []
    convert = _segmentation._int64_bytes
    monkeypatch.setattr(_segmentation, "_int64_bytes", lambda name, array: seen.append(name) or convert(name, array))
    return seen


def random(n_tokens: int = TOKENS, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(1, n_tokens, 2, 64, generator=generator) for _ in range(3)]


def handle_of(borders: np.ndarray) -> torch.Tensor:
    """By the way that vLLM's models go."""
    handle = MMEncoderAttention.maybe_compute_seq_lens(None, borders, torch.device("cpu"))
    assert handle is not None
    return handle


def layers(count: int) -> list[MMEncoderAttention]:
    return [MMEncoderAttention(2, 64) for _ in range(count)]


def encoder_step(
    stack: list[MMEncoderAttention], tensors: list[torch.Tensor], windows: np.ndarray, full: np.ndarray
) -> list[torch.Tensor]:
    """As Qwen2.5-VL: every fourth layer sees the other segmentation, in tensors that are new in
    each step."""
    segmentations = [(torch.tensor(borders), handle_of(borders)) for borders in (windows, full)]
    outputs = []
    for index, layer in enumerate(stack):
        cu_seqlens, handle = segmentations[index % 4 == 3]
        outputs.append(layer(*tensors, cu_seqlens, None, handle))
    return outputs


def expected_step(
    stack: list[MMEncoderAttention], tensors: list[torch.Tensor], windows: np.ndarray, full: np.ndarray
) -> list[torch.Tensor]:
    """vLLM's own, whose layers cut the tensors themselves."""
    results = [MMEncoderAttention.forward_cpu(stack[0], *tensors, torch.tensor(borders)) for borders in (windows, full)]
    return [results[index % 4 == 3] for index in range(len(stack))]


def assert_same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for index, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-5), f"layer {index}"


def test_a_handle_is_a_small_tensor() -> None:
    handle = handle_of(WINDOWS)
    assert (handle.dtype, handle.dim(), handle.device.type) == (torch.int32, 1, "cpu")
    assert torch.equal(handle, handle_of(WINDOWS.copy())) and not torch.equal(handle, handle_of(FULL))


def test_layers_convert_nothing(conversions: list[str]) -> None:
    encoder_step(layers(8), random(), WINDOWS, FULL)
    assert len(conversions) == 2


def test_one_plan_per_segmentation() -> None:
    stack, tensors = layers(8), random()
    before, _ = _plans.cache.size()
    for _ in range(3):
        encoder_step(stack, tensors, WINDOWS[:-1], FULL // 2)
    assert _plans.cache.size()[0] == before + 2


@pytest.mark.parametrize(("name", "per_step"), (("qwen3_vl", 1), ("qwen2_5_vl", 2), ("kimi_vl", 4)))
def test_conversions_in_vllms_towers(name: str, per_step: int, conversions: list[str]) -> None:
    """One per segmentation; one per layer in the tower that does not call the hook."""
    sizes = dict(hidden_size=144, heads=2, intermediate_size=96)
    TOWERS[name].run(TOWERS[name].build(4, **sizes), [(8, 12), (20, 14)])
    assert len(conversions) == per_step


def test_two_segmentations_in_turns() -> None:
    """A cache by layer, or by anything but the borders, gives wrong answers here."""
    stack = layers(8)
    for seed in range(3):
        tensors = random(seed=seed)
        windows, full = (WINDOWS, FULL) if seed % 2 == 0 else (FULL, WINDOWS)
        assert_same(encoder_step(stack, tensors, windows, full), expected_step(stack, tensors, windows, full))


@pytest.mark.parametrize("entries", (0, 1))
def test_segmentations_and_plans_dropped_in_the_middle_of_a_step(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_handles, "TABLE_ENTRIES", entries)
    monkeypatch.setattr(_plans, "PLAN_CACHE_ENTRIES", entries)
    stack, tensors = layers(8), random()
    assert_same(encoder_step(stack, tensors, WINDOWS, FULL), expected_step(stack, tensors, WINDOWS, FULL))


def test_a_stale_handle_finds_nothing(table: _handles.HandleTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_handles, "TABLE_ENTRIES", 1)
    stale, cu_seqlens = handle_of(WINDOWS), torch.tensor(WINDOWS)
    assert table.find(stale, cu_seqlens) is not None
    handle_of(FULL)
    assert table.find(stale, cu_seqlens) is None
    again = handle_of(WINDOWS)
    assert table.find(again, cu_seqlens) is not None and table.find(stale, cu_seqlens) is None
    tensors, layer = random(), layers(1)[0]
    assert torch.equal(layer(*tensors, cu_seqlens, None, stale), layer(*tensors, cu_seqlens))


# What a model might hand over: lengths, as for another backend; a handle cut short or padded;
# another process's.
NO_HANDLES = {
    "lengths": lambda handle: torch.full((617,), 2, dtype=torch.int32),
    "four lengths": lambda handle: torch.tensor([300, 300, 300, 334], dtype=torch.int32),
    "cut": lambda handle: handle[:-1],
    "padded": lambda handle: torch.nn.functional.pad(handle, (0, 4)),
    "int64": lambda handle: handle.long(),
    "two dimensions": lambda handle: handle.unsqueeze(0),
    "of another process": lambda handle: handle ^ torch.tensor([0, 1, 0, 0], dtype=torch.int32),
    "of another number": lambda handle: handle + torch.tensor([0, 0, 1, 1], dtype=torch.int32),
    "negative": lambda handle: handle * torch.tensor([1, 1, 1, -1], dtype=torch.int32),
}


@pytest.mark.parametrize("what", NO_HANDLES)
def test_what_is_no_handle_is_ignored(what: str, table: _handles.HandleTable) -> None:
    wrong, cu_seqlens = NO_HANDLES[what](handle_of(WINDOWS)), torch.tensor(WINDOWS)
    assert table.find(wrong, cu_seqlens) is None
    tensors, layer = random(), layers(1)[0]
    assert torch.equal(layer(*tensors, cu_seqlens, None, wrong), layer(*tensors, cu_seqlens))


@pytest.mark.parametrize(
    "borders", ([0, 100, TOKENS], [0, 200, 300, TOKENS], [0, 100, 300, 1000]), ids=("other count", "moved", "other total")
)
def test_the_layers_own_borders_decide(borders: list[int]) -> None:
    """Even where a model hands over the handle of another segmentation."""
    handle = handle_of(np.array([0, 100, 300, TOKENS], np.int32))
    tensors, layer = random(), layers(1)[0]
    cu_seqlens = torch.tensor(borders, dtype=torch.int32)
    assert torch.equal(layer(*tensors, cu_seqlens, None, handle), layer(*tensors, cu_seqlens))


def test_borders_changed_in_place() -> None:
    borders = np.array([0, 100, TOKENS], np.int32)
    handle, cu_seqlens = handle_of(borders), torch.from_numpy(borders)
    tensors, layer = random(), layers(1)[0]
    cu_seqlens[1] = 700
    assert torch.equal(layer(*tensors, cu_seqlens, None, handle), layer(*tensors, cu_seqlens.clone()))


def test_a_handle_without_borders_means_nothing() -> None:
    tensors, layer = random(), layers(1)[0]
    assert torch.equal(layer(*tensors, None, None, handle_of(WINDOWS)), layer(*tensors))


@pytest.mark.parametrize("cu_seqlens", (np.zeros((2, 2), np.int32), np.zeros(3, np.float32), np.zeros(0, np.int32)))
def test_no_handle_of_what_is_no_segmentation(cu_seqlens: np.ndarray) -> None:
    assert MMEncoderAttention.maybe_compute_seq_lens(None, cu_seqlens, torch.device("cpu")) is None


def test_the_table_is_bounded(table: _handles.HandleTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_handles, "TABLE_ENTRIES", 5)
    for n_segments in range(20):
        handle_of(np.arange(n_segments + 1, dtype=np.int32))
    assert table.size()[0] == 5
    monkeypatch.setattr(_handles, "TABLE_BYTES", 1000)
    handle_of(np.arange(11, dtype=np.int32))
    n_entries, n_bytes = table.size()
    assert n_entries < 5 and 0 < n_bytes <= 1000
    handle_of(np.arange(1000, dtype=np.int32))
    assert table.size() == (0, 0)


def test_the_segmentation_used_last_is_dropped_last(table: _handles.HandleTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_handles, "TABLE_ENTRIES", 2)
    first = handle_of(WINDOWS)
    handle_of(FULL)
    handle_of(WINDOWS)
    handle_of(FULL // 2)
    assert table.find(first, torch.tensor(WINDOWS)) is not None


def test_concurrent_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads, each with segmentations of its own, in a table and a cache that hold less than
    one step needs."""
    monkeypatch.setattr(_handles, "TABLE_ENTRIES", 1)
    monkeypatch.setattr(_plans, "PLAN_CACHE_ENTRIES", 1)
    stack, tensors = layers(8), random(300)
    shapes = [(np.arange(0, 301, step, dtype=np.int32), np.array([0, 300 - step, 300], np.int32)) for step in (3, 10)]
    expected = [expected_step(stack, tensors, *shape) for shape in shapes]
    failures: list[BaseException] = []

    def serve(which: int) -> None:
        try:
            with torch.inference_mode():
                for _ in range(20):
                    assert_same(encoder_step(stack, tensors, *shapes[which]), expected[which])
        except BaseException as error:  # noqa: BLE001 - to be raised by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=serve, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_a_forked_child_begins_with_an_empty_table() -> None:
    handle, cu_seqlens = handle_of(WINDOWS), torch.tensor(WINDOWS)
    child = os.fork()
    if child == 0:
        handle_of(FULL)  # a number that the parent has given, too
        os._exit(0 if _handles.table.find(handle, cu_seqlens) is None and _handles.table.size()[0] == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
