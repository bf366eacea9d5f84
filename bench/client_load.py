#!/usr/bin/env python3
"""What `omma bench serve` itself costs, and how many streams it carries.

A stub server in a process of its own sends 100 events a second to each of 64 streams; the client's
processor time is taken over two such runs of different lengths, so that its start and the writing
of the result drop out. Then 1,000 streams at once.

    bench/client_load.py --omma build/release/omma --model models/demo

Needs NumPy. Give it an idle machine: the stub takes most of a core.
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("client_load.py: this Python has no NumPy: pip install numpy")
from omma_program import add_omma_option

STUB = pathlib.Path(__file__).resolve().parent.parent / "tests/bench_client/stub_server.py"


def run(arguments, streams: int, events: int, gap: float, first: float = 0.0) -> tuple[float, dict]:
    """The client's processor seconds and its result."""
    words = [sys.executable, str(STUB), "0", str(events), str(gap), str(first)]
    stub = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = stub.stdout.readline().strip()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "result.json"
            command = [arguments.omma, "bench", "serve", "--backend", "openai-chat", "--port", port, "--model", "stub-model"]
            command += ["--tokenizer", arguments.model, "--dataset-name", "random", "--random-input-len", "8"]
            command += ["--num-prompts", str(streams), "--save-result", "--save-detailed", "--result-filename", str(path)]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                sys.exit(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-2000:]}")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            result = json.loads(path.read_text())
    finally:
        stub.communicate("")
    if result["completed"] != streams or sum(map(len, result["itls"])) != streams * (events - 1):
        sys.exit("some streams are not complete")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_omma_option(parser)
    parser.add_argument("--model", default="models/demo", help="a model directory, for its tokenizer (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=20, help="length of the longer run (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.seconds < 2:
        parser.error("--seconds must be 2 or more: the shorter run takes one")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    short, long = 100, 100 * arguments.seconds
    cost = run(arguments, 64, long, 0.01)[0] - run(arguments, 64, short, 0.01)[0]
    each = cost / (64 * (long - short))
    print(f"64 streams: {each * 1e6:.1f} us an event; {each * 6400:.1%} of a core at 6,400 events a second")
    gap = 0.5
    _, result = run(arguments, 1000, 12, gap, 1.0)
    late = np.concatenate(result["itls"]) - gap
    print(f"{result['max_concurrent_requests']} streams at once: gaps of {gap * 1e3:.0f} ms seen with a median error of "
          f"{np.median(np.abs(late)) * 1e3:.1f} ms, p99 {np.percentile(np.abs(late), 99) * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
