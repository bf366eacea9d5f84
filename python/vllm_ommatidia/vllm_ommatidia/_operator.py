"""The operator as a PyTorch one, `torch.ops.ommatidia.encoder_attention`, so that torch.compile takes it as one opaque call."""

from __future__ import annotations

from functools import cache
from typing import Literal

import ommatidia
import torch

MAX_HEAD_DIM = 256

_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def refusal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> str | None:
    """Why the operator cannot take these [b, s, H, D] tensors as they lie in memory; None where it can.

    Decided by type and layout alone, so that it costs little per layer and can be traced."""
    for name, tensor in (("query", q), ("key", k), ("value", v)):
        if tensor.device.type != "cpu":
            return f"{name} is on {tensor.device}"
        if tensor.dtype not in _TYPES:
            return f"{name} is {tensor.dtype}, not float32, bfloat16 or float16"
        if tensor.dtype != q.dtype:
            return f"{name} is {tensor.dtype}, but query is {q.dtype}"
        if tensor.shape[-1] > MAX_HEAD_DIM:
            return f"heads of {tensor.shape[-1]}, more than {MAX_HEAD_DIM}"
        if tensor.stride(-1) != 1:
            return f"{name} has elements of a head {tensor.stride(-1)} apart"
        if tensor.stride(1) == 0 or tensor.stride(2) == 0:
            return f"{name} is expanded (a stride of 0)"
        if tensor.shape[0] > 1 and tensor.stride(0) != tensor.shape[1] * tensor.stride(1):
            return f"{name} has batch rows that are not one token stride apart"
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


def _run(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor | None, scale: float
) -> torch.Tensor:
    if cu_seqlens is not None and q.shape[0] > 1:
        cu_seqlens = flat_borders(cu_seqlens, q.shape[0], q.shape[1])
    return ommatidia.attention(q, k, v, cu_seqlens, scale=scale, team=team())


def _shape_only(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor | None, scale: float
) -> torch.Tensor:
    return q.new_empty((*q.shape[:-1], v.shape[-1]))


_library = torch.library.Library("ommatidia", "DEF")
_library.define("encoder_attention(Tensor q, Tensor k, Tensor v, Tensor? cu_seqlens, float scale) -> Tensor")
_library.impl("encoder_attention", _run, "CPU")
torch.library.register_fake("ommatidia::encoder_attention", _shape_only, lib=_library)
