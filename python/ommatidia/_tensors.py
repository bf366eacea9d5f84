"""What the operator has to know of an array: address, shape, strides, type; for NumPy arrays and PyTorch CPU tensors.

Nothing here copies a tensor. PyTorch is never imported: a tensor can only come from a program that has imported it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ._library import BF16, F16, F32

if TYPE_CHECKING:
    import torch

TensorT = TypeVar("TensorT", "np.ndarray[Any, Any]", "torch.Tensor")

_NUMPY_TYPES = {np.dtype(np.float32): F32, np.dtype(np.float16): F16}
_TYPE_NAMES = {F32: "float32", BF16: "bfloat16", F16: "float16"}
_ITEM_SIZES = {F32: 4, BF16: 2, F16: 2}


class View(NamedTuple):
    """One array. Strides count elements."""

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: int


class Rows(NamedTuple):
    """A view as rows of heads: [n_batch * n_tokens, n_heads, head_dim]. A stride of 0 is the C interface's default."""

    view: View
    n_batch: int
    n_tokens: int
    n_heads: int
    head_dim: int
    token_stride: int
    head_stride: int


def _torch() -> Any:
    return sys.modules.get("torch")


def is_tensor(array: object) -> bool:
    torch = _torch()
    return torch is not None and isinstance(array, torch.Tensor)


def _numpy_type(array: np.ndarray[Any, Any]) -> int | None:
    # ml_dtypes registers its bfloat16 with NumPy; there is nothing to import in order to recognise it.
    if array.dtype.name == "bfloat16" and array.dtype.itemsize == 2:
        return BF16
    return _NUMPY_TYPES.get(array.dtype)


def _of_array(name: str, array: np.ndarray[Any, Any]) -> View:
    dtype = _numpy_type(array)
    if dtype is None:
        raise ValueError(f"{name}: expected float32, bfloat16 (ml_dtypes) or float16, found {array.dtype}")
    size = array.dtype.itemsize
    if any(stride % size for stride in array.strides) or not array.flags.aligned:
        raise ValueError(f"{name}: elements that are not aligned to their own {size} bytes")
    return View(name, array.ctypes.data, array.shape, tuple(stride // size for stride in array.strides), dtype)


def _of_tensor(name: str, tensor: Any) -> View:
    torch = _torch()
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        raise ValueError(f"{name}: expected a dense tensor on the CPU, found {tensor.layout} on {tensor.device}")
    dtype = {torch.float32: F32, torch.bfloat16: BF16, torch.float16: F16}.get(tensor.dtype)
    if dtype is None:
        raise ValueError(f"{name}: expected float32, bfloat16 or float16, found {tensor.dtype}")
    if tensor.is_neg():
        raise ValueError(f"{name}: a view with negation pending; call resolve_neg() on it")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{name}: requires a gradient, and there is none; call under torch.no_grad() or detach()")
    return View(name, tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), dtype)


def view_of(name: str, array: object) -> View:
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array, whose mask would be ignored; mark borders with cu_seqlens")
    if isinstance(array, np.ndarray):
        return _of_array(name, array)
    if is_tensor(array):
        return _of_tensor(name, array)
    raise TypeError(f"{name}: expected a NumPy array or a PyTorch tensor, found {type(array).__name__}")


def check_same_kind(named: Mapping[str, object]) -> None:
    """Refuses NumPy arrays among tensors: the kind of the result would be a guess."""
    kinds = {name: "PyTorch tensor" if is_tensor(array) else "NumPy array" for name, array in named.items()}
    for name, kind in kinds.items():
        if kind != kinds["q"]:
            raise TypeError(f"{name}: a {kind}, but q is a {kinds['q']}")


def check_same_type(q: View, *others: View) -> None:
    for other in others:
        if other.dtype != q.dtype:
            raise ValueError(f"{other.name}: {_TYPE_NAMES[other.dtype]}, but q is {_TYPE_NAMES[q.dtype]}")


def _step(name: str, what: str, count: int, stride: int) -> int:
    """A stride as the C interface takes it: 0, its default, where there is no second element to reach."""
    if count <= 1:
        return 0
    if stride == 0:
        raise ValueError(
            f"{name}: the {what} are one piece of memory repeated (stride 0), which cannot be expressed; "
            "pass fewer key and value heads, or a copy"
        )
    return stride


def _token_stride(view: View, n_batch: int, n_tokens: int) -> int:
    """The one stride of n_batch * n_tokens rows that lie in two dimensions."""
    batch_stride, token_stride = view.strides[0], view.strides[1]
    if n_batch <= 1:
        return _step(view.name, "tokens", n_tokens, token_stride)
    if n_tokens == 1:
        return _step(view.name, "tokens", n_batch, batch_stride)
    if batch_stride != n_tokens * token_stride:
        raise ValueError(
            f"{view.name}: irregular batch stride: expected {n_tokens} tokens * {token_stride} = "
            f"{n_tokens * token_stride} elements, found {batch_stride}; pass the rows of the batch one by one, or a copy"
        )
    return _step(view.name, "tokens", n_batch * n_tokens, token_stride)


def _heads(view: View, n_heads: int | None, head_dim: int | None, fused: bool) -> tuple[int, int, int]:
    """Heads, head dimension and head stride. Of a fused row, either of the first two gives the other."""
    if not fused:
        found, dim = view.shape[-2], view.shape[-1]
        if n_heads is not None and n_heads != found:
            raise ValueError(f"{view.name}: expected {n_heads} heads as stated, found {found} in shape {list(view.shape)}")
        return found, dim, view.strides[-2]
    width = view.shape[-1]
    if n_heads is None and head_dim is not None:
        n_heads = width // head_dim if head_dim else 0
    if not n_heads or n_heads < 0 or width % n_heads:
        raise ValueError(f"{view.name}: rows of {width} elements do not divide into {n_heads} heads of one size")
    return n_heads, width // n_heads, width // n_heads


def rows(view: View, n_heads: int | None, head_dim: int | None, fused: bool) -> Rows:
    """Takes a view apart.

    Three forms: [b, s, H, D]; [T, H, D], whose batch is 1; and, with `fused`, [b, s, H*D], where n_heads or head_dim says how
    to divide the row."""
    expected = "[batch, tokens, heads * head_dim]" if fused else "[batch, tokens, heads, head_dim] or [tokens, heads, head_dim]"
    if len(view.shape) not in ((3,) if fused else (3, 4)):
        raise ValueError(f"{view.name}: expected shape {expected}, found {list(view.shape)}")
    heads, dim, head_stride = _heads(view, n_heads, head_dim, fused)
    if heads < 1 or dim < 1:
        raise ValueError(f"{view.name}: expected at least 1 head of at least 1 element, found shape {list(view.shape)}")
    packed = len(view.shape) == 3 and not fused
    n_batch, n_tokens = (1, view.shape[0]) if packed else (view.shape[0], view.shape[1])
    if 0 in view.shape:
        return Rows(view, n_batch, n_tokens, heads, dim, 0, 0)
    if view.shape[-1] > 1 and view.strides[-1] != 1:
        raise ValueError(f"{view.name}: last dimension not contiguous: expected a stride of 1, found {view.strides[-1]}")
    flat = view._replace(strides=(0, *view.strides)) if packed else view
    token_stride = _token_stride(flat, n_batch, n_tokens)
    return Rows(view, n_batch, n_tokens, heads, dim, token_stride, _step(view.name, "heads", heads, head_stride))


def _extent(view: View) -> tuple[int, int]:
    """First byte and the one after the last of a view that is not empty."""
    size = _ITEM_SIZES[view.dtype]
    steps = [(count - 1) * stride for count, stride in zip(view.shape, view.strides, strict=False)]
    low = sum(step for step in steps if step < 0)
    high = sum(step for step in steps if step > 0)
    return view.address + low * size, view.address + (high + 1) * size


def check_apart(out: View, *inputs: View) -> None:
    """Refuses an output in an input's memory: workers would read what others have written."""
    if 0 in out.shape:
        return
    begin, end = _extent(out)
    for other in inputs:
        if 0 in other.shape:
            continue
        other_begin, other_end = _extent(other)
        if begin < other_end and other_begin < end:
            raise ValueError(f"out: its memory overlaps that of {other.name}")


def empty_like(q: Any, shape: tuple[int, ...]) -> Any:
    if is_tensor(q):
        return _torch().empty(shape, dtype=q.dtype, device="cpu")
    return np.empty(shape, dtype=q.dtype)


def check_out(out: Any, shape: tuple[int, ...]) -> None:
    if tuple(out.shape) != shape:
        raise ValueError(f"out: expected shape {list(shape)}, found {list(out.shape)}")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out: read-only")


def borders(name: str, array: Any) -> bytes:
    """A cu_seqlens as int64 bytes: a copy that nobody can change, and the key under which its plan is kept."""
    if is_tensor(array):
        if array.device.type != "cpu":
            raise ValueError(f"{name}: expected a tensor on the CPU, found one on {array.device}")
        array = array.numpy()
    values = np.asarray(array)
    if values.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        raise ValueError(f"{name}: expected int32 or int64, found {values.dtype}")
    if values.ndim != 1 or values.size < 1:
        raise ValueError(f"{name}: expected one dimension of n_segments + 1 entries, found shape {list(values.shape)}")
    return values.astype(np.int64).tobytes()
