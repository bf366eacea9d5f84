"""vLLM's side: a request is sent, and the beginning of the answer is looked at before anything of
it is passed on."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

_MAX_FIRST_EVENT = 4 << 20
_EVENT_END = re.compile(rb"\r?\n\r?\n")


@dataclass
class Answer:
    """An answer that has begun. `status` is what the client gets: of a stream whose first event is
    an error, the error's; `begin` is what has been read of the body."""

    reply: aiohttp.ClientResponse
    status: int
    content_type: str | None
    begin: bytes

    @property
    def is_stream_error(self) -> bool:
        return self.status != self.reply.status

    async def rest(self) -> AsyncIterator[bytes]:
        if not self.is_stream_error:
            async for piece in self.reply.content.iter_any():
                yield piece

    def close(self) -> None:
        self.reply.close()


def _error_of(event: bytes) -> tuple[int, bytes] | None:
    """Status and body of an event that is an error."""
    data = b"".join(line[5:] for line in event.splitlines() if line.startswith(b"data:"))
    try:
        value = json.loads(data)
    except ValueError:
        return None
    error = value.get("error") if isinstance(value, dict) else None
    if not error:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code <= 599 else 500, data.strip()


async def _first_event(reply: aiohttp.ClientResponse) -> tuple[bytes, bytes]:
    """The first event that is no comment, and all that was read until its end."""
    read, at = b"", 0
    while len(read) < _MAX_FIRST_EVENT:
        piece = await reply.content.readany()
        read += piece
        while end := _EVENT_END.search(read, at):
            event, at = read[at : end.start()], end.end()
            if b"data:" in event:
                return event, read
        if not piece:
            break
    return b"", read


class Vllm:
    def __init__(self, options: argparse.Namespace, session: aiohttp.ClientSession) -> None:
        self.url = options.vllm
        self._session = session
        # No other vLLM could be asked: a loop that was busy with large bodies is no reason to fail.
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=10 * options.connect_timeout, sock_read=options.vllm_timeout)
        self._check_timeout = aiohttp.ClientTimeout(total=options.health_timeout, sock_connect=options.connect_timeout)

    async def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        """aiohttp's and asyncio's errors where vLLM does not answer."""
        reply = await self._session.request(
            method, self.url + path, headers=headers, data=body, timeout=self._timeout, allow_redirects=False
        )
        try:
            if reply.status == 200 and reply.content_type == "text/event-stream":
                event, begin = await _first_event(reply)
                error = _error_of(event)
                if error:
                    return Answer(reply, error[0], "application/json", error[1])
                return Answer(reply, reply.status, None, begin)
            return Answer(reply, reply.status, None, b"")
        except BaseException:
            reply.close()
            raise

    async def get(self, path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        async with self._session.get(self.url + path, headers=headers, timeout=self._check_timeout) as reply:
            return reply.status, await reply.content.read(1 << 20)

    async def chat(self, body: dict[str, Any], headers: Mapping[str, str]) -> tuple[int, bytes]:
        """A small chat of the proxy's own."""
        answer = await self.ask("POST", "/v1/chat/completions", {"Content-Type": "application/json", **headers}, json.dumps(body).encode())
        try:
            return answer.status, await answer.reply.content.read(1 << 20)
        finally:
            answer.close()
