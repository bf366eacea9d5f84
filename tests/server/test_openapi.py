"""/openapi.json describes the requests as the server reads them, and /docs shows the same."""

import pathlib
import re

import pytest
from images import image_part, text_part

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src" / "server"
CHAT = "/v1/chat/completions"
SMALL = {CHAT: {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}, "/v1/completions": {"prompt": "hello", "max_tokens": 1},
         "/v1/responses": {"input": "hello", "max_output_tokens": 1}, "/v1/messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 1},
         "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "hello"}]}, "/tokenize": {"messages": [{"role": "user", "content": "hello"}]}, "/detokenize": {"tokens": [1]}}

# A server with --enable-sleep-mode has them, or an encoder node.
NOT_OFFERED = ["/sleep", "/wake_up", "/v1/encodings/{key}"]


@pytest.fixture
def description(server):
    reply = server.get("/openapi.json")
    assert reply.status == 200 and reply.headers["Content-Type"] == "application/json"
    return reply.json


def body_of(description, path):
    return description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]


@pytest.mark.real_too
def test_every_route_is_there(description):
    routes = re.findall(r'^ +\{("[^"]*"|[A-Z]+), (OMMAI_METHOD_[A-Z_| ]+),', (SOURCES / "http/routes.c").read_text(), re.M)
    names = dict(re.findall(r'#define (\w+) ("[^"]*")', (SOURCES / "http/routes.c").read_text()))
    expected = {names.get(path, path).strip('"'): sorted(re.findall("OMMAI_METHOD_([A-Z]+)", methods)) for path, methods in routes}
    for path in NOT_OFFERED:
        del expected[path]
    assert {path: sorted(method.upper() for method in operations) for path, operations in description["paths"].items()} == expected
    assert description["openapi"] == "3.1.0"
    identifiers = [operation["operationId"] for operations in description["paths"].values() for operation in operations.values()]
    assert len(set(identifiers)) == len(identifiers)
    for path, operations in description["paths"].items():
        for operation in operations.values():
            assert [each["name"] for each in operation.get("parameters", [])] == re.findall(r"\{(\w+)\}", path)


@pytest.mark.real_too
def test_what_settings_switch_on_is_described_where_they_do(server, start):
    for path in NOT_OFFERED:
        assert (server.get(path) if path.startswith("/v1") else server.post(path, {})).status == 404
    paths = start(enable_sleep_mode=True).get("/openapi.json").json["paths"]
    assert [path in paths for path in NOT_OFFERED] == [True, True, False]


@pytest.mark.real_too
def test_every_body_has_its_members(description):
    """Also that of a route which `samples` in openapi.c does not know yet."""
    paths = re.findall(r'^ +\{"([^"]*)", OMMAI_METHOD_[A-Z_| ]+, \.answer =', (SOURCES / "http/routes.c").read_text(), re.M)
    assert len(paths) > 10
    assert [path for path in paths if not body_of(description, path).get("properties")] == []


@pytest.mark.real_too
def test_a_field_that_is_read_is_described(description):
    """Those that the sources read from a request's top level, without a list of them."""
    text = (SOURCES / "api/answer_fields.c").read_text()
    types = {"name": "string", "word": "string", "object": "get"}
    read = {name: types.get(kind, kind) for kind, name in re.findall(r'ommai_field_(\w+)\(root, "(\w+)"', text)}
    assert len(read) > 15
    for path in (CHAT, "/v1/completions"):
        properties = body_of(description, path)["properties"]
        for name, kind in read.items():
            assert name in properties, (path, name)
            assert kind == "get" or properties[name]["type"] == kind, (path, name)


@pytest.mark.real_too
def test_forms_within_forms(description):
    properties = body_of(description, CHAT)["properties"]
    assert properties["temperature"] == {"type": "number", "minimum": 0, "maximum": 2}
    assert properties["top_p"] == {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
    message = properties["messages"]["items"]["properties"]
    assert message["role"] == {"type": "string"} and {"text", "image_url", "type"} <= message["content"]["anyOf"][0]["items"]["properties"].keys()
    assert properties["ommatidia"]["properties"] == {"details": {"type": "boolean"}, "progress": {"type": "boolean"}}
    assert properties["stop"]["anyOf"][1] == {"type": "string"}
    assert "max_output_tokens" in body_of(description, "/v1/responses")["properties"] and "stop_sequences" in body_of(description, "/v1/messages")["properties"]
    for path in ("/v1/responses", "/v1/messages"):  # what a chat has and they do not
        assert not {"response_format", "max_completion_tokens", "echo"} & body_of(description, path)["properties"].keys(), path
        assert "temperature" in body_of(description, path)["properties"], path


@pytest.mark.real_too
@pytest.mark.parametrize("path", SMALL)
def test_the_server_keeps_to_it(server, description, path):
    """Requests with the required members are served; without one, or beyond a limit, refused."""
    schema = body_of(description, path)
    assert server.post(path, SMALL[path]).status == 200
    for name in schema.get("required", []):
        assert server.post(path, {key: value for key, value in SMALL[path].items() if key != name}).status == 400, name
    for name, form in schema["properties"].items():
        for key, step in (("minimum", -1), ("maximum", 1), ("exclusiveMinimum", 0)):
            if key in form:
                assert server.post(path, {**SMALL[path], name: form[key] + step}).status == 400, (name, key)
        if form.get("type") in ("boolean", "integer", "number", "array"):
            assert server.post(path, {**SMALL[path], name: "never"}).status == 400, name


@pytest.mark.real_too
def test_fields_that_are_only_refused_are_left_out(description):
    for path in (CHAT, "/v1/completions"):
        assert not {"use_beam_search", "documents", "grammar", "typical_p", "functions"} & body_of(description, path)["properties"].keys()


@pytest.mark.real_too
def test_for_people(server, description):
    reply = server.get("/docs")
    assert reply.status == 200 and reply.headers["Content-Type"] == "text/html; charset=utf-8" and "default-src 'none'" in reply.headers["Content-Security-Policy"]
    text = reply.body.decode()
    for path, operations in description["paths"].items():
        for method in operations:
            assert f"<h2>{method.upper()} {path}</h2>" in text
    for path in SMALL:
        section = text.split(f"<h2>POST {path}</h2>")[1].split("<h2>")[0]
        assert re.findall("<th align=left>(\\w+)", section) == list(body_of(description, path)["properties"])


@pytest.mark.real_too
def test_it_is_as_open_as_the_page(start):
    server = start(api_key="sesame")
    assert [server.get(path).status for path in ("/openapi.json", "/docs", "/v1/models")] == [200, 200, 401]
    server.stop()
    server = start(api_key="sesame", no_page=True)
    assert [server.get(path).status for path in ("/openapi.json", "/docs")] == [401, 401]
    assert server.get("/docs", headers={"Authorization": "Bearer sesame"}).status == 200


@pytest.mark.real_only
def test_a_server_that_refuses_images_describes_them(start):
    server = start(limit_mm_per_prompt='{"image": 0}')
    properties = body_of(server.get("/openapi.json").json, CHAT)["properties"]
    assert {"temperature", "tools", "stop"} <= properties.keys()
    assert server.chat([text_part("a"), image_part()]).status == 400
    server.stop()


@pytest.mark.real_only
def test_the_first_seed_stays(start):
    """Making the description hands out no seed."""
    server = start(seed=7)
    first, same, other = (server.chat("Tell me.", temperature=2, max_tokens=8, **seed).json["choices"][0]["message"]["content"]
                          for seed in ({}, {"seed": 7}, {"seed": 8}))
    assert first == same != other
    server.stop()
