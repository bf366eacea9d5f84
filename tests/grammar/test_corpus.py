"""Schemas from outside, of a directory given with --schemas: files of a JSON Schema each, or of
{"schema", "tests": [{"data", "valid"}]} as MaskBench of github.com/guidance-ai/jsonschemabench has
them (no licence is said there, so none of them is here). Each is refused with the key named, or its
random texts are valid by PyPI's jsonschema and none of its invalid instances is accepted.

    python -m pytest -s tests/grammar/test_corpus.py --walk build/release/tests/grammar_walk --schemas maskbench/data --half held-out

The half is by a hash of the file's name: what is developed with is `development`, what is published
is `held-out`."""

import collections
import hashlib
import json
import re

import jsonschema
import pytest

N_TEXTS, N_TOKENS = 3, 60


def is_held_out(path):
    return hashlib.sha1(path.name.encode()).digest()[0] % 2 == 1


def read(path):
    """(schema, instances)"""
    document = json.loads(path.read_text())
    if isinstance(document, dict) and "schema" in document and "tests" in document:
        return document["schema"], document["tests"]
    return document, []


KNOWN = set(jsonschema.Draft202012Validator.VALIDATORS) | set(jsonschema.Draft4Validator.VALIDATORS) | {"format"}


def keys_of(schema):
    """Which keys of JSON Schema are used in a schema, a property of such a name among them."""
    if isinstance(schema, list):
        return set().union(*map(keys_of, schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    return {key for key in schema if key in KNOWN}.union(*map(keys_of, schema.values()))


def reason_of(error):
    """The key that a refusal names, and the beginning of its message; None: it names no place in
    the schema."""
    found = re.match(r"#(?:(?:/.*)?/(.+?))?: (.*)", error, re.DOTALL)
    return found and f"{found[1]}: {found[2][:70]}"


def check(schema, instances, answer, wrong):
    """Adds what is wrong with the answers to a list; counts (texts, valid instances, those
    accepted)."""
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    validator = kind(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    for text in answer["texts"]:
        if not validator.is_valid(json.loads(text)):
            error = jsonschema.exceptions.best_match(validator.iter_errors(json.loads(text)))
            wrong.append(("made", text[:300], error.message[:200], "/".join(map(str, error.absolute_schema_path))))
    n_valid = n_accepted = 0
    for instance, accepted in zip(instances, answer["accepted"]):
        if accepted and not instance["valid"] and not validator.is_valid(instance["data"]):
            wrong.append(("accepted", json.dumps(instance["data"])[:300], "", ""))
        n_valid += instance["valid"]
        n_accepted += instance["valid"] and accepted
    return len(answer["texts"]), n_valid, n_accepted


def test_schemas_of_a_directory(walk, request):
    directory, half = request.config.getoption("--schemas"), request.config.getoption("--half")
    if not directory:
        pytest.skip("no --schemas")
    paths = [path for path in sorted(directory.rglob("*.json")) if half == "all" or is_held_out(path) == (half == "held-out")]
    files = [(path, *read(path)) for path in paths]
    answers = walk({"kind": "json", "text": json.dumps(schema), "walks": N_TEXTS, "seed": seed, "tokens": N_TOKENS,
                    "instances": [json.dumps(each["data"], ensure_ascii=False) for each in instances]}
                   for seed, (_, schema, instances) in enumerate(files))
    refused, totals, wrong, unfinished, compiled = collections.Counter(), [0, 0, 0], [], 0, 0
    good, refused_with = collections.Counter(), collections.Counter()
    for (path, schema, instances), answer in zip(files, answers):
        if "error" in answer:
            reason = reason_of(answer["error"])
            refused[reason] += 1
            refused_with.update(keys_of(schema))
            if reason is None:
                wrong.append((path.name, "no key is named", answer["error"]))
            continue
        found = []
        compiled += 1
        good.update(keys_of(schema))
        unfinished += answer["unfinished"]
        totals = [a + b for a, b in zip(totals, check(schema, instances, answer, found))]
        wrong += [(path.name, *each) for each in found]
    print(f"\n{len(files)} schemas: {compiled} compiled, {len(files) - compiled} refused; {totals[0]} texts made, {unfinished} cut off; "
          f"{totals[2]} of {totals[1]} valid instances accepted")
    for reason, count in refused.most_common(60):
        print(f"{count:6} {reason}")
    print("schemas with each key, compiled/refused:")
    print("  ".join(f"{key} {good[key]}/{refused_with[key]}" for key in sorted(good | refused_with) if good[key] + refused_with[key] >= 10))
    for each in wrong[:60]:
        print(each)
    assert not wrong, len(wrong)
