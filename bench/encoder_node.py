#!/usr/bin/env python3
"""What an encoder node loses against the tower alone: images a second of `omma serve
--mm-encoder-only`, from HTTP to published embeddings, over those of `omma bench encoder` on the
same threads.

The node gets PNG images of noise, all different, with two requests at a time so that it can prepare
one while it encodes another. Both are timed in turns, in rounds; the figure is the median of the
rounds' ratios.

    bench/encoder_node.py --model DIR [--threads 2] [--size 1024] [--images 4] [--rounds 3]
"""

import argparse
import base64
import http.client
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

from omma_program import add_omma_option

WAITING = 2


def png(side: int) -> bytes:
    """Noise, stored and not packed: decoding is a few per cent of encoding, as a photograph's
    is."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + os.urandom(3 * side) for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")


def body_of(side: int, number: int) -> bytes:
    url = "data:image/png;base64," + base64.b64encode(png(side)).decode()
    part = {"type": "image_url", "image_url": {"url": url}, "uuid": f"image-{number}"}
    return json.dumps({"messages": [{"role": "user", "content": [part]}], "max_tokens": 1}).encode()


def ask(port: int, body: bytes) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    if reply.status != 200:
        sys.exit(f"status {reply.status}: {reply.read()!r}")
    reply.read()
    connection.close()


def start_node(arguments: argparse.Namespace, folder: str) -> tuple[subprocess.Popen[str], int]:
    config = {"ec_connector": "ECExampleConnector", "ec_role": "ec_producer", "ec_connector_extra_config": {"shared_storage_path": folder}}
    command = [
        arguments.omma, "serve", arguments.model, "--port", "0", "--threads", str(arguments.threads),
        "--ec-transfer-config", json.dumps(config), "--disable-uvicorn-access-log",
    ]
    node = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert node.stderr
    for line in node.stderr:
        if found := re.search(r"serving at http://[^/]*:(\d+)", line):
            return node, int(found[1])
    sys.exit("the node did not start")


def node_rate(port: int, bodies: list[bytes]) -> float:
    with ThreadPoolExecutor(WAITING) as pool:
        begin = time.monotonic()
        list(pool.map(lambda body: ask(port, body), bodies))
        return len(bodies) / (time.monotonic() - begin)


def tower_rate(arguments: argparse.Namespace) -> float:
    size = f"{arguments.size}x{arguments.size}"
    command = [
        arguments.omma, "bench", "encoder", "--model", arguments.model, "--image-size", size, "--threads", str(arguments.threads),
        "--repeat", str(arguments.images), "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return 1000 / float(json.loads(done.stdout)["ms_median"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_omma_option(parser)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--size", type=int, default=1024, help="width and height (default: %(default)s)")
    parser.add_argument("--images", type=int, default=4, help="in each round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    bodies = [body_of(arguments.size, number) for number in range(arguments.images * arguments.rounds + 1)]
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        node, port = start_node(arguments, folder)
        try:
            ask(port, bodies.pop())
            for _ in range(arguments.rounds):
                tower = tower_rate(arguments) / arguments.threads
                node_per_core = node_rate(port, [bodies.pop() for _ in range(arguments.images)]) / arguments.threads
                ratios.append(node_per_core / tower)
                print(f"images a second per core: tower {tower:.4f}, node {node_per_core:.4f}, ratio {ratios[-1]:.3f}", flush=True)
        finally:
            node.terminate()
            node.wait()
    print(f"median ratio {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
