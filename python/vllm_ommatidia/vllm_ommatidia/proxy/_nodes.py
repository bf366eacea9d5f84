"""Encoder nodes: which one gets an image, when one is out, and how it comes back."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import logging
import random
import time
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp

from .._node_card import NodeCard, WrongNode, check_fingerprint, read_card
from ._budget import Budget
from ._images import Encoded, Image
from ._log import say
from ._metrics import Metrics

T = TypeVar("T")
CHATS = "/v1/chat/completions"
_BAD_CHECKS = 2  # in a row, of one that is only slow there is one
_BAD_REPLIES = 3  # in a row
_CALM_SECONDS = 60  # after which a node that fails again is not one that keeps failing
# The node has too much to do, or is about to end: the next one takes the image.
_BUSY = (408, 425, 429, 503)
# What a request may raise that got no reply.
FAILURES = (aiohttp.ClientError, asyncio.TimeoutError, OSError)


class NodeFailed(Exception):
    """This node has not encoded the image; another may."""


class NodeRefused(Exception):
    """The node does not take the image, and no other would."""


def drop(task: asyncio.Future[Any]) -> None:
    """Ends it, if it has not ended; how it did is nobody's business any more."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    task.cancel()


def reason_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def ranked(nodes: Iterable[Node], key: str) -> list[Node]:
    """Rendezvous hashing: the nodes in an image's own order. A node that is added becomes the
    first of one image in n, all others keep theirs."""
    return sorted(nodes, key=lambda node: hashlib.blake2b(f"{node.url}\0{key}".encode()).digest(), reverse=True)


@dataclass
class Weights:
    """The one model that all nodes must have: vLLM's where it is known, else the first node's."""

    fingerprint: str | None
    owner: str = "vLLM's model"

    def check(self, url: str, card: NodeCard) -> None:
        if self.fingerprint is None:
            self.fingerprint, self.owner = card.fingerprint, url
        check_fingerprint(url, card, self.fingerprint, self.owner)


class Node:
    def __init__(
        self, url: str, options: argparse.Namespace, weights: Weights, session: aiohttp.ClientSession, metrics: Metrics
    ) -> None:
        self.url, self.is_in = url, False
        self._weights = weights
        self._options, self._session, self._metrics = options, session, metrics
        self._brief = aiohttp.ClientTimeout(total=options.health_timeout)
        self._headers = {"Authorization": f"Bearer {options.encoder_key}"} if options.encoder_key else {}
        self._slots = Budget(options.images_per_node)
        # Done when the node is taken out: who waits for it goes on to the next one.
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._bad_checks = self._bad_replies = 0
        self._out_seconds, self._out_until, self._in_since = options.min_out, 0.0, 0.0
        self._said = ""
        metrics.node_up.labels(url).set(0)

    def take_in(self) -> None:
        self.is_in, self._bad_checks, self._bad_replies, self._said = True, 0, 0, ""
        self._in_since = time.monotonic()
        self._gone = asyncio.get_running_loop().create_future()
        self._metrics.node_up.labels(self.url).set(1)
        say(logging.INFO, "node_in", "the node gets images", node=self.url)

    def take_out(self, reason: str, cut: bool = True) -> None:
        """With `cut`, what the node is doing is given to others at once."""
        if not self.is_in:
            return
        self.is_in = False
        now = time.monotonic()
        calm = now - self._in_since > _CALM_SECONDS
        self._out_seconds = self._options.min_out if calm else min(2 * self._out_seconds, self._options.max_out)
        self._out_until = now + self._out_seconds
        if cut and not self._gone.done():
            self._gone.set_result(None)
        self._metrics.node_up.labels(self.url).set(0)
        self._metrics.node_outs.labels(self.url).inc()
        say(logging.WARNING, "node_out", reason, node=self.url, seconds=self._out_seconds)

    async def _get(self, path: str) -> tuple[int, bytes]:
        async with self._session.get(self.url + path, headers=self._headers, timeout=self._brief) as reply:
            return reply.status, await reply.content.read(1 << 20)

    async def identify(self) -> None:
        """WrongNode where it has another key or model than wanted; NodeFailed where it does not
        answer as one that is up."""
        try:
            health, _ = await self._get("/health")
            status, body = await self._get("/v1/models")
        except FAILURES as error:
            raise NodeFailed(reason_of(error)) from None
        if health != 200 or status >= 500 or status in _BUSY:
            raise NodeFailed(f"status {health} of /health, {status} of /v1/models")
        self._weights.check(self.url, read_card(self.url, bool(self._headers), status, body))

    async def _check_health(self) -> None:
        try:
            status, _ = await self._get("/health")
            reason = f"status {status} of /health"
        except FAILURES as error:
            status, reason = 0, f"no answer to a health check: {reason_of(error)}"
        self._bad_checks = 0 if status == 200 else self._bad_checks + 1
        if self._bad_checks >= _BAD_CHECKS:
            self.take_out(reason, cut=status == 0)  # one that is about to end finishes what it has

    async def _try_again(self) -> None:
        try:
            await self.identify()
            self.take_in()
        except (NodeFailed, WrongNode) as error:
            if isinstance(error, WrongNode) and str(error) != self._said:
                self._said = str(error)
                say(logging.ERROR, "node_wrong", self._said, node=self.url)

    async def has(self, key: str) -> bool:
        """Whether the node still has what it has made: it may have ended since, or begun anew."""
        try:
            async with self._session.get(f"{self.url}/v1/encodings/{key}", headers=self._headers, timeout=self._brief) as reply:
                return reply.status == 200
        except FAILURES as error:
            self.take_out(f"vLLM got no embeddings, and the node does not answer: {reason_of(error)}")
            return False

    async def check(self) -> None:
        if self.is_in:
            await self._check_health()
        elif time.monotonic() >= self._out_until:
            await self._try_again()

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(self._options.health_interval * random.uniform(0.8, 1.2))
            await self.check()

    async def _unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        task, gone = asyncio.ensure_future(work), self._gone
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise NodeFailed("taken out")
        finally:
            drop(task)

    async def _post(self, image: Image, chat: dict[str, Any], request_id: str) -> tuple[int, bytes]:
        total = self._options.encode_timeout + self._options.encode_timeout_per_mb * image.n_bytes / 1e6
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=self._options.connect_timeout)
        headers = self._headers | {"Content-Type": "application/json", "x-request-id": request_id}
        async with self._slots.share(1):
            begin = time.monotonic()
            try:
                body = image.node_request(chat)
                async with self._session.post(self.url + CHATS, data=body, headers=headers, timeout=timeout) as reply:
                    text = await reply.read()
            except FAILURES as error:
                self.take_out(f"no answer to an image: {reason_of(error)}")
                raise NodeFailed(reason_of(error)) from None
            self._metrics.seconds.labels(self.url).observe(time.monotonic() - begin)
            return reply.status, text

    def _judge(self, status: int, text: bytes, key: str) -> Encoded:
        if status == 200:
            try:
                entry = json.loads(text)["ec_transfer_params"][key]
                if entry.get("modality", "image") != "image":
                    raise ValueError
                encoded = Encoded(self.url, dict(entry["metadata"]))
                self._bad_replies = 0
                return encoded
            except (ValueError, LookupError, TypeError, AttributeError):
                text = b"no encoder node's reply"
        reason = f"status {status}: {text[:200].decode(errors='replace')}"
        if status in (401, 403, 404):
            self.take_out(reason)
        elif status in _BUSY:
            pass
        elif 400 <= status < 500:
            raise NodeRefused(reason)
        else:
            self._bad_replies += 1
            if self._bad_replies >= _BAD_REPLIES:
                self.take_out(reason)
        raise NodeFailed(reason)

    async def encode(self, image: Image, chat: dict[str, Any], request_id: str) -> Encoded:
        """NodeFailed or NodeRefused."""
        outcome = "cancelled"
        try:
            encoded = self._judge(*await self._unless_gone(self._post(image, chat, request_id)), image.key)
            outcome = "encoded"
            return encoded
        except NodeFailed:
            outcome = "failed"
            raise
        except NodeRefused:
            outcome = "refused"
            raise
        finally:
            self._metrics.images.labels(self.url, outcome).inc()


async def encode_image(nodes: list[Node], image: Image, chat: dict[str, Any], request_id: str) -> Encoded:
    """By the first of an image's nodes that can. NodeFailed where none can, NodeRefused where it
    is no image for them."""
    reasons = []
    for node in ranked(nodes, image.key):
        if not node.is_in:
            continue
        try:
            return await node.encode(image, chat, request_id)
        except NodeFailed as error:
            reasons.append(f"{node.url}: {error}")
    raise NodeFailed("; ".join(reasons) or "no encoder node is up")


async def identify_all(nodes: list[Node]) -> None:
    """Takes in the nodes that answer. WrongNode where one has a wrong key, or a model that is not
    vLLM's or not that of the others."""
    found = await asyncio.gather(*(node.identify() for node in nodes), return_exceptions=True)
    for node, error in zip(nodes, found):
        if error is None:
            node.take_in()
        elif isinstance(error, NodeFailed):
            say(logging.WARNING, "node_out", f"the node does not answer: {error}", node=node.url)
        else:
            raise error
