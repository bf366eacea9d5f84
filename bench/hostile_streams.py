#!/usr/bin/env python3
"""Times between the tokens of a stream: alone, next to seven streams of text, and next to seven
whose masks are made to take long (tests/server/test_hostile_grammars.py).

    bench/hostile_streams.py --omma build/release/omma --model DIR [--seconds T] [--rounds N] [--attack NAME...] [-- OPTION...]

The other clients answer again and again; options behind -- go to `omma serve`. Each line has the
median time, the mean, and the longest, and the median over that alone. Rounds alternate between the
cases, since a machine's speed changes."""

import argparse
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "server"))

import test_hostile_grammars as hostile  # noqa: E402
from server_process import ServerProcess, read_until  # noqa: E402


def gaps(server, request_of, seconds):
    clients = hostile.Clients(server, request_of) if request_of else None
    time.sleep(2.0 if clients else 0.2)
    stream = server.open_stream(max_tokens=1900, ignore_eos=True)
    read_until(stream, b"content")
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end and b"[DONE]" not in stream.recv(65536):
        times.append(time.monotonic())
    stream.close()
    if clients:
        clients.end()
    return [after - before for before, after in zip(times, times[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--omma", default="build/release/omma")
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--attack", nargs="+", default=list(hostile.ATTACKS), choices=list(hostile.ATTACKS))
    parser.add_argument("options", nargs="*", help="of omma serve")
    arguments = parser.parse_args()
    cases = {"alone": None, "seven of text": lambda _: {**hostile.ANSWER, "max_tokens": 400}}
    for name in arguments.attack:
        pattern = hostile.ATTACKS[name]
        cases[f"seven of '{name}'"] = lambda number, pattern=pattern: hostile.with_regex(pattern(number), max_tokens=400)
    server = ServerProcess([arguments.omma, "serve", "--model", arguments.model, "--host", "127.0.0.1", "--port", "0",
                            "--served-model-name", "test-model", "--max-num-seqs", "8", *arguments.options])
    found = {case: [] for case in cases}
    try:
        for _ in range(arguments.rounds):
            for case, request_of in cases.items():
                found[case] += gaps(server, request_of, arguments.seconds)
    finally:
        server.stop()
    alone = statistics.median(found["alone"])
    for case, times in found.items():
        print(f"{case:26} median {statistics.median(times) * 1e3:7.1f} ms  mean {statistics.mean(times) * 1e3:7.1f}  longest {max(times) * 1e3:7.1f}"
              f"  of {len(times):5} gaps; {statistics.median(times) / alone:.2f} of alone", flush=True)


if __name__ == "__main__":
    main()
