"""What clients see: requests come in, images go to nodes, answers go out."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hmac
import logging
import time
import uuid
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from aiohttp import hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ._budget import Budget
from ._images import Encoded, Image, find_images, read_chat, replace_images
from ._log import say
from ._metrics import Metrics
from ._nodes import CHATS, FAILURES, Node, NodeFailed, NodeRefused, drop, encode_image, reason_of
from ._vllm import Answer, Vllm

T = TypeVar("T")
# They end at each hop; the body is sent on uncompressed, and answers are asked for so.
_HOP_HEADERS = {
    "connection", "keep-alive", "proxy-connection", "transfer-encoding", "content-length", "content-encoding", "accept-encoding", "host",
    "expect", "upgrade", "te", "trailer",
}
# What vLLM says to a chat that it cannot answer from embeddings, or not at all.
_MAY_BE_EMBEDDINGS = (400, 422, 500)
_LEFT = 499
_ATTEMPTS = 3  # to get an answer from embeddings


class Refused(Exception):
    """An answer of the proxy's own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Proxy:
    def __init__(self, options: argparse.Namespace, nodes: list[Node], vllm: Vllm, metrics: Metrics) -> None:
        self.nodes, self.vllm, self.metrics = nodes, vllm, metrics
        # Whether the start's checks are over; what /health states.
        self.has_started = self.vllm_is_up = self.is_ending = False
        self._options = options
        self._n_waiting = 0
        self._places, self._bytes = Budget(options.max_requests), Budget(options.max_bytes)

    @property
    def n_running(self) -> float:
        return self.metrics.registry.get_sample_value("omma_proxy:requests_running") or 0

    def application(self) -> web.Application:
        app = web.Application(client_max_size=self._options.max_body_bytes)
        app.router.add_get("/health", self._health)
        app.router.add_get("/live", self._live)
        app.router.add_get("/metrics", self._show_metrics)
        app.router.add_route("*", "/{path:.*}", self._handle)
        return app

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self.vllm_is_up and not self.is_ending else 503)

    async def _live(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _show_metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self.metrics.registry), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE_LATEST})

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        begin, status = time.monotonic(), _LEFT
        request_id = request.headers.get("x-request-id") or uuid.uuid4().hex
        try:
            response = await self._answer(request, request_id)
            status = response.status
        except (Refused, web.HTTPRequestEntityTooLarge) as error:
            status = error.status
            text = str(error) if isinstance(error, Refused) else f"The body is larger than {self._options.max_body_bytes} bytes."
            response = _failure(status, text)
        except (ConnectionError, asyncio.CancelledError):
            raise  # the client has left
        finally:
            path = CHATS if request.path == CHATS else "other"
            self.metrics.requests.labels(path, str(status)).inc()
            values = {"client": request.remote, "method": request.method, "path": request.path, "status": status}
            say(logging.DEBUG, "access", "", **values, request_id=request_id, ms=round((time.monotonic() - begin) * 1000))
        return response

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        if self._n_waiting >= self._options.max_waiting:
            raise Refused(503, "Too many requests wait.")
        self._n_waiting += 1
        self.metrics.waiting.inc()
        counted = True
        try:
            async with self._places.share(1):
                self._n_waiting -= 1
                self.metrics.waiting.dec()
                counted = False
                with self.metrics.running.track_inprogress():
                    yield
        finally:
            if counted:
                self._n_waiting -= 1
                self.metrics.waiting.dec()

    async def _answer(self, request: web.Request, request_id: str) -> web.StreamResponse:
        if not self.has_started:
            raise Refused(503, "vLLM does not answer yet.")
        is_chat = request.method == "POST" and request.path == CHATS
        if is_chat and self._options.vllm_keys and not self._has_key(request):
            raise Refused(401, "Unauthorized")
        async with self._place():
            answer = await self._ask(request, request_id, is_chat)
            try:
                return await _pass_on(request, answer)
            finally:
                answer.close()

    def _has_key(self, request: web.Request) -> bool:
        found = request.headers.get(hdrs.AUTHORIZATION, "")
        given = found[7:].strip() if found[:7].lower() == "bearer " else ""
        return any([hmac.compare_digest(given.encode(), key.encode()) for key in self._options.vllm_keys])

    async def _ask(self, request: web.Request, request_id: str, is_chat: bool) -> Answer:
        """vLLM's answer; what the body takes is given back when it has begun."""
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_HEADERS}
        headers |= {"Accept-Encoding": "identity", "x-request-id": request_id}
        if not request.can_read_body:
            return await self._send(request, headers, None)
        is_known = request.content_length is not None and hdrs.CONTENT_ENCODING not in request.headers
        size = request.content_length if is_known and request.content_length is not None else self._options.max_body_bytes
        if size > self._options.max_body_bytes:
            raise web.HTTPRequestEntityTooLarge(self._options.max_body_bytes, size)
        async with self._bytes.share(size):
            with _added(self.metrics.held_bytes, size):
                body = await self._read(request)
                answer = await self._chat(request, headers, body, request_id) if is_chat else None
                return answer or await self._send(request, headers, body)

    async def _read(self, request: web.Request) -> bytes:
        """Whoever stops sending gives up the bytes that others wait for."""
        body = bytearray()
        try:
            while piece := await _within(self._options.client_timeout, request.content.readany()):
                body += piece
                if len(body) > self._options.max_body_bytes:
                    raise web.HTTPRequestEntityTooLarge(self._options.max_body_bytes, len(body))
        except asyncio.TimeoutError:
            raise Refused(408, f"Nothing of the body came for {self._options.client_timeout:g} s.") from None
        return bytes(body)

    async def _send(self, request: web.Request, headers: dict[str, str], body: bytes | None) -> Answer:
        try:
            return await self.vllm.ask(request.method, request.raw_path, headers, body)
        except asyncio.TimeoutError as error:
            raise Refused(504, f"vLLM: {reason_of(error)}") from None
        except FAILURES as error:
            raise Refused(502, f"vLLM: {reason_of(error)}") from None

    async def _chat(self, request: web.Request, headers: dict[str, str], body: bytes, request_id: str) -> Answer | None:
        """The answer from embeddings. None: vLLM gets the chat as it came."""
        chat = read_chat(body)
        images = find_images(chat, self._options.trust_media_uuids) if chat else None
        if not chat or images == []:
            self.metrics.chats.labels("text", "").inc()
            return None
        # With such settings vLLM has another name for an image than its uuid, and finds nothing.
        if not images or chat.get("mm_processor_kwargs") or not isinstance(chat.get("ec_transfer_params") or {}, dict):
            return self._give_images("settings", "", request_id)
        return await self._answer_from_embeddings(request, headers, chat, images, request_id)

    async def _answer_from_embeddings(
        self, request: web.Request, headers: dict[str, str], chat: dict[str, Any], images: list[Image], request_id: str
    ) -> Answer | None:
        reason = ""
        for _ in range(_ATTEMPTS):
            try:
                encoded = await self._encode_all(chat, images, request_id)
            except NodeRefused as error:
                return self._give_images("refused", str(error), request_id)
            except NodeFailed as error:
                return self._give_images("no_node", str(error), request_id)
            answer = await self._send(request, headers, replace_images(chat, images, encoded, self._options.keep_images))
            if answer.status not in _MAY_BE_EMBEDDINGS:
                self.metrics.chats.labels("embeddings", "").inc()
                return answer
            reason = answer.begin[:200].decode(errors="replace") or f"status {answer.status}"
            answer.close()
            # vLLM fetches embeddings after the proxy has its reply. Where they are lost since then,
            # they are made again, by another node where theirs is gone.
            if all(await asyncio.gather(*(self._is_there(image, made) for image, made in zip(images, encoded)))):
                break
        return self._give_images("vllm", reason, request_id)

    async def _is_there(self, image: Image, made: Encoded) -> bool:
        (node,) = [node for node in self.nodes if node.url == made.node_url]
        return await node.has(image.key)

    def _give_images(self, reason: str, text: str, request_id: str) -> None:
        self.metrics.chats.labels("images", reason).inc()
        level = logging.DEBUG if reason == "settings" else logging.WARNING
        say(level, "images_to_vllm", text, reason=reason, request_id=request_id)

    async def _encode_all(self, chat: dict[str, Any], images: list[Image], request_id: str) -> list[Encoded]:
        """The first failure ends what the others are doing."""
        tasks = [
            asyncio.ensure_future(encode_image(self.nodes, image, chat, f"{request_id}-enc-{i}")) for i, image in enumerate(images)
        ]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()


async def _within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """asyncio.wait_for, which before Python 3.12 does not end when it is cancelled at the moment in
    which the work is done."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
        raise asyncio.TimeoutError
    finally:
        drop(task)


@contextlib.contextmanager
def _added(gauge: Any, n: int):  # type: ignore[no-untyped-def]
    gauge.inc(n)
    try:
        yield
    finally:
        gauge.dec(n)


def _failure(status: int, message: str) -> web.Response:
    error = {"message": message, "type": "proxy_error", "param": None, "code": status}
    return web.json_response({"error": error}, status=status, headers={"Retry-After": "1"} if status == 503 else None)


async def _pass_on(request: web.Request, answer: Answer) -> web.StreamResponse:
    """Piece by piece. What breaks off at vLLM breaks off at the client too."""
    upstream = answer.reply
    response = web.StreamResponse(status=answer.status, reason=None if answer.is_stream_error else upstream.reason)
    for name, value in upstream.headers.items():
        if name.lower() not in _HOP_HEADERS and name.lower() not in ("date", "server"):
            response.headers.add(name, value)
    if answer.content_type:
        response.headers[hdrs.CONTENT_TYPE] = answer.content_type
    elif upstream.content_length is not None and request.method != hdrs.METH_HEAD:
        response.content_length = upstream.content_length
    await response.prepare(request)
    try:
        if answer.begin:
            await response.write(answer.begin)
        async for piece in answer.rest():
            await response.write(piece)
    except FAILURES as error:
        if request.transport is None or request.transport.is_closing():
            raise ConnectionResetError from None
        say(logging.WARNING, "cut_off", f"vLLM's answer broke off: {reason_of(error)}", path=request.path)
        request.transport.abort()
        return response
    await response.write_eof()
    return response
