"""The libraries, whose declarations are compared with ours when they are loaded, and their errors
as exceptions."""

from __future__ import annotations

import ctypes
import operator
from pathlib import Path
from typing import Any

from . import _declarations
from ._declarations import (
    ATTENTION_FUNCTIONS,
    ERROR_INTERNAL,
    ERROR_MEMORY,
    ERROR_UNSUPPORTED,
    OK,
    STRUCTS,
    Error,
    LayoutRow,
)

LIBRARY_PATH = Path(__file__).with_name("libomma-attention.so")

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

_OTHER_VERSION = "it belongs to another version of this package"


def _offsets(structure: type[ctypes.Structure]) -> dict[str, tuple[int, int]]:
    """Offset and size of each member, and under "" of the whole."""
    fields = {name: getattr(structure, name) for name, *_ in structure._fields_}
    return {"": (0, ctypes.sizeof(structure)), **{name: (field.offset, field.size) for name, field in fields.items()}}


def _check_rows(path: Path, rows: list[LayoutRow]) -> None:
    """Compares declarations with what a library's compiler made of them. ImportError names the
    first struct and member, or constant, that differ."""
    stated: dict[str, dict[str, tuple[int, int]]] = {}
    for row in rows:
        member = row.member.decode() if row.member else ""
        if row.structure:
            stated.setdefault(row.structure.decode(), {})[member] = (row.offset, row.size)
            continue
        ours = getattr(_declarations, member.removeprefix("OMMA_"), row.offset)
        if ours != row.offset:
            raise ImportError(f"{path}: {member} is {row.offset}, this package has {ours}; {_OTHER_VERSION}")
    for name in stated.keys() & STRUCTS.keys():
        ours, theirs = _offsets(STRUCTS[name]), stated[name]
        for member in sorted({*theirs, *ours}, key=lambda name: (name == "", theirs.get(name, (0, 0)))):
            if ours.get(member) != theirs.get(member):
                what = f"struct {name}" + (f", member {member}" if member else "")
                raise ImportError(
                    f"{path}: {what}: {_place(theirs.get(member))}, in this package {_place(ours.get(member))}; {_OTHER_VERSION}"
                )


def _place(found: tuple[int, int] | None) -> str:
    return "not there" if found is None else f"{found[1]} bytes at {found[0]}"


def _check_layouts(path: Path, loaded: ctypes.CDLL, tables: tuple[str, ...]) -> None:
    rows: list[LayoutRow] = []
    for table in tables:
        count = ctypes.c_size_t()
        first = getattr(loaded, table)(ctypes.byref(count))
        rows += first[: count.value]
    _check_rows(path, rows)


def bind(path: Path, prototypes: dict[str, tuple[Any, list[Any]]], tables: tuple[str, ...]) -> ctypes.CDLL:
    """A library with the types of its functions. ImportError where it cannot be loaded, lacks one
    of them, or has other structs or constants: `tables` are the functions that state them."""
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
            raise ImportError(f"{path}: has no {name}; {_OTHER_VERSION}") from error
        function.restype = result
        function.argtypes = arguments
    _check_layouts(path, loaded, tables)
    return loaded


library = bind(LIBRARY_PATH, ATTENTION_FUNCTIONS, ("omma_attention_layout",))


def integer(name: str, value: Any) -> int:
    """The number that an argument is; a TypeError that names it where it is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, found {value!r}") from None


def check(status: int, error: Error) -> None:
    """Raises the exception that a failed call's status asks for, with the library's message, in
    which a field of the C interface gives way to the argument."""
    if status == OK:
        return
    field, message = (text.decode("utf-8", "replace") for text in (error.field, error.message))
    if field in _ARGUMENTS:
        message = _ARGUMENTS[field] + message.removeprefix(field)
    kinds = {ERROR_MEMORY: MemoryError, ERROR_UNSUPPORTED: NotImplementedError, ERROR_INTERNAL: RuntimeError}
    raise kinds.get(status, ValueError)(message)
