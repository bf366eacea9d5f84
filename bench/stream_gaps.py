#!/usr/bin/env python3
"""What a running stream notices when other clients send images.

A text stream runs; after a while another request with a new image comes. Prints the gaps between
the stream's tokens while it is alone and while the image is encoded and its prompt computed (until
the other request's first token), and the other's time to first token. With --whole N there come N
requests at once that are not streamed, with an image each, and gaps count until the last answer.

    omma serve DIR &
    bench/stream_gaps.py --size 1024x1024; bench/stream_gaps.py --whole 12 --size 448x448 --answer 64 --alone 20

Works against any server with OpenAI's API.
"""

import argparse
import concurrent.futures
import json
import statistics
import sys
import threading
import time
import urllib.error
import urllib.request

from same_image import base_url, make_image, positive, size_of


def stream(url: str, model: str, content, max_tokens: int, on_token) -> None:
    """Sends a chat request and calls on_token(seconds of the clock) for each event with text."""
    body = {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": max_tokens, "ignore_eos": True,
            "temperature": 0, "stream": True}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        for line in reply:
            if line.startswith(b"data: {") and b'"delta":{"role"' not in line:
                on_token(time.perf_counter())


def ask(url: str, model: str, content, max_tokens: int) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": max_tokens, "ignore_eos": True,
            "temperature": 0}
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        reply.read()


def gaps(times: list[float], begin: float, end: float) -> list[float]:
    return [b - a for a, b in zip(times, times[1:]) if a >= begin and b <= end]


def show(name: str, values: list[float]) -> None:
    print(f"  {name:28s} {len(values):4d} gaps, median {1e3 * statistics.median(values):7.1f} ms, largest {1e3 * max(values):7.1f} ms")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--base-url", type=base_url, default="http://127.0.0.1:8000", help="the server (default: %(default)s)")
    parser.add_argument("--size", type=size_of, default=(1024, 1024), help="of the image (default: 1024x1024)")
    parser.add_argument("--alone", type=positive, default=40, help="tokens of the stream before the others come, and after their end (default: %(default)s)")
    parser.add_argument("--tokens", type=positive, default=1200, help="tokens of the stream at most (default: %(default)s)")
    parser.add_argument("--whole", type=positive, help="this number of requests with an image each, none streamed")
    parser.add_argument("--answer", type=positive, default=64, help="tokens of each of them (default: %(default)s)")
    arguments = parser.parse_args()
    with urllib.request.urlopen(arguments.base_url + "/v1/models", timeout=60) as reply:
        model = json.load(reply)["data"][0]["id"]
    times: list[float] = []
    sent: list[float] = []
    first: list[float] = []
    images = [[{"type": "image_url", "image_url": {"url": make_image(*arguments.size)}}, {"type": "text", "text": "What is this?"}]
              for _ in range(arguments.whole or 1)]

    def ask_about_images() -> None:
        sent.append(time.perf_counter())
        if not arguments.whole:
            stream(arguments.base_url, model, images[0], 2, first.append)
            return
        with concurrent.futures.ThreadPoolExecutor(arguments.whole) as clients:
            list(clients.map(lambda image: ask(arguments.base_url, model, image, arguments.answer), images))
        first.append(time.perf_counter())

    other = threading.Thread(target=ask_about_images)

    class Done(Exception):
        pass

    def on_token(now: float) -> None:
        times.append(now)
        if len(times) == arguments.alone:
            other.start()
        if first and times[-arguments.alone] > first[0]:
            raise Done

    try:
        stream(arguments.base_url, model, "Tell me a story.", arguments.tokens, on_token)
    except Done:
        pass
    other.join()
    alone, shared = gaps(times, times[1], sent[0]) + gaps(times, first[0], times[-1]), gaps(times, sent[0], first[0])
    show("alone", alone)
    show("while the others are done", shared)
    median, largest = statistics.median(shared) / statistics.median(alone), max(shared) / statistics.median(alone)
    print(f"  median {median:.2f} and largest {largest:.2f} times the median alone; "
          f"{'last answer' if arguments.whole else 'first token'} of the others after {first[0] - sent[0]:.2f} s")
    longest = sorted((a - b, b - sent[0]) for a, b in zip(times[1:], times) if sent[0] <= b and a <= first[0])[:-6:-1]
    print("  the longest begin after " + ", ".join(f"{begin:.2f} s ({1e3 * gap:.0f} ms)" for gap, begin in longest))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (urllib.error.URLError, OSError, IndexError) as error:
        sys.exit(f"stream_gaps.py: {error}")
