"""Places and bytes that requests share."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator


class Budget:
    """A number of units. Who finds too few waits, in order, so that large requests get their
    turn."""

    def __init__(self, units: int) -> None:
        self._free = units
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @contextlib.asynccontextmanager
    async def share(self, n: int) -> AsyncIterator[None]:
        """`n` of the units, which are at most all there are."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((n, turn))
        self._serve()
        try:
            await turn
            yield
        finally:
            if not turn.cancelled():
                self._free += n
            self._serve()

    def _serve(self) -> None:
        while self._waiting:
            n, turn = self._waiting[0]
            if not turn.cancelled():
                if n > self._free:
                    return
                self._free -= n
                turn.set_result(None)
            self._waiting.popleft()
