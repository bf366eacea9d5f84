"""Plans, made once per (segmentation, shape, type) and kept: layers that share a segmentation share
its plan."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

from ._declarations import INDEX_INT64, AttentionOptions, AttentionPlanInfo, AttentionSpec, Error
from ._library import check, library

# Both bound the cache. One step of a model needs a handful of plans of some kilobytes.
PLAN_CACHE_ENTRIES = 64
PLAN_CACHE_BYTES = 64 << 20

_INT32_MAX = 2**31 - 1


class PlanKey(NamedTuple):
    """All that a plan depends on. Segmentations count by their content: their owner may reuse the
    arrays and change them."""

    mode: int
    dtype: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    v_head_dim: int
    scale: float
    n_tokens: int
    n_kv_tokens: int
    n_batch: int
    cu_seqlens: bytes | None
    cu_seqlens_k: bytes | None

    def n_bytes(self) -> int:
        return len(self.cu_seqlens or b"") + len(self.cu_seqlens_k or b"")


class Context:
    """The kernels chosen for this CPU (or for OMMA_ISA), made at first use and kept until the
    process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handle: int | None = None

    def handle(self) -> int:
        if self._handle is None:
            with self._lock:
                if self._handle is None:
                    handle, error = ctypes.c_void_p(), Error()
                    check(library.omma_attention_context_create(ctypes.byref(AttentionOptions()), handle, error), error)
                    self._handle = handle.value
        assert self._handle is not None
        return self._handle

    def forget_lock(self) -> None:
        self._lock = threading.Lock()


class Plan:
    """An immutable plan of the library, destroyed with its last user; an evicted one may still be
    running."""

    def __init__(self, context: int, key: PlanKey) -> None:
        handle, error = ctypes.c_void_p(), Error()
        check(library.omma_attention_plan_create(context, ctypes.byref(_spec_of(key)), handle, error), error)
        self.handle = handle.value
        info = AttentionPlanInfo()
        library.omma_attention_plan_get_info(handle, ctypes.byref(info))
        self.n_bytes = info.plan_bytes + key.n_bytes()
        self.kernel = info.kernel.decode()  # that serves the longest segment

    # The function is bound early: at the interpreter's end the module may be gone before the last
    # plan.
    def __del__(self, destroy: Any = library.omma_attention_plan_destroy) -> None:
        destroy(getattr(self, "handle", None))

    def workspace_size(self, n_workers: int) -> int:
        return int(library.omma_attention_plan_workspace_size(self.handle, n_workers))


def _spec_of(key: PlanKey) -> AttentionSpec:
    # ctypes cuts integers to their type's width without a word; clamped, they reach the library's
    # own limits.
    heads = [min(value, _INT32_MAX) for value in (key.n_heads, key.n_kv_heads, key.head_dim, key.v_head_dim)]
    n_segments = 0 if key.cu_seqlens is None else len(key.cu_seqlens) // 8 - 1
    return AttentionSpec(
        ctypes.sizeof(AttentionSpec),
        key.mode,
        key.dtype,
        *heads,
        key.scale,
        key.n_tokens,
        key.n_kv_tokens,
        INDEX_INT64,
        n_segments,
        _address_of(key.cu_seqlens),
        _address_of(key.cu_seqlens_k),
        key.n_batch,
    )


def _address_of(data: bytes | None) -> int | None:
    """Where a bytes object lies; it must outlive the use of the address."""
    return None if data is None else ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value


class PlanCache:
    """The plans used last, bounded in number and in bytes. Safe to use from any thread."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._plans: OrderedDict[PlanKey, Plan] = OrderedDict()
        self._n_bytes = 0

    def get(self, key: PlanKey) -> Plan:
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
                return plan
        # Made outside the lock: a plan of many segments takes a while, and two threads making the
        # same one do no harm.
        plan = Plan(self._context.handle(), key)
        with self._lock:
            kept = self._plans.get(key)
            if kept is not None:
                return kept
            self._plans[key] = plan
            self._n_bytes += plan.n_bytes
            while len(self._plans) > PLAN_CACHE_ENTRIES or self._n_bytes > PLAN_CACHE_BYTES:
                self._n_bytes -= self._plans.popitem(last=False)[1].n_bytes
        return plan

    def size(self) -> tuple[int, int]:
        """Plans and bytes held."""
        with self._lock:
            return len(self._plans), self._n_bytes

    def forget_lock(self) -> None:
        self._lock = threading.Lock()


context = Context()
cache = PlanCache(context)


def _after_fork() -> None:
    # A thread that held a lock in the parent does not exist in the child and will never give it
    # back.
    context.forget_lock()
    cache.forget_lock()


os.register_at_fork(after_in_child=_after_fork)
