#!/usr/bin/env python3
"""Finds JSON that C code puts together by hand: strings with a quoted name before a colon, or with
quotes behind a bracket or comma, that are given to a function which writes text. JSON is written by
src/base/json_writer.h; values of jansson's are dumped by jansson.

    tools/check_json.py [--root DIR]

Prints one line per place, "file:line: what", and exits with 1 where there is any, or where a file
stands below without need."""

from __future__ import annotations

import argparse
import pathlib
import re
import sys

# Files that may, and why.
ACCEPTED = {
    "reading/document_writer.c": "a file of pages, each a line, that grows page by page",
}

# A comment, a string, a character, or what may open a call.
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|\w+|[()]', re.S)
WRITERS = re.compile(r"ommai_text_(add|append|format)|v?[fsd]?n?printf|v?asprintf|v?snprintf|v?sprintf|fputs|puts|fwrite|json_sprintf")
FRAGMENT = re.compile(r'\\"[\w%.-]*\\" ?:|[{\[,] ?\\"')
# Of a text buffer, brackets alone are enough.
BRACKETS = re.compile(r"[\s,:]*[{}\[\]][\s,:{}\[\]]*|[,:]|,?(null|true|false)")


def calls(text: str):
    """The writing functions that are called, with the line, and the strings between the parentheses
    of the call."""
    tokens = list(TOKEN.finditer(text))
    for at, token in enumerate(tokens[:-1]):
        if not WRITERS.fullmatch(token[0]) or tokens[at + 1][0] != "(":
            continue
        depth = 0
        for inner in tokens[at + 1:]:
            depth += (inner[0] == "(") - (inner[0] == ")")
            if depth == 0:
                break
            if inner[0].startswith('"'):
                yield token[0], text.count("\n", 0, inner.start()) + 1, inner[0][1:-1]


def check(path: pathlib.Path) -> list[tuple[int, str]]:
    found = []
    for function, line, string in calls(path.read_text()):
        alone = function.startswith("ommai_text_") and BRACKETS.fullmatch(string.replace("\\n", "\n"))
        if alone or FRAGMENT.search(string):
            found.append((line, f"JSON written by hand, use src/base/json_writer.h: {string[:60]}"))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent, help="the tree to check")
    source = parser.parse_args().root / "src"
    lines = []
    for path in sorted([*source.rglob("*.c"), *source.rglob("*.h")]):
        name = path.relative_to(source).as_posix()
        found = [] if name.startswith("base/json_writer.") else check(path)
        if name in ACCEPTED and not found:
            lines.append(f"tools/check_json.py: {name}: is accepted, and writes no JSON")
        if name not in ACCEPTED:
            lines += [f"src/{name}:{line}: {what}" for line, what in found]
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
