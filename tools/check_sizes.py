#!/usr/bin/env python3
"""Checks that what is small in src says why: a header with its sources (its own, and those that are
a version of it, as NAME_none.c, NAME_avx2.c) has 40 lines or more, or stands in the section "Files
under 40 lines" of the README of its folder, or of the folder around it.

    tools/check_sizes.py [--print]    --print: how many there are of which size"""

from __future__ import annotations

import collections
import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"
SMALL, COMMON = 40, 400
SECTION = "Files under 40 lines"


def around(path: pathlib.Path) -> pathlib.Path:
    return path.parent.parent if path.parent.name in ("x86", "arm") else path.parent


def parts() -> dict[pathlib.Path, list[pathlib.Path]]:
    """Each header, or source without one, by its path without an ending, with all that is its."""
    found: dict[pathlib.Path, list[pathlib.Path]] = collections.defaultdict(list)
    headers = {around(path) / path.stem for path in SRC.rglob("*.h")}
    for path in sorted(SRC.rglob("*.[ch]")):
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
    if sys.argv[1:] not in ([], ["--print"]):
        sys.exit(__doc__)
    sizes = {files[0]: sum(path.read_text().count("\n") for path in files) for files in parts().values()}
    if sys.argv[1:]:
        for title, low, high in (("under", 0, SMALL), ("to 99", SMALL, 100), ("to 400", 100, COMMON + 1), ("more", COMMON + 1, 10**9)):
            print(f"{title}: {sum(low <= size < high for size in sizes.values())}")
    small = {path for path, size in sizes.items() if size < SMALL}
    reasons = set().union(*(named(readme) for readme in SRC.rglob("README.md")))
    for path in sorted(small):
        if not reasons & {path.with_suffix(".h"), path.with_suffix(".c")}:
            print(f"src/{path.relative_to(SRC)}: {sizes[path]} lines: the README of its folder says why, or it belongs to another file")
    large = sorted(path for path in reasons if not small & {path.with_suffix(".h"), path.with_suffix(".c")})
    for path in large:
        print(f"src/{path.relative_to(SRC)}: is not there or is not small any more; a README has it under \"{SECTION}\"")
    unknown = any(not reasons & {path.with_suffix(".h"), path.with_suffix(".c")} for path in small)
    return 1 if unknown or large else 0


if __name__ == "__main__":
    sys.exit(main())
