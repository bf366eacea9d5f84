#!/usr/bin/env python3
"""Images that become vectors in a second, next to what the parts of the work allow.

Times a prompt's prefill (`omma bench decode`) and the tower on several images at once (`omma bench
encoder`): the two times together are what an image takes at the shares of the peak that both reach.
Then a server that runs already is asked for vectors of images that nobody has seen, all at once, in
rounds. Prints images a second of each round as a share of the former, and how many of the prompts'
tokens were taken from the prefix cache, which the former does not count on.

    omma serve DIR --runner pooling &
    bench/index_images.py --checkpoint DIR --requests 16
"""

import argparse
import json
import re
import subprocess
import sys

from crowd import make_requests, run_round
from omma_program import add_omma_option
from same_image import Server, base_url, positive, size_of


def bench(arguments, *words) -> dict:
    command = [arguments.omma, "bench", *map(str, words), "--model", arguments.checkpoint, "--repeat", "2", "--json", *arguments.options]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def prefill_seconds(arguments, n_tokens: int) -> tuple[float, float]:
    """Of a prompt: at the better rate of it alone and of a whole step of short ones, and at the
    peak."""
    contexts = bench(arguments, "decode", "--context", f"{n_tokens},512", "--tokens", 2)["contexts"]
    best = max(context["prefill_fraction_of_peak"] for context in contexts)
    alone = contexts[0]
    print(f"prefill of {n_tokens} tokens: {alone['prefill_ms_min']:.0f} ms, {alone['prefill_fraction_of_peak']:.3f} of the peak; of 512 at once: "
          f"{contexts[1]['prefill_fraction_of_peak']:.3f}")
    at_peak = alone["prefill_ms_min"] / 1e3 * alone["prefill_fraction_of_peak"]
    return at_peak / best, at_peak


def tower_seconds(arguments) -> tuple[float, float]:
    """Of an image: as it is, and at the peak."""
    found = bench(arguments, "encoder", "--image-size", "{}x{}".format(*arguments.size), "--batch", arguments.batch)
    seconds = found["ms_min"] / 1e3 / found["n_images"]
    print(f"tower: {seconds * 1e3:.0f} ms an image, {1 / found['times_peak']:.3f} of the peak")
    return seconds, seconds / found["times_peak"]


def counters(server: Server) -> dict[str, float]:
    """Tokens of prompts, and those of them that the prefix cache had."""
    with server.open("/metrics") as reply:
        text = reply.read().decode()
    return {name: sum(float(value) for value in re.findall(rf"^vllm:{name}_total\{{.*\}} (\S+)$", text, re.MULTILINE))
            for name in ("prefix_cache_queries", "prefix_cache_hits")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_omma_option(parser)
    parser.add_argument("--checkpoint", metavar="DIR", required=True, help="what the server serves")
    parser.add_argument("--base-url", type=base_url, default="http://127.0.0.1:8000", help="the server (default: %(default)s)")
    parser.add_argument("--model", help="its name there (default: the first)")
    parser.add_argument("--api-key")
    parser.add_argument("--size", type=size_of, default="448x448", help="of the images (default: %(default)s)")
    parser.add_argument("--requests", type=positive, default=16, help="images of a round (default: %(default)s)")
    parser.add_argument("--batch", type=positive, default=8, help="images that the tower is timed with (default: %(default)s)")
    parser.add_argument("--rounds", type=positive, default=2)
    parser.add_argument("--timeout", type=positive, default=3600)
    parser.add_argument("options", nargs="*", help="of `omma bench`, after --: such as -- --quantization int8")
    arguments = parser.parse_args()
    arguments.embed, arguments.stream, arguments.rate = True, False, 0.0
    server = Server(arguments)
    first = make_requests(server, arguments, 0)[0]
    first.run()
    if first.failure:
        sys.exit(f"{arguments.base_url}: {first.failure}")
    for each in range(arguments.rounds):
        before = counters(server)
        seconds = run_round(server, arguments, each + 1) / arguments.requests
        after = counters(server)
        hits, queries = (after[name] - before[name] for name in ("prefix_cache_hits", "prefix_cache_queries"))
        parts, at_peak = map(sum, zip(tower_seconds(arguments), prefill_seconds(arguments, first.n_tokens)))
        print(f"{1 / seconds:.3f} images a second, {1 / parts:.3f} by the parts: {parts / seconds:.3f}; at the peak {1 / at_peak:.3f}; "
              f"{hits / max(queries, 1):.3f} of the tokens from the prefix cache", flush=True)


if __name__ == "__main__":
    main()
