"""A server with a script: what it sends to each request, in which pieces and when, and a record of
what came in and went out.

`script(request)` returns the actions of a reply: bytes to write, seconds (a float) to wait,
Arrivals to wait for, RESET or CLOSE. The clock is the monotonic one, which is the same in all
processes of a machine.

As a program it is the load for many streams: stub_server.py PORT EVENTS GAP_SECONDS [FIRST_SECONDS
[ARRIVALS]]."""

import asyncio
import dataclasses
import json
import socket
import struct
import sys
import threading
import time

RESET, CLOSE = "reset", "close"


@dataclasses.dataclass
class Arrivals:
    """Until this one and others, n in all, have come: whoever waits for an end before sending the
    next waits for ever."""

    n: int


@dataclasses.dataclass
class Request:
    index: int  # among the POSTs, in the order of arrival
    method: str
    path: str
    headers: dict
    body: bytes
    time: float
    writes: list = dataclasses.field(default_factory=list)  # (time, bytes) as written
    done: bool = False

    @property
    def json(self):
        return json.loads(self.body)


def head(status="200 OK", content_type="text/event-stream", extra=""):
    return f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{extra}Transfer-Encoding: chunked\r\n\r\n".encode()


def chunk(data):
    if isinstance(data, str):
        data = data.encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


END = b"0\r\n\r\n"


def event(value, end="\n\n"):
    return f"data: {value if isinstance(value, str) else json.dumps(value)}{end}"


def token(text, chat=True, finish=None):
    choice = {"index": 0, "finish_reason": finish}
    choice.update({"delta": {"content": text}} if chat else {"text": text})
    return {"id": "x", "object": "chat.completion.chunk", "choices": [choice]}


def usage(prompt, completion):
    return {"id": "x", "choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion,
                                                 "total_tokens": prompt + completion}}


def stream(texts, first=0.0, gap=0.0, prompt=7, chat=True, with_usage=True):
    """The usual reply: a token event per text, the usage, [DONE]; one write each."""
    actions = [head(), float(first)]
    for i, text in enumerate(texts):
        if i:
            actions.append(float(gap))
        actions.append(chunk(event(token(text, chat, "stop" if i + 1 == len(texts) else None))))
    if with_usage:
        actions.append(chunk(event(usage(prompt, len(texts)))))
    return actions + [chunk(event("[DONE]")), END]


def error(status, body, content_type="application/json"):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return [f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body]


def other_reply(request):
    """Everything but completions."""
    if request.path == "/v1/models":
        return error("200 OK", {"object": "list", "data": [{"id": "stub-model", "root": "stub-model"}]})
    return error("404 Not Found", {"error": {"message": "nothing there"}})


class StubServer:
    def __init__(self, script, other=other_reply, port=0):
        self.script, self.other = script, other
        self.requests, self.others = [], []
        self.gates = {}
        self.listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self.port = self.listener.getsockname()[1]
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.listener.close()

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(asyncio.start_server(self._serve, sock=self.listener))
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    async def _serve(self, reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _read(self, reader):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ")
        headers = {}
        for line in lines[1:]:
            if line:
                name, value = line.split(":", 1)
                headers[name.strip().lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        log = self.requests if path.endswith("completions") else self.others
        request = Request(len(log), method, path, headers, body, time.monotonic())
        log.append(request)
        return request

    async def _wait_for(self, n):
        gate = self.gates.setdefault(n, asyncio.Event())
        if len(self.requests) >= n:
            gate.set()
        await gate.wait()

    async def _answer(self, reader, writer):
        request = await self._read(reader)
        script = self.script if path_is_completion(request) else self.other
        for action in script(request):
            if isinstance(action, float):
                if action:
                    await asyncio.sleep(action)
            elif isinstance(action, Arrivals):
                await self._wait_for(action.n)
            elif action == RESET:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return False
            elif action == CLOSE:
                return False
            else:
                request.writes.append((time.monotonic(), action))
                writer.write(action)
                await writer.drain()
        request.done = True
        return True


def path_is_completion(request):
    return request.path.endswith("completions")


def main():
    port, events, gap = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    first = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    together = Arrivals(int(sys.argv[5]) if len(sys.argv) > 5 else 1)
    with StubServer(lambda request: [together, *stream(["word "] * events, first, gap)], port=port) as server:
        print(server.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
