"""The layer compared with vLLM's own: every input form, and what happens to what the operator does
not take."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace

import ommatidia
import pytest
import torch
from towers import vllm_context
from vllm.model_executor.layers.attention import MMEncoderAttention, mm_encoder_attention
from vllm_ommatidia import _layer
from vllm_ommatidia._layer import OmmatidiaEncoderAttention

TYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.fixture(autouse=True)
def inside_vllm() -> Iterator[None]:
    with vllm_context(torch.float32):
        yield


def make_layer(heads: int, head_dim: int, kv_heads: int | None = None, scale: float | None = None) -> MMEncoderAttention:
    layer = MMEncoderAttention(heads, head_dim, scale, kv_heads)
    assert type(layer) is OmmatidiaEncoderAttention
    return layer


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float32).to(dtype)


def exact(
    layer: MMEncoderAttention, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor | None
) -> torch.Tensor:
    """vLLM's own implementation in double precision."""
    return MMEncoderAttention.forward_cpu(layer, q.double(), k.double(), v.double(), cu_seqlens)


def assert_as_good_as_vllm(
    layer: MMEncoderAttention, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor | None
) -> None:
    """Within twice the distance of vLLM's own implementation from the exact result, and two
    roundings of the largest output."""
    expected = exact(layer, q, k, v, cu_seqlens)
    own = MMEncoderAttention.forward_cpu(layer, q, k, v, cu_seqlens)
    found = layer(query=q, key=k, value=v, cu_seqlens=cu_seqlens, max_seqlen=None, sequence_lengths=None)
    assert found.shape == own.shape == q.shape and found.dtype == q.dtype and found.is_contiguous()
    rounding = float(torch.finfo(q.dtype).eps * expected.abs().max())
    assert float((found - expected).abs().max()) <= 2 * float((own - expected).abs().max()) + 2 * rounding


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("head_dim", (20, 64, 72, 80, 128))
@pytest.mark.parametrize("lengths", (None, (1, 63, 0, 100, 7, 0, 0)))
@pytest.mark.parametrize("rank", (3, 4))
def test_forms(dtype: torch.dtype, head_dim: int, lengths: tuple[int, ...] | None, rank: int) -> None:
    layer = make_layer(4, head_dim)
    shape = (1, 171, 4, head_dim) if rank == 4 else (1, 171, 4 * head_dim)
    cu_seqlens = None if lengths is None else torch.tensor((0, *lengths)).cumsum(0).to(torch.int32)
    assert_as_good_as_vllm(layer, *(random(*shape, dtype=dtype, seed=seed) for seed in range(3)), cu_seqlens)


@pytest.mark.parametrize("rank", (3, 4))
def test_grouped_heads_and_scale(rank: int) -> None:
    layer = make_layer(6, 64, kv_heads=2, scale=0.3)
    shapes = [(1, 100, heads, 64) if rank == 4 else (1, 100, heads * 64) for heads in (6, 2, 2)]
    q, k, v = (random(*shape, seed=seed) for seed, shape in enumerate(shapes))
    assert_as_good_as_vllm(layer, q, k, v, torch.tensor([0, 30, 100], dtype=torch.int32))


@pytest.mark.parametrize("cu_seqlens", (None, torch.tensor([0, 10, 10, 50]), torch.tensor([0, 50], dtype=torch.int32)))
def test_batch(cu_seqlens: torch.Tensor | None) -> None:
    """vLLM cuts every row of a batch at the same borders."""
    layer = make_layer(2, 32)
    assert_as_good_as_vllm(layer, *(random(3, 50, 2, 32, seed=seed) for seed in range(3)), cu_seqlens)


def test_batch_with_wrong_borders() -> None:
    tensors = [random(2, 50, 2, 32)] * 3
    with pytest.raises(ValueError, match="ends at 40, but the rows have 50 tokens"):
        make_layer(2, 32)(*tensors, cu_seqlens=torch.tensor([0, 40]))


def test_more_keys_than_queries() -> None:
    layer = make_layer(2, 32)
    assert_as_good_as_vllm(layer, random(2, 3, 2, 32), random(2, 70, 2, 32), random(2, 70, 2, 32, seed=1), None)


def test_views_into_a_fused_tensor_give_the_same_bits() -> None:
    layer = make_layer(4, 80)
    fused = random(1, 200, 3, 4, 80, dtype=torch.bfloat16)
    views = fused.unbind(dim=2)
    cu_seqlens = torch.tensor([0, 64, 200], dtype=torch.int32)
    assert not views[2].is_contiguous()
    assert torch.equal(layer(*views, cu_seqlens), layer(*(view.contiguous() for view in views), cu_seqlens))


def test_no_tokens() -> None:
    empty = random(1, 0, 2, 64)
    assert make_layer(2, 64)(empty, empty, empty, torch.tensor([0], dtype=torch.int32)).shape == empty.shape


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(f"{record.levelname}: {record.getMessage()}")  # type: ignore[method-assign]
    monkeypatch.setattr(_layer._logger, "handlers", [handler])
    _layer._logger.setLevel(logging.INFO)
    _layer._announce.cache_clear()
    _layer._warn_of_fallback.cache_clear()
    return seen


def test_logs_once_that_it_is_active(messages: list[str]) -> None:
    for _ in range(3):
        make_layer(2, 64)
    assert len(messages) == 1
    assert messages[0].startswith("INFO: Ommatidia ") and "float32, heads of 64, kernel tile_f32" in messages[0]
    assert messages[0].endswith("on PyTorch's OpenMP threads")
    assert "windows" not in messages[0]  # in float32 the tile kernel serves them


def test_names_the_kernel_of_windows(messages: list[str]) -> None:
    kernels = {form: ommatidia.info([72])["kernels"][form]["bfloat16"][72] for form in ("encoder", "windows")}
    _layer._announce(torch.bfloat16, 72)
    windows = f" (windows of up to 64 tokens: {kernels['windows']})" if len({*kernels.values()}) == 2 else ""
    assert f"kernel {kernels['encoder']}{windows}, on " in messages[0]


@pytest.mark.parametrize(
    ("change", "reason"),
    (
        (lambda q, k, v: (q.double(), k.double(), v.double()), "query is torch.float64, not float32, bfloat16 or float16"),
        (lambda q, k, v: (q, k.transpose(1, 3).contiguous().transpose(1, 3), v), "key has elements of a head"),
        (lambda q, k, v: (q, k[:, :, :1].expand(-1, -1, 2, -1), v), "key is expanded"),
        (lambda q, k, v: (q.to("meta"), k.to("meta"), v.to("meta")), "query is on meta"),
    ),
)
def test_falls_back_and_logs_it_once(change: object, reason: str, messages: list[str]) -> None:
    layer = make_layer(2, 64)
    tensors = change(*(random(1, 40, 2, 64, seed=seed) for seed in range(3)))  # type: ignore[operator]
    cu_seqlens = torch.tensor([0, 15, 40], dtype=torch.int32)
    for _ in range(3):
        found = layer(*tensors, cu_seqlens)
    if not found.is_meta:
        assert torch.equal(found, MMEncoderAttention.forward_cpu(layer, *tensors, cu_seqlens))
    assert [message for message in messages if "vLLM's own" in message] == messages[1:] and len(messages) == 2
    assert reason in messages[1]


def test_borders_of_another_type_are_left_to_vllm(messages: list[str]) -> None:
    layer, tensors = make_layer(2, 64), [random(1, 40, 2, 64, seed=seed) for seed in range(3)]
    cu_seqlens = torch.tensor([0, 15, 40], dtype=torch.int16)
    assert torch.equal(layer(*tensors, cu_seqlens), MMEncoderAttention.forward_cpu(layer, *tensors, cu_seqlens))
    assert messages[1].endswith("cu_seqlens is torch.int16, not int32 or int64")


def test_fp8_tensors_meet_vllms_own_error(messages: list[str]) -> None:
    tensors = [random(1, 40, 2, 64).to(torch.float8_e4m3fn)] * 3
    with pytest.raises((RuntimeError, NotImplementedError)):
        make_layer(2, 64)(*tensors, torch.tensor([0, 15, 40], dtype=torch.int32))
    assert messages[1].endswith("query is torch.float8_e4m3fn, not float32, bfloat16 or float16")


def test_fp8_attention_is_refused_by_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mm_encoder_attention, "get_multimodal_config", lambda: SimpleNamespace(mm_encoder_attn_dtype="fp8"))
    with pytest.raises(ValueError, match="fp8"):
        make_layer(2, 64)


def test_fp8_attention_of_a_later_vllm_is_left_to_it(messages: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MMEncoderAttention, "_init_fp8_state", lambda self: setattr(self, "fp8_enabled", True))
    layer, tensors = make_layer(2, 64), [random(1, 40, 2, 64, seed=seed) for seed in range(3)]
    assert torch.equal(layer(*tensors), MMEncoderAttention.forward_cpu(layer, *tensors))
    assert messages == ["WARNING: Ommatidia leaves encoder attention to vLLM's own implementation: fp8 attention is asked for"]


def test_heads_too_large_are_announced_when_the_model_is_built(messages: list[str]) -> None:
    make_layer(2, 288)
    assert messages == [
        "WARNING: Ommatidia leaves encoder attention to vLLM's own implementation: heads of 288, more than 256"
    ]


def test_wrong_borders_are_refused() -> None:
    tensors = [random(1, 40, 2, 64)] * 3
    with pytest.raises(ValueError, match="cu_seqlens"):
        make_layer(2, 64)(*tensors, cu_seqlens=torch.tensor([0, 41], dtype=torch.int32))


def test_compiles_without_a_graph_break() -> None:
    layer = make_layer(2, 64)
    tensors = [random(1, 40, 2 * 64, seed=seed) for seed in range(3)]
    cu_seqlens = torch.tensor([0, 15, 40], dtype=torch.int32)
    handle = MMEncoderAttention.maybe_compute_seq_lens(layer.attn_backend, cu_seqlens.numpy(), cu_seqlens.device)
    compiled = torch.compile(layer.forward_cpu, backend="eager", fullgraph=True)
    assert torch.equal(compiled(*tensors, cu_seqlens, None, handle), layer(*tensors, cu_seqlens))
