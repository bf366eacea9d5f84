#!/usr/bin/env python3
"""How long many requests with an image each take, on one server or on several in turns.

Every request has an image that no server has seen, a short question and an answer of a fixed
length. Prints, for each round and server, the seconds until the last answer, requests and tokens a
second, and with --stream the mean time to the first token and for each after it; in the end the
ratio of each server's best round to the first server's. With --embed the requests are for vectors
of the image and the question instead; then it prints prompt tokens a second.

    omma serve DIR --port 8000 & vllm serve DIR --port 8001 &
    bench/crowd.py --base-url http://127.0.0.1:8000 --base-url http://127.0.0.1:8001 --requests 8 --tokens 64

Works against any server with OpenAI's API that takes ignore_eos.
"""

import argparse
import json
import random
import statistics
import sys
import threading
import time

from same_image import Server, base_url, make_image, positive, size_of

INSTRUCTION = "Represent the user's input."  # the beginning that all requests for vectors share


class Request(threading.Thread):
    """One request, sent after a delay. Its times are seconds of time.monotonic()."""

    def __init__(self, server: Server, arguments, question: str, delay: float):
        super().__init__()
        self.server, self.stream, self.delay = server, arguments.stream, delay
        content: list[dict] = [{"type": "text", "text": question}]
        if arguments.size:
            content.insert(0, {"type": "image_url", "image_url": {"url": make_image(*arguments.size)}})
        self.path = "/v1/embeddings" if arguments.embed else "/v1/chat/completions"
        self.body: dict = {"model": server.model, "messages": [{"role": "user", "content": content}]}
        if arguments.embed:
            self.body["messages"].insert(0, {"role": "system", "content": INSTRUCTION})
        else:
            self.body |= {"max_tokens": arguments.tokens, "temperature": 0, "ignore_eos": True, "stream": self.stream}
        self.start_time = self.first = self.end = 0.0
        self.n_tokens = 0
        self.failure = ""

    def read_stream(self, reply) -> None:
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                raise OSError(event["error"])
            self.first = self.first or (time.monotonic() if event.get("choices") else 0.0)
            self.n_tokens = (event.get("usage") or {}).get("completion_tokens", self.n_tokens)

    def run(self) -> None:
        if self.stream:
            self.body["stream_options"] = {"include_usage": True}
        time.sleep(self.delay)
        self.start_time = time.monotonic()
        try:
            with self.server.open(self.path, self.body) as reply:
                if self.stream:
                    self.read_stream(reply)
                else:
                    usage = json.load(reply)["usage"]
                    self.n_tokens = usage["completion_tokens"] or usage["prompt_tokens"]
        except (OSError, ValueError, KeyError) as error:
            self.failure = str(error)
        self.end = time.monotonic()


def make_requests(server: Server, arguments, seed: int) -> list[Request]:
    """Those of one round. Questions and delays are the same for each server."""
    source = random.Random(seed)
    requests, delay = [], 0.0
    for _ in range(arguments.requests):
        question = "".join(source.choice("abcdefghij ") for _ in range(32))
        requests.append(Request(server, arguments, question, delay))
        delay += source.expovariate(arguments.rate) if arguments.rate else 0.0
    return requests


def run_round(server: Server, arguments, seed: int) -> float:
    """The seconds that it takes."""
    requests = make_requests(server, arguments, seed)
    for request in requests:
        request.start()
    for request in requests:
        request.join()
    if failures := [request.failure for request in requests if request.failure]:
        sys.exit(f"{server.base_url}: {len(failures)} of {len(requests)} requests failed, the first with: {failures[0]}")
    seconds = max(request.end for request in requests) - min(request.start_time for request in requests)
    n_tokens = sum(request.n_tokens for request in requests)
    line = f"{server.base_url:<28}{seconds:8.3f} s {len(requests) / seconds:8.3f} requests/s {n_tokens / seconds:8.2f} tokens/s"
    if arguments.stream:
        first = statistics.mean(request.first - request.start_time for request in requests)
        each = statistics.mean((request.end - request.first) / max(request.n_tokens - 1, 1) for request in requests)
        line += f" {first:8.2f} s to the first {1000 * each:8.1f} ms each"
    print(line, flush=True)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", type=base_url, action="append", help="a server; may be repeated (http://127.0.0.1:8000)")
    parser.add_argument("--model", help="its name there (the first of /v1/models)")
    parser.add_argument("--api-key")
    parser.add_argument("--requests", type=positive, default=8)
    parser.add_argument("--size", type=lambda text: None if text == "none" else size_of(text), default=(448, 448),
                        help="WIDTHxHEIGHT of the images, or none (448x448)")
    parser.add_argument("--embed", action="store_true", help="ask for vectors")
    parser.add_argument("--tokens", type=positive, default=64, help="of each answer (64)")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second, at random times (all at once)")
    parser.add_argument("--stream", action="store_true", help="read the answers as they come")
    parser.add_argument("--rounds", type=positive, default=2)
    parser.add_argument("--timeout", type=float, default=3600.0)
    arguments = parser.parse_args()
    if arguments.embed and arguments.stream:
        parser.error("--stream: vectors do not come in streams")
    servers = []
    for url in arguments.base_url or ["http://127.0.0.1:8000"]:
        arguments.base_url = url
        servers.append(Server(arguments))
    best = [min(times) for times in zip(*([run_round(server, arguments, seed) for server in servers]
                                          for seed in range(arguments.rounds)))]
    for server, seconds in list(zip(servers, best))[1:]:
        print(f"{server.base_url} takes {seconds / best[0]:.2f} times as long as {servers[0].base_url}")


if __name__ == "__main__":
    main()
