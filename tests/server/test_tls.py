"""https: replies and streams, certificates of clients, and what is wrong with files said before a
model is loaded. tests/data/tls/README.md."""

import http.client
import json
import pathlib
import ssl
import subprocess
import threading

import pytest

FILES = pathlib.Path(__file__).resolve().parent.parent / "data" / "tls"
CHAT = {"messages": [{"role": "user", "content": "one two three four"}]}


def file_of(name):
    return str(FILES / name)


def flags(**more):
    return {"ssl_certfile": file_of("server.pem"), "ssl_keyfile": file_of("server.key"), **more}


def connect(server, client=None):
    context = ssl.create_default_context(cafile=file_of("authority.pem"))
    if client:
        context.load_cert_chain(file_of(client + ".pem"), file_of(client + ".key"))
    return http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=context)


def ask(server, method="GET", path="/v1/models", fields=None, client=None):
    connection = connect(server, client)
    try:
        body = json.dumps(fields) if fields is not None else None
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def is_refused(server, client=None):
    try:
        ask(server, client=client)
    except (ssl.SSLError, ConnectionError, http.client.BadStatusLine):
        return True
    return False


@pytest.mark.real_too
def test_replies_streams_and_large_bodies(start):
    server = start(**flags())
    assert ask(server)[0] == 200
    status, body = ask(server, "POST", "/v1/chat/completions", {**CHAT, "max_tokens": 3})
    assert status == 200 and json.loads(body)["usage"]["completion_tokens"] > 0
    status, body = ask(server, "POST", "/v1/chat/completions", {**CHAT, "max_tokens": 3, "stream": True})
    assert status == 200 and body.endswith(b"data: [DONE]\n\n")
    status, body = ask(server, "POST", "/v1/chat/completions", {**CHAT, "user": "x" * 3000000, "max_tokens": 1})
    assert status == 200, body
    connection = connect(server)  # kept for a next request
    for _ in range(3):
        connection.request("GET", "/health")
        assert connection.getresponse().read() == b""
    connection.close()


def test_one_file_may_hold_both_and_plain_http_gets_nothing(start):
    server = start(ssl_certfile=file_of("both.pem"))
    assert ask(server)[0] == 200
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        server.get("/v1/models")
    assert ask(server)[0] == 200


def test_many_streams_at_once(start):
    server = start(**flags())
    ends = []

    def stream():
        fields = {"messages": [{"role": "user", "content": "[[tokens=20]] [[pace_ms=2]] [[first_ms=20]]"}], "stream": True}
        ends.append(ask(server, "POST", "/v1/chat/completions", fields)[1].endswith(b"data: [DONE]\n\n"))

    threads = [threading.Thread(target=stream) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [True] * 16


def test_a_client_that_leaves_is_noticed(start):
    server = start(**flags())
    connection = connect(server)
    fields = {"messages": [{"role": "user", "content": "[[tokens=100000]] [[pace_ms=5]]"}], "stream": True}
    connection.request("POST", "/v1/chat/completions", json.dumps(fields), {"Content-Type": "application/json"})
    connection.getresponse().read(100)
    connection.close()
    server.stop()
    assert server.counters()["cancelled"] == 1


@pytest.mark.parametrize("needed", [1, 2])
def test_certificates_of_clients(start, needed):
    server = start(**flags(ssl_ca_certs=file_of("authority.pem"), ssl_cert_reqs=needed))
    assert ask(server, client="client")[0] == 200
    assert is_refused(server) == (needed == 2)
    assert is_refused(server, client="stranger")
    assert ask(server, client="client")[0] == 200


@pytest.mark.parametrize("arguments, parts", [
    (["--ssl-certfile", "server.pem"], ["--ssl-keyfile: ", "server.pem has a certificate, but not its key: --ssl-keyfile FILE"]),
    (["--ssl-keyfile", "server.key"], ["a certificate is needed"]),
    (["--ssl-certfile", "server.pem", "--ssl-keyfile", "client.key"], ["server.pem and ", "client.key", "do not match"]),
    (["--ssl-certfile", "none.pem"], ["none.pem", "No such file"]),
    (["--ssl-certfile", "README.md", "--ssl-keyfile", "server.key"], ["--ssl-certfile: ", "README.md: expected a certificate in PEM"]),
    (["--ssl-certfile", "server.pem", "--ssl-keyfile", "README.md"], ["--ssl-keyfile: ", "README.md: expected a private key in PEM"]),
    (["--ssl-certfile", "server.pem", "--ssl-keyfile", "encrypted.key"], ["--ssl-keyfile: ", "encrypted.key: the key is encrypted"]),
    (["--ssl-certfile", "both.pem", "--ssl-cert-reqs", "2"], ["--ssl-ca-certs"]),
    (["--ssl-certfile", "both.pem", "--ssl-cert-reqs", "1", "--ssl-ca-certs", "README.md"], ["--ssl-ca-certs: ", "README.md"]),
    (["--ssl-certfile", "both.pem", "--ssl-cert-reqs", "3"], ["--ssl-cert-reqs"]),
    (["--ssl-certfile", "both.pem", "--ssl-ciphers", "TLSv1"], ["--ssl-ciphers", "GnuTLS"]),
])
def test_what_is_wrong_is_said_first(omma, model, arguments, parts):
    arguments = [file_of(word) if (FILES / word).exists() else word for word in arguments]
    done = subprocess.run([omma, "serve", model, "--port", "0", *arguments], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode in (1, 2) and done.stderr.count("\n") == 1 and all(part in done.stderr for part in parts), done.stderr
