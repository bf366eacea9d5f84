"""The same tokens may come next as with llguidance: for schemas that mean the same there, and
pieces of texts that both allow. In the full tier alone, in an environment of its own
(tools/run_tests.sh), as llguidance brings a library of several megabytes."""

import json

import pytest

llguidance = pytest.importorskip("llguidance")

# No blanks, no other members; lengths and enums, as what else a number or string may look like
# (digits, escapes) differs.
SCHEMAS = [
    {"type": "object", "properties": {"name": {"enum": ["red", "green", "größe"]}, "ok": {"type": "boolean"}}, "required": ["name", "ok"],
     "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "null"}, "b": {"const": 5}, "c": {"enum": [1, 12, 123]}}, "required": ["b"],
     "additionalProperties": False},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    {"type": "array", "prefixItems": [{"const": 1}, {"const": "x"}], "items": {"type": "null"}, "minItems": 2},
    {"anyOf": [{"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"], "additionalProperties": False},
               {"type": "array", "items": {"enum": ["b", "bc"]}}, {"type": "null"}]},
    {"$defs": {"n": {"type": "object", "properties": {"v": {"type": "boolean"}, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
                     "required": ["v", "next"], "additionalProperties": False}}, "$ref": "#/$defs/n"},
    {"type": "integer", "minimum": -12, "maximum": 345},
    {"type": "string", "pattern": "^[a-c]{2,5}x?$"},
    {"type": "object", "properties": {"id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}}, "required": ["id"],
     "additionalProperties": False},
]


@pytest.fixture(scope="module")
def tokenizer(tokenizer_file):
    return llguidance.LLTokenizer(tokenizer_file.read_text())


def prefixes(text):
    """The beginnings of a text, by characters."""
    return [text[:i] for i in range(len(text) + 1)]


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_masks_are_the_same(walk, tokenizer, schema):
    text = json.dumps(schema)
    grammar = llguidance.LLMatcher.grammar_from_json_schema(text, defaults={"whitespace_flexible": False})
    samples, = walk([{"kind": "json", "text": text, "compact": True, "walks": 6, "seed": 1, "tokens": 12}])
    beginnings = sorted({each for sample in samples["texts"] for each in prefixes(sample)})
    answers = walk({"kind": "json", "text": text, "compact": True, "prefix": each} for each in beginnings)
    assert beginnings
    for each, answer in zip(beginnings, answers):
        matcher = llguidance.LLMatcher(tokenizer, grammar)
        tokens = [tokenizer.tokenize_bytes(bytes([byte]))[0] for byte in each.encode()]
        assert matcher.try_consume_tokens(tokens) == len(tokens), (each, matcher.get_error())
        bits = matcher.compute_logit_bias()
        theirs = {token for token in range(tokenizer.vocab_size) if bits[token] and not tokenizer.is_special_token(token)}
        # Where bytes are forced, llguidance allows the one token that free text would have there.
        same = theirs <= set(answer["allowed"]) if len(theirs) == 1 else theirs == set(answer["allowed"])
        assert same, (each, [tokenizer.decode_str([t]) for t in theirs ^ set(answer["allowed"])][:10])
        assert matcher.is_accepting() == answer["ends"], each
