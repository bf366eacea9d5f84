"""What the operator has to know of an array: address, shape, strides, type; for NumPy arrays and
PyTorch CPU tensors.

Nothing here copies a tensor. PyTorch is never imported: a tensor can only come from a program that
has imported it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ._declarations import BF16, F16, F32

if TYPE_CHECKING:
    import torch  # type: ignore[import-not-found, unused-ignore]

TensorT = TypeVar("TensorT", "np.ndarray[Any, Any]", "torch.Tensor")

_NUMPY_TYPES = {np.dtype(np.float32): F32, np.dtype(np.float16): F16}
_TYPE_NAMES = {F32: "float32", BF16: "bfloat16", F16: "float16"}
_ITEM_SIZES = {F32: 4, BF16: 2, F16: 2}

# Shapes and strides whose meaning is remembered.
LAYOUT_CACHE_ENTRIES = 256


class Strided(NamedTuple):
    """One array without its address: the layers of a model ask the same of it again and again.
    Strides count elements."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: int


class View(NamedTuple):
    """One array in memory."""

    address: int
    layout: Strided


class Rows(NamedTuple):
    """A shape as rows of heads: [n_batch * n_tokens, n_heads, head_dim]. A stride of 0 is the C
    interface's default."""

    n_batch: int
    n_tokens: int
    n_heads: int
    head_dim: int
    token_stride: int
    head_stride: int


def _torch() -> Any:
    return sys.modules.get("torch")


@functools.cache
def _tensor_types() -> dict[Any, int]:
    torch = _torch()
    return {torch.float32: F32, torch.bfloat16: BF16, torch.float16: F16}


def is_tensor(array: object) -> bool:
    torch = _torch()
    return torch is not None and isinstance(array, torch.Tensor)


def _numpy_type(array: np.ndarray[Any, Any]) -> int | None:
    dtype = _NUMPY_TYPES.get(array.dtype)
    # ml_dtypes registers its bfloat16 with NumPy; there is nothing to import in order to recognise
    # it.
    if dtype is None and array.dtype.name == "bfloat16" and array.dtype.itemsize == 2:
        return BF16
    return dtype


def _of_array(name: str, array: np.ndarray[Any, Any]) -> View:
    dtype = _numpy_type(array)
    if dtype is None:
        raise ValueError(f"{name}: expected float32, bfloat16 (ml_dtypes) or float16, found {array.dtype}")
    size = array.dtype.itemsize
    if any(stride % size for stride in array.strides) or not array.flags.aligned:
        raise ValueError(f"{name}: elements that are not aligned to their own {size} bytes")
    return View(array.ctypes.data, Strided(name, array.shape, tuple(stride // size for stride in array.strides), dtype))


def _of_tensor(name: str, tensor: Any) -> View:
    torch = _torch()
    if not tensor.is_cpu or tensor.layout is not torch.strided:
        raise ValueError(f"{name}: expected a dense tensor on the CPU, found {tensor.layout} on {tensor.device}")
    dtype = _tensor_types().get(tensor.dtype)
    if dtype is None:
        raise ValueError(f"{name}: expected float32, bfloat16 or float16, found {tensor.dtype}")
    if tensor.is_neg():
        raise ValueError(f"{name}: a view with negation pending; call resolve_neg() on it")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{name}: requires a gradient, and there is none; call under torch.no_grad() or detach()")
    return View(tensor.data_ptr(), Strided(name, tuple(tensor.shape), tensor.stride(), dtype))


def view_of(name: str, array: object) -> View:
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array, whose mask would be ignored; mark borders with cu_seqlens")
    if isinstance(array, np.ndarray):
        return _of_array(name, array)
    if is_tensor(array):
        return _of_tensor(name, array)
    raise TypeError(f"{name}: expected a NumPy array or a PyTorch tensor, found {type(array).__name__}")


def check_same_kind(named: Mapping[str, object]) -> None:
    """Refuses NumPy arrays among tensors: the kind of the result would be unclear."""
    kinds = {name: "PyTorch tensor" if is_tensor(array) else "NumPy array" for name, array in named.items()}
    for name, kind in kinds.items():
        if kind != kinds["q"]:
            raise TypeError(f"{name}: a {kind}, but q is a {kinds['q']}")


def check_same_type(q: Strided, *others: Strided) -> None:
    for other in others:
        if other.dtype != q.dtype:
            raise ValueError(f"{other.name}: {_TYPE_NAMES[other.dtype]}, but q is {_TYPE_NAMES[q.dtype]}")


def _step(name: str, what: str, count: int, stride: int) -> int:
    """A stride as the C interface takes it: 0, its default, where there is no second element to
    reach."""
    if count <= 1:
        return 0
    if stride == 0:
        raise ValueError(
            f"{name}: the {what} are one piece of memory repeated (stride 0), which cannot be expressed; "
            "pass fewer key and value heads, or a copy"
        )
    return stride


def _token_stride(name: str, n_batch: int, n_tokens: int, batch_stride: int, token_stride: int) -> int:
    """The one stride of n_batch * n_tokens rows that lie in two dimensions."""
    if n_batch == 1:
        return _step(name, "tokens", n_tokens, token_stride)
    if n_tokens == 1:
        return _step(name, "tokens", n_batch, batch_stride)
    if batch_stride != n_tokens * token_stride:
        raise ValueError(
            f"{name}: irregular batch stride: expected {n_tokens} tokens * {token_stride} = "
            f"{n_tokens * token_stride} elements, found {batch_stride}; pass the rows of the batch one by one, or a copy"
        )
    return _step(name, "tokens", n_tokens, token_stride)


def _heads(tensor: Strided, n_heads: int | None, head_dim: int | None, fused: bool) -> tuple[int, int, int]:
    """Heads, head dimension and head stride. Of a fused row, either of the first two gives the
    other."""
    name, shape, strides, _ = tensor
    if not fused:
        if n_heads is not None and n_heads != shape[-2]:
            raise ValueError(f"{name}: expected {n_heads} heads as stated, found {shape[-2]} in shape {list(shape)}")
        return shape[-2], shape[-1], strides[-2]
    width = shape[-1]
    if n_heads is None and head_dim is not None:
        n_heads = width // head_dim
    if not n_heads or n_heads < 0 or width % n_heads:
        raise ValueError(f"{name}: rows of {width} elements do not divide into {n_heads} heads of one size")
    return n_heads, width // n_heads, width // n_heads


@functools.lru_cache(maxsize=LAYOUT_CACHE_ENTRIES)
def rows(tensor: Strided, n_heads: int | None, head_dim: int | None, fused: bool) -> Rows:
    """Takes a layout apart.

    Three forms: [b, s, H, D]; [T, H, D], whose batch is 1; and, with `fused`, [b, s, H*D], where
    n_heads or head_dim states how to divide the row."""
    name, shape, strides, _ = tensor
    expected = "[batch, tokens, heads * head_dim]" if fused else "[batch, tokens, heads, head_dim] or [tokens, heads, head_dim]"
    if len(shape) not in ((3,) if fused else (3, 4)):
        raise ValueError(f"{name}: expected shape {expected}, found {list(shape)}")
    heads, dim, head_stride = _heads(tensor, n_heads, head_dim, fused)
    if heads < 1 or dim < 1:
        raise ValueError(f"{name}: expected at least 1 head of at least 1 element, found shape {list(shape)}")
    if len(shape) == 3 and not fused:
        shape, strides = (1, *shape), (0, *strides)
    n_batch, n_tokens = shape[:2]
    if 0 in shape:
        return Rows(n_batch, n_tokens, heads, dim, 0, 0)
    if shape[-1] > 1 and strides[-1] != 1:
        raise ValueError(f"{name}: last dimension not contiguous: expected a stride of 1, found {strides[-1]}")
    token_stride = _token_stride(name, n_batch, n_tokens, strides[0], strides[1])
    return Rows(n_batch, n_tokens, heads, dim, token_stride, _step(name, "heads", heads, head_stride))


@functools.lru_cache(maxsize=LAYOUT_CACHE_ENTRIES)
def _extent(tensor: Strided) -> tuple[int, int]:
    """First element that a tensor reaches and the one after the last, counted from its address."""
    if 0 in tensor.shape:
        return 0, 0
    steps = [(count - 1) * stride for count, stride in zip(tensor.shape, tensor.strides, strict=True)]
    return sum(step for step in steps if step < 0), 1 + sum(step for step in steps if step > 0)


def check_apart(out: View, *inputs: View) -> None:
    """Refuses an output in an input's memory: workers would read what others have written."""
    size = _ITEM_SIZES[out.layout.dtype]
    first, last = _extent(out.layout)
    for other in inputs:
        other_first, other_last = _extent(other.layout)
        distance = other.address - out.address
        if (
            first < last
            and other_first < other_last
            and first * size < distance + other_last * size
            and (distance + other_first * size < last * size)
        ):
            raise ValueError(f"out: its memory overlaps that of {other.layout.name}")


def empty_like(q: Any, shape: tuple[int, ...]) -> Any:
    if is_tensor(q):
        return _torch().empty(shape, dtype=q.dtype, device="cpu")
    return np.empty(shape, dtype=q.dtype)


def empty_f32(like: Any, shape: tuple[int, ...]) -> Any:
    """A float32 array of the kind of `like`."""
    return _torch().empty(shape, dtype=_torch().float32, device="cpu") if is_tensor(like) else np.empty(shape, np.float32)


def check_out(out: Any, shape: tuple[int, ...]) -> None:
    if tuple(out.shape) != shape:
        raise ValueError(f"out: expected shape {list(shape)}, found {list(out.shape)}")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out: read-only")
