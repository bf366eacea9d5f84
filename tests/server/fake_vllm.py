"""A server that stands for a vLLM with OmmatidiaConnector: it fetches embeddings from the nodes
that its requests name, and fails as vLLM does where it gets none. Answers name what it got."""

import contextlib
import http.client
import http.server
import json
import threading
import time
import urllib.parse

KEY = "s3cret"
N_EVENTS = 4


class FakeVllm:
    """`statuses` are those of the next chats; `wants_key`, `knows_embeds` and `begins_after`
    (seconds before the first byte of an answer) can be changed, and `hangs`, an event that answers
    wait for."""

    def __init__(self):
        self.bodies, self.headers, self.statuses = [], [], []
        self.wants_key, self.knows_embeds, self.begins_after, self.breaks_off = False, True, 0.0, False
        self.fails_stream, self.hangs = False, None
        self.node_key = None
        self.n_left = self.n_embeds = self.n_images = 0
        self._server = None
        self._start(0)

    def _start(self, port):
        vllm = self

        class Handler(_Handler):
            owner = vllm

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 1024
            daemon_threads = True

            def handle_error(self, request, address):
                vllm.n_left += 1

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def restart(self):
        self._start(self.port)

    def forget(self):
        self.bodies.clear()
        self.headers.clear()
        self.statuses.clear()
        self.wants_key, self.knows_embeds, self.begins_after, self.breaks_off = False, True, 0.0, False
        self.fails_stream, self.hangs = False, None
        self.node_key = None

    def has_embeddings(self, part, body):
        """As the connector has it: from the node that the request names."""
        url = urllib.parse.urlsplit(body["ec_transfer_params"][part["uuid"]]["encoder_url"])
        headers = {"Authorization": f"Bearer {self.node_key}"} if self.node_key else {}
        with contextlib.closing(http.client.HTTPConnection(url.netloc, timeout=5)) as connection:
            try:
                connection.request("GET", f"/v1/encodings/{part['uuid']}", headers=headers)
                reply = connection.getresponse()
                return reply.status == 200 and len(reply.read()) > 100
            except (OSError, http.client.HTTPException):
                return False


def image_parts(body):
    for message in body["messages"]:
        content = message["content"]
        yield from (part for part in (content if isinstance(content, list) else []) if part["type"] in ("image_url", "image_embeds"))


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def do_GET(self):
        if self.owner.wants_key and self.path.startswith("/v1/") and self.headers["Authorization"] != f"Bearer {KEY}":
            self.reply(401, {"error": "Unauthorized"})
        elif self.path == "/v1/models":
            self.reply(200, {"object": "list", "data": [{"id": "its name"}]})
        else:
            self.reply(200 if self.path == "/health" else 404, {"path": self.path})

    def do_POST(self):
        vllm = self.owner
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        vllm.bodies.append(body)
        vllm.headers.append(self.headers)
        time.sleep(vllm.begins_after)
        if vllm.hangs:
            vllm.hangs.wait()
        if vllm.statuses and (status := vllm.statuses.pop(0)) != 200:
            self.reply(status, {"error": {"message": "as the test wants it", "code": status}})
        elif self.path != "/v1/chat/completions":
            self.reply(200, {"path": self.path})
        else:
            self.chat(body)

    def chat(self, body):
        vllm, parts = self.owner, list(image_parts(body))
        embeds = [part for part in parts if part["type"] == "image_embeds"]
        vllm.n_embeds += len(embeds)
        vllm.n_images += len(parts) - len(embeds)
        if embeds and (not vllm.knows_embeds or len(embeds) < len(parts)):
            self.reply(400, {"error": {"message": "image_embeds are not for this model", "code": 400}})
        elif all(vllm.has_embeddings(part, body) for part in embeds) and not vllm.fails_stream:
            self.answer(body, "embeddings" if embeds else "images" if parts else "text")
        elif body.get("stream"):
            self.stream(['{"error":{"message":"internal error","type":"InternalServerError","param":null,"code":500}}'])
        else:
            self.reply(500, {"error": {"message": "internal error", "code": 500}})

    def answer(self, body, text):
        if body.get("stream"):
            self.stream([json.dumps({"choices": [{"delta": {"content": text if i == 0 else "."}}]}) for i in range(N_EVENTS)])
        else:
            self.reply(200, {"choices": [{"message": {"content": text}}]})

    def stream(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for i, event in enumerate([*events, "[DONE]"]):
            if i == 2 and self.owner.breaks_off:
                self.connection.close()
                self.close_connection = True
                return
            self.chunk(f"data: {event}\n\n".encode())
            time.sleep(0.002)
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def reply(self, status, value):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass
