#!/usr/bin/env python3
"""A proxy between clients, encoder nodes and vLLM: images go to the nodes, vLLM gets the rest and
their embeddings.

    omma serve DIR --mm-encoder-only --port 8100
    vllm serve DIR --port 8200 --ec-transfer-config '{"ec_connector": "OmmatidiaConnector", "ec_role": "ec_consumer",
        "ec_connector_module_path": "vllm_ommatidia.encoder_connector",
        "ec_connector_extra_config": {"encoder_urls": ["http://127.0.0.1:8100"]}}'
    examples/encoder_proxy.py --encoder http://127.0.0.1:8100 --vllm http://127.0.0.1:8200 --port 8000

Each image of a chat goes alone to a node, always the same one for the same image, under a uuid that
is the SHA-256 of its URL. vLLM then gets its grid of patches in place of the image, and the uuid.
Where a node fails, and where vLLM cannot get what a node has made, vLLM gets the images themselves.
Everything else is handed on to vLLM. Standard library alone; docs/encoder-node.md has the
protocol."""

import argparse
import hashlib
import http.client
import json
import sys
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHATS = "/v1/chat/completions"
# They end at each hop.
HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "expect", "upgrade", "te", "trailer"}
MAX_BODY_BYTES = 256 << 20


def call(base, method, path, body, headers):
    """The open reply of a server; its connection closes with it."""
    url = urllib.parse.urlsplit(base)
    secure = url.scheme == "https"
    connection = (http.client.HTTPSConnection if secure else http.client.HTTPConnection)(url.netloc, timeout=600)
    connection.request(method, url.path.rstrip("/") + path, body, headers)
    return connection.getresponse()


def image_parts(chat):
    """The parts of the messages that are images."""
    for message in chat.get("messages") or []:
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else []:
            if isinstance(part, dict) and part.get("type") == "image_url":
                yield part


def encode(nodes, part, chat, headers):
    """Has a node encode an image; what vLLM gets in place of it, and where its embeddings are."""
    image = part["image_url"]
    url = image["url"] if isinstance(image, dict) else image
    key = hashlib.sha256(url.encode()).hexdigest()
    node = nodes[int(key, 16) % len(nodes)]
    request = {"messages": [{"role": "user", "content": [part | {"uuid": key}]}], "max_tokens": 1, "stream": False}
    # A node has one model, which vLLM may serve under another name.
    request |= {"priority": chat["priority"]} if "priority" in chat else {}
    reply = call(node, "POST", CHATS, json.dumps(request), headers)
    body = reply.read()
    if reply.status != 200:
        raise OSError(f"{node}: status {reply.status}: {body[:200].decode(errors='replace')}")
    transfer = json.loads(body)["ec_transfer_params"][key]
    return {"type": "image_embeds", "image_embeds": transfer["metadata"], "uuid": key}, {key: {"encoder_url": node}}


def replace_images(nodes, body, headers):
    """The chat for vLLM with its images replaced; None where there is none, or a node has
    failed."""
    chat = json.loads(body)
    parts = list(image_parts(chat))
    if not parts:
        return None
    params = dict(chat.get("ec_transfer_params") or {})
    with ThreadPoolExecutor(min(len(parts), 16)) as pool:
        encoded = list(pool.map(lambda part: encode(nodes, part, chat, headers), parts))
    for part, (replacement, place) in zip(parts, encoded):
        part.clear()
        part.update(replacement)
        params |= place
    return json.dumps(chat | {"ec_transfer_params": params}).encode()


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    nodes = vllm = None

    def do_GET(self):
        self.hand_on("GET", None)

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 < length <= MAX_BODY_BYTES:
            self.send_error(411 if length <= 0 else 413)
            return
        body = self.rfile.read(length)
        if self.path != CHATS or not self.try_encoded(body):
            self.hand_on("POST", body)

    def forwarded_headers(self):
        return {name: value for name, value in self.headers.items() if name.lower() not in HOP_HEADERS}

    def try_encoded(self, body):
        """Whether the chat was answered with embeddings in place of its images."""
        try:
            replaced = replace_images(self.nodes, body, self.forwarded_headers())
        except (OSError, http.client.HTTPException, KeyError, TypeError, ValueError, AttributeError) as error:
            self.log_message("the images go to vLLM: %s", error)
            return False
        return replaced is not None and self.hand_on("POST", replaced, retry=True)

    def hand_on(self, method, body, retry=False):
        """Sends vLLM's reply to the client, piece by piece. With `retry`, a failure of vLLM is not
        sent, and gives False."""
        try:
            reply = call(self.vllm, method, self.path, body, self.forwarded_headers())
        except (OSError, http.client.HTTPException) as error:
            self.send_error(502, explain=f"vLLM: {error}")
            return True
        if retry and reply.status == 500:
            self.log_message("the images go to vLLM: %s", reply.read()[:200].decode(errors="replace"))
            return False
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in HOP_HEADERS:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := reply.read1(65536):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")
        return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--encoder", action="append", required=True, metavar="URL", help="an encoder node; may be given again")
    parser.add_argument("--vllm", required=True, metavar="URL", help="the vLLM that answers")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0: any free one (default: %(default)s)")
    options = parser.parse_args()
    Proxy.nodes, Proxy.vllm = options.encoder, options.vllm
    server = ThreadingHTTPServer((options.host, options.port), Proxy)
    print(f"serving at http://{options.host}:{server.server_port}", file=sys.stderr, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
