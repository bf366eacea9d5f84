"""The operator as a PyTorch one, `torch.ops.ommatidia.encoder_attention`, so that torch.compile takes it as one opaque call."""

from __future__ import annotations

from functools import cache
from typing import Literal

import ommatidia
import torch

from . import _handles

MAX_HEAD_DIM = 256

_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_BORDER_TYPES = (torch.int32, torch.int64)


def refusal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor | None) -> str | None:
    """Why the operator cannot take these [b, s, H, D] tensors as they lie in memory; None where it can.

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
        if head_dim > MAX_HEAD_DIM:
            return f"heads of {head_dim}, more than {MAX_HEAD_DIM}"
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
    """The threads to run on: those that PyTorch's own operators run on, whose spinning would slow down any others."""
    probe = torch.zeros(1, 1, 1)
    try:
        ommatidia.attention(probe, probe, probe, team="openmp")
    except RuntimeError:
        return "own"
    return "openmp"


def flat_borders(cu_seqlens: torch.Tensor, n_batch: int, n_tokens: int) -> torch.Tensor:
    """Borders over the flattened tokens of a batch, from those that vLLM applies to each of its rows alike."""
    if int(cu_seqlens[-1]) != n_tokens:
        raise ValueError(f"cu_seqlens: ends at {int(cu_seqlens[-1])}, but the rows have {n_tokens} tokens")
    first_token = torch.arange(n_batch, dtype=torch.int64).unsqueeze(1) * n_tokens
    return torch.cat([cu_seqlens[:1].to(torch.int64), (cu_seqlens[1:] + first_token).flatten()])


def _segmentation(
    cu_seqlens: torch.Tensor | None, handle: torch.Tensor | None, n_batch: int, n_tokens: int
) -> torch.Tensor | ommatidia.Segmentation | None:
    if cu_seqlens is None:
        return None
    if n_batch > 1:
        return flat_borders(cu_seqlens, n_batch, n_tokens)
    found = None if handle is None else _handles.table.find(handle, cu_seqlens)
    return cu_seqlens if found is None else found


def _run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    handle: torch.Tensor | None,
    scale: float,
) -> torch.Tensor:
    segmentation = _segmentation(cu_seqlens, handle, q.shape[0], q.shape[1])
    return ommatidia.attention(q, k, v, segmentation, scale=scale, team=team())


def _shape_only(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens: torch.Tensor | None,
    handle: torch.Tensor | None,
    scale: float,
) -> torch.Tensor:
    return q.new_empty((*q.shape[:-1], v.shape[-1]))


_library = torch.library.Library("ommatidia", "DEF")
_library.define(
    "encoder_attention(Tensor q, Tensor k, Tensor v, Tensor? cu_seqlens, Tensor? handle, float scale) -> Tensor"
)
_library.impl("encoder_attention", _run, "CPU")
torch.library.register_fake("ommatidia::encoder_attention", _shape_only, lib=_library)
