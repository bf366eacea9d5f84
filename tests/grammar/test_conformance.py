"""Random texts of random schemas, as tokens of a real vocabulary: each is what the schema allows,
by PyPI's jsonschema; what is not supported is refused by name. With --full ten times as many."""

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
    patterns = [*schemas.PATTERNS, "(a|b)*c{2,}", "[\\s\\S]{0,20}x", "(\\+49|0)[1-9]\\d{1,14}", "-?(0|[1-9]\\d*)(\\.\\d+)?",
                "a{,3}b", "(xy){,2}", "a{,}b{}"]
    answers = walk({"kind": "regex", "text": pattern, "walks": 20, "seed": i, "tokens": 30} for i, pattern in enumerate(patterns))
    for pattern, answer in zip(patterns, answers):
        for text in answer["texts"]:
            assert re.fullmatch(pattern, text), (pattern, text)
        assert answer["texts"], pattern


def bounded(key, rule, low, high):
    return {"type": "string", key: rule, "minLength": low, "maxLength": high}


# pydantic's HttpUrl is the first of them.
LONG = [bounded("format", "uri", 1, 2083), bounded("format", "uri-reference", 1, 2083), bounded("format", "email", 3, 254),
        bounded("pattern", r"^\S+$", 1, 10000), bounded("pattern", "^[a-z]+(-[a-z]+)*$", 0, 2**31 - 2),
        bounded("pattern", "^(ab)*$", 1001, 1002), bounded("format", "uri", 290, 300), bounded("pattern", "^x*[0-9]{3}$", 200, 201)]


@pytest.mark.parametrize("schema", LONG, ids=[schema.get("format", schema.get("pattern")) for schema in LONG])
def test_long_strings_are_counted(walk, schema):
    answer, = walk([{"kind": "json", "text": json.dumps({"properties": {"s": schema}, "required": ["s"]}), "walks": 8, "seed": 5,
                     "tokens": 2000}])
    assert answer["texts"] and answer["unfinished"] == 0
    for text in answer["texts"]:
        jsonschema.validate(json.loads(text), {"properties": {"s": schema}, "required": ["s"]})


def test_counts_end_where_the_bounds_are(walk):
    texts = {length: '"http://a.b/' + "c" * (length - 11) + '"' for length in (11, 12, 2082, 2083, 2084)}
    answer, = walk([{"kind": "json", "text": json.dumps(bounded("format", "uri", 12, 2083)), "walks": 0, "seed": 1,
                     "instances": list(texts.values())}])
    assert answer["accepted"] == [False, True, True, True, False]


def test_what_takes_too_much_work_is_named(walk):
    schema = {"properties": {"u": {"type": "string", "format": "uri", "minLength": 50000}}}
    answer, = walk([{"kind": "json", "text": json.dumps(schema), "walks": 0, "seed": 1}])
    assert answer["error"].startswith("#/properties/u: a string with format, minLength takes too much work")


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
