"""A server binary as a child process, and small HTTP clients that show the bytes on the wire."""

import http.client
import json
import os
import re
import select
import socket
import subprocess
import threading
import time


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


class ServerProcess:
    """Starts `command` with port 0 and waits for the line that names the address."""

    def __init__(self, command, start_seconds=120, env=None):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
        self.output, self.taking = b"", threading.Lock()
        self.port = None
        deadline = time.monotonic() + start_seconds
        while self.port is None:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            self.output += piece
            if not piece:
                self.process.kill()
                self.process.wait()
                raise RuntimeError(f"the server did not start: {self.output.decode(errors='replace')}")
            found = re.search(rb"https?://[^\s/]*:(\d+)", self.output)
            if found and b"\n" in self.output[found.end():]:
                self.port = int(found.group(1))
        os.set_blocking(self.process.stdout.fileno(), False)

    def take_output(self):
        """What was written since. A server would wait for a pipe that is full."""
        with self.taking:
            piece = b"" if self.process.stdout.closed else self.process.stdout.read()
            self.output += piece or b""

    def read_output(self):
        self.take_output()
        return self.output.decode(errors="replace")

    def stop(self, seconds=90):
        """SIGTERM; returns the exit status. The output is complete afterwards."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self.read_output()
            raise AssertionError(f"the server did not stop in {seconds} s: {self.output.decode(errors='replace')}")
        self.read_output()
        self.process.stdout.close()
        return self.process.returncode

    def counters(self):
        """The fake engine's counters, printed at its end."""
        return {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", self.output.decode().splitlines()[-1])}

    def connect(self, timeout=60):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def request(self, method, path, body=None, headers=None, timeout=60):
        self.take_output()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **keys):
        return self.request("GET", path, **keys)

    def post(self, path, value, headers=None, **keys):
        body = value if isinstance(value, (bytes, str)) else json.dumps(value)
        return self.request("POST", path, body, {"Content-Type": "application/json", **(headers or {})}, **keys)

    def chat(self, content="hello", headers=None, **fields):
        fields.setdefault("messages", [{"role": "user", "content": content}])
        return self.post("/v1/chat/completions", fields, headers)

    def open_stream(self, content="hello", timeout=60, **fields):
        """A socket on which a streaming chat has been asked for; nothing is read yet."""
        fields.setdefault("messages", [{"role": "user", "content": content}])
        return self.send_post("/v1/chat/completions", {"stream": True, **fields}, timeout=timeout)

    def send_post(self, path, fields, timeout=60, receive_buffer=None, segment=None):
        """A socket with the request on its way. A small receive buffer and small segments keep what
        the system takes of the answer, which nobody has read, at some 100 kB."""
        body = json.dumps(fields).encode()
        connection = socket.socket()
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if segment:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
        connection.settimeout(timeout)
        connection.connect(("127.0.0.1", self.port))
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        return connection


def make_command(config, kind, options):
    """kind: "fake" or "real"; options as on the command line, with _ for -; True for a flag, which
    has a value with the fake alone."""
    if kind == "fake":
        command = [config.getoption("--fake")]
    else:
        command = [config.getoption("--omma"), "serve", "--host", "127.0.0.1", "--model", config.getoption("--model")]
    command += ["--port", "0", "--served-model-name", "test-model"]
    for key, value in options.items():
        command.append("--" + key.replace("_", "-"))
        if value is not True:
            command.append(str(value))
        elif kind == "fake":
            command.append("1")
    return command


def check_output(process):
    """Of a server that was stopped: it ended well, and no sanitizer had anything to say."""
    text = process.output.decode(errors="replace")
    assert process.process.returncode == 0 and not re.search(r"Sanitizer|runtime error", text), text


def end_all(processes):
    """Stops and checks all that no test has stopped; one that fails keeps none of the others up."""
    failures = []
    for process in processes:
        try:
            if not process.process.stdout.closed:
                process.stop()
            check_output(process)
        except AssertionError as failure:
            failures.append(failure)
    if failures:
        raise failures[0]


def read_all(connection):
    data = b""
    while True:
        try:
            piece = connection.recv(65536)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece


def read_until(connection, mark, data=b""):
    while mark not in data:
        piece = connection.recv(65536)
        if not piece:
            raise AssertionError(f"closed before {mark!r}: {data!r}")
        data += piece
    return data


def split_chunks(data):
    """The head and the chunks of a chunked reply, as they were framed."""
    head, _, rest = data.partition(b"\r\n\r\n")
    chunks = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        size = int(size, 16)
        if size == 0:
            assert rest == b"\r\n", rest
            return head, chunks
        chunks.append(rest[:size])
        assert rest[size:size + 2] == b"\r\n"
        rest = rest[size + 2:]
    raise AssertionError(f"the last chunk is missing after {chunks[-1:]!r}")


def parse_events(chunks):
    """JSON of each event; [DONE] and comments as strings."""
    events = []
    for text in b"".join(chunks).decode().split("\n\n")[:-1]:
        if text.startswith("data: {"):
            events.append(json.loads(text[6:]))
        else:
            events.append(text)
    return events


def stream_events(server, content="hello", **fields):
    with server.open_stream(content, **fields) as connection:
        data = read_until(connection, b"0\r\n\r\n")
    head, chunks = split_chunks(data)
    assert head.startswith(b"HTTP/1.1 200"), head
    return parse_events(chunks)
