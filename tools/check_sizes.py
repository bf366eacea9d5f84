#!/usr/bin/env python3
"""Checks that what is small in src says why: a header with its sources (its own, and those that are
a version of it, as NAME_none.c, NAME_avx2.c) has 40 lines or more, or stands in the section "Files
under 40 lines" of the README of its folder, or of the folder around it.

    tools/check_sizes.py [--root DIR] [--print]

    --root DIR  the tree to check (default: the one this script lies in)
    --print     how many there are of which size"""

from __future__ import annotations

import argparse
import collections
import pathlib
import re
import sys

SMALL, COMMON = 40, 400
SECTION = "Files under 40 lines"


def around(path: pathlib.Path) -> pathlib.Path:
    return path.parent.parent if path.parent.name in ("x86", "arm") else path.parent


def parts(src: pathlib.Path) -> dict[pathlib.Path, list[pathlib.Path]]:
    """Each header, or source without one, by its path without an ending, with all that is its."""
    found: dict[pathlib.Path, list[pathlib.Path]] = collections.defaultdict(list)
    headers = {around(path) / path.stem for path in src.rglob("*.h")}
    for path in sorted(src.rglob("*.[ch]")):
        stem = path.stem
        while around(path) / stem not in headers and "_" in stem:
            stem = stem.rpartition("_")[0]
        owner = around(path) / stem
        found[owner if owner in headers else path.with_suffix("")].append(path)
    return found


def named(readme: pathlib.Path) -> set[pathlib.Path]:
    """What the section of a README names, as paths."""
    _, heading, text = readme.read_text().partition(f"\n## {SECTION}\n")
    return {readme.parent / name for name in re.findall(r"`([a-z0-9_/]+\.[ch])`", text.partition("\n## ")[0])} if heading else set()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent, help=argparse.SUPPRESS)
    parser.add_argument("--print", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    src = arguments.root / "src"
    sizes = {files[0]: sum(path.read_text().count("\n") for path in files) for files in parts(src).values()}
    if arguments.print:
        for title, low, high in (("under", 0, SMALL), ("to 99", SMALL, 100), ("to 400", 100, COMMON + 1), ("more", COMMON + 1, 10**9)):
            print(f"{title}: {sum(low <= size < high for size in sizes.values())}")
    small = {path for path, size in sizes.items() if size < SMALL}
    reasons = set().union(*(named(readme) for readme in src.rglob("README.md")))
    for path in sorted(small):
        if not reasons & {path.with_suffix(".h"), path.with_suffix(".c")}:
            print(f"src/{path.relative_to(src)}: {sizes[path]} lines: the README of its folder says why, or it belongs to another file")
    large = sorted(path for path in reasons if not small & {path.with_suffix(".h"), path.with_suffix(".c")})
    for path in large:
        print(f"src/{path.relative_to(src)}: is not there or is not small any more; a README has it under \"{SECTION}\"")
    unknown = any(not reasons & {path.with_suffix(".h"), path.with_suffix(".c")} for path in small)
    return 1 if unknown or large else 0


if __name__ == "__main__":
    sys.exit(main())
