"""The operator itself: arguments to plan and addresses, then one call of the library."""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any, NamedTuple

import numpy as np

from . import _teams
from ._declarations import (
    ATTENTION_CAUSAL,
    ATTENTION_ENCODER,
    ATTENTION_MAX_HEAD_DIM,
    F16,
    AttentionTensors,
    Error,
)
from ._library import check, integer, library
from ._plans import Plan, PlanKey, cache
from ._segmentation import Borders, content_of
from ._tensors import (
    LAYOUT_CACHE_ENTRIES,
    Rows,
    Strided,
    TensorT,
    check_apart,
    check_out,
    check_same_kind,
    check_same_type,
    empty_like,
    rows,
    view_of,
)

# A workspace up to this size is kept by its thread for the next call; a larger one is given back.
WORKSPACE_KEEP_BYTES = 64 << 20

_ALIGNMENT = 64


class Workspaces(threading.local):
    """Scratch memory, one per thread, so that calls from many threads share nothing."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def lend(self, size: int) -> tuple[int, object]:
        """An aligned address with `size` bytes after it, and the object that keeps them."""
        memory = self._memory
        if memory.size < size + _ALIGNMENT:
            # Dropped first: the old block and the larger new one need not be there at the same
            # time.
            del memory
            self._memory = np.empty(0, np.uint8)
            memory = np.empty(size + _ALIGNMENT, np.uint8)
            if memory.size <= WORKSPACE_KEEP_BYTES:
                self._memory = memory
        return -(-memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT, memory


_workspaces = Workspaces()


def attention(
    q: TensorT,
    k: TensorT,
    v: TensorT,
    cu_seqlens: Borders | None = None,
    max_seqlen: Any = None,
    scale: float | None = None,
    out: TensorT | None = None,
    *,
    cu_seqlens_k: Borders | None = None,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    causal: bool = False,
    threads: int | None = None,
    team: _teams.TeamName = "own",
) -> TensorT:
    """softmax(scale * q k^T) v within each segment of packed tokens; no mask, no padding, no copies
    of the tensors.

    q, k, v are NumPy arrays or PyTorch CPU tensors of one type: float32, bfloat16 or float16. Their
    form, the same for all:

    - [b, s, H, D]: k and v may have another s, and Hkv heads where Hkv divides H;
    - [T, H, D]: packed tokens, a batch of 1;
    - [b, s, H*D] with `num_heads` given: the last two dimensions fused. Hkv follows from the width
      of k, or is `num_kv_heads`.

    Any stride of tokens and heads is read in place, of each tensor on its own (v may be a view into
    a fused qkv row). The last dimension must be contiguous, and the rows of a batch one token
    stride apart.

    cu_seqlens: int32 or int64, [n + 1]: borders of n segments over the b * s flattened tokens, the
    first 0, not decreasing; segments may be empty. Rows of q after the last border give zeros.
    None: each row of the batch is a segment. A `Segmentation` of it spares calls that share it the
    conversion. cu_seqlens_k: borders over k and v where they differ, with the same n. Queries of a
    segment without keys give zeros. max_seqlen: taken for the sake of other operators' callers, and
    not used. scale: None is 1 / sqrt(D). out: where to write; like q in shape (with the head
    dimension of v) and type, with any such strides, apart from the inputs. causal: each query sees
    the keys up to its own place in its segment; needs as many keys as queries. float32 and
    bfloat16. threads, team: on how many threads of which team to run: "own" (default
    `get_num_threads()`; calls take turns on it, and threads=1 needs none) or "openmp", the OpenMP
    threads that the process already has (default their own number). The result does not depend on
    either by one bit.

    Returns `out` or a new array of q's kind, rank and shape. Raises ValueError, TypeError,
    NotImplementedError (head dimensions over 256, causal float16) or MemoryError with one line that
    names the argument, before anything is written."""
    named: dict[str, Any] = {"q": q, "k": k, "v": v}
    if out is not None:
        named["out"] = out
    check_same_kind(named)
    views = [view_of(name, array) for name, array in named.items()]
    shapes = _shapes(views[0].layout, views[1].layout, views[2].layout, num_heads, num_kv_heads)
    plan = cache.get(_plan_key(shapes, cu_seqlens, cu_seqlens_k, scale, causal))
    result: TensorT
    if out is None:
        result = empty_like(q, shapes.out)
        views.append(view_of("out", result))
    else:
        result = out
        check_same_type(views[0].layout, views[3].layout)
        check_out(out, shapes.out)
        check_apart(views[3], *views[:3])
    out_rows = rows(views[3].layout, num_heads, None, num_heads is not None)
    with _teams.lend(team, threads) as lent:
        if 0 not in shapes.out:
            strides = [stride for tensor in (shapes.q, shapes.k, shapes.v, out_rows) for stride in tensor[-2:]]
            _run(plan, AttentionTensors(*(view.address for view in views), *strides), lent)
    return result


class Shapes(NamedTuple):
    """What follows from the layouts of q, k and v."""

    dtype: int
    q: Rows
    k: Rows
    v: Rows
    out: tuple[int, ...]


@functools.lru_cache(maxsize=LAYOUT_CACHE_ENTRIES)
def _shapes(q: Strided, k: Strided, v: Strided, num_heads: int | None, num_kv_heads: int | None) -> Shapes:
    check_same_type(q, k, v)
    for name, n_heads in (("num_heads", num_heads), ("num_kv_heads", num_kv_heads)):
        if n_heads is not None:
            integer(name, n_heads)
    fused = num_heads is not None
    q_rows = rows(q, num_heads, None, fused)
    k_rows = rows(k, num_kv_heads, q_rows.head_dim, fused)
    v_rows = rows(v, k_rows.n_heads, None, fused)
    rank = len(q.shape)
    # What was meant as [b, s, H*D] reads as [T, H, D] with the wrong numbers in every place.
    hint = "" if fused or rank != 3 else "; if rows hold heads * head_dim elements, give num_heads"
    if hint and q_rows.head_dim > ATTENTION_MAX_HEAD_DIM:
        raise NotImplementedError(
            f"q: head dimension: expected at most {ATTENTION_MAX_HEAD_DIM}, found {q_rows.head_dim} in shape {list(q.shape)}, "
            f"taken as [tokens, heads, head_dim]{hint}"
        )
    for name, other, what, found, expected in (
        ("k", "q", "rank", len(k.shape), rank),
        ("v", "q", "rank", len(v.shape), rank),
        ("k", "q", "batch", k_rows.n_batch, q_rows.n_batch),
        ("v", "q", "batch", v_rows.n_batch, q_rows.n_batch),
        ("v", "k", "tokens", v_rows.n_tokens, k_rows.n_tokens),
        ("k", "q", "head dimension", k_rows.head_dim, q_rows.head_dim),
    ):
        if found != expected:
            raise ValueError(f"{name}: {what} {found}, but {other} has {expected}{hint if what == 'head dimension' else ''}")
    if q_rows.n_heads % k_rows.n_heads != 0:
        raise ValueError(f"k: expected heads that divide those of q ({q_rows.n_heads}), found {k_rows.n_heads}{hint}")
    width = q_rows.n_heads * v_rows.head_dim if fused else v_rows.head_dim
    return Shapes(q.dtype, q_rows, k_rows, v_rows, (*q.shape[:-1], width))


def _plan_key(
    shapes: Shapes,
    cu_seqlens: Borders | None,
    cu_seqlens_k: Borders | None,
    scale: float | None,
    causal: bool,
) -> PlanKey:
    dtype, q, k, v, _ = shapes
    cu_q = None if cu_seqlens is None else content_of("cu_seqlens", cu_seqlens)
    cu_k = None if cu_seqlens_k is None else content_of("cu_seqlens_k", cu_seqlens_k)
    n_tokens, n_kv_tokens = q.n_batch * q.n_tokens, k.n_batch * k.n_tokens
    if cu_q is not None and cu_k is not None and len(cu_q) != len(cu_k):
        raise ValueError(f"cu_seqlens_k: expected {len(cu_q) // 8} entries as in cu_seqlens, found {len(cu_k) // 8}")
    if causal and cu_k is not None:
        raise ValueError("cu_seqlens_k: expected None with causal, where the borders of q are those of k")
    if causal and n_tokens != n_kv_tokens:
        raise ValueError(f"k: expected as many tokens as q has ({n_tokens}) with causal, found {n_kv_tokens}")
    if causal and dtype == F16:
        raise NotImplementedError("causal: expected float32 or bfloat16, but q is float16")
    if n_kv_tokens == 0 and n_tokens > 0:
        cu_q, cu_k = _borders_without_keys(q, cu_q, cu_k)
    return PlanKey(
        ATTENTION_CAUSAL if causal else ATTENTION_ENCODER,
        dtype,
        q.n_heads,
        k.n_heads,
        q.head_dim,
        v.head_dim,
        _checked_scale(scale),
        n_tokens,
        n_kv_tokens,
        q.n_batch,
        cu_q,
        cu_k,
    )


def _borders_without_keys(q: Rows, cu_q: bytes | None, cu_k: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Borders for k and v of no tokens, which the C interface would take for "as many as q": each
    segment gets no keys."""
    if cu_q is None:
        return (np.arange(q.n_batch + 1, dtype=np.int64) * q.n_tokens).tobytes(), bytes(8 * (q.n_batch + 1))
    name, keys = ("cu_seqlens", cu_q) if cu_k is None else ("cu_seqlens_k", cu_k)
    if any(keys):
        raise ValueError(f"{name}: expected no rows of keys in any segment, for k has none")
    return cu_q, cu_k


def _checked_scale(scale: float | None) -> float:
    if scale is None:
        return 0.0
    try:
        value = ctypes.c_float(scale).value
    except TypeError:
        raise TypeError(f"scale: expected a number, found {scale!r}") from None
    if value == 0.0:
        raise ValueError(f"scale: expected a number that is not 0 in float32, found {scale}")
    return value


def _run(plan: Plan, tensors: AttentionTensors, lent: _teams.Lent) -> None:
    size = plan.workspace_size(lent.n_workers)
    address, memory = _workspaces.lend(size)
    error = Error()
    status = library.omma_attention_run(plan.handle, ctypes.byref(tensors), address, size, lent.address, error)
    del memory
    check(status, error)
