"""The operator as a PyTorch one: importing this module registers
`torch.ops.ommatidia.encoder_attention`.

It has a fake kernel, so that torch.compile and torch.export take it as one opaque call whose
result's shape they know."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import torch

from . import _handles
from ._attention import attention
from ._declarations import ATTENTION_MAX_HEAD_DIM
from ._segmentation import Segmentation

__all__ = ["encoder_attention", "refusal", "team"]

_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_BORDER_TYPES = (torch.int32, torch.int64)


def refusal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor | None) -> str | None:
    """Why the operator cannot take these [b, s, H, D] tensors as they lie in memory; None where it
    can.

    Decided by type and layout alone, so that it costs little per layer and can be traced."""
    dtype = q.dtype
    if dtype not in _TYPES:
        return f"query is {dtype}, not float32, bfloat16 or float16"
    for name, tensor in (("query", q), ("key", k), ("value", v)):
        if not tensor.is_cpu:
            return f"{name} is on {tensor.device}"
        if tensor.dtype != dtype:
            return f"{name} is {tensor.dtype}, but query is {dtype}"
        n_batch, n_tokens, _, head_dim = tensor.shape
        batch_stride, token_stride, head_stride, stride = tensor.stride()
        if head_dim > ATTENTION_MAX_HEAD_DIM:
            return f"heads of {head_dim}, more than {ATTENTION_MAX_HEAD_DIM}"
        if stride != 1:
            return f"{name} has elements of a head {stride} apart"
        if token_stride == 0 or head_stride == 0:
            return f"{name} is expanded (a stride of 0)"
        if n_batch > 1 and batch_stride != n_tokens * token_stride:
            return f"{name} has batch rows that are not one token stride apart"
    if cu_seqlens is not None:
        if not cu_seqlens.is_cpu:
            return f"cu_seqlens is on {cu_seqlens.device}"
        if cu_seqlens.dtype not in _BORDER_TYPES:
            return f"cu_seqlens is {cu_seqlens.dtype}, not int32 or int64"
    return None


@cache
def team() -> Literal["own", "openmp"]:
    """The threads to run on: those that PyTorch's own operators run on, whose spinning would slow
    down any others."""
    probe = torch.zeros(1, 1, 1)
    try:
        attention(probe, probe, probe, team="openmp")
    except RuntimeError:
        return "own"
    return "openmp"


def encoder_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """`ommatidia.attention` on PyTorch's threads, as an operator that torch.compile and
    torch.export know.

    q [b, s, H, D], k [b, sk, Hkv, D], v [b, sk, Hkv, Dv]; cu_seqlens over the b * s flattened
    tokens, None: each row of the batch is a segment. Returns [b, s, H, Dv], contiguous. No
    gradients."""
    out: torch.Tensor = torch.ops.ommatidia.encoder_attention(q, k, v, cu_seqlens, None, scale)
    return out


def _run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens: torch.Tensor | None = None,
    handle: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    segmentation: torch.Tensor | Segmentation | None = cu_seqlens
    if cu_seqlens is not None and handle is not None:
        found = _handles.table.find(handle, cu_seqlens)
        segmentation = cu_seqlens if found is None else found
    return attention(q, k, v, segmentation, scale=scale, team=team())


def _shape_only(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens: torch.Tensor | None = None,
    handle: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    return q.new_empty((*q.shape[:-1], v.shape[-1]))


_operators: Any = torch.library.Library("ommatidia", "DEF")  # type: ignore[no-untyped-call]
_operators.define(
    "encoder_attention(Tensor q, Tensor k, Tensor v, Tensor? cu_seqlens=None, Tensor? handle=None, float? scale=None) -> Tensor"
)
_operators.impl("encoder_attention", _run, "CPU")
torch.library.register_fake("ommatidia::encoder_attention", _shape_only, lib=_operators)
