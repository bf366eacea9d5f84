"""libomma-service (include/omma/service.h): a model with its engine and the server's endpoints, and
requests to them. Nothing here calls Python from a thread of the library: whoever waits, waits for a
descriptor."""

from __future__ import annotations

import ctypes
import functools
import os
import select
import sys
import threading
import weakref
from ctypes import c_void_p
from pathlib import Path
from typing import Any, NamedTuple

from ._declarations import (
    ATTENTION_FUNCTIONS,
    OMMA_FUNCTIONS,
    SERVICE_FUNCTIONS,
    EngineOptions,
    EngineStats,
    Error,
    ModelInfo,
    ModelOptions,
    ServiceNews,
    ServiceOptions,
)
from ._library import bind, check

LIBRARY_PATH = Path(__file__).with_name("libomma-service.so")
LIBRARY_NAME = "libomma-service.so.1"  # where an installed one is found

_FUNCTIONS = {"omma_attention_layout": ATTENTION_FUNCTIONS["omma_attention_layout"], **OMMA_FUNCTIONS, **SERVICE_FUNCTIONS}
_TABLES = ("omma_attention_layout", "omma_layout")


@functools.cache
def service_library() -> ctypes.CDLL:
    """The library next to this package, or where the system's loader finds it. ImportError where
    there is none."""
    try:
        return bind(LIBRARY_PATH if LIBRARY_PATH.exists() else Path(LIBRARY_NAME), _FUNCTIONS, _TABLES)
    except ImportError as error:
        raise ImportError(
            f"{error}. Models need libomma-service, the whole library: `make python` puts it into its tree, "
            "`pip install ./python` builds it where its packages are installed (tools/install_packages.sh build)"
        ) from error


class Bell:
    """A descriptor that calls ring when there is something to take."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self.descriptor, select.POLLIN)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)

    def ring(self) -> None:
        os.eventfd_write(self.descriptor, 1)

    def wait(self) -> None:
        """Waits in a system call, which a signal's handler may leave by an exception."""
        self._poll.poll()
        self.clear()

    def clear(self) -> None:
        try:
            os.eventfd_read(self.descriptor)
        except BlockingIOError:  # another thread was quicker
            pass


class News(NamedTuple):
    status: int
    stream: bool
    ended: bool
    data: bytes


class Call:
    """A request on its way. Any thread may end it, once or more often."""

    def __init__(self, runtime: Runtime, path: str, body: bytes, bell: Bell) -> None:
        self._runtime, self._bell = runtime, bell
        self._lock = threading.Lock()
        # The library writes into it, so that no interrupt can lose it.
        self._handle = c_void_p()
        runtime.begin(self, self._handle, path, body, bell)

    def __del__(self) -> None:
        self.end()

    def take(self) -> News:
        error, news = Error(), ServiceNews()
        with self._lock:
            if not self._handle:
                raise RuntimeError("the model was closed while it answered")
            check(self._runtime.library.omma_service_take(self._handle, news, error), error)
            data = ctypes.string_at(news.text, news.size) if news.size else b""
        return News(news.status, news.stream, news.ended, data)

    def end(self) -> None:
        """Frees it and wakes whoever waits for it; what is not over is cancelled. In a forked
        child it is the parent's."""
        with self._lock:
            if not self._handle or not self._runtime.is_ours():
                return
            self._runtime.library.omma_service_end(self._handle)
            self._handle.value = None
        if not sys.is_finalizing():
            self._bell.ring()


class Runtime:
    """A model, its engine and its endpoints, opened together and closed together. Thread-safe."""

    def __init__(self, directory: str, model: ModelOptions, engine: EngineOptions, service: ServiceOptions) -> None:
        self.library = service_library()
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._calls: weakref.WeakSet[Call] = weakref.WeakSet()
        self._model, self._engine, self._service = c_void_p(), c_void_p(), c_void_p()
        self.closed = False
        try:
            self._open(os.fsencode(directory), model, engine, service)
        except BaseException:
            self.close()
            raise

    def _open(self, directory: bytes, model: ModelOptions, engine: EngineOptions, service: ServiceOptions) -> None:
        error, library = Error(), self.library
        check(library.omma_model_open(directory, model, self._model, error), error)
        check(library.omma_engine_create(self._model, engine, self._engine, error), error)
        check(library.omma_service_create(service, self._model, self._engine, self._service, error), error)

    def is_ours(self) -> bool:
        """False in a process that was forked off."""
        return self._pid == os.getpid()

    def _check(self) -> None:
        if not self.is_ours():
            raise RuntimeError(
                f"this model was opened by process {self._pid}, and a forked process has none of its threads: open it here, "
                "or use the start method spawn"
            )
        if self.closed:
            raise RuntimeError("this model is closed")

    def begin(self, call: Call, handle: c_void_p, path: str, body: bytes, bell: Bell) -> None:
        self._check()
        error = Error()
        with self._lock:
            self._check()
            self._calls.add(call)
            status = self.library.omma_service_begin(
                self._service, path.encode(), body, len(body), bell.descriptor, handle, error
            )
        check(status, error)

    def info(self) -> ModelInfo:
        self._check()
        found = ModelInfo()
        with self._lock:
            self._check()
            self.library.omma_model_get_info(self._model, found)
        return found

    def max_model_len(self) -> int:
        with self._lock:
            self._check()
            return int(self.library.omma_engine_max_model_len(self._engine))

    def stats(self) -> dict[str, Any]:
        found = EngineStats()
        with self._lock:
            self._check()
            self.library.omma_engine_get_stats(self._engine, found)
        values = {name: getattr(found, name) for name, *_ in EngineStats._fields_}
        return {name: list(value) if isinstance(value, ctypes.Array) else value for name, value in values.items()}

    def close(self) -> None:
        """Ends all calls, whose threads get RuntimeError, and frees everything. Again: nothing."""
        if not self.is_ours():
            return
        with self._lock:
            self.closed = True
            for call in list(self._calls):
                call.end()
            for handle, destroy in (
                (self._service, self.library.omma_service_destroy),
                (self._engine, self.library.omma_engine_destroy),
                (self._model, self.library.omma_model_close),
            ):
                destroy(handle)
                handle.value = None
