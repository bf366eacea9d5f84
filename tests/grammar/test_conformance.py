"""Random texts of random schemas, as tokens of a real vocabulary: each is what the schema allows, by PyPI's jsonschema; what is not supported is
refused by name. With --full ten times as many."""

import collections
import json
import re

import jsonschema
import pytest
import schemas

N_SCHEMAS, N_TEXTS = 440, 4
BY_NAME = ("properties", "patternProperties", "$defs", "dependencies", "dependentRequired", "dependentSchemas")


def keys_of(schema):
    """All keys of a schema and of those in it; formats by their names."""
    found = set()
    if isinstance(schema, dict):
        for key, value in schema.items():
            found.add(f"format {value}" if key == "format" else key)
            if key in ("const", "enum", "required"):
                continue
            inner = value.values() if key in BY_NAME else value if isinstance(value, list) else [value]
            for each in inner:
                found |= keys_of(each)
    return found


def test_random_texts_are_valid(walk, is_full):
    seeds = range(N_SCHEMAS * (10 if is_full else 1))
    made = [schemas.make(seed) for seed in seeds]
    answers = walk({"kind": "json", "text": json.dumps(schema), "compact": seed % 2 == 1, "walks": N_TEXTS, "seed": seed, "tokens": 60}
                   for seed, schema in zip(seeds, made))
    score, n_texts, unfinished = collections.Counter(), 0, 0
    for seed, schema, answer in zip(seeds, made, answers):
        assert "error" not in answer, (seed, schema, answer)
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        for text in answer["texts"]:
            validator.validate(json.loads(text))
        n_texts += len(answer["texts"])
        unfinished += answer["unfinished"]
        for key in keys_of(schema):
            score[key] += len(answer["texts"])
    print(f"\n{len(made)} schemas, {n_texts} texts valid, {unfinished} cut off")
    print("  ".join(f"{key} {count}" for key, count in sorted(score.items())))
    assert unfinished < n_texts / 100


@pytest.mark.parametrize("schema, pointer", schemas.REFUSED, ids=[pointer for _, pointer in schemas.REFUSED])
def test_what_is_not_supported_is_named(walk, schema, pointer):
    answer, = walk([{"kind": "json", "text": json.dumps(schema), "walks": 1, "seed": 1}])
    assert answer.get("error", "").startswith(pointer + ":"), answer


def test_texts_of_patterns_match(walk):
    patterns = [*schemas.PATTERNS, "(a|b)*c{2,}", "[\\s\\S]{0,20}x", "(\\+49|0)[1-9]\\d{1,14}", "-?(0|[1-9]\\d*)(\\.\\d+)?"]
    answers = walk({"kind": "regex", "text": pattern, "walks": 20, "seed": i, "tokens": 30} for i, pattern in enumerate(patterns))
    for pattern, answer in zip(patterns, answers):
        for text in answer["texts"]:
            assert re.fullmatch(pattern, text), (pattern, text)
        assert answer["texts"], pattern


def test_choices_all_come(walk):
    choices = ["yes", "yesterday", "no", "größe", "a b", '"']
    answer, = walk([{"kind": "choice", "text": json.dumps(choices), "walks": 200, "seed": 1}])
    assert set(answer["texts"]) == set(choices)


def test_grammars_are_followed(walk):
    grammar = 'root ::= line{1,3}\nline ::= key " = " ("\\"" [^"\\\\\\n]* "\\"" | [0-9]+) "\\n" # one\nkey ::= [a-z] [a-z_]*'
    answer, = walk([{"kind": "grammar", "text": grammar, "walks": 40, "seed": 2, "tokens": 40}])
    for text in answer["texts"]:
        assert re.fullmatch(r'([a-z][a-z_]* = ("[^"\\\n]*"|[0-9]+)\n){1,3}', text), text
    assert len(answer["texts"]) > 30


def test_any_object_is_one(walk):
    answer, = walk([{"kind": "json_object", "text": "", "walks": 100, "seed": 3, "tokens": 60}])
    assert all(isinstance(json.loads(text), dict) for text in answer["texts"])
    assert len(answer["texts"]) > 95
