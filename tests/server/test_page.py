"""The page at / on the wire; tests/page has it in a browser."""

import base64
import hashlib
import re

import pytest

CHAT = "/v1/chat/completions"


def hash_of(body, tag):
    text = re.search(f"<{tag}>(.*)</{tag}>".encode(), body, re.DOTALL).group(1)
    return "'sha256-" + base64.b64encode(hashlib.sha256(text).digest()).decode() + "'"


@pytest.mark.real_too
def test_the_page_and_its_headers(server):
    reply = server.get("/")
    assert reply.status == 200 and reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.body.startswith(b"<!doctype html>") and b"Ommatidia" in reply.body and len(reply.body) <= 64000
    policy = reply.headers["Content-Security-Policy"]
    for name in ("style", "script"):
        assert f"{name}-src {hash_of(reply.body, name)};" in policy
    assert "unsafe" not in policy
    assert reply.headers["X-Content-Type-Options"] == "nosniff" and reply.headers["Referrer-Policy"] == "no-referrer"
    head = server.request("HEAD", "/")
    assert (head.status, head.body) == (200, b"") and int(head.headers["Content-Length"]) == len(reply.body)
    assert head.headers["ETag"] == reply.headers["ETag"]
    reply = server.request("POST", "/")
    assert reply.status == 405 and reply.headers["Allow"] == "GET, HEAD"


@pytest.mark.real_too
def test_a_browser_that_has_the_page_gets_304(server):
    tag = server.get("/").headers["ETag"]
    for value in (tag, f'"x", W/{tag}', "*"):
        for method in ("GET", "HEAD"):
            reply = server.request(method, "/", headers={"If-None-Match": value})
            assert (reply.status, reply.body, reply.headers["ETag"]) == (304, b"", tag), value
    assert server.get("/", headers={"If-None-Match": '"x"'}).status == 200


@pytest.mark.real_too
def test_a_server_without_the_page(start):
    server = start(no_page=True)
    assert server.get("/").status == 404 and server.get("/health").status == 200


@pytest.mark.real_too
def test_the_page_asks_for_the_key_itself(start):
    server = start(api_key="sesame")
    for method in ("GET", "HEAD"):
        assert server.request(method, "/").status == 200
    assert server.get("/v1/models").status == 401
    server.stop()


@pytest.mark.real_too
def test_without_the_page_its_place_asks_for_the_key(start):
    server = start(api_key="sesame", no_page=True)
    assert server.get("/").status == 401
    assert server.get("/", headers={"Authorization": "Bearer sesame"}).status == 404


@pytest.mark.real_too
def test_paths_with_a_proxy(start):
    server = start(root_path="/models/", api_key="sesame")
    headers = {"Authorization": "Bearer sesame"}
    for prefix in ("", "/models"):
        assert server.get(prefix + "/").status == 200
        assert server.get(prefix + "/health").status == 200
        assert server.get(prefix + "/v1/models").status == 401
        assert server.get(prefix + "/v1/models", headers=headers).status == 200
        assert server.post(prefix + CHAT, {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}, headers).status == 200
    assert server.get("/models").status == 200
    for path in ("/modelsx/health", "/models/models/health", "/other/health"):
        assert server.get(path).status == 401 and server.get(path, headers=headers).status == 404, path


def test_a_root_path_begins_with_a_slash(start):
    with pytest.raises(RuntimeError, match="root.path: expected a path that begins with /"):
        start(root_path="models")
