"""A small web server for images, which also misbehaves on demand."""

import http.server
import threading

from images import png
from waiting import wait_for


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=b"", length=None, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        host = self.server.host
        host.paths.append(self.path)
        host.agents.append(self.headers.get("User-Agent"))
        name, _, argument = self.path[1:].partition("/")
        if name == "image":
            self.reply(200, png(9, 8) if not argument else png(int(argument), int(argument)))
        elif name == "to":  # /to/URL
            self.reply(302, b"elsewhere", Location=argument)
        elif name == "relative":
            self.reply(307, Location="../image")
        elif name == "loop":
            self.reply(301, Location=self.path)
        elif name == "text":
            self.reply(200, b"<html>no image</html>")
        elif name == "empty":
            self.reply(200)
        elif name == "big":
            self.reply(200, png(9, 8) + b"\0" * 100_000)
        elif name == "endless":  # no length, and more than anybody wants
            self.send_response(int(argument or 200))
            self.send_header("Connection", "close")
            self.end_headers()
            while not host.closing.is_set():
                self.wfile.write(b"x" * 8192)
        elif name == "truncated":
            self.reply(200, png(9, 8)[:30], length=len(png(9, 8)))
            self.close_connection = True
        elif name == "late":  # /late/SECONDS
            host.closing.wait(float(argument))
            self.reply(200, png(9, 8))
        elif name == "slow":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            while not host.closing.wait(0.1):
                self.wfile.write(b"\x89")
                self.wfile.flush()
        else:
            self.reply(404, b"nothing here")

    def handle(self):
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            self.server.host.broken_off.append(self.path)

    def log_message(self, *_):
        pass


class MediaHost:
    """Listens on 127.0.0.1; remembers the paths that were asked for, and those whose reply found no
    reader."""

    def __init__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.host = self
        self.paths, self.agents, self.broken_off = [], [], []
        self.closing = threading.Event()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path, host="127.0.0.1"):
        return f"http://{host}:{self.server.server_address[1]}/{path}"

    def wait_for(self, path, log):
        wait_for(lambda: path in log, path, 30)  # less than any fetch may take

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
