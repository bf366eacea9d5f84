"""The C interface (include/omma/{status,host,attention,team}.h) as ctypes sees it, and its errors
as exceptions."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any

LIBRARY_PATH = Path(__file__).with_name("libomma-attention.so")

F32, BF16, F16 = 0, 1, 2
INDEX_INT64 = 1
ENCODER, CAUSAL = 0, 1
MAX_HEAD_DIM = 256

_OK = 0
_MEMORY, _UNSUPPORTED, _INTERNAL = 2, 5, 9

# What fields of the C interface come from; the others have the names of arguments.
_ARGUMENTS = {
    "n_heads": "q: number of heads",
    "head_dim": "q: head dimension",
    "v_head_dim": "v: head dimension",
    "n_tokens": "q: number of tokens",
    "n_kv_tokens": "k: number of tokens",
    "batch": "q: batch",
    "n_segments": "cu_seqlens: number of segments",
    **{f"{name}_{what}_stride": f"{name}: {what} stride" for name in ("q", "k", "v", "out") for what in ("token", "head")},
}


class Error(ctypes.Structure):
    _fields_ = [("status", c_int), ("field", c_char * 48), ("message", c_char * 512)]


class Team(ctypes.Structure):
    _fields_ = [("context", c_void_p), ("n_workers", c_int), ("run", c_void_p)]


class OpenmpTeam(ctypes.Structure):
    _fields_ = [("team", Team), ("parallel", c_void_p)]


class Options(ctypes.Structure):
    _fields_ = [("isa", c_char_p), ("allocator", c_void_p)]


class Spec(ctypes.Structure):
    _fields_ = [
        ("mode", c_int),
        ("dtype", c_int),
        ("n_heads", c_int32),
        ("n_kv_heads", c_int32),
        ("head_dim", c_int32),
        ("v_head_dim", c_int32),
        ("scale", c_float),
        ("n_tokens", c_int64),
        ("n_kv_tokens", c_int64),
        ("index_type", c_int),
        ("n_segments", c_int64),
        ("cu_seqlens", c_void_p),
        ("cu_seqlens_k", c_void_p),
        ("batch", c_int64),
        ("max_seqlen", c_int64),
        ("q_offsets", c_void_p),
        ("window", c_int64),
        ("paged", c_bool),
        ("bf16_kv", c_bool),
        ("int8_kv", c_bool),
        ("int8_scores", c_bool),
    ]


class PlanInfo(ctypes.Structure):
    _fields_ = [
        ("n_segments", c_int64),
        ("n_waves", c_int64),
        ("n_steps", c_int64),
        ("flops", c_double),
        ("plan_bytes", c_size_t),
        ("scale", c_float),
        ("kernel", c_char_p),
    ]


class Tensors(ctypes.Structure):
    _fields_ = [
        ("q", c_void_p),
        ("k", c_void_p),
        ("v", c_void_p),
        ("out", c_void_p),
        ("q_token_stride", c_int64),
        ("q_head_stride", c_int64),
        ("k_token_stride", c_int64),
        ("k_head_stride", c_int64),
        ("v_token_stride", c_int64),
        ("v_head_stride", c_int64),
        ("out_token_stride", c_int64),
        ("out_head_stride", c_int64),
        ("page_table", c_void_p),
        ("page_table_stride", c_int64),
        ("k_page_stride", c_int64),
        ("v_page_stride", c_int64),
    ]


# Handles are plain addresses. Every call gives up the GIL, which is what ctypes does for a CDLL.
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "omma_attention_context_create": (c_int, [POINTER(Options), POINTER(c_void_p), POINTER(Error)]),
    "omma_attention_context_isa": (c_char_p, [c_void_p]),
    "omma_attention_kernel_name": (c_char_p, [c_void_p, c_int, c_int, c_int32, c_int32]),
    "omma_attention_self_test": (c_int, [c_void_p, POINTER(Error)]),
    "omma_attention_plan_create": (c_int, [c_void_p, POINTER(Spec), POINTER(c_void_p), POINTER(Error)]),
    "omma_attention_plan_destroy": (None, [c_void_p]),
    "omma_attention_plan_get_info": (None, [c_void_p, POINTER(PlanInfo)]),
    "omma_attention_plan_workspace_size": (c_size_t, [c_void_p, c_int]),
    "omma_attention_run": (c_int, [c_void_p, POINTER(Tensors), c_void_p, c_size_t, c_void_p, POINTER(Error)]),
    "omma_team_cpu_count": (c_int, []),
    "omma_team_create": (c_int, [c_int, c_bool, c_void_p, POINTER(c_void_p), POINTER(Error)]),
    "omma_team_destroy": (None, [c_void_p]),
    "omma_openmp_team_init": (c_int, [POINTER(OpenmpTeam), c_void_p, c_int, POINTER(Error)]),
}


def bind(path: Path, prototypes: dict[str, tuple[Any, list[Any]]]) -> ctypes.CDLL:
    """A library with the types of its functions. ImportError where it cannot be loaded or lacks one
    of them."""
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"{path}: cannot be loaded ({error}); install the package with pip, or use the tree that `make python` makes"
        ) from error
    for name, (result, arguments) in prototypes.items():
        try:
            function = getattr(loaded, name)
        except AttributeError as error:
            raise ImportError(f"{path}: has no {name}; it belongs to another version of this package") from error
        function.restype = result
        function.argtypes = arguments
    return loaded


library = bind(LIBRARY_PATH, _PROTOTYPES)


def check(status: int, error: Error) -> None:
    """Raises the exception that a failed call's status asks for, with the library's message, in
    which a field of the C interface gives way to the argument."""
    if status == _OK:
        return
    field, message = (text.decode("utf-8", "replace") for text in (error.field, error.message))
    if field in _ARGUMENTS:
        message = _ARGUMENTS[field] + message.removeprefix(field)
    kinds = {_MEMORY: MemoryError, _UNSUPPORTED: NotImplementedError, _INTERNAL: RuntimeError}
    raise kinds.get(status, ValueError)(message)
