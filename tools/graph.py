#!/usr/bin/env python3
"""Prints the folders of src, which includes which, and the circles: between folders, and between
files inside of one (a pair of header and source counts as one file). A folder of kernels for one
processor is a part of the folder around it.

    tools/graph.py [--check]    --check prints circles alone, and fails where one is that is not
                                among those below"""

from __future__ import annotations

import collections
import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"

# Circles of files that stay, and why.
ACCEPTED = [
    # grammar.h is what a finished grammar is, and grammar.c makes one by these steps.
    {"grammar/grammar", "grammar/grammar_settle"},
    # schema.c begins what the files for each keyword go on with, by limits of schema.h.
    {"grammar/schema", "grammar/schema_parts"},
]


def components(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach each other (Tarjan), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def around(folder: str) -> str:
    return re.sub(r"/(x86|arm)$", "", folder)


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    folders: dict[str, set[str]] = collections.defaultdict(set)
    files: dict[str, set[str]] = collections.defaultdict(set)
    count: collections.Counter[str] = collections.Counter()
    for path in sorted(SRC.rglob("*.[ch]")):
        name = str(path.relative_to(SRC).with_suffix(""))
        folder = around(str(path.relative_to(SRC).parent))
        count[folder] += 1
        for included in re.findall(r'^#include "([a-z0-9_/]+)\.h"', path.read_text(), re.M):
            if included == name or not (SRC / f"{included}.h").exists():
                continue
            files[name].add(included)
            target = around(included.rpartition("/")[0])
            if target != folder:
                folders[folder].add(target)
    between, within = components(folders), components(files)
    new = [group for group in within if set(group) not in ACCEPTED]
    gone = [group for group in ACCEPTED if sorted(group) not in within]
    if not sys.argv[1:]:
        for folder in sorted(count):
            print(f"{folder} ({count[folder]} files) -> {', '.join(sorted(folders[folder])) or 'nothing'}")
        for group in within:
            print(f"circle of files: {', '.join(group)}")
    for group in new if sys.argv[1:] else []:
        print(f"src: new circle of files: {', '.join(group)}")
    for group in gone:
        print(f"tools/graph.py: a circle that is gone or has changed: {', '.join(sorted(group))}")
    for group in between:
        print(f"src: circle of folders: {', '.join(group)}")
        for folder in group:
            print(f"  {folder} -> {', '.join(sorted(folders[folder] & set(group)))}")
    if not sys.argv[1:]:
        print(f"{len(count)} folders, {sum(map(len, folders.values()))} arrows, {len(between)} circles of folders")
    return 1 if between or new or gone else 0


if __name__ == "__main__":
    sys.exit(main())
