"""From the start to the end of the program."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import random
import signal
import socket
import ssl
import sys
import time
import uuid
from collections.abc import Iterator

import aiohttp
from aiohttp import web

from .._node_card import WrongNode
from ._images import find_images, probe_url, replace_images
from ._log import say, start_log
from ._metrics import Metrics
from ._nodes import FAILURES, Node, NodeFailed, NodeRefused, Weights, encode_image, identify_all, reason_of
from ._options import read_options
from ._server import Proxy
from ._vllm import Vllm

_BAD_CHECKS = 5  # in a row; a busy vLLM may miss some


class Misconfigured(Exception):
    """The program ends; the text is its last line."""


def notify(state: str) -> None:
    """systemd, where it asked for it."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect("\0" + address[1:] if address.startswith("@") else address)
            manager.sendall(state.encode())


def _key_headers(options: argparse.Namespace) -> dict[str, str]:
    return {"Authorization": f"Bearer {options.vllm_keys[0]}"} if options.vllm_keys else {}


async def _wait_for_vllm(proxy: Proxy, options: argparse.Namespace) -> str | None:
    """The name of its model, once it answers."""
    deadline, said = time.monotonic() + options.start_timeout, False
    while True:
        try:
            status, body = await proxy.vllm.get("/v1/models", _key_headers(options))
            if status in (401, 403):
                key = "refuses the key of VLLM_API_KEY" if options.vllm_keys else "requires a key: set VLLM_API_KEY"
                raise Misconfigured(f"{options.vllm} {key}")
            if status == 200:
                break
            reason = f"status {status} of /v1/models"
        except FAILURES as error:
            reason = reason_of(error)
        if time.monotonic() > deadline:
            raise Misconfigured(f"{options.vllm} did not answer for {options.start_timeout:g} s: {reason}")
        if not said:
            say(logging.INFO, "vllm_awaited", f"vLLM does not answer yet: {reason}")
            said = True
        await asyncio.sleep(options.health_interval)
    try:
        return str(json.loads(body)["data"][0]["id"])
    except (ValueError, LookupError, TypeError):
        return None


async def _probe(proxy: Proxy, options: argparse.Namespace, model: str | None) -> None:
    """A small image through a node and vLLM: what does not fit is known now."""
    content = [{"type": "image_url", "image_url": {"url": probe_url(random.randrange(256))}}, {"type": "text", "text": "?"}]
    chat = {"messages": [{"role": "user", "content": content}], "max_tokens": 1, **({"model": model} if model else {})}
    request_id = uuid.uuid4().hex
    images = find_images(chat, False) or []
    try:
        encoded = [await encode_image(proxy.nodes, image, chat, request_id) for image in images]
        replaced = replace_images(chat, images, encoded, options.keep_images)
        status, body = await proxy.vllm.chat(json.loads(replaced), _key_headers(options))
    except NodeRefused as error:
        raise Misconfigured(f"a node refuses the image of the start's probe: {error}") from None
    except (NodeFailed, *FAILURES) as error:
        say(logging.WARNING, "probe", f"not done: {reason_of(error)}")
        return
    if status != 200:
        raise Misconfigured(
            f"{options.vllm} gives status {status} to an image that {encoded[0].node_url} has encoded: it needs "
            "OmmatidiaConnector in --ec-transfer-config, with the same nodes, OMMA_API_KEY and weights: "
            + " ".join(body[:300].decode(errors="replace").split())
        )


async def _start(proxy: Proxy, options: argparse.Namespace) -> None:
    try:
        await identify_all(proxy.nodes)
    except WrongNode as error:
        raise Misconfigured(str(error)) from None
    model = await _wait_for_vllm(proxy, options)
    if not options.skip_probe:
        await _probe(proxy, options, model)
    proxy.has_started = proxy.vllm_is_up = True
    n_up = sum(node.is_in for node in proxy.nodes)
    say(logging.INFO, "ready", f"{n_up} of {len(proxy.nodes)} encoder nodes are up", vllm=options.vllm)
    notify("READY=1")


async def _watch_vllm(proxy: Proxy, options: argparse.Namespace) -> None:
    """For /health alone: a request is sent to a vLLM that seems down all the same, as there is no
    other."""
    n_bad = 0
    while True:
        try:
            status, _ = await proxy.vllm.get("/health", {})
            reason = f"status {status} of /health"
        except FAILURES as error:
            status, reason = 0, reason_of(error)
        n_bad = 0 if status == 200 else n_bad + 1
        is_up = n_bad < _BAD_CHECKS
        if is_up != proxy.vllm_is_up:
            say(logging.INFO if is_up else logging.WARNING, "vllm_up" if is_up else "vllm_down", reason)
        proxy.vllm_is_up = is_up
        proxy.metrics.vllm_up.set(is_up)
        await asyncio.sleep(options.health_interval)


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    if not options.ssl_certfile:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile)
    except (OSError, ssl.SSLError) as error:
        raise Misconfigured(f"--ssl-certfile: {error}") from None
    return context


async def _listen(proxy: Proxy, options: argparse.Namespace) -> tuple[web.AppRunner, web.TCPSite]:
    # Who leaves ends what nodes and vLLM do for him.
    runner = web.AppRunner(
        proxy.application(), handler_cancellation=True, access_log=None, shutdown_timeout=options.shutdown_timeout
    )
    await runner.setup()
    tls = _tls(options)
    site = web.TCPSite(runner, options.host, options.port, ssl_context=tls, backlog=1024)
    try:
        await site.start()
    except OSError as error:
        raise Misconfigured(f"--host {options.host} --port {options.port}: {error.strerror or error}") from None
    port = runner.addresses[0][1]
    say(logging.INFO, "serving", f"serving at {'https' if tls else 'http'}://{options.host}:{port}")
    return runner, site


async def _until_signal(stopped: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
    """Until a signal comes; a task that ends before has an error."""
    waiter = asyncio.ensure_future(stopped.wait())
    done, _ = await asyncio.wait({waiter, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    for task in done & set(tasks):
        task.result()


async def _serve(proxy: Proxy, options: argparse.Namespace, stopped: asyncio.Event) -> None:
    runner, site = await _listen(proxy, options)
    tasks: list[asyncio.Task[None]] = []
    try:
        start = asyncio.ensure_future(_start(proxy, options))
        tasks.append(start)
        await _until_signal(stopped, [start])
        if not stopped.is_set():
            tasks += [asyncio.ensure_future(node.watch()) for node in proxy.nodes]
            tasks.append(asyncio.ensure_future(_watch_vllm(proxy, options)))
            await _until_signal(stopped, tasks[1:])
            say(logging.INFO, "stopping", "running answers may end; a second signal ends them")
            notify("STOPPING=1")
            proxy.is_ending = True
            stopped.clear()
            delay = asyncio.ensure_future(asyncio.sleep(options.shutdown_delay))
            await _until_signal(stopped, [delay])
            await site.stop()
            # aiohttp's own limit holds twice: for answers, then for what it has cancelled.
            cleanup = asyncio.ensure_future(runner.cleanup())
            limit = asyncio.ensure_future(asyncio.sleep(options.shutdown_timeout))
            if not stopped.is_set():
                await _until_signal(stopped, [cleanup, limit])
            if not cleanup.done():
                say(logging.WARNING, "cut_off", "requests without an end are cut off", running=int(proxy.n_running))
            cleanup.cancel()
    finally:
        for task in tasks:
            task.cancel()
        if proxy.is_ending is False:
            await runner.cleanup()


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Event]:
    """Set by a signal. Afterwards the program ends by itself, and signals change nothing."""
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stopped.set)
    try:
        yield stopped
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


async def _main(options: argparse.Namespace) -> None:
    metrics = Metrics()
    # A connection for each request: one that is kept may be closed by the other side in the moment
    # in which it is used again, and a chat must not be sent twice.
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    jar = aiohttp.DummyCookieJar()
    with _signals() as stopped:
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False, cookie_jar=jar) as session:
            weights = Weights(options.fingerprint)
            nodes = [Node(url, options, weights, session, metrics) for url in options.encoder]
            await _serve(Proxy(options, nodes, Vllm(options, session), metrics), options, stopped)


def run() -> int:
    options = read_options()
    start_log(options.log_json, options.log_level)
    try:
        asyncio.run(_main(options))
    except Misconfigured as error:
        say(logging.CRITICAL, "misconfigured", str(error))
        return 1
    return 0
