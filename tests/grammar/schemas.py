"""Schemas of all kinds that docs/structured-output.md has as supported, made at random from a seed;
and what is refused, with the pointer that the message must name."""

import random

WORDS = ["name", "age", "x", "color", "größe", "a b", 'q"uote', "back\\slash", "list", "id", "kind", "größer", "né", "日本", "tab\t"]
PATTERNS = ["^[a-z]+$", "^[A-Z]{2}-\\d{3,5}$", "[a-m]", "^(red|green|blue)$", "^\\w{1,5}@\\w{1,5}\\.com$", "^[^\"\\\\]{1,8}$", "^a?b*c+$", "\\d",
            "^\\S+( \\S+)*$", "^[äöü]{2}$", "^$|^x", "^\\u0041[\\x42-D]", "^(?:[01]\\d|2[0-3]):[0-5]\\d$", "^.{3,5}$"]
FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "uri", "duration", "uri-reference", "iri", "idn-email"]
CONSTANTS = [None, True, False, 0, -7, 3.25, 1e-7, "", "a", "größe", 'he said "x"', "tab\there", [], {}, [1, [2, "x"]], {"k": {"l": None}}]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def words(self, low, high):
        return self.random.sample(WORDS, self.random.randint(low, high))

    def string(self):
        schema, kind = {"type": "string"}, self.random.randrange(6)
        if kind == 1:
            schema["minLength"] = self.random.randint(0, 5)
        if kind in (1, 2):
            schema["maxLength"] = self.random.randint(5, 40)
        if kind == 3:
            schema["pattern"] = self.random.choice(PATTERNS)
        if kind == 4:
            schema["format"] = self.random.choice(FORMATS)
        if kind == 5:
            schema |= {"pattern": self.random.choice(["^[a-z]*$", "[w-z]", "^[^0-9]+$"]), "minLength": 1, "maxLength": 9}
        return schema

    def number(self):
        schema = {"type": self.random.choice(["integer", "number"])}
        low = self.random.choice([-1000, -3, 0, 1, 7, 99, 0.5, -2.75, 1e3, 12345678])
        if self.random.randrange(2):
            schema[self.random.choice(["minimum", "exclusiveMinimum"])] = low
        if self.random.randrange(2):
            schema[self.random.choice(["maximum", "exclusiveMaximum"])] = low + self.random.choice([2, 5, 12.5, 100, 99999])
        if schema["type"] == "integer" and self.random.randrange(4) == 0:
            schema = {"type": "integer", "multipleOf": self.random.choice([1, 2, 5, 7, 100]), "minimum": self.random.choice([-40, 0, 13])}
        return schema

    def array(self, depth):
        schema, kind = {"type": "array"}, self.random.randrange(4)
        if kind:
            schema["items"] = self.any(depth - 1)
        if kind == 2:
            schema["prefixItems"] = [self.any(depth - 1) for _ in range(self.random.randint(1, 3))]
            if self.random.randrange(3) == 0:
                schema["items"] = False
        if kind == 3:
            schema["minItems"] = self.random.randint(0, 3)
        if self.random.randrange(2) and schema.get("items") is not False:
            schema["maxItems"] = schema.get("minItems", 0) + self.random.randint(1, 4)
        return schema

    def object(self, depth):
        names = self.words(1, 5)
        schema = {"type": "object", "properties": {name: self.any(depth - 1) for name in names}}
        schema["required"] = [name for name in names if self.random.randrange(2)]
        kind = self.random.randrange(5)
        if kind == 1:
            schema["additionalProperties"] = False
        if kind == 2:
            schema["additionalProperties"] = self.any(depth - 1)
        if kind == 3:
            schema["patternProperties"] = {"^n_": {"type": "integer"}}
            schema["additionalProperties"] = False
        if kind == 4:
            schema["required"].append("not listed")
        return schema

    def map(self, depth):
        schema = {"type": "object", "additionalProperties": self.any(depth - 1)}
        if self.random.randrange(2):
            schema["propertyNames"] = self.random.choice([{"pattern": "^[a-z]+$"}, {"maxLength": 4}, {"enum": ["p", "q"]}])
        if self.random.randrange(2):
            schema |= {"minProperties": self.random.randint(0, 1), "maxProperties": self.random.randint(1, 3)}
        return schema

    def values(self):
        if self.random.randrange(3) == 0:
            return {"const": self.random.choice(CONSTANTS)}
        return {"enum": self.random.sample(CONSTANTS, self.random.randint(1, 5))}

    def any_of(self, depth):
        return {"anyOf": [self.any(depth - 1) for _ in range(self.random.randint(2, 3))]}

    def one_of(self, depth):
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": kind}, "value": self.any(depth - 1)},
                           "required": ["kind", "value"]} for kind in ("a", "b", "c")] + [{"type": "null"}]}

    def all_of(self, depth):
        return {"allOf": [{"type": "object", "properties": {"a": self.any(depth - 1)}, "required": ["a"]},
                          {"properties": {"b": self.any(depth - 1), "c": {"type": "integer"}}, "required": ["c"]}],
                "properties": {"c": {"minimum": 3, "maximum": 50}}}

    def reference(self, depth):
        return {"$defs": {"leaf": self.any(depth - 1),
                          "tree": {"type": "object", "properties": {"value": {"$ref": "#/$defs/leaf"},
                                                                    "children": {"type": "array", "items": {"$ref": "#/$defs/tree"},
                                                                                 "maxItems": 2}},
                                   "required": ["value"], "additionalProperties": False}},
                "$ref": "#/$defs/tree", "title": "A tree", "description": "of leaves"}

    def nots(self, depth):
        return self.random.choice([
            {"type": ["string", "boolean", "null"], "not": {"enum": ["a", "red", True]}},
            {"type": "object", "properties": {"a": self.any(depth - 1), "b": self.any(depth - 1)}, "not": {"required": ["a", "b"]}},
            {"type": "object", "additionalProperties": {"type": "integer"}, "not": {"anyOf": [{"required": ["x"]}, {"required": ["id"]}]}},
            {"not": {"type": ["object", "array", "number"]}}])

    def conditions(self, depth):
        names = self.words(3, 3)
        schema = {"type": "object", "properties": {name: self.any(depth - 1) for name in names}}
        kind = self.random.randrange(3)
        if kind == 0:
            schema[self.random.choice(["dependencies", "dependentRequired"])] = {names[0]: names[1:2], names[2]: names[:1]}
        if kind == 1:
            schema["dependentSchemas"] = {names[1]: {"required": names[2:]}}
        if kind == 2:
            schema["properties"][names[0]] = {"enum": ["a", "b", "c"]}
            schema |= {"if": {"properties": {names[0]: {"const": "a"}}, "required": names[:1]}, "then": {"required": names[1:2]},
                       "else": {"required": names[2:]}}
        return schema

    def apart(self, depth):
        return {"type": "object", "properties": {"p": self.any(depth - 1), "q": self.any(depth - 1)},
                "oneOf": self.random.choice([[{"required": ["p"]}, {"required": ["q"]}],
                                             [{"properties": {"k": {"const": 1}}}, {"properties": {"k": {"enum": [2, 3]}}}]])}

    def types(self):
        names = self.random.sample(["null", "boolean", "string", "integer", "number", "array", "object"], self.random.randint(1, 3))
        return {"type": names if len(names) > 1 else names[0]}

    def any(self, depth):
        if depth <= 0:
            return self.random.choice([self.string, self.number, self.values, self.types])()
        return self.of(self.random.choice(KINDS), depth)

    def of(self, kind, depth):
        make = getattr(self, kind)
        return make() if kind in ("string", "number", "values", "types") else make(depth)


KINDS = ["string", "number", "array", "object", "map", "values", "any_of", "one_of", "all_of", "types", "nots", "conditions", "apart"]


def make(seed):
    """The schema of a seed: every kind in turn at the top, references last."""
    maker = Maker(seed)
    if seed % (len(KINDS) + 1) == len(KINDS):
        return maker.reference(2)
    return maker.of(KINDS[seed % (len(KINDS) + 1)], 2)


REFUSED = [
    ({"not": {"minLength": 3}}, "#/not"),
    ({"if": {"maximum": 3}, "then": {"type": "integer"}}, "#/if/anyOf/1/allOf/0/not"),
    ({"type": "object", "unevaluatedProperties": False}, "#/unevaluatedProperties"),
    ({"type": "array", "unevaluatedItems": False}, "#/unevaluatedItems"),
    ({"type": "array", "contains": {}}, "#/contains"),
    ({"type": "array", "minContains": 1}, "#/minContains"),
    ({"type": "array", "uniqueItems": True}, "#/uniqueItems"),
    ({"type": "number", "multipleOf": 0.01}, "#/multipleOf"),
    ({"type": "integer", "multipleOf": 5000}, "#/multipleOf"),
    ({"type": "number", "minimum": 1e30}, "#/minimum"),
    ({"type": "string", "format": "regex"}, "#/format"),
    ({"items": {"pattern": "(?=x)"}}, "#/items/pattern"),
    ({"patternProperties": {"\\bx": {}}}, "#/patternProperties"),
    ({"type": "object", "minProperties": 2}, "#/minProperties"),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 1}, "#/maxProperties"),
    ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}, "#/oneOf"),
    ({"$ref": "other.json"}, "#/$ref"),
    ({"$dynamicRef": "#x"}, "#/$dynamicRef"),
    ({"properties": {"a": {"$id": "x", "items": {"$ref": "#"}}}}, "#/properties/a/$id"),
    ({"allOf": [{"typ": "string"}]}, "#/allOf/0/typ"),
    ({"type": "string", "format": "datetime"}, "#/format"),
]
