#!/usr/bin/env python3
"""What drafting the forced bytes of structured output gains: tokens a second of answers with long
keys.

Two servers with the same model, of two versions of the program, are asked in turn, one at a time,
for objects with --keys required members. Prints the tokens a second after the first one of each and
their ratio, and the share of the second one's draft tokens that were right. The answers must be
equal.

    omma-before serve DIR --port 8001 &
    omma serve DIR --port 8002 &
    bench/structured_output.py http://127.0.0.1:8001 http://127.0.0.1:8002
"""

import argparse
import json
import statistics
import sys
import urllib.request

from prompt_lookup import ask, drafted
from same_image import base_url, positive

NAMES = ["customer_identification_number", "delivery_address_postal_code", "estimated_arrival_date", "preferred_payment_method",
         "number_of_items_in_the_order", "requires_signature_on_delivery", "total_price_including_taxes", "internal_reference_code"]


def schema_of(n_keys: int) -> dict:
    kinds = [{"type": "integer", "minimum": 0, "maximum": 999}, {"enum": ["standard", "express", "overnight"]}, {"type": "boolean"}]
    names = [NAMES[i % len(NAMES)] + (f"_{i // len(NAMES)}" if i >= len(NAMES) else "") for i in range(n_keys)]
    return {"type": "object", "properties": {name: kinds[i % len(kinds)] for i, name in enumerate(names)}, "required": names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("before", type=base_url, help="the server to compare with")
    parser.add_argument("now", type=base_url, help="the server that drafts")
    parser.add_argument("--keys", type=positive, default=8, help="of an answer (default: %(default)s)")
    parser.add_argument("--tokens", type=positive, default=400, help="of an answer at most (default: %(default)s)")
    parser.add_argument("--rounds", type=positive, default=3, help="answers (default: %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.0, help="of the answers (default: %(default)s)")
    parser.add_argument("--schema", type=json.loads, help="another schema, as text")
    arguments = parser.parse_args()
    with urllib.request.urlopen(arguments.before + "/v1/models", timeout=60) as reply:
        model = json.load(reply)["data"][0]["id"]
    schema = arguments.schema or schema_of(arguments.keys)
    more = {"ignore_eos": False, "structured_outputs": {"json": schema, "disable_any_whitespace": True}}
    rates: tuple[list[float], list[float]] = ([], [])
    drafts = drafted(arguments.now)
    for seed in range(arguments.rounds):
        answers = []
        for url, found in zip((arguments.before, arguments.now), rates):
            answer, rate = ask(url, model, f"Describe order {seed}.", arguments.tokens, arguments.temperature, seed, more)
            answers.append(answer)
            found.append(rate)
        if answers[0] != answers[1]:
            print(f"answer {seed} differs", file=sys.stderr)
            return 1
    made, right = (a - b for a, b in zip(drafted(arguments.now), drafts))
    before, now = statistics.median(rates[0]), statistics.median(rates[1])
    print(f"{before:.1f} tokens/s before, {now:.1f} now: {now / before:.2f}; {made:.0f} tokens drafted, {right / made if made else 0:.0%} right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
