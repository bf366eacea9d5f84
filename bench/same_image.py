#!/usr/bin/env python3
"""How soon a server answers when it is asked about an image again.

After a warm-up, three requests a round, one after another: an image that the server has not seen,
the same with another question, and that question again. Prints the median time to the first token
of each, its ratio to the first, and how many images went through the encoder.

    omma serve DIR &
    bench/same_image.py --size 1024x1024 --rounds 3

Works against any server with OpenAI's API; the encoder's count needs this project's /metrics.
"""

import argparse
import base64
import http.client
import json
import random
import re
import statistics
import struct
import sys
import time
import urllib.error
import urllib.request
import zlib
from typing import Callable, Collection

QUESTIONS = (("a new image", "What is in this picture?"), ("another question", "Which colours do you see?"),
             ("the same question", "Which colours do you see?"))


def size_of(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text}: expected WIDTHxHEIGHT")
    return int(found[1]), int(found[2])


def positive(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"{text}: expected an integer from 1")
    return int(text)


def names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """An argparse type: some of the known names, with commas between them."""
    def names(text: str) -> list[str]:
        found = text.split(",")
        if unknown := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r}: expected some of {','.join(known)}")
        return found
    return names


def base_url(text: str) -> str:
    if not re.fullmatch(r"https?://[^/]+/?", text):
        raise argparse.ArgumentTypeError(f"{text}: expected http://HOST:PORT")
    return text.rstrip("/")


def make_image(width: int, height: int) -> str:
    """Slanted stripes as a PNG in a data URL, different each time."""
    source = random.SystemRandom()
    line = b"".join(bytes((source.randrange(256), x % 256, 255 - x % 256)) for x in range(256)) * (width // 256 + 2)
    rows = b"".join(b"\0" + line[3 * (y % 256):3 * (y % 256 + width)] for y in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


class Server:
    def __init__(self, arguments):
        self.base_url, self.timeout = arguments.base_url, arguments.timeout
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.headers = {"Content-Type": "application/json"}
        if arguments.api_key:
            self.headers["Authorization"] = f"Bearer {arguments.api_key}"
        with self.open("/v1/models") as reply:
            self.model = arguments.model or json.load(reply)["data"][0]["id"]

    def open(self, path: str, body: dict | None = None, headers: dict | None = None) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base_url + path, data, {**self.headers, **(headers or {})})
        return self.opener.open(request, timeout=self.timeout)

    def first_token_seconds(self, image: str, question: str) -> float:
        """From before the request is sent to the first event of its stream that has a choice."""
        content = [{"type": "image_url", "image_url": {"url": image}}, {"type": "text", "text": question}]
        body = {"model": self.model, "messages": [{"role": "user", "content": content}], "stream": True, "max_tokens": 4,
                "temperature": 0}
        first = None
        start = time.monotonic()
        with self.open("/v1/chat/completions", body) as stream:
            for line in stream:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    sys.exit(f"the server ended a stream: {event['error']}")
                if event["choices"] and first is None:
                    first = time.monotonic() - start
        if first is None:
            sys.exit("a stream ended without a token")
        return first

    def encoded_images(self) -> float | None:
        """How many images went through the encoder so far; None where the server does not tell."""
        try:
            with self.open("/metrics") as reply:
                found = re.search(r"^omma:encoder_images_total\{.*\} (\S+)$", reply.read().decode(), re.MULTILINE)
        except urllib.error.HTTPError:
            return None
        return float(found[1]) if found else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", type=base_url, default="http://127.0.0.1:8000", help="the server (default: %(default)s)")
    parser.add_argument("--model", help="the name to ask for (default: the server's first)")
    parser.add_argument("--api-key", help="sent as a bearer token")
    parser.add_argument("--size", type=size_of, default="1024x1024", help="of the image (default: %(default)s)")
    parser.add_argument("--rounds", type=positive, default=3, help="each with a new image (default: %(default)s)")
    parser.add_argument("--timeout", type=positive, default=600, help="seconds without an event (default: %(default)s)")
    arguments = parser.parse_args()
    seconds = [[] for _ in QUESTIONS]
    try:
        server = Server(arguments)
        server.first_token_seconds(make_image(*arguments.size), "Warm-up?")
        before = server.encoded_images()
        for _ in range(arguments.rounds):
            image = make_image(*arguments.size)
            for times, (_, question) in zip(seconds, QUESTIONS):
                times.append(server.first_token_seconds(image, question))
        after = server.encoded_images()
    except urllib.error.HTTPError as error:
        sys.exit(f"{error.url}: status {error.code}: {error.read(500).decode(errors='replace')}")
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"{arguments.base_url}: {error}")
    width, height = arguments.size
    print(f"{width}x{height}, {arguments.rounds} rounds, median time to the first token")
    first = statistics.median(seconds[0])
    for times, (name, _) in zip(seconds, QUESTIONS):
        middle = statistics.median(times)
        print(f"  {name:<18} {middle:8.3f} s  {middle / first:6.3f} of the first")
    if before is not None and after is not None:
        print(f"  {after - before:.0f} of {len(QUESTIONS) * arguments.rounds} images went through the encoder")


if __name__ == "__main__":
    main()
