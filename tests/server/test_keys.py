"""API keys: where they come from, what they cover, where they never show."""

import os
import pathlib
import subprocess

import pytest
from images import image_part
from server_process import ServerProcess, check_output, read_all

CHAT = "/v1/chat/completions"
OPEN = ("/health", "/ping", "/version")
COVERED = ("/v1/models", "/v1/nowhere", "/tokenize", "/detokenize", "/metrics", "/load", "/nowhere", "/v1x", "/health/", "//health")
SECRET = "sesame-4711"


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.real_too
def test_a_key_covers_everything_but_health_checks(start):
    server = start(api_key=SECRET)
    for headers in ({}, bearer("wrong"), bearer(""), bearer(SECRET + "2"), bearer(SECRET[:-1]), {"Authorization": SECRET},
                    {"Authorization": f"Basic {SECRET}"}):
        for path in COVERED:
            for method in ("GET", "HEAD", "POST", "OPTIONS"):
                reply = server.request(method, path, headers=headers)
                assert reply.status == 401 and reply.headers["WWW-Authenticate"] == "Bearer", (method, path, headers)
        for path in (CHAT, "/tokenize", "/v1/completions"):
            reply = server.post(path, {"prompt": "x"}, headers)
            assert reply.status == 401 and reply.error["type"] == "AuthenticationError", path
        for path in OPEN:
            assert server.get(path, headers=headers).status == 200
    for name in ("Bearer", "bearer", "BEARER"):
        assert server.get("/metrics", headers={"Authorization": f"{name} {SECRET}"}).status == 200
    assert server.get("/load", headers=bearer(SECRET)).status == 200
    assert server.post("/tokenize", {"prompt": "hello"}, bearer(SECRET)).status == 200
    assert server.chat(headers=bearer(SECRET), max_tokens=1).status == 200


@pytest.mark.real_too
def test_metrics_without_key(start):
    server = start(api_key=SECRET, metrics_without_key=True)
    assert server.get("/metrics").status == 200
    assert server.get("/load").status == 401


@pytest.mark.real_too
@pytest.mark.parametrize("body", ["Content-Length: 60000000\r\n", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"])
def test_who_has_no_key_is_refused_at_the_head(start, body):
    """Nothing of the body is waited for."""
    server = start(api_key=SECRET)
    with server.connect() as connection:
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{body}\r\n".encode())
        data = read_all(connection)
    assert data.startswith(b"HTTP/1.1 401 ") and b"\r\nConnection: close\r\n" in data


@pytest.mark.real_too
def test_who_has_no_key_costs_no_memory(start):
    """Images and bodies of clients without a key are neither kept nor decoded."""
    server = start(api_key=SECRET)

    def resident():
        return int(pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    server.chat(messages=[{"role": "user", "content": [image_part()]}])
    before = resident()
    for _ in range(20):
        with server.connect() as connection:
            connection.sendall(f"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                               "Content-Length: 30000000\r\n\r\n".encode())
            try:
                connection.sendall(b"x" * 30000000)
            except OSError:
                pass
    assert resident() - before < 20 << 20


def run(omma, words, environment=None, seconds=60):
    clean = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    return subprocess.run([omma, "serve", "--port", "0", *words], capture_output=True, text=True, timeout=seconds,
                          env={**clean, **(environment or {})})


@pytest.mark.parametrize("words, environment, message", [
    (["--api-key", ""], {}, "API key 1 of 1 is empty"),
    (["--api-key="], {}, "API key 1 of 1 is empty"),
    (["--api-key", SECRET, ""], {}, "API key 2 of 2 is empty"),
    (["--api-key", f" {SECRET}"], {}, "begins or ends with a blank"),
    (["--api-key", f"{SECRET}\n"], {}, "control character"),
    (["--api-key", SECRET, "/tmp"], {}, "word 2 is a directory: the model comes before --api-key"),
    ([], {"VLLM_API_KEY": ""}, "VLLM_API_KEY is set, but empty"),
    ([], {"OMMA_API_KEY": "", "VLLM_API_KEY": SECRET}, "OMMA_API_KEY is set, but empty")])
def test_what_is_no_key_never_means_an_open_server(omma, words, environment, message):
    done = run(omma, words, environment)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert SECRET not in done.stderr + done.stdout


@pytest.mark.parametrize("content, message", [(b"", "holds no key"), (b"\n\r\n\n", "holds no key"), (b"# keys\n#two\n", "holds no key"), (b"a\0b\n", "holds a NUL"), (None, "cannot open")])
def test_files_without_keys_are_refused(omma, tmp_path, content, message):
    if content is not None:
        (tmp_path / "keys").write_bytes(content)
    done = run(omma, ["--api-key-file", str(tmp_path / "keys")])
    assert done.returncode == 1 and message in done.stderr, done.stderr


@pytest.fixture
def serve(omma, model, monkeypatch):
    """serve(words, environment) is the real program with these."""
    processes = []

    def start(words, environment=None):
        for name in ("OMMA_API_KEY", "VLLM_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        for name, value in (environment or {}).items():
            monkeypatch.setenv(name, value)
        processes.append(ServerProcess([omma, "serve", "--model", model, "--port", "0", *words]))
        return processes[-1]

    yield start
    for process in processes:
        if not process.process.stdout.closed:
            process.stop()
        check_output(process)


def accepted(server, keys):
    return [key for key in keys if server.get("/v1/models", headers=bearer(key)).status == 200]


def test_keys_come_from_words_files_and_the_environment(serve, tmp_path):
    (tmp_path / "keys").write_text("# of the team\ntwo\r\n\nthree\n#four")
    environment = {"VLLM_API_KEY": "four", "OMMA_API_KEY": "five"}
    all_keys = ["one", "two", "three", "four", "five", "# of the team", "#four", ""]
    server = serve(["--api-key", "one", "six", "--api-key-file", str(tmp_path / "keys")], environment)
    assert accepted(server, all_keys + ["six"]) == ["one", "two", "three", "six"]
    server = serve([], environment)
    assert accepted(server, all_keys) == ["four", "five"]


@pytest.mark.parametrize("words", [["--api-key", SECRET, "other-" + SECRET], [f"--api-key={SECRET}"]])
def test_keys_show_neither_among_the_processes_nor_in_the_log(serve, words):
    server = serve(words)
    server.get("/v1/models", headers=bearer(SECRET))
    server.get("/v1/models", headers=bearer(SECRET + "!"))
    assert SECRET.encode() not in pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
    server.stop()
    assert SECRET not in server.output.decode()


@pytest.mark.parametrize("words, warned", [(["--host", "0.0.0.0"], True), (["--host", "0.0.0.0", "--api-key", SECRET], False),
                                           (["--host", "127.0.0.1"], False)])
def test_an_open_server_is_warned_of(serve, words, warned):
    server = serve(words)
    server.stop()
    assert ("whoever reaches this address may use the server" in server.output.decode()) == warned
