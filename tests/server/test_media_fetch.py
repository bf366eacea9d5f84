"""Images by http: what is fetched, what is refused, and what a refusal states."""

import pytest
from media_host import MediaHost
from images import text_part

LIMIT = 50_000


@pytest.fixture(scope="module")
def host():
    host = MediaHost()
    yield host
    host.close()


@pytest.fixture(scope="module")
def allowed():
    return {"allowed_media_domains": "127.0.0.1", "allow_private_media_addresses": True, "media_timeout_ms": 60_000,
            "max_image_bytes": LIMIT}


def messages(url):
    return [{"role": "user", "content": [text_part("[[show=1]]"), {"type": "image_url", "image_url": {"url": url}}]}]


def check_refused(reply, status, words, param="image_url"):
    kind = {400: "BadRequestError", 422: "UnprocessableEntityError"}[status]
    assert (reply.status, reply.error["type"], reply.error["param"]) == (status, kind, param), reply.body
    assert words in reply.error["message"], reply.body
    assert "127.0.0.1" not in reply.error["message"] and "localhost" not in reply.error["message"]


def test_an_allowed_host(start, allowed, host):
    server = start(**allowed)
    for path in ("image", "relative/x", "to/" + host.url("image"), "to/" + host.url("to/" + host.url("image"))):
        reply = server.chat(messages=messages(host.url(path)))
        assert reply.status == 200 and "image(9x8" in reply.json["choices"][0]["message"]["content"], reply.body
    assert server.post("/tokenize", {"messages": messages(host.url("image"))}).status == 200
    assert server.chat(messages=messages(host.url("image").replace("http", "HTTP"))).status == 200
    assert all(agent.startswith("omma/") for agent in host.agents)


@pytest.mark.parametrize("path, status, words", [
    ("nowhere", 422, "its host answers 404"),
    ("loop", 422, "redirected more than 5 times"),
    ("to/http://localhost/image", 422, "names a host that"),
    ("to/ftp://127.0.0.1/image", 422, "redirect of the image's URL is not a valid"),
    ("to/file:///etc/passwd", 422, "redirect of the image's URL is not a valid"),
    ("to/http://user@127.0.0.1/image", 422, "user name or password"),
    ("big", 422, f"larger than this server's limit of {LIMIT} bytes"),
    ("endless", 422, f"larger than this server's limit of {LIMIT} bytes"),
    ("endless/404", 422, "cannot be fetched"),
    ("slow", 422, "did not arrive within 1.5 seconds"),
    ("truncated", 422, "cannot be fetched")])
def test_what_cannot_be_fetched(start, allowed, host, path, status, words):
    options = {**allowed, "media_timeout_ms": 1500} if path == "slow" else allowed
    check_refused(start(**options).chat(messages=messages(host.url(path))), status, words)


@pytest.mark.parametrize("path", ["text", "empty"])
def test_what_is_no_image(start, allowed, host, path):
    check_refused(start(**allowed).chat(messages=messages(host.url(path))), 400, "cannot identify image", "image")


@pytest.mark.parametrize("url, words", [
    ("http://localhost:{port}/image", "names a host that"),
    ("http://127.0.0.1.:{port}/image", "names a host that"),
    ("http://127.0.0.2:{port}/image", "names a host that"),
    ("http://[::1]:{port}/image", "names a host that"),
    ("http://127.0.0.1@localhost:{port}/image", "user name"),
    ("http://user:secret@127.0.0.1:{port}/image", "user name"),
    ("http://127.0.0.1:{port}/a b", "not a valid http(s) URL"),
    ("http://127.0.0.1:99999/image", "not a valid http(s) URL"),
    ("http://127.0.0.1:{port}/\0image", "not a valid http(s) URL"),
    ("http://", "not a valid http(s) URL"),
    ("http://127.0.0.1:{port}/" + "a" * 9000, "not a valid http(s) URL")])
def test_what_may_not_be_fetched(start, allowed, host, url, words):
    before = len(host.paths)
    url = url.replace("{port}", str(host.server.server_address[1]))
    check_refused(start(**allowed).chat(messages=messages(url)), 400, words)
    assert len(host.paths) == before


def test_private_addresses_need_the_flag(start, allowed, host):
    before = len(host.paths)
    for name in ("127.0.0.1", "localhost"):
        server = start(**{**allowed, "allowed_media_domains": name, "allow_private_media_addresses": 0})
        check_refused(server.chat(messages=messages(host.url("image", name))), 422, "address that this server does not connect to")
    assert len(host.paths) == before


def test_nobody_listens(start, allowed):
    check_refused(start(**allowed).chat(messages=messages("http://127.0.0.1:9/x")), 422, "cannot be fetched")


@pytest.mark.real_too
def test_by_the_options_of_the_program(start, host):
    server = start(allowed_media_domains="127.0.0.1", allow_private_media_addresses=True)
    assert server.chat(messages=messages(host.url("image/64")), max_tokens=1).status == 200
    check_refused(server.chat(messages=messages(host.url("nowhere"))), 422, "its host answers 404")


def test_no_proxy_of_the_environment(start, allowed, host, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert start(**allowed).chat(messages=messages(host.url("image"))).status == 200


def test_without_permission(start, host):
    check_refused(start().chat(messages=messages(host.url("image"))), 400, "fetches no images")


def test_a_client_that_leaves_ends_the_fetch(start, allowed, host):
    server = start(**allowed)
    with server.open_stream(messages=messages(host.url("slow/left"))):
        host.wait_for("/slow/left", host.paths)
    host.wait_for("/slow/left", host.broken_off)
    assert server.chat("and now?").status == 200


def test_the_end_of_the_server_ends_the_fetch(start, allowed, host):
    server = start(**{**allowed, "media_timeout_ms": 600_000, "drain_ms": 100})
    with server.send_post("/tokenize", {"messages": messages(host.url("slow/end"))}):
        host.wait_for("/slow/end", host.paths)
        assert server.stop() == 0
