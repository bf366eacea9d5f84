"""omma-encoder-proxy between a client, encoder nodes and a server that stands for vLLM."""

import asyncio
import hashlib
import json
import os
import re
import signal
import socket
import threading
import time
import types

import pytest

from fake_vllm import KEY, N_EVENTS, FakeVllm
from images import data_url, image_part, png, text_part
from proxy_process import PACKAGE, ProxyProcess, environment, run_to_end, words
from server_process import ServerProcess, check_output, make_command, read_all, read_until
from waiting import wait_for

pytestmark = pytest.mark.real_only
DEAD = "http://127.0.0.1:1"
NODE_KEY = "of the nodes"


@pytest.fixture(scope="module")
def vllm():
    made = FakeVllm()
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def nothing_yet(vllm):
    vllm.forget()


def url_of(node):
    return f"http://127.0.0.1:{node.port}"


@pytest.fixture(scope="module")
def node(request, kind):
    process = ServerProcess(make_command(request.config, kind, {"mm_encoder_only": True, "dtype": "f32"}))
    yield process
    process.stop()
    check_output(process)


@pytest.fixture(scope="module")
def proxy(node, vllm):
    process = ProxyProcess(vllm.url, url_of(node), log_level="debug")
    yield process
    assert process.stop() == 0


@pytest.fixture
def start_proxy(vllm):
    made = []

    def run(*nodes, **options):
        made.append(ProxyProcess(vllm.url, *nodes, **options))
        return made[-1]

    yield run
    for process in made:
        assert process.stop() == 0, process.output


def uuid_of(data):
    return hashlib.sha256(data_url(data).encode()).hexdigest()


def said(proxy, text):
    wait_for(lambda: text in proxy.read_output(), text)


def answer(reply):
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]["content"]


def test_images_become_grids_and_uuids(proxy, node, vllm):
    images = [png(64, 96), png(32, 32, 5)]
    parts = [image_part(images[0]), text_part("and"), image_part(images[1]), image_part(images[0])]
    headers = {"Authorization": "Bearer key", "x-request-id": "mine"}
    assert answer(proxy.chat(parts, temperature=0, headers=headers)) == "embeddings"
    (body,) = vllm.bodies
    assert body["temperature"] == 0 and (vllm.headers[0]["Authorization"], vllm.headers[0]["x-request-id"]) == ("Bearer key", "mine")
    content = body["messages"][0]["content"]
    assert [part["type"] for part in content] == ["image_embeds", "text", "image_embeds", "image_embeds"]
    assert [part["uuid"] for part in content if "uuid" in part] == [uuid_of(images[0]), uuid_of(images[1]), uuid_of(images[0])]
    assert all(len(part["image_embeds"]["image_grid_thw"]) == 3 for part in content if "uuid" in part)
    assert body["ec_transfer_params"] == {uuid_of(data): {"modality": "image", "encoder_url": url_of(node)} for data in images}
    assert node.get(f"/v1/encodings/{uuid_of(images[1])}").status == 200
    said(proxy, "request_id=mine")


def test_the_name_of_the_model_is_for_vllm_alone(proxy, vllm):
    """Node and vLLM may serve the same model under different names."""
    assert answer(proxy.chat([image_part()], model="as vLLM calls it")) == "embeddings"
    assert vllm.bodies[0]["model"] == "as vLLM calls it"


def test_the_rest_is_handed_on(proxy, vllm):
    assert proxy.get("/v1/models").json["data"][0]["id"] == "its name"
    assert proxy.get("/v1/no%2Fsuch?a=%20b").json == {"path": "/v1/no%2Fsuch?a=%20b"}
    assert answer(proxy.chat("hello")) == "text" and proxy.post("/v1/completions", {"prompt": "x"}).status == 200
    assert vllm.bodies == [{"messages": [{"role": "user", "content": "hello"}]}, {"prompt": "x"}]


@pytest.mark.parametrize("parts, got", [
    ([image_part(b"no image")], "images"), ([{"type": "image_url"}], "images"), ([{"type": "image_url", "image_url": {"url": 7}}], "images"),
])
def test_what_a_node_refuses_goes_to_vllm_as_it_came(proxy, vllm, parts, got):
    assert answer(proxy.chat(parts)) == got
    assert vllm.bodies == [{"messages": [{"role": "user", "content": parts}]}]
    assert proxy.metric("node_up") == 1


def test_settings_that_change_an_image_s_name_leave_it_to_vllm(proxy, vllm):
    assert answer(proxy.chat([image_part()], mm_processor_kwargs={"max_pixels": 5000})) == "images"
    assert answer(proxy.chat([image_part()], ec_transfer_params=[1])) == "images"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"messages": 3}', b"[" * 100_000, b'{"messages": [{"content": 1e999}, 3]}'])
def test_what_is_no_chat_is_vllm_s_to_refuse(proxy, vllm, body):
    vllm.statuses[:] = [418]
    connection = socket.create_connection(("127.0.0.1", proxy.port))
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with connection:
        connection.sendall(head.replace("completions", "chat/completions").encode() + body)
        assert b"HTTP/1.1 " in read_all(connection)
    assert proxy.get("/health").status == 200


def test_images_are_vllm_s_where_it_fails_with_embeddings_that_are_there(proxy, vllm):
    for status in (500, 400):
        vllm.bodies.clear()
        vllm.statuses[:] = [status]
        assert answer(proxy.chat([image_part()])) == "images"
        assert [body["messages"][0]["content"][0]["type"] for body in vllm.bodies] == ["image_embeds", "image_url"]


def test_an_error_at_the_beginning_of_a_stream_has_its_status(proxy, vllm):
    """vLLM has sent status 200 by then."""
    vllm.fails_stream = True
    reply = proxy.chat("hello", stream=True)
    assert (reply.status, reply.error["code"], reply.headers["Content-Type"]) == (500, 500, "application/json")
    vllm.fails_stream = False
    reply = proxy.chat([image_part()], stream=True)
    assert reply.status == 200 and reply.body.count(b"data: ") == N_EVENTS + 1 and b"embeddings" in reply.body


def test_lost_embeddings_are_made_again(proxy, vllm, node, start, start_proxy):
    """The node forgets at once what it publishes: vLLM fails, and gets the images in the end."""
    forgetful = start(mm_encoder_only=True, dtype="f32", encodings_bytes=1)
    other = start_proxy(url_of(forgetful), skip_probe=True)
    for stream in (False, True):
        vllm.bodies.clear()
        reply = other.chat([image_part()], stream=stream)
        assert reply.status == 200 and b"images" in reply.body
        kinds = [body["messages"][0]["content"][0]["type"] for body in vllm.bodies]
        assert kinds == ["image_embeds"] * 3 + ["image_url"]


def test_an_answer_that_breaks_off_breaks_off(proxy, vllm):
    vllm.breaks_off = True
    with proxy.open_stream() as connection:
        data = read_all(connection)
    assert data.startswith(b"HTTP/1.1 200") and b"text" in data and not data.endswith(b"0\r\n\r\n")
    said(proxy, "cut_off")


def test_without_nodes_vllm_encodes(start_proxy):
    proxy = start_proxy(DEAD)
    assert answer(proxy.chat([image_part()])) == "images"
    assert proxy.metric('chats_total{reason="no_node",sent="images"}') == 1


def test_vllm_that_is_gone_and_back(vllm, node, start_proxy):
    proxy = start_proxy(url_of(node), health_interval=0.05)
    vllm.stop()
    reply = proxy.chat([image_part()])
    assert reply.status == 502 and reply.error["code"] == 502
    wait_for(lambda: proxy.get("/health").status == 503, "/health that fails")
    vllm.restart()
    wait_for(lambda: proxy.get("/health").status == 200, "/health that is well")
    assert answer(proxy.chat([image_part()])) == "embeddings"


def test_it_waits_for_vllm(vllm, node):
    vllm.stop()
    proxy = ProxyProcess(vllm.url, url_of(node), ready=False, health_interval=0.05)
    try:
        said(proxy, "vLLM does not answer yet")
        assert (proxy.get("/health").status, proxy.get("/live").status, proxy.chat("x").status) == (503, 200, 503)
        vllm.restart()
        wait_for(lambda: proxy.get("/health").status == 200, "a proxy that is ready")
    finally:
        assert proxy.stop() == 0


# Keys and models that do not fit.


def ends_with(proxy):
    wait_for(lambda: proxy.process.poll() is not None, "the end of the program")
    return proxy.stop(), proxy.read_output().strip().splitlines()[-1]


def test_wrong_keys_end_the_start(vllm, node, start):
    closed = start(mm_encoder_only=True, dtype="f32", api_key=NODE_KEY)

    def line(*nodes, keys=None):
        status, last = ends_with(ProxyProcess(vllm.url, *map(url_of, nodes), keys=keys, ready=False))
        assert status == 1
        return last

    assert f"{url_of(closed)} requires a key: set OMMA_API_KEY" in line(node, closed)
    assert f"{url_of(closed)} refuses the key of OMMA_API_KEY" in line(closed, keys={"OMMA_API_KEY": "another"})
    vllm.wants_key = True
    assert f"{vllm.url} requires a key: set VLLM_API_KEY" in line(node)
    assert f"{vllm.url} refuses the key of VLLM_API_KEY" in line(node, keys={"VLLM_API_KEY": "another"})


def test_right_keys_are_for_their_server_alone(vllm, start, tmp_path):
    closed = start(mm_encoder_only=True, dtype="f32", api_key=NODE_KEY)
    (tmp_path / "keys").write_text(f"{KEY}\nsecond\n")
    vllm.wants_key, vllm.node_key = True, NODE_KEY
    proxy = ProxyProcess(vllm.url, url_of(closed), keys={"OMMA_API_KEY": NODE_KEY}, vllm_api_key_file=tmp_path / "keys")
    try:
        assert proxy.chat([image_part()]).status == proxy.chat([image_part()], headers={"Authorization": "Bearer no"}).status == 401
        vllm.headers.clear()
        assert answer(proxy.chat([image_part()], headers={"Authorization": f"Bearer {KEY}"})) == "embeddings"
        assert [headers["Authorization"] for headers in vllm.headers] == [f"Bearer {KEY}"]
        assert answer(proxy.chat([image_part()], headers={"Authorization": "Bearer second"})) == "embeddings"
    finally:
        assert proxy.stop() == 0
    assert NODE_KEY not in proxy.read_output() and KEY not in proxy.read_output()


def test_another_model_ends_the_start(vllm, node, model, request, kind):
    golden = PACKAGE.parents[1] / "tests" / "golden"
    other = next(path for path in (golden / "qwen3_vl_wide", golden / "qwen3_vl_tied") if path.resolve() != os.path.realpath(model))
    status, last = ends_with(ProxyProcess(vllm.url, url_of(node), ready=False, checkpoint=other))
    assert status == 1 and "vLLM's model has" in last and url_of(node) in last
    right = ProxyProcess(vllm.url, url_of(node), checkpoint=model)
    assert right.stop() == 0
    command = make_command(request.config, kind, {"mm_encoder_only": True, "dtype": "f32"})
    command[command.index("--model") + 1] = str(other)
    foreign = ServerProcess(command)
    try:
        status, last = ends_with(ProxyProcess(vllm.url, url_of(node), url_of(foreign), ready=False))
        assert status == 1 and "has a model with the fingerprint" in last and url_of(foreign) in last and url_of(node) in last
    finally:
        foreign.stop()


def test_what_is_no_encoder_node_ends_the_start(vllm, server):
    status, last = ends_with(ProxyProcess(vllm.url, url_of(server), ready=False))
    assert status == 1 and "is no encoder node (omma serve --mm-encoder-only)" in last
    status, last = ends_with(ProxyProcess(vllm.url, vllm.url, ready=False))
    assert status == 1 and "is no encoder node" in last


def test_a_vllm_without_the_connector_ends_the_start(vllm, node, start_proxy):
    vllm.knows_embeds = False
    status, last = ends_with(ProxyProcess(vllm.url, url_of(node), ready=False))
    assert status == 1 and "needs OmmatidiaConnector" in last and "image_embeds are not for this model" in last
    proxy = start_proxy(url_of(node), keep_images=True)
    vllm.bodies.clear()
    data = png(40, 40)
    assert answer(proxy.chat([image_part(data)])) == "images"
    part = vllm.bodies[-1]["messages"][0]["content"][0]
    assert (part["type"], part["uuid"]) == ("image_url", uuid_of(data)) and part["image_url"]["url"] == data_url(data)


@pytest.mark.parametrize("words, variables, reason", [
    ([], {}, "--encoder and --vllm are needed"),
    (["--vllm", "x"], {}, "argument --vllm: expected http"),
    (["--vllm", "http://user:word@x"], {}, "argument --vllm: expected http"),
    (["--vllm", "http://x", "--encoder", "http://x", "--port", "70000"], {}, "argument --port: expected int from 0 to 65535"),
    (["--vllm", "http://x", "--encoder", "http://x"], {"OMMA_PROXY_MAX_REQUESTS": "none"}, "argument --max-requests"),
    (["--vllm", "http://x"], {"OMMA_PROXY_ENCODER": "http://a,ftp://b"}, "OMMA_PROXY_ENCODER: expected http"),
    (["--vllm", "http://x", "--encoder", "http://x", "--checkpoint", "/none"], {}, "--checkpoint: "),
    (["--vllm", "http://x", "--encoder", "http://x", "--fingerprint", "abc"], {}, "64 hexadecimal digits"),
    (["--vllm", "http://x", "--encoder", "http://x", "--encoder-api-key-file", "/none"], {}, "/none: "),
    (["--vllm", "http://x", "--encoder", "http://x"], {"OMMA_API_KEY": "a\nb"}, "OMMA_API_KEY: a key has characters"),
    (["--vllm", "http://x", "--encoder", "http://x", "--max-bytes", "1K"], {}, "--max-bytes must not be less"),
])
def test_a_wrong_command_line_is_one_line(words, variables, reason):
    status, last = run_to_end(*words, **variables)
    assert status == 2 and reason in last and "\n" not in last


def test_options_come_from_the_environment_too(vllm, node):
    variables = {"OMMA_PROXY_ENCODER": f"{url_of(node)}, {DEAD}", "OMMA_PROXY_VLLM": vllm.url, "OMMA_PROXY_LOG_JSON": "1", "OMMA_PROXY_PORT": "0"}
    process = ServerProcess([word for word in words("x")[:3]], env=environment(**variables))
    try:
        wait_for(lambda: process.get("/health").status == 200, "a proxy that is ready")
        assert answer(process.chat([image_part()])) == "embeddings"
    finally:
        assert process.stop() == 0
    lines = [json.loads(line) for line in process.read_output().splitlines()]
    assert {"node_out", "serving", "ready", "node_in", "stopping"} <= {line["event"] for line in lines}
    assert all({"time", "level", "event", "message"} <= line.keys() for line in lines)


# Limits, and clients that leave.


def test_bodies_have_a_limit(vllm, node, start_proxy):
    proxy = start_proxy(url_of(node), max_body_bytes="8K", max_bytes="16K")
    assert answer(proxy.chat([image_part()])) == "embeddings"
    assert proxy.chat("x" * 9000).status == 413
    with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + b"ffff\r\n" + b"x" * 65535)
        assert read_until(connection, b"\r\n").startswith(b"HTTP/1.1 413")
    body = json.dumps({"messages": [{"role": "user", "content": [image_part()]}]}).encode()
    with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        assert b"embeddings" in read_all(connection)


def test_requests_beyond_the_limit_wait_and_then_are_refused(vllm, node, start_proxy):
    proxy = start_proxy(url_of(node), max_requests=2, max_waiting=3)
    vllm.hangs = threading.Event()
    replies = []
    threads = [threading.Thread(target=lambda: replies.append(proxy.chat("hello"))) for _ in range(5)]
    for i, thread in enumerate(threads):
        thread.start()
        wait_for(lambda: proxy.metric("requests_running") + proxy.metric("requests_waiting") == i + 1, f"{i + 1} requests")
    refused = proxy.chat("hello")
    assert refused.status == 503 and refused.headers["Retry-After"] == "1"
    assert proxy.metric("requests_running") == 2 and proxy.metric("requests_waiting") == 3
    vllm.hangs.set()
    for thread in threads:
        thread.join()
    assert [reply.status for reply in replies] == [200] * 5
    assert proxy.metric("requests_running") == proxy.metric("requests_waiting") == proxy.metric("request_bytes") == 0


def test_who_leaves_ends_what_is_done_for_him(vllm, node, start_proxy):
    proxy = start_proxy(url_of(node), log_level="debug")
    vllm.begins_after = 0.5
    before = vllm.n_left
    with proxy.send_post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 100}], "stream": True}):
        wait_for(lambda: len(vllm.bodies) == 2, "the request at vLLM, after the start's probe")
    wait_for(lambda: proxy.metric('requests_total{path="/v1/chat/completions",status="499"}') == 1, "a client that left")
    assert proxy.metric("requests_running") == 0
    wait_for(lambda: vllm.n_left > before, "vLLM to see it")


def test_who_leaves_ends_his_images(vllm, start_proxy, start):
    """A node that does not get on holds neither clients nor places."""
    node = start(mm_encoder_only=True, dtype="f32")
    # However slow the machine is: only clients that leave end what the node has, no time limit.
    proxy = start_proxy(url_of(node), images_per_node=1, health_interval=60, health_timeout=60, encode_timeout=600)
    os.kill(node.process.pid, signal.SIGSTOP)
    try:
        for shade in range(10, 60):  # some leave before their image is sent: until three were
            fields = {"messages": [{"role": "user", "content": [image_part(png(32, 32, shade))]}]}
            with proxy.send_post("/v1/chat/completions", fields):
                wait_for(lambda: proxy.metric("requests_running") == 1, "a request")
            wait_for(lambda: proxy.metric("requests_running") == 0, "none")
            if proxy.metric("images_total{node") >= 3:
                break
    finally:
        os.kill(node.process.pid, signal.SIGCONT)
    # The node itself may have to end what was left to it first.
    wait_for(lambda: set(re.findall(rb"^vllm:num_requests_(?:running|waiting)[^ ]* (.*)", node.get("/metrics").body, re.M)) == {b"0"}, "the node")
    assert answer(proxy.chat([image_part(png(32, 32, 9))])) == "embeddings"
    assert proxy.metric('images_total{node') >= 4


def test_sigterm_lets_answers_end(vllm, node):
    proxy = ProxyProcess(vllm.url, url_of(node), shutdown_delay=0.5)
    vllm.begins_after = 1.0
    replies = []
    thread = threading.Thread(target=lambda: replies.append(proxy.chat("hello")))
    thread.start()
    wait_for(lambda: proxy.metric("requests_running") == 1, "a request")
    proxy.process.terminate()
    wait_for(lambda: proxy.get("/health").status == 503, "/health that fails during the delay")
    thread.join()
    assert [reply.status for reply in replies] == [200]
    assert proxy.stop() == 0


def test_a_second_signal_ends_answers(vllm, node):
    proxy = ProxyProcess(vllm.url, url_of(node))
    vllm.begins_after = 20.0
    with proxy.open_stream():
        wait_for(lambda: proxy.metric("requests_running") == 1, "a request")
        begin = time.monotonic()
        proxy.process.terminate()
        said(proxy, "stopping")
        assert proxy.stop() == 0
    assert time.monotonic() - begin < 15


def send_part(proxy, n_bytes, n_sent):
    """A connection with a chat of which a part has been sent."""
    connection = socket.create_connection(("127.0.0.1", proxy.port))
    body = json.dumps({"messages": [{"role": "user", "content": "x" * n_bytes}]}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body[:n_sent])
    return connection


LARGE = (15_000_000, 20_000_000)


def hold(proxy, vllm, hung):
    """Connections that do not end by themselves: of chats that vLLM has and does not answer, of one
    that is half there, and of one that is too large and whose client goes on sending."""
    vllm.hangs, n_bodies = hung, len(vllm.bodies)
    connections = [send_part(proxy, n, 2 * n) for n in LARGE]
    wait_for(lambda: len(vllm.bodies) == n_bodies + len(LARGE), "the chats at vLLM")
    connections.append(send_part(proxy, LARGE[1], LARGE[1] // 2))
    wait_for(lambda: proxy.metric("requests_running") == len(LARGE) + 1, "a chat that is half there")
    connections.append(send_part(proxy, 30_000_000, 1000))
    assert read_until(connections[-1], b"\r\n").startswith(b"HTTP/1.1 413")
    return connections


def test_large_chats_that_do_not_end_are_cut_off(request, vllm, node):
    """At --shutdown-timeout, not at some multiple of it, and at once where it is 0: 0 was no limit
    at all."""
    full, hung = request.config.getoption("--full"), threading.Event()
    for seconds in (0, 1, 25) if full else (0, 1):
        options = {"shutdown_timeout": seconds, "client_timeout": 200, "max_body_bytes": "24M", "skip_probe": True}
        proxy = ProxyProcess(vllm.url, url_of(node), **options)
        connections = hold(proxy, vllm, hung)
        begin = time.monotonic()
        try:
            assert proxy.stop() == 0
            assert not full or seconds <= time.monotonic() - begin < seconds + 20
        finally:
            for connection in connections:
                connection.close()
            hung.set()
            hung.clear()
        (line,) = [line for line in proxy.output.decode().splitlines() if " cut_off " in line]
        assert f"running={len(LARGE) + 1} " in line, line


def test_a_client_that_stops_sending_holds_nobody(vllm, node, start_proxy):
    proxy = start_proxy(url_of(node), max_body_bytes="1M", max_bytes="1M", client_timeout=1)
    with send_part(proxy, 900_000, 1000) as connection:
        wait_for(lambda: proxy.metric("request_bytes") > 900_000, "the bytes to be taken")
        assert answer(proxy.chat("x" * 200_000)) == "text"
        assert read_until(connection, b"\r\n").startswith(b"HTTP/1.1 408")


# Which node gets an image.


def test_a_node_more_moves_its_share_of_the_images(proxy_package):
    ranked, Node = proxy_package
    nodes = [Node(f"http://node-{i}:8100") for i in range(5)]
    keys = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(5000)]
    few = {key: ranked(nodes[:4], key)[0].url for key in keys}
    more = {key: ranked(nodes, key)[0].url for key in keys}
    moved = [key for key in keys if few[key] != more[key]]
    assert all(more[key] == nodes[4].url for key in moved)
    assert 0.17 < len(moved) / len(keys) < 0.23
    for node in nodes:
        assert 0.17 < sum(url == node.url for url in more.values()) / len(keys) < 0.23
    # The images of a node that is out are shared by all others.
    second = [ranked(nodes, key)[1].url for key in moved]
    assert all(0.2 < second.count(node.url) / len(second) < 0.3 for node in nodes[:4])


@pytest.fixture
def proxy_package(monkeypatch):
    monkeypatch.syspath_prepend(str(PACKAGE))
    from vllm_ommatidia.proxy._nodes import ranked

    class Node:
        def __init__(self, url):
            self.url = url

    return ranked, Node


GRID = {"image_grid_thw": [1, 2, 2]}


@pytest.mark.parametrize("entry, good", [
    ({"metadata": GRID}, True), ({"modality": "image", "item_indices": [0], "metadata": GRID}, True),
    ({"modality": "video", "metadata": GRID}, False), ([], False), ("image", False),
    ({"modality": "image"}, False), ({"metadata": 7}, False),
])
def test_replies_of_nodes(monkeypatch, entry, good):
    monkeypatch.syspath_prepend(str(PACKAGE))
    from vllm_ommatidia.proxy._nodes import Node, NodeFailed

    node = types.SimpleNamespace(url="http://127.0.0.1:1", _bad_replies=0, take_out=pytest.fail)
    text = json.dumps({"ec_transfer_params": {"key": entry}}).encode()
    if good:
        assert Node._judge(node, 200, text, "key").metadata == GRID
    else:
        with pytest.raises(NodeFailed, match="no encoder node's reply"):
            Node._judge(node, 200, text, "key")


def test_who_leaves_while_the_body_ends_is_not_forgotten(monkeypatch):
    """The last of the body and the end of the connection may come in one turn of the loop."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    from vllm_ommatidia.proxy._server import Proxy

    async def run():
        pieces = [asyncio.get_running_loop().create_future() for _ in range(2)]
        waiting = iter(pieces)

        async def readany():
            return await next(waiting)

        proxy = types.SimpleNamespace(_options=types.SimpleNamespace(client_timeout=60, max_body_bytes=100))
        handler = asyncio.ensure_future(Proxy._read(proxy, types.SimpleNamespace(content=types.SimpleNamespace(readany=readany))))
        for _ in range(5):  # until it waits for the body
            await asyncio.sleep(0)
        pieces[0].set_result(b"{}")
        pieces[1].set_result(b"")
        handler.cancel()
        await asyncio.wait({handler})
        return handler.cancelled()

    assert asyncio.run(run())


def test_the_same_image_goes_to_the_same_node(vllm, start, start_proxy):
    nodes = [start(mm_encoder_only=True, dtype="f32") for _ in range(2)]
    proxy = start_proxy(*map(url_of, nodes), trust_media_uuids=True)
    for turn in range(2):
        for shade in range(8):
            vllm.bodies.clear()
            assert answer(proxy.chat([image_part(png(32, 32, shade))])) == "embeddings"
    per_node = [proxy.metric(f'images_total{{node="{url_of(node)}",outcome="encoded"}}') for node in nodes]
    assert sum(per_node) == 17 and all(count % 2 == 0 for count in per_node) or sum(count % 2 for count in per_node) == 1
    # A client's own name, where it is trusted, is one name whatever the image's address.
    names = set()
    for shade in range(2):
        assert answer(proxy.chat([image_part(png(32, 32, shade), uuid="mine")])) == "embeddings"
        names.add(vllm.bodies[-1]["messages"][0]["content"][0]["uuid"])
    assert len(names) == 1
