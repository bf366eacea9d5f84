"""Segmentations that travel through a host program as a tensor.

vLLM, for example, calls a hook once per segmentation and encoder step, and hands the tensor that it
returns to every layer. The tensor made here is a handle: a number under which the segmentation is
kept, so that layers neither convert nor copy their cu_seqlens.

A number is given to one segmentation only and never again. A handle to one that has been dropped,
or a tensor that is no handle, therefore finds nothing, and the borders that come with it are
compared before they are taken for those of the handle: whatever is handed to a layer, the layer's
cu_seqlens decide."""

from __future__ import annotations

import os
import secrets
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import torch

from ._segmentation import Segmentation

# Both bound the table. A step needs one segmentation, or two, of some hundred bytes.
TABLE_ENTRIES = 256
TABLE_BYTES = 16 << 20

_MAGIC = 0x0A77E17D
_WORD = 1 << 31


class _Entry(NamedTuple):
    number: int
    segmentation: Segmentation
    borders: torch.Tensor  # the table's own copy, to compare with

    def n_bytes(self) -> int:
        return len(self.segmentation.content) + self.borders.nbytes


class HandleTable:
    """The segmentations seen last, bounded in number and in bytes. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A handle that comes from another process is none here.
        self._process = secrets.randbelow(_WORD)
        self._last_number = 0
        self._by_number: dict[int, _Entry] = {}
        self._by_content: OrderedDict[tuple[np.dtype[Any], bytes], _Entry] = OrderedDict()
        self._n_bytes = 0

    def handle(self, cu_seqlens: np.ndarray[Any, Any]) -> torch.Tensor:
        """A flat int32 tensor for this segmentation. ValueError where cu_seqlens is none in its
        type or shape."""
        segmentation = Segmentation(cu_seqlens)
        key = (cu_seqlens.dtype, segmentation.content)
        with self._lock:
            entry = self._by_content.get(key)
            if entry is None:
                entry = self._insert(key, segmentation)
            else:
                self._by_content.move_to_end(key)
        number = entry.number
        return torch.tensor([_MAGIC, self._process, number // _WORD, number % _WORD], dtype=torch.int32)

    def find(self, handle: torch.Tensor, cu_seqlens: torch.Tensor) -> Segmentation | None:
        """The segmentation of a handle if it is that of cu_seqlens; None if not, or if there is
        none any more."""
        if handle.dtype is not torch.int32 or handle.dim() != 1 or handle.shape[0] != 4:
            return None
        magic, process, high, low = handle.tolist()
        if magic != _MAGIC or process != self._process:
            return None
        entry = self._by_number.get(high * _WORD + low)
        if entry is None or entry.borders.dtype is not cu_seqlens.dtype or not torch.equal(entry.borders, cu_seqlens):
            return None
        return entry.segmentation

    def size(self) -> tuple[int, int]:
        """Segmentations and bytes held."""
        with self._lock:
            return len(self._by_content), self._n_bytes

    def _insert(self, key: tuple[np.dtype[Any], bytes], segmentation: Segmentation) -> _Entry:
        self._last_number += 1
        borders = torch.from_numpy(np.frombuffer(segmentation.content, np.int64).astype(key[0]))
        entry = _Entry(self._last_number, segmentation, borders)
        self._by_content[key] = self._by_number[entry.number] = entry
        self._n_bytes += entry.n_bytes()
        while len(self._by_content) > TABLE_ENTRIES or self._n_bytes > TABLE_BYTES:
            _, dropped = self._by_content.popitem(last=False)
            del self._by_number[dropped.number]
            self._n_bytes -= dropped.n_bytes()
        return entry


table = HandleTable()


def _after_fork() -> None:
    """A thread that held the lock in the parent does not exist in the child and will never give it
    back."""
    global table
    table = HandleTable()


os.register_at_fork(after_in_child=_after_fork)
