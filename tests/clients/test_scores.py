"""The figures of `omma bench read --truth` against apted, Levenshtein and lxml on made pairs."""

import itertools
import json
import random
import re
import string
import subprocess

import apted
import Levenshtein
import lxml.html
import pytest

from conftest import REPOSITORY

N_PAIRS = 100
PROGRAM = REPOSITORY / "build/release/tests/score_pairs"
ALPHABET = string.ascii_letters + string.digits + "  .,-äßéλ漢字語😀"


def run(pairs):
    done = subprocess.run([PROGRAM], input="".join(json.dumps(pair) + "\n" for pair in pairs), capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(pairs)
    return [[float(number) for number in line.split()] for line in lines]


def change(rng, text):
    """The text with some characters removed, added or replaced."""
    return "".join(rng.choice(("", character, character, character, character, rng.choice(ALPHABET))) for character in text)


def words(rng, longest=40):
    return "".join(rng.choices(ALPHABET, k=rng.randint(0, longest)))


def normalised(a, b):
    return Levenshtein.distance(a, b) / max(len(a), len(b), 1)


def test_edit_distance():
    rng = random.Random(1)
    texts = [words(rng, 200) for _ in range(N_PAIRS)]
    pairs = [(text, change(rng, text) if rng.random() < 0.7 else words(rng, 200)) for text in texts]
    for (a, b), (value,) in zip(pairs, run([{"kind": "text", "a": a, "b": b} for a, b in pairs]), strict=True):
        assert abs(value - normalised(a, b)) < 1e-12


# ---- tables ----


class Node:
    def __init__(self, element, structure_only):
        self.tag, self.content = element.tag, None
        self.spans = None
        self.children = []
        if element.tag == "td":
            self.spans = (int(element.get("colspan", 1)), int(element.get("rowspan", 1)))
            self.content = [] if structure_only else tokens(element)
        else:
            self.children = [Node(child, structure_only) for child in element]


def tokens(element):
    """The characters and tags inside of an element."""
    found = list(element.text or "")
    for child in element:
        found += [f"<{child.tag}>", *tokens(child), f"</{child.tag}>", *(child.tail or "")]
    return found


class Costs(apted.Config):
    def rename(self, node1, node2):
        if (node1.tag, node1.spans) != (node2.tag, node2.spans):
            return 1.0
        return normalised(node1.content, node2.content) if node1.content or node2.content else 0.0

    def children(self, node):
        return node.children


def table_of(html):
    return lxml.html.fromstring(re.sub(r"<(/?)th\b", r"<\1td", html)).xpath("descendant-or-self::table")[0]


def similarity(a, b, structure_only):
    a, b = table_of(a), table_of(b)
    distance = apted.APTED(Node(a, structure_only), Node(b, structure_only), Costs()).compute_edit_distance()
    return 1 - distance / max(len(a.xpath(".//*")), len(b.xpath(".//*")), 1)


def make_table(rng):
    """Rows of cells, some wide or high, with tags inside; sections or none."""
    def cell():
        tag = rng.choice(("td", "td", "td", "th"))
        spans = "".join(f' {name}="{rng.randint(2, 4)}"' for name in ("colspan", "rowspan") if rng.random() < 0.15)
        inner = words(rng, 12).replace("<", "")
        if rng.random() < 0.2:
            inner += f"<b>{words(rng, 5)}</b>{words(rng, 5)}"
        if rng.random() < 0.1:
            inner += "a &amp; b &lt; c<br>d"
        return f"<{tag}{spans}>{inner}</{tag}>"
    rows = ["<tr>" + "".join(cell() for _ in range(rng.randint(1, 5))) + "</tr>" for _ in range(rng.randint(1, 6))]
    if rng.random() < 0.4:
        return f"<table><thead>{rows[0]}</thead><tbody>{''.join(rows[1:])}</tbody></table>"
    return f"<table>{''.join(rows)}</table>"


def change_table(rng, table):
    cells = re.split(r"(?<=</td>|</tr>|</th>)", table)
    if rng.random() < 0.5:
        cells = [cell for cell in cells if not (cell.startswith(("<td", "<th")) and rng.random() < 0.15)]
    return re.sub(r">([^<>&]+)<", lambda found: ">" + change(rng, found[1]).replace("<", "") + "<", "".join(cells))


def test_tables():
    rng = random.Random(2)
    tables = [make_table(rng) for _ in range(N_PAIRS)]
    pairs = [(table, change_table(rng, table) if rng.random() < 0.7 else make_table(rng)) for table in tables]
    for (a, b), values in zip(pairs, run([{"kind": "table", "a": a, "b": b} for a, b in pairs]), strict=True):
        assert values == pytest.approx([similarity(a, b, False), similarity(a, b, True)], abs=1e-6), (a, b)


# ---- matching ----


def test_the_cheapest_pairs():
    rng = random.Random(3)
    tables = [[[rng.choice((0, 0.5, rng.random())) for _ in range(columns)] for _ in range(rows)]
              for rows, columns in ((rng.randint(1, 6), rng.randint(1, 6)) for _ in range(N_PAIRS))]
    for costs, (value,) in zip(tables, run([{"kind": "assign", "costs": costs} for costs in tables]), strict=True):
        wide = costs if len(costs) <= len(costs[0]) else list(zip(*costs, strict=True))
        best = min(sum(row[column] for row, column in zip(wide, columns, strict=True)) for columns in itertools.permutations(range(len(wide[0])), len(wide)))
        assert abs(value - best) < 1e-9
