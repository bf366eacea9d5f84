#!/usr/bin/env python3
"""How many replicas a load needs, and what its requests wait for: a simulation from measured
service times.

    bench/simulate_fleet.py measure --base-url http://127.0.0.1:8001 --size 512x512 --output service.json    # one replica, idle
    bench/simulate_fleet.py predict service.json --rate 0.5 --replicas 1,2,4 --hit-rate 0.3 --tokens 64
    bench/simulate_fleet.py compare service.json --base-url http://127.0.0.1:8000 --rate 0.5 --replicas 2    # a balancer and 2 replicas

`measure` asks a replica that nobody else uses about new images and known ones, and several
questions at once for the decode steps. `predict` prints times to the first token, times of whole
requests and how busy replicas are. `compare` sends the same requests at the same times to real
replicas and prints both side by side. docs/scaling.md describes how to read them."""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import statistics
import sys
import threading
import time

from fleet_model import Request, Service, make_requests, percentile, simulate
from same_image import Server, base_url, make_image, positive, size_of

QUESTION = "What is in this picture?"
N_DRAWS = 50
MAX_TOKENS = 512  # of an answer that is closed before


def gaps(values: list) -> list:
    return [after - before for before, after in zip(values, values[1:])]


class Client(Server):
    """A server's requests with all their times."""

    def ask(self, question: str, image: str | None, n_tokens: int, digest: str = "", enough=lambda tokens: False) -> dict:
        """{"start", "tokens": [when each came], "end", "timings": the server's own}; a stream that
        has `enough` is closed."""
        parts = [{"type": "image_url", "image_url": {"url": image}}] if image else []
        body = {"model": self.model, "messages": [{"role": "user", "content": parts + [{"type": "text", "text": question}]}],
                "stream": True, "stream_options": {"include_usage": True}, "max_tokens": n_tokens, "ignore_eos": True,
                "temperature": 0, "return_token_ids": True, "ommatidia": {"details": True}}
        found = {"start": time.monotonic(), "tokens": [], "timings": None}
        with self.open("/v1/chat/completions", body, {"x-image-digest": digest} if digest else {}) as stream:
            for line in stream:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    sys.exit(f"the server ended a stream: {event['error']}")
                if event["choices"] and event["choices"][0].get("token_ids"):
                    found["tokens"].append(time.monotonic())
                    if enough(found["tokens"]):
                        return found
                found["timings"] = event.get("ommatidia", {}).get("timings", found["timings"])
        found["end"] = time.monotonic()
        if not found["tokens"] or found["timings"] is None:
            sys.exit("the server reports no timings: is it `omma serve`?")
        return found

    def step(self, n: int, n_steps: int) -> float:
        """Seconds of a decode step with n answers: of steps when all have begun, as before that
        there are prompts between the steps."""
        began = []

        def enough(tokens: list) -> bool:
            if len(tokens) == 1:
                began.append(tokens[0])
            return len(began) == n and sum(time >= max(began) for time in tokens) > n_steps

        with concurrent.futures.ThreadPoolExecutor(n) as pool:
            replies = list(pool.map(lambda i: self.ask(f"Tell a story about the number {i}.", None, MAX_TOKENS, enough=enough), range(n)))
        return statistics.median(step for reply in replies for step in gaps([time for time in reply["tokens"] if time >= max(began)]))


@contextlib.contextmanager
def busy(arguments):
    """Meanwhile the servers of --busy answer about new images, one after another: what replicas of
    one machine take from each other."""
    done = threading.Event()

    def ask(url: str) -> None:
        client = Client(argparse.Namespace(**{**vars(arguments), "base_url": url}))
        while not done.is_set():
            client.ask(QUESTION, make_image(*arguments.size), 2 * arguments.steps)

    with concurrent.futures.ThreadPoolExecutor(max(1, len(arguments.busy))) as pool:
        asking = [pool.submit(ask, url) for url in arguments.busy]
        try:
            yield
        finally:
            done.set()
    for one in asking:
        one.result()


def measure(arguments) -> None:
    with busy(arguments):
        service = measured_service(arguments)
    text = json.dumps({"size": "%dx%d" % arguments.size, **dataclasses.asdict(service)}, indent=1)
    if arguments.output:
        with open(arguments.output, "w") as file:
            file.write(text + "\n")
    print(text)


def measured_service(arguments) -> Service:
    client = Client(arguments)
    client.ask("Warm-up?", make_image(*arguments.size), 2)
    new, known = [], []
    for i in range(arguments.rounds):
        image = make_image(*arguments.size)
        new.append(client.ask(QUESTION, image, 2)["timings"])
        known.append(client.ask(f"Which colours, and how many? {i}", image, 2)["timings"])
    middle = {key: statistics.median(t[key] for t in new) for key in ("decode_image", "preprocess", "encode", "prefill")}
    return Service(prepare=middle["decode_image"] + middle["preprocess"], encode=middle["encode"], prefill=middle["prefill"],
                   prefill_known=statistics.median(t["encode"] + t["prefill"] for t in known),
                   steps=[client.step(n, arguments.steps) for n in range(1, arguments.rows + 1)])


def load_service(path: str) -> tuple[Service, tuple[int, int]]:
    try:
        with open(path) as file:
            data = json.load(file)
        size = size_of(data.pop("size"))
        return Service(**data), size
    except (OSError, ValueError, TypeError, KeyError, argparse.ArgumentTypeError) as error:
        raise argparse.ArgumentTypeError(f"{path}: {error}; expected a file that `measure` wrote") from None


def requests_of(arguments) -> list:
    return make_requests(arguments.requests, arguments.rate, arguments.hit_rate, arguments.tokens, arguments.seed)


def run_model(arguments, n_replicas: int, draw: int = 0) -> tuple[list, list]:
    requests = requests_of(arguments)
    replicas = simulate(arguments.service[0], requests, n_replicas, arguments.routing, arguments.max_num_seqs, arguments.prefill_percent,
                        draw=draw)
    return requests, replicas


def times(values: list) -> str:
    return "  ".join(f"{percentile(values, p):8.3f}" for p in (50, 90, 99))


def predict(arguments) -> None:
    print("seconds at p50, p90, p99")
    print("replicas  first token                   whole request                 busy  images known")
    for n in arguments.replicas:
        requests, replicas = run_model(arguments, n)
        span = max(r.end for r in requests)
        busy = max(r.busy for r in replicas) / span
        print(f"{n:8}  {times([r.time_to_first_token for r in requests])}  {times([r.seconds for r in requests])}  {busy:4.0%}"
              f"  {sum(r.hits for r in replicas) / len(requests):12.0%}")


def play(arguments, requests: list) -> list:
    """The real times of the same requests."""
    client = Client(arguments)
    images = {image: make_image(*arguments.service[1]) for image in {r.image for r in requests}}
    start = time.monotonic() + 0.5

    def ask(request: Request) -> dict:
        time.sleep(max(0.0, start + request.arrival - time.monotonic()))
        digest = str(request.image) if arguments.routing == "hash" else ""
        return client.ask(QUESTION, images[request.image], request.n_tokens, digest)

    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(ask, requests))


def compare(arguments) -> None:
    (n,) = arguments.replicas
    replies = play(arguments, requests_of(arguments))
    # Which replica a digest belongs to is chance, and with few requests it decides the tail: the
    # times of many such draws together.
    requests = [request for draw in range(N_DRAWS) for request in run_model(arguments, n, draw)[0]]
    print(f"{n} replica{'s' if n > 1 else ''}, {len(replies)} requests; seconds at p50, p90, p99")
    for name, ours, real in (("first token", [r.time_to_first_token for r in requests], [r["tokens"][0] - r["start"] for r in replies]),
                             ("whole request", [r.seconds for r in requests], [r["end"] - r["start"] for r in replies])):
        print(f"{name:14} predicted  {times(ours)}\n{'':14} measured   {times(real)}")


def number(low: float, high: float):
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text}: expected a number from {low:g} to {high:g}")
        return value
    return read


def counts(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base-url", type=base_url, default="http://127.0.0.1:8000", help="the server (default: %(default)s)")
    parser.add_argument("--model", help="the name to ask for (default: the server's first)")
    parser.add_argument("--api-key", help="sent as a bearer token")
    parser.add_argument("--timeout", type=positive, default=600, help="seconds without an event (default: %(default)s)")


def add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", type=load_service, help="what `measure` wrote")
    parser.add_argument("--rate", type=number(1e-4, 1e4), required=True, help="requests a second")
    parser.add_argument("--requests", type=positive, default=1000, help="how many (default: %(default)s)")
    parser.add_argument("--replicas", type=counts, default=[1], help="how many, with commas between (default: 1)")
    parser.add_argument("--hit-rate", type=number(0, 1), default=0, help="part of requests about an earlier image (default: 0)")
    parser.add_argument("--tokens", type=positive, default=64, help="of an answer (default: %(default)s)")
    parser.add_argument("--routing", choices=("hash", "least", "robin"), default="hash", help="(default: hash, of the image)")
    parser.add_argument("--max-num-seqs", type=positive, default=8, help="as the replicas' (default: %(default)s)")
    parser.add_argument("--prefill-percent", type=number(1, 99), default=50, help="as the replicas' (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of arrivals and images (default: %(default)s)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure", help="service times of a replica that nobody else uses")
    add_server(one)
    one.add_argument("--busy", type=base_url, action="append", default=[], help="another replica on the same machine, kept busy meanwhile")
    one.add_argument("--size", type=size_of, default="512x512", help="of images (default: %(default)s)")
    one.add_argument("--rounds", type=positive, default=3, help="new images (default: %(default)s)")
    one.add_argument("--rows", type=positive, default=4, help="requests at once, up to (default: %(default)s)")
    one.add_argument("--steps", type=positive, default=16, help="decode steps that are timed for each (default: %(default)s)")
    one.add_argument("--output", help="a file to write, too")
    add_load(commands.add_parser("predict", help="simulate a load"))
    both = commands.add_parser("compare", help="simulate a load, and send it to real replicas")
    add_server(both)
    add_load(both)
    arguments = parser.parse_args()
    if arguments.command == "compare" and len(arguments.replicas) != 1:
        parser.error("--replicas: expected one number, of the replicas behind --base-url")
    try:
        {"measure": measure, "predict": predict, "compare": compare}[arguments.command](arguments)
    except OSError as error:
        sys.exit(f"{getattr(arguments, 'base_url', '')}: {error}")


if __name__ == "__main__":
    main()
