"""src/jinja compared with jinja2 with the settings of transformers: the same text, or an error in
both. What is not supported may be refused instead, and nothing else may differ."""

import datetime
import functools
import json
import pathlib
import random
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox
import pytest

TEMPLATES = sorted((pathlib.Path(__file__).resolve().parent.parent / "data/chat/templates").glob("*.jinja"))
REFUSED = ("not supported", "are not printed", "takes at most", "supported test's name", "supported filter's name", "out of range", "there is no function")


class Generation(jinja2.ext.Extension):
    """transformers' {% generation %}, which prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
ENVIRONMENT.filters["tojson"] = to_json
ENVIRONMENT.filters["from_json"] = json.loads  # of other renderers; transformers has none
ENVIRONMENT.globals["raise_exception"] = raise_exception
ENVIRONMENT.globals["strftime_now"] = lambda format: datetime.datetime.now().strftime(format)


@functools.lru_cache(8)
def compiled(template):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ENVIRONMENT.from_string(template)


def expected(template, variables):
    try:
        return compiled(template).render(**variables)
    except Exception:  # whatever jinja2 and Python raise
        return None


def check(render, template, variables):
    found, wanted = render(template, variables), expected(template, variables)
    if found.get("text") == wanted:
        return True
    assert "error" in found and any(word in found["error"] for word in REFUSED), (template, found, wanted)
    return False


VARIABLES = {
    "a": 1, "b": 2.5, "s": "  Hello, World \n", "u": "é漢😀x", "l": [1, 2, 3, "x", None, True], "d": {"k": "v", "items": 3, "z": [1]}, "n": None,
    "t": True, "e": "", "xs": [{"r": "u", "c": "1"}, {"r": "a", "c": "2"}, {"r": "u"}], "big": 1e16, "small": 1e-5, "neg": -7,
}

LINES = r"""
{{ a }}{{ b }}{{ n }}{{ t }}{{ missing }}{{ s|trim }}|{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip('\n ') }}
{{ u[0] }}{{ u[-1] }}{{ u[1:3] }}{{ u[::-1] }}{{ u|length }}{{ u[:2] }}{{ u[-2:] }}{{ l[5:1:-2]|join }}{{ l[-9:9]|length }}
{% for x in l %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}:{{ x }},{% else %}none{% endfor %}
{% for x in [] %}a{% else %}none{% endfor %}{% for x in l if x is number %}{{ loop.length }}{{ x }}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v|tojson }};{% endfor %}{{ d.get('q', 'w') }}{{ d.get('q') }}{{ d['items'] }}{{ d.k }}{{ d.zz }}
{{ d|tojson }}{{ d|tojson(indent=2) }}{{ u|tojson(ensure_ascii=true) }}{{ l|tojson }}{{ [big, small, 0.1, 1.0, 1e22]|tojson if false else big|tojson }}{{ []|tojson(indent=4) }}
{% set ns = namespace(i=0, s='') %}{% for x in range(5) %}{% set ns.i = ns.i + x %}{% set ns.s = ns.s ~ x ~ ',' %}{% endfor %}{{ ns.i }}{{ ns.s }}
{% set q = 1 %}{% for x in range(2) %}{% set q = q + 1 %}{{ q }}{% endfor %}{{ q }}
{% macro m(a, b=2, c='z') %}[{{ a }}{{ b }}{{ c }}{{ t }}]{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m() }}{{ m(1,2,3) + 'x' }}
{% macro m(a) %}x{% endmacro %}{{ m(1, 2) }}
{{ 'a' if t else 'b' }}{{ 'a' if n }}{{ 1 if n else 2 if t else 3 }}{{ not n and t or e }}{{ n or 'x' }}{{ e and 'y' }}
{{ 7 // 2 }}{{ neg // 2 }}{{ neg % 3 }}{{ 7 / 2 }}{{ 6 / 2 }}{{ 2 * 3 + 1 }}{{ 1 - 2 - 3 }}{{ -a }}{{ 7.5 // 2 }}{{ -7.5 % 2 }}{{ 'ab' * 3 }}{{ 3 * 'ab' }}
{{ 1 < 2 < 3 }}{{ 1 < 2 > 3 }}{{ 'a' < 'b' }}{{ a == 1.0 }}{{ t == 1 }}{{ n is none }}{{ s is string }}{{ missing is defined }}{{ missing is undefined }}
{{ 'x' in l }}{{ 'x' not in l }}{{ 'k' in d }}{{ 'ell' in s }}{{ 5 in l }}{{ 'a' in missing }}
{{ s.split()|join('-') }}{{ 'a,b,,c'.split(',')|join('|') }}{{ 'a,b,c'.split(',', 1)|join('|') }}{{ ' a  b '.split()|length }}{{ 'abc'.split('x')[-1] }}
{{ 'aXbXc'.replace('X', '--') }}{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('c','d')) }}{{ 'abc'|upper }}{{ 'hello world'.title() }}{{ 'hELLO'|capitalize }}
{{ xs|map(attribute='c')|list|length }}{{ xs|selectattr('r','equalto','u')|list|length }}{{ xs|rejectattr('r','eq','u')|map(attribute='c')|join }}{{ l|select('string')|join }}
{{ l|first }}{{ l|last }}{{ l[10] }}{{ missing|default('d') }}{{ e|default('d', true) }}{{ n|default('q') }}{{ xs|map(attribute='c', default='q')|join(',') }}
{% for x in l %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 'x' %}{% break %}{% endif %}{{ x }}{% endfor %}
{% set cap %}captured {{ a }}{% endset %}{{ cap|upper }}{{ "a" "b" 'c' }}{{ "\n\t\"q\" \u00e9\x41" }}{{ 'it\'s' }}
{{ (1, 2)|length }}{{ (1,)|length }}{{ ()|length }}{{ [1, [2, 3]][1][0] }}{{ {'a': 1, 'b': [2]}['b'][0] }}{{ {'x': 1}.x }}{{ '}}' }}
{{ range(3)|list|tojson }}{{ range(1, 10, 3)|join(',') }}{{ range(5, 0, -2)|join(',') }}{{ 'a\nb\n\nc'|indent(2) }}{{ 'a\nb'|indent(2, true) }}
{% generation %}gen{% endgeneration %}{{ xs[0]['r'] }}{{ xs[5] }}{{ (xs|last).r }}{{ d|dictsort|map('first')|join(',') }}{{ d.z[0] + 1 }}
{% for a, b in [[1,2],[3,4]] %}{{ a }}{{ b }};{% endfor %}{% for x in u %}{{ x }}.{% endfor %}{% for k in d %}{{ k }}{% endfor %}
{% for x in [1,2,3] %}{% for y in [1,2] %}{{ loop.index }}{% endfor %}{{ loop.index0 }}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}
{{ a ~ b ~ n ~ s }}{{ not a == 1 }}{{ a is not string }}{{ 3 is divisibleby 3 }}{{ 4 is even }}{{ a is eq 1 }}{{ xs|length > 2 and xs[2].c is not defined }}
{{ missing.x }}
{{ raise_exception('boom') }}
{{ 'a' + 1 }}
{{ s.nope() }}
{{ n.x }}
{{ 1 / 0 }}
{{ n < 1 }}
{{ missing|tojson }}
{% set x.y = 1 %}
{% for a, b in [[1]] %}{% endfor %}
{{ l }}
{% if %}
{% endif %}
{{
{{ a b }}
{% for x in l %}
{{ a|nofilter }}
{{ "abc
{# no end
{% include "x" %}
{% if t %}{{ {"a": {"b": 1}}["a"]["b"] }}{%- endif -%}
{{ l }}{{ d }}{{ xs }}{{ (1, 'a') }}{{ (1,) }}{{ () }}{{ [] }}{{ {} }}{{ [missing, n, t, 2.0, 1e22, -0.0] }}{{ {'a': {'b': [(1, 2), None]}} }}
{{ ["it's", 'a "q"', "both ' and \"", "tab\tnl\ncr\rbs\\", u, "\x00\x1f\x7f\x80\xa0\xad", "\u200b\u2028\ufeff\ue000", "é漢😀"] }}
{{ d|string }}{{ l|join(';') }}{{ [[1], {'a': 1}]|join }}{{ 'x' ~ l ~ d }}{{ [l, d]|string|length }}{{ d.items()|list }}{{ d|dictsort }}{{ d.keys()|list }}
{{ (1, 2) == [1, 2] }}{{ (1, 2) == (1, 2) }}{{ (1, 2) + (3,) }}{{ (1, 2, 3)[1:] }}{{ [1, 2] + [3] }}{{ range(3)|list }}{{ l|reverse|list }}{{ l|map('string')|list }}
{{ [1] + (2,) }}
{{ range(3) }}
{{ d.items() }}
{{ l|reverse }}
{{ '12'|int + 1 }}{{ ' -7 '|int }}{{ '3.9'|int }}{{ 'x'|int }}{{ 'x'|int(5) }}{{ 2.9|int }}{{ -2.9|int }}{{ true|int }}{{ n|int }}{{ '1e3'|int }}{{ ''|int }}
{{ missing|int }}
{{ '1.5'|float }}{{ 3|float }}{{ 'x'|float }}{{ 'x'|float(2.5) }}{{ '-1e-3'|float }}{{ n|float }}{{ '.5'|float }}{{ '5.'|float }}
{{ [3, 1, 2]|min }}{{ [3, 1, 2]|max }}{{ ['b', 'A', 'C']|min }}{{ ['b', 'A', 'C']|max }}{{ []|min }}{{ [1, 2.5, true]|max }}{{ xs|max(attribute='r') }}{{ 'hello'|max }}
{{ [3, 1, 2]|sort }}{{ ['b', 'A', 'a', 'B']|sort }}{{ ['b', 'A', 'a', 'B']|sort(case_sensitive=true) }}{{ [3, 1, 2]|sort(reverse=true) }}{{ xs|sort(attribute='r') }}{{ xs|sort(true, false, 'r') }}{{ d|sort }}
{{ [1, 'a']|sort }}
{{ ['a', 'B', 'b', 'A', 'c']|unique|list }}{{ [1, 1.0, 2, true]|unique|list }}{{ xs|unique(attribute='r')|list }}{{ 'hello'|unique|join }}
{{ '%s is %d%%'|format('x', 3) }}{{ '%s'|format([1, 'a']) }}{{ 'a%sb%s'|format(none, 1.5) }}{{ '%d'|format(true) }}
{{ '%s'|format() }}
{{ '<{}>{}'.format('x', 3) }}{{ '{1}{0}{{}}'.format('a', [1]) }}{{ '{a}-{b}'.format(a=1, b=none) }}{{ ''.format() }}
{{ '{}{}'.format(1) }}
{{ {1: 'a', 2: {3: 'b'}}[2][3] }}{{ {1: 'a'}|tojson }}{{ {1: 'a', 2.5: 'b', true: 'c'} }}{{ 1 in {1: 2} }}{{ {1: 2}.get(1) }}{{ {2: 'b', 1: 'a'}|dictsort }}{{ {1: 2} == {1.0: 2} }}
{{ n|map('upper')|list }}{{ n|selectattr('a')|list }}{{ n|reject('none')|list }}{{ missing|map(attribute='x')|list }}{{ 0|select|list }}
{{ '%s'|format(1, 2) }}
{{ '{"a": [1, 2.5, "x", null, true], "b": {"c": "d"}}'|from_json }}{{ ('[3, 1]'|from_json)[0] }}{{ '"é"'|from_json }}{{ ('{"a": 1}'|from_json).a }}
{{ '{'|from_json }}
{{ strftime_now('%Y-%m-%d') }}{{ strftime_now('%d %B %Y') }}{{ strftime_now('%%') }}{{ strftime_now is defined }}{{ strftime_now is callable }}
{{ ('<a>'|safe) + '<b>' }}{{ '<b>' + ('<a>'|safe) }}{{ ('<a>'|safe) ~ 1 ~ '&"' }}{{ ('x'|safe|trim) ~ "'" }}{{ 5|safe }}{{ '<'|safe }}{{ ('<'|safe) == '<' }}{{ ('<'|safe)|tojson }}
{{ d|tojson(separators=(',', ':')) }}{{ d|tojson(sort_keys=true) }}{{ d|tojson(indent=1, separators=(';', '=')) }}{{ {'b': {'z': 1, 'a': 2}, 'a': 1}|tojson(sort_keys=true) }}
{% filter upper %}a{{ s }}{% if t %}b{% endif %}{% endfilter %}|{% filter replace('a', 'xy')|title %}aa ba{% endfilter %}{% for x in l %}{% filter trim %} {{ x }} {% endfilter %}{% endfor %}
{% set a = 5 %}{% filter upper %}{% set a = 6 %}{% set new = 1 %}{{ a }}{% endfilter %}{{ a }}{{ new }}{% set cap %}{% set a = 7 %}{{ a }}{% endset %}{{ cap }}{{ a }}
{% macro m(x) %}{% filter trim %}  {{ x }}{{ a }} {% endfilter %}{% endmacro %}{{ m(3) }}{% filter trim %}{{ missing.x }}{% endfilter %}
{% filter nofilter %}a{% endfilter %}
{% filter %}a{% endfilter %}
{% endfilter %}
{{ [{'f': {'n': 'x', 'l': [1, 2]}}, {'f': {'n': 'a', 'l': [3, 4]}}, {}]|map(attribute='f.n')|list|string|length }}{{ [{'f': {'n': 'x', 'l': [1, 2]}}, {'f': {'n': 'a', 'l': [3, 4]}}]|map(attribute='f.l.1')|join }}{{ [{'f': {'n': 'x'}}, {'f': {'n': 'a'}}]|sort(attribute='f.n')|map(attribute='f')|map(attribute='n')|join }}{{ [{'f': {'n': 'x'}}, {'f': {}}]|selectattr('f.n')|list|length }}{{ [[1, 2], [3, 4]]|map(attribute='1')|join }}
{{ {'b': 1, 'A': 3, 'c': 2}|dictsort(by='value') }}{{ {'b': 1, 'A': 3, 'c': 2}|dictsort(true) }}{{ {'b': 1, 'A': 3}|dictsort(false, 'key', true) }}{{ {'b': 1, 'A': 3}|dictsort(reverse=true) }}
{{ {'b': 1}|dictsort(by='x') }}
{{ 'hello wORLD' | title }}{{ "it's (an) [o{dd} <one-two_three x1y\ta\nb.c/d" | title }}{{ 12|title }}{{ ''|title }}{{ "'a -b" | title }}
""".strip("\n").split("\n")


@pytest.mark.parametrize("line", LINES)
def test_lines(render, line):
    check(render, line, VARIABLES)


def test_tags_and_blanks(render, is_full):
    parts = ["{% if t %}", "{% endif %}", "{%- if t -%}", "{%- endif -%}", "{{ a }}", "{{- a -}}", "{# c #}", "{#- c -#}", "\n", " ", "  \n", "x", "\t",
             "{% endif +%}", "{%+ if t %}", "\r\n", "\r"]
    draw = random.Random(3)
    for _ in range(20000 if is_full else 300):
        check(render, "".join(draw.choice(parts) for _ in range(draw.randrange(1, 12))), VARIABLES)


ATOMS = ["a", "b", "s", "u", "l", "d", "n", "t", "e", "xs", "missing", "1", "2.5", "'x'", "[]", "neg", "l[0]", "xs[0].r", "d.k", "true", "none", "3"]


def expression(draw, depth):
    if depth == 0:
        return draw.choice(ATOMS)
    inner = [f"({expression(draw, depth - 1)})" for _ in range(3)]
    return draw.choice([
        f"{inner[0]} {draw.choice(['+', '-', '/', '//', '~'])} {inner[1]}", f"{inner[0]} {draw.choice(['==', '!=', 'in', 'not in'])} {inner[1]}",
        f"{inner[0]} {draw.choice(['and', 'or'])} {inner[1]}", f"not {inner[0]}", f"{inner[0]} if {inner[1]} else {inner[2]}",
        f"{inner[0]}|{draw.choice(['length', 'trim', 'first', 'last', 'string', 'default(1)', 'tojson', 'upper'])}",
        f"{inner[0]} is {draw.choice(['string', 'none', 'defined', 'mapping', 'number', 'iterable', 'not string', 'sequence', 'true', 'eq 1'])}",
        f"{inner[0]}[{draw.choice(['0', '-1', 'a'])}]", f"{inner[0]}{draw.choice(['.strip()', '.k', '.split()|length', '.x'])}",
    ])


def test_expressions(render, is_full):
    draw = random.Random(5)
    n = 20000 if is_full else 300
    same = sum(check(render, "{{ " + expression(draw, draw.randrange(1, 4)) + " }}", VARIABLES) for _ in range(n))
    assert same > 0.9 * n


def conversations():
    image, call = {"type": "image"}, {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"city": "Köln", "n": [1.5, None]}}}
    question = {"role": "user", "content": [{"type": "text", "text": "What"}, image, {"type": "text", "text": " is?\n"}]}
    yield [question]
    yield [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}]
    yield [question, {"role": "assistant", "content": "", "tool_calls": [call, call]}, {"role": "tool", "content": "12 °C"}, {"role": "tool", "content": [image]}]
    yield [question, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nTwo", "tool_calls": [call]}, {"role": "tool", "content": "x"}]
    yield [question, {"role": "assistant", "content": "Two", "reasoning_content": "\nr\n"}, question, {"role": "assistant", "content": "\n\nThree"}]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_released_templates(render, path):
    tools = [{"type": "function", "function": {"name": "f", "description": "Das \"Wetter\" <b> & 'x' é 漢 😀", "parameters": {"x": 1.0, "y": 1e-7}}}]
    for messages in conversations():
        for more in ({}, {"tools": tools}, {"add_vision_id": True}, {"enable_thinking": False}):
            for opened in (True, False):
                assert check(render, path.read_text(), {"messages": messages, "add_generation_prompt": opened, **more})


@pytest.mark.parametrize("template, message", [
    ("{% for m in x %}a", "line 1: {% for %} is not closed: {% endfor %} is missing"),
    ("a\n{% if a %}\n{% elif b %}\n{% else %}\n", "line 2: {% if %} is not closed: {% endif %} is missing"),
    ("{% if a %}\n{% for m in\nx %}{% endif %}", "line 2: {% for %} is not closed: {% endfor %} is missing"),
    ("{% set a %}b", "line 1: {% set %} is not closed: {% endset %} is missing"),
    ("{% macro a() %}b", "line 1: {% macro %} is not closed: {% endmacro %} is missing"),
    ("{% filter trim %}b", "line 1: {% filter %} is not closed: {% endfilter %} is missing"),
    ("{% generation %}b", "line 1: {% generation %} is not closed: {% endgeneration %} is missing"),
])
def test_blocks_that_are_not_closed(render, template, message):
    assert render(template, VARIABLES)["error"] == message and expected(template, VARIABLES) is None


def test_limits(render):
    """Templates and conversations that would not end, or take all memory, end with an error."""
    for template in ("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "{{ " + "(" * 5000 + "a" + ")" * 5000 + " }}", "{% if t %}" * 5000 + "{% endif %}" * 5000,
                     "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
                     "{% for i in range(99999) %}{% for j in range(99999) %}{{ i }}{% endfor %}{% endfor %}", "{{ 'x' * 999999999 }}",
                     "{% for i in range(99999) %}{{ 'x' * 999 }}{% endfor %}", "{{ range(999999999) }}", "{{ 9223372036854775 * 9223372036854775 }}"):
        assert render(template, VARIABLES)["error"]
    deep = []
    for _ in range(500):
        deep = [deep]
    assert render("{{ x|tojson }}", {"x": deep})["error"]
