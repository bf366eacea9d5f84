"""A collector of traces, which also misbehaves on demand: OTLP over HTTP in JSON, on 127.0.0.1."""

import http.server
import json
import threading

from waiting import wait_for


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        collector = self.server.collector
        body = self.rfile.read(int(self.headers["Content-Length"]))
        collector.posts.append((self.path, self.headers["Content-Type"], body))
        collector.blocked.wait()
        self.send_response(collector.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def handle(self):
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            pass  # a server that stops does not wait for the reply

    def log_message(self, *_):
        pass


class Collector:
    """Remembers what was posted. status: of its replies; block() lets it not answer any more."""

    def __init__(self, status=200):
        self.status, self.posts, self.blocked = status, [], threading.Event()
        self.blocked.set()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.collector = self
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def block(self):
        self.blocked.clear()

    def scopes(self):
        for _, _, body in list(self.posts):
            for resource in json.loads(body)["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    yield resource["resource"], scope

    def spans(self):
        return [span for _, scope in self.scopes() for span in scope["spans"]]

    def wait_for(self, n_requests):
        """The spans of that many requests, each with those below it."""
        wait_for(lambda: len(self.roots()) >= n_requests, f"{n_requests} requests at the collector")
        return self.roots()

    def roots(self):
        spans = self.spans()
        return [(span, [s for s in spans if s.get("parentSpanId") == span["spanId"]]) for span in spans if span["kind"] == 2]

    def close(self):
        self.blocked.set()
        self.server.shutdown()
        self.server.server_close()


def attributes(span):
    """By name; integers of 64 bits come as strings."""
    kinds = {"stringValue": str, "intValue": int, "doubleValue": float}
    found = {}
    for pair in span["attributes"]:
        [(kind, value)] = pair["value"].items()
        assert kind != "intValue" or isinstance(value, str), pair
        found[pair["key"]] = kinds[kind](value)
    return found
