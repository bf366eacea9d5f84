"""Cross-origin requests of browsers: the replies of Starlette's CORSMiddleware, which vLLM has."""

import pytest

HERE, THERE = "https://here.example", "https://there.example"
ORIGIN, METHODS, HEADERS = ("Access-Control-Allow-" + name for name in ("Origin", "Methods", "Headers"))
CREDENTIALS = "Access-Control-Allow-Credentials"
ALL_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
SAFE = "Accept, Accept-Language, Content-Language, Content-Type"


def preflight(server, origin=HERE, method="POST", asked=None, path="/v1/chat/completions", **more):
    headers = {"Origin": origin, "Access-Control-Request-Method": method, **more}
    if asked is not None:
        headers["Access-Control-Request-Headers"] = asked
    return server.request("OPTIONS", path, headers=headers)


@pytest.fixture
def everybody(start):
    return start(allowed_origins='["*"]', allowed_methods='["*"]', allowed_headers='["*"]')


@pytest.fixture
def some(start):
    return start(allowed_origins=f'["{HERE}", "null"]', allowed_methods='["GET", "POST"]', allowed_headers='["X-Mine", "authorization"]')


@pytest.mark.real_too
def test_everybody(everybody):
    reply = preflight(everybody, asked="authorization, x-any")
    assert (reply.status, reply.body, reply.headers["Content-Type"]) == (200, b"OK", "text/plain; charset=utf-8")
    assert (reply.headers[ORIGIN], reply.headers[METHODS], reply.headers[HEADERS]) == ("*", ALL_METHODS, "authorization, x-any")
    assert reply.headers["Access-Control-Max-Age"] == "600" and reply.headers[CREDENTIALS] is None
    assert preflight(everybody).headers[HEADERS] is None
    assert preflight(everybody, path="/nowhere").status == 200
    for reply in (everybody.get("/health", headers={"Origin": HERE}), everybody.get("/nowhere", headers={"Origin": HERE}),
                  everybody.chat(max_tokens=1, headers={"Origin": HERE}), everybody.chat(n=-1, headers={"Origin": HERE})):
        assert reply.headers[ORIGIN] == "*" and reply.headers[CREDENTIALS] is None
    assert everybody.get("/health").headers[ORIGIN] is None


@pytest.mark.real_too
def test_what_the_program_does_by_itself(start, kind):
    """As vLLM: all origins. The fake server has no default."""
    reply = preflight(start(), asked="x-any")
    assert kind == "fake" or (reply.status, reply.headers[ORIGIN], reply.headers[HEADERS]) == (200, "*", "x-any")


def test_some(some):
    reply = preflight(some, asked="x-mine,AUTHORIZATION , content-type")
    assert (reply.status, reply.body) == (200, b"OK")
    assert (reply.headers[ORIGIN], reply.headers[METHODS]) == (HERE, "GET, POST")
    assert reply.headers[HEADERS] == "Accept, Accept-Language, Content-Language, Content-Type, X-Mine, authorization"
    assert "Origin" in reply.headers["Vary"]
    assert preflight(some, origin="null").headers[ORIGIN] == "null"
    for keys, words in (({"origin": THERE}, "origin"), ({"origin": HERE + ", null"}, "origin"), ({"origin": ""}, "origin"),
                        ({"method": "PUT"}, "method"), ({"method": "post"}, "method"), ({"asked": "x-other"}, "headers"),
                        ({"asked": ""}, "headers"), ({"asked": "x-mine,"}, "headers"),
                        ({"origin": THERE, "method": "PUT", "asked": "x-mine, x"}, "origin, method, headers"),
                        ({"Access-Control-Request-Private-Network": "true"}, "private-network")):
        reply = preflight(some, **keys)
        assert (reply.status, reply.body.decode()) == (400, "Disallowed CORS " + words), keys
        assert reply.headers[ORIGIN] == (None if "origin" in words else HERE)
    reply = some.get("/health", headers={"Origin": HERE})
    assert (reply.status, reply.headers[ORIGIN], reply.headers["Vary"]) == (200, HERE, "Origin")
    reply = some.get("/health", headers={"Origin": THERE})
    assert (reply.status, reply.headers[ORIGIN], reply.headers["Vary"]) == (200, None, "Origin")


def test_credentials(start):
    server = start(allowed_origins='["*"]', allowed_methods='["*"]', allowed_headers='[]', allow_credentials=True)
    reply = preflight(server)
    assert (reply.headers[ORIGIN], reply.headers[CREDENTIALS], reply.headers[HEADERS]) == (HERE, "true", SAFE)
    reply = server.get("/health", headers={"Origin": THERE})
    assert (reply.headers[ORIGIN], reply.headers[CREDENTIALS], reply.headers["Vary"]) == (THERE, "true", "Origin")


def test_streams_have_the_headers_too(everybody):
    reply = everybody.chat(stream=True, headers={"Origin": HERE})
    assert reply.headers[ORIGIN] == "*" and reply.body.endswith(b"data: [DONE]\n\n")


def test_nobody(start):
    server = start(allowed_origins="[]")
    assert preflight(server).status == 405
    assert server.get("/health", headers={"Origin": HERE}).headers[ORIGIN] is None


def test_a_preflight_needs_no_key_and_what_follows_does(start):
    server = start(allowed_origins='["*"]', allowed_methods='["*"]', allowed_headers='["*"]', api_key="sesame")
    assert preflight(server, asked="authorization").status == 200
    reply = server.chat(headers={"Origin": HERE})
    assert (reply.status, reply.headers[ORIGIN]) == (401, "*")
    assert server.request("OPTIONS", "/v1/models", headers={"Origin": HERE}).status == 401
    assert server.request("OPTIONS", "/health", headers={"Origin": HERE}).status == 405


@pytest.mark.real_only
@pytest.mark.parametrize("value", ["*", "https://here.example", '"*"', '{"a": 1}', "[1]", "["])
@pytest.mark.parametrize("flag", ["allowed_origins", "allowed_methods", "allowed_headers"])
def test_lists_are_json(start, flag, value):
    with pytest.raises(RuntimeError, match="must be a JSON list of strings"):
        start(**{flag: value})
