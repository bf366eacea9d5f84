"""Threads to run on: the library's own pool, or the OpenMP threads that the process already has."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from ._declarations import Error, OpenmpTeam
from ._library import check, integer, library

TeamName = Literal["own", "openmp"]


class Lent(NamedTuple):
    """A team for one run. No address means: the calling thread alone."""

    address: int | None
    n_workers: int


class _OwnPool:
    """One pool for the process. Calls take turns on it; a call for another number of threads makes
    it anew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._address: int | None = None
        self._n_threads = 0

    @contextlib.contextmanager
    def lend(self, n_threads: int) -> Iterator[Lent]:
        with self._lock:
            if self._n_threads != n_threads:
                self._replace(n_threads)
            yield Lent(self._address, n_threads)

    def _replace(self, n_threads: int) -> None:
        team, error = ctypes.c_void_p(), Error()
        # Not pinned: the host program's own threads may be pinned, or be many, and the caller may
        # move between CPUs.
        check(library.omma_team_create(n_threads, False, None, ctypes.byref(team), error), error)
        library.omma_team_destroy(self._address)
        self._address, self._n_threads = team.value, n_threads


class _Openmp(NamedTuple):
    parallel: int
    get_max_threads: Callable[[], int]


def _entries_of(handle: ctypes.CDLL) -> _Openmp | None:
    try:
        parallel = ctypes.cast(handle.GOMP_parallel, ctypes.c_void_p).value
        get_max_threads = handle.omp_get_max_threads
    except AttributeError:
        return None
    return _Openmp(parallel, get_max_threads) if parallel else None


def _find_openmp() -> _Openmp | None:
    """The OpenMP runtime in the order in which PyTorch's own calls are bound: what is preloaded or
    global, then what PyTorch's library was linked with. LLVM's and Intel's runtimes answer to the
    same names, with the same threads."""
    found = _entries_of(ctypes.CDLL(None))
    torch = sys.modules.get("torch")
    if found is None and torch is not None:
        path = Path(str(torch.__file__)).parent / "lib" / "libtorch_cpu.so"
        with contextlib.suppress(OSError):
            found = _entries_of(ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_LAZY))
    return found


_pool = _OwnPool()
_openmp: _Openmp | None = None
_n_threads: int = library.omma_team_cpu_count()


def _after_fork() -> None:
    """A forked child has inherited the pool's memory, but not its threads."""
    global _pool
    _pool = _OwnPool()


os.register_at_fork(after_in_child=_after_fork)


def set_num_threads(n: int) -> None:
    """Sets how many threads calls without `threads` run on (own team). At first: the least
    of this process's CPUs, their cores and its quota."""
    global _n_threads
    _n_threads = _checked_count(n)


def get_num_threads() -> int:
    """How many threads calls without `threads` run on (own team)."""
    return _n_threads


def _checked_count(n: int) -> int:
    count = integer("threads", n)
    if not 1 <= count <= 1024:
        raise ValueError(f"threads: expected 1 to 1024, found {count}")
    return count


@contextlib.contextmanager
def _lend_openmp(n_threads: int | None) -> Iterator[Lent]:
    global _openmp
    if _openmp is None:
        _openmp = _find_openmp()
    if _openmp is None:
        raise RuntimeError('team: "openmp" needs an OpenMP runtime in this process, and none is loaded (import torch first)')
    # Asked for anew each time: it is what torch.set_num_threads sets, and another number would make
    # the runtime build its team anew twice per call.
    count = int(_openmp.get_max_threads()) if n_threads is None else n_threads
    team, error = OpenmpTeam(), Error()
    check(library.omma_openmp_team_init(ctypes.byref(team), _openmp.parallel, count, error), error)
    yield Lent(ctypes.addressof(team), count)


def lend(name: TeamName, n_threads: int | None) -> contextlib.AbstractContextManager[Lent]:
    """A team for the body of a `with`."""
    if n_threads is not None:
        n_threads = _checked_count(n_threads)
    if name == "openmp":
        return _lend_openmp(n_threads)
    if name != "own":
        raise ValueError(f'team: expected "own" or "openmp", found {name!r}')
    count = _n_threads if n_threads is None else n_threads
    return contextlib.nullcontext(Lent(None, 1)) if count == 1 else _pool.lend(count)
