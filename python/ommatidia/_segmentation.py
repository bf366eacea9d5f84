"""Borders of segments, as callers give them and as plans are keyed by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from ._tensors import is_tensor

if TYPE_CHECKING:
    import torch  # type: ignore[import-not-found, unused-ignore]


class Segmentation:
    """A cu_seqlens that is checked for its type and copied once: calls that are given it in place
    of the array convert nothing.

    Immutable; any number of calls and threads may share it. ValueError as from `attention`; the
    borders themselves are checked by the first call."""

    __slots__ = ("_content",)

    def __init__(self, cu_seqlens: np.ndarray[Any, Any] | torch.Tensor | Sequence[int]) -> None:
        self._content = _int64_bytes("cu_seqlens", cu_seqlens)

    @property
    def content(self) -> bytes:
        """The borders as int64: the same for equal borders, whatever they were made from."""
        return self._content

    def __repr__(self) -> str:
        borders = np.frombuffer(self._content, np.int64)
        return f"<ommatidia.Segmentation of {borders[-1]} tokens in {len(borders) - 1} segments>"


Borders = Union["np.ndarray[Any, Any]", "torch.Tensor", Sequence[int], Segmentation]


def content_of(name: str, borders: Borders) -> bytes:
    """The key under which a segmentation's plans are kept: a copy that nobody can change."""
    return borders.content if isinstance(borders, Segmentation) else _int64_bytes(name, borders)


def _int64_bytes(name: str, array: Any) -> bytes:
    if is_tensor(array):
        if array.device.type != "cpu":
            raise ValueError(f"{name}: expected a tensor on the CPU, found one on {array.device}")
        array = array.numpy()
    values = np.asarray(array)
    # The shape first: NumPy gives an empty list a type that nobody chose.
    if values.ndim != 1 or values.size < 1:
        raise ValueError(f"{name}: expected one dimension of n_segments + 1 entries, found shape {list(values.shape)}")
    if values.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        raise ValueError(f"{name}: expected int32 or int64, found {values.dtype}")
    return values.astype(np.int64).tobytes()
