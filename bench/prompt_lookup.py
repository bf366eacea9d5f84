#!/usr/bin/env python3
"""What prompt lookup gains: tokens a second of an answer with drafts and without.

Two servers with the same model, the second with prompt lookup, are asked in turn, one at a time,
about a text that repeats itself. Prints the tokens a second after the first one of each and their
ratio, and the share of the draft tokens that were right. The answers must be equal.

    omma serve DIR --port 8001 &
    omma serve DIR --port 8002 --speculative-config '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4}' &
    bench/prompt_lookup.py http://127.0.0.1:8001 http://127.0.0.1:8002
"""

import argparse
import json
import random
import statistics
import sys
import time
import urllib.error
import urllib.request

from same_image import base_url, positive

WORDS = "river stone apple window garden letter yellow table morning paper silver bridge forest candle music summer".split()


def ask(url: str, model: str, text: str, tokens: int, temperature: float, seed: int, more: dict | None = None) -> tuple[str, float]:
    """The answer, and its tokens a second after the first one. `more` are further fields of the
    request."""
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": tokens, "ignore_eos": True,
            "temperature": temperature, "seed": seed, "stream": True, "stream_options": {"include_usage": True}} | (more or {})
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    pieces, first, end, count = [], 0.0, 0.0, 0
    with urllib.request.urlopen(request, timeout=600) as reply:
        for line in reply:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("usage"):
                count = event["usage"]["completion_tokens"]
            for choice in event["choices"]:
                if "role" in choice["delta"]:
                    continue
                end = time.perf_counter()
                first = first or end
                pieces.append(choice["delta"].get("content") or "")
    return "".join(pieces), (count - 1) / (end - first) if end > first else 0.0


def drafted(url: str) -> tuple[float, float]:
    """Draft tokens, and those that were right."""
    with urllib.request.urlopen(url + "/metrics", timeout=60) as reply:
        lines = reply.read().decode().splitlines()

    def value(name: str) -> float:
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    return value("vllm:spec_decode_num_draft_tokens_total{"), value("vllm:spec_decode_num_accepted_tokens_total{")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("plain", type=base_url, help="the server without drafts")
    parser.add_argument("drafting", type=base_url, help="the server with prompt lookup")
    parser.add_argument("--words", type=positive, default=24, help="in the text, which stands there three times (default: %(default)s)")
    parser.add_argument("--tokens", type=positive, default=64, help="of an answer (default: %(default)s)")
    parser.add_argument("--rounds", type=positive, default=3, help="texts (default: %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.0, help="of the answers (default: %(default)s)")
    arguments = parser.parse_args()
    with urllib.request.urlopen(arguments.plain + "/v1/models", timeout=60) as reply:
        model = json.load(reply)["data"][0]["id"]
    draw = random.Random(7)
    rates: tuple[list[float], list[float]] = ([], [])
    before = drafted(arguments.drafting)
    for seed in range(arguments.rounds):
        text = " ".join(draw.choices(WORDS, k=arguments.words)) + ". "
        question = 3 * text + "Repeat this text."
        answers = []
        for url, found in zip((arguments.plain, arguments.drafting), rates):
            answer, rate = ask(url, model, question, arguments.tokens, arguments.temperature, seed)
            answers.append(answer)
            found.append(rate)
        if answers[0] != answers[1]:
            print(f"the answers differ: {answers}", file=sys.stderr)
            return 1
    tokens, right = (after - earlier for after, earlier in zip(drafted(arguments.drafting), before))
    plain, drafting = (statistics.median(found) for found in rates)
    print(f"{arguments.rounds} answers of {arguments.tokens} tokens, medians")
    print(f"  without drafts {plain:8.1f} tokens a second")
    print(f"  with drafts    {drafting:8.1f} tokens a second, {drafting / plain:.2f} times")
    print(f"  drafted         {tokens:8.0f} tokens, {right / tokens if tokens else 0:.0%} of them right")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except urllib.error.URLError as error:
        sys.exit(f"no answer: {error}")
