"""What the library does on this machine, for people to read."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from . import _teams
from ._declarations import ATTENTION_CAUSAL, ATTENTION_ENCODER, BF16, F16, F32, Error
from ._library import LIBRARY_PATH, check, library
from ._plans import Plan, PlanKey, context

# The head dimensions of the usual vision towers.
_HEAD_DIMS = (64, 72, 80, 88, 96, 104, 112, 128)

# Encoder segments of up to that many tokens may have a kernel of their own.
_WINDOW_TOKENS = 64


def _kernel(mode: int, dtype: int, head_dim: int) -> str | None:
    name = library.omma_attention_kernel_name(context.handle(), mode, dtype, head_dim, head_dim)
    return None if name is None else str(name.decode())


def _window_kernel(dtype: int, head_dim: int) -> str | None:
    """The kernel of encoder segments of up to _WINDOW_TOKENS, which a plan of one such segment
    names."""
    if _kernel(ATTENTION_ENCODER, dtype, head_dim) is None:
        return None
    window = PlanKey(ATTENTION_ENCODER, dtype, 1, 1, head_dim, head_dim, 0.0, _WINDOW_TOKENS, _WINDOW_TOKENS, 1, None, None)
    return str(Plan(context.handle(), window).kernel)


def info(head_dims: Iterable[int] = _HEAD_DIMS) -> dict[str, Any]:
    """The library in use, its CPU level, the number of threads, and the kernel per mode, type and
    head dimension.

    "windows" are the encoder's segments of up to 64 tokens. A kernel of None is a combination that
    is refused."""
    dims = tuple(head_dims)
    return {
        "library": str(LIBRARY_PATH),
        "isa": library.omma_attention_context_isa(context.handle()).decode(),
        "threads": _teams.get_num_threads(),
        "kernels": {
            form_name: {
                type_name: {head_dim: kernel(dtype, head_dim) for head_dim in dims}
                for type_name, dtype in (("float32", F32), ("bfloat16", BF16), ("float16", F16))
            }
            for form_name, kernel in (
                ("encoder", partial(_kernel, ATTENTION_ENCODER)),
                ("windows", _window_kernel),
                ("causal", partial(_kernel, ATTENTION_CAUSAL)),
            )
        },
    }


def self_test() -> None:
    """Compares the kernels in use with the scalar reference in double precision; RuntimeError names
    the first that is off."""
    error = Error()
    check(library.omma_attention_self_test(context.handle(), error), error)
