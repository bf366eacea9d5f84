"""A server as a service: a Unix domain socket, what the service manager receives, what is printed
at the start."""

import http.client
import os
import pathlib
import re
import socket
import stat
import subprocess

import pytest
from server_process import ServerProcess, check_output
from waiting import wait_for


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


def ask(path, method="GET", target="/v1/models", body=None):
    connection = Connection(str(path))
    try:
        connection.request(method, target, body, {"Content-Type": "application/json"} if body else {})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def start_at(fake, path, **options):
    """The scripted server at a path; it prints a port all the same, 0."""
    more = [word for key, value in options.items() for word in ("--" + key.replace("_", "-"), str(value))]
    return ServerProcess([fake, "--uds", str(path), "--served-model-name", "test-model", *more])


@pytest.fixture
def fake(request, kind):
    return request.config.getoption("--fake")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "omma.sock"


def leave_socket(path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
        left.listen()


def test_a_socket_file_comes_and_goes(fake, path):
    leave_socket(path)
    server = start_at(fake, path, log_access=1, max_connections_per_address=1)
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert ask(path)[0] == 200
    status, body = ask(path, "POST", "/v1/chat/completions", '{"messages": [{"role": "user", "content": "a b c"}], "stream": true}')
    assert status == 200 and body.endswith(b"data: [DONE]\n\n")
    connections = [Connection(str(path)) for _ in range(3)]
    for connection in connections:
        connection.request("GET", "/v1/models")
        assert connection.getresponse().read()
    assert server.stop() == 0 and not path.exists()
    check_output(server)
    assert b"client=unix " in server.output


def test_who_has_the_path_keeps_it(fake, path):
    first = start_at(fake, path)
    second = subprocess.run([fake, "--uds", str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 1 and "another program listens there" in second.stderr
    assert ask(path)[0] == 200
    path.unlink()
    leave_socket(path)  # is not the first one's any more
    first.stop()
    assert path.exists()
    path.unlink()
    path.write_text("precious")
    third = subprocess.run([fake, "--uds", str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert third.returncode == 1 and "is not a socket" in third.stderr and path.read_text() == "precious"
    for name, part in ((str(path.parent / "none" / "x"), "No such file"), ("x" * 120, "1 to 107 bytes")):
        done = subprocess.run([fake, "--uds", name], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1 and part in done.stderr


class Manager:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self.socket.settimeout(0.01)
        self.received = []

    def read(self):
        try:
            while True:
                self.received.append(self.socket.recv(4096).decode().split("\n"))
        except TimeoutError:
            return self.received

    def wait_for(self, line, count=1):
        wait_for(lambda: sum(line in lines for lines in self.read()) >= count, line)


def serve(omma, model, name, path, **environment):
    command = [omma, "serve", model, "--uds", str(path), "--max-model-len", "256"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "NOTIFY_SOCKET": name, **environment})


@pytest.mark.parametrize("abstract", [False, True])
def test_what_a_service_manager_receives(omma, model, path, abstract):
    name = f"@omma-test-{os.getpid()}" if abstract else str(path.parent / "notify")
    manager = Manager(name)
    process = serve(omma, model, name, path, WATCHDOG_USEC="20000")
    manager.wait_for("READY=1")
    assert ask(path)[0] == 200
    loading = [lines for lines in manager.received if lines[0].startswith("STATUS=loading the model, ")]
    assert loading and len(loading) < 10 and all(lines[1].startswith("EXTEND_TIMEOUT_USEC=") for lines in loading)
    manager.wait_for("WATCHDOG=1", 3)
    process.terminate()
    said = process.communicate(timeout=60)[1]
    manager.wait_for("STOPPING=1")
    order = [lines[0] for lines in manager.received]
    assert process.returncode == 0 and order.index("READY=1") > order.index(loading[-1][0]) and order[-1] == "STOPPING=1"
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", line) for line in said.splitlines()), said
    assert "Z omma: stopping: running requests may finish" in said
    assert f"serving {model} as {pathlib.Path(model).name}\n" in said and "no model is named" not in said
    for part in ("model: ", "memory: weights ", "clients: plain HTTP; 0 API keys", f"serving at unix:{path}, mode "):
        assert part in said, said


def test_another_process_has_the_watchdog(omma, model, path):
    name = str(path.parent / "notify")
    manager = Manager(name)
    process = serve(omma, model, name, path, WATCHDOG_USEC="20000", WATCHDOG_PID="1")
    manager.wait_for("READY=1")
    process.terminate()
    process.communicate(timeout=60)
    manager.wait_for("STOPPING=1")
    assert not any("WATCHDOG=1" in lines for lines in manager.received)
