#!/usr/bin/env python3
"""What a text request costs the server besides the engine: HTTP, JSON, chat template and
tokenizing, in processor time.

Starts `omma serve`, sends chats of one size with max_tokens 1 one after another over one
connection, and sums the processor time of its threads by name (/proc/PID/task): libmicrohttpd's,
the workers', the watcher's and the log's, without omma-engine and omma-team. With --fake, the
tests' server over a scripted engine, the time of all its threads is measured, in which the engine's
part is the callbacks that write the reply.

    bench/http_cost.py --omma build/release/omma --fake build/release/tests/omma_fake_server
"""

import argparse
import http.client
import json
import pathlib
import re
import statistics
import subprocess
import sys

WORDS = ("which", "colour", "has", "the", "house", "behind", "trees", "in", "this", "picture", "and", "what", "stands", "beside", "it?")
ENGINE = ("omma-engine", "omma-team")


def text_of(size: int, salt: int) -> str:
    words = [f"{salt}:"]
    while sum(map(len, words)) + len(words) < size:
        words.append(WORDS[(salt + 7 * len(words)) % len(WORDS)])
    return " ".join(words)[:size]


def cpu_ns(process: int) -> dict[str, int]:
    """Processor time so far by name of thread."""
    times: dict[str, int] = {}
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        name = (task / "comm").read_text().strip()
        times[name] = times.get(name, 0) + int((task / "schedstat").read_text().split()[0])
    return times


def start(command: list[str]) -> tuple[subprocess.Popen[str], int]:
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout
    for line in server.stdout:
        if found := re.search(r"http://[^/]*:(\d+)", line):
            return server, int(found[1])
    sys.exit("the server did not start")


def ask(connection: http.client.HTTPConnection, text: str) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": text}], "max_tokens": 1})
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    if reply.status != 200:
        sys.exit(f"status {reply.status}: {reply.read()!r}")
    reply.read()


def measure(name: str, command: list[str], arguments: argparse.Namespace, left_out: tuple[str, ...]) -> None:
    server, port = start(command)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for i in range(50):
            ask(connection, text_of(arguments.bytes, i))
        rounds = []
        for k in range(arguments.rounds):
            before = cpu_ns(server.pid)
            for i in range(arguments.requests):
                ask(connection, text_of(arguments.bytes, 1000 * k + i))
            after = cpu_ns(server.pid)
            rounds.append({thread: (after[thread] - before.get(thread, 0)) / arguments.requests * 1e-6 for thread in after})
        connection.close()
    finally:
        server.terminate()
        server.wait()
    counted = sorted(thread for thread in rounds[0] if thread not in left_out)
    totals = [sum(one[thread] for thread in counted) for one in rounds]
    parts = ", ".join(f"{thread} {statistics.median(one[thread] for one in rounds):.3f}" for thread in counted)
    print(f"{name}: {statistics.median(totals):.3f} ms a request of {arguments.bytes} bytes (least {min(totals):.3f}, most {max(totals):.3f}; "
          f"{arguments.rounds} rounds of {arguments.requests}): {parts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--omma", default="build/release/omma")
    parser.add_argument("--fake", help="the tests' server over a scripted engine, measured as well")
    parser.add_argument("--model", help="default: the demo model")
    parser.add_argument("--bytes", type=int, default=1024, help="of the text of a request")
    parser.add_argument("--requests", type=int, default=300, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    model = ["--model", arguments.model] if arguments.model else []
    measure("omma serve, without engine and team", [arguments.omma, "serve", *model, "--port", "0", "--disable-uvicorn-access-log"],
            arguments, ENGINE)
    if arguments.fake:
        measure("scripted engine, all threads", [arguments.fake, "--port", "0", "--served-model-name", "x"], arguments, ())


if __name__ == "__main__":
    main()
