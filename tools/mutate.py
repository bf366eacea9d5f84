#!/usr/bin/env python3
"""Damages conditions, bounds and signs in C sources, one at a time, and lists what no test notices.

    tools/mutate.py --sources src/grammar/*.c
        --target tests/test_grammar tests/test_token_mask tests/grammar_walk
        --run build/release/tests/test_grammar --run build/release/tests/test_token_mask
        --count 20 --journal build/mutate-grammar.jsonl
        --run "$PWD/build/venv/bin/python -m pytest -qx tests/grammar --walk
               build/release/tests/grammar_walk"

Each damage is made in a copy of the tree (--tree), in which the targets are built and every --run
is started. A damage counts as noticed where the build fails, a run fails, or a run takes longer
than --limit seconds. The journal has a line for each damage: what was interrupted goes on after it.
The same seed draws the same damages from the same sources."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

# What stands between blanks, as clang-format leaves it, and what it becomes.
SWAPS = [
    (" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
    (" && ", " || "), (" || ", " && "), (" + 1", ""), (" - 1", ""), (" + ", " - "), (" - ", " + "),
    ("if (!", "if ("), ("return true", "return false"), ("return false", "return true"), ("++", "--"),
]  # fmt: skip
LITERALS = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')


def code_lines(text: str):
    """(number, line with strings blanked) of the lines within functions: indented, not in a
    comment, not of the preprocessor."""
    inside = False
    for number, line in enumerate(text.split("\n")):
        start = inside
        blank = LITERALS.sub(lambda found: "\0" * len(found[0]), line)
        if inside:
            inside = "*/" not in blank
        elif "/*" in blank:
            inside = "*/" not in blank[blank.index("/*") :]
            blank = blank[: blank.index("/*")]
        elif "//" in blank:
            blank = blank[: blank.index("//")]
        if not start and re.match(r"\s+\S", blank) and not re.match(r"\s*(#|static_assert|OMMAI_ASSERT)", blank):
            yield number, blank


def places(path: pathlib.Path):
    """Every damage that a file allows: line, column, what stands there, what shall."""
    for number, line in code_lines(path.read_text()):
        for old, new in SWAPS:
            start = line.find(old)
            while start >= 0:
                # " + 1" of " + 16" is another number
                if not (old[-1].isdigit() and line[start + len(old) : start + len(old) + 1].isalnum()):
                    yield {"file": str(path), "line": number + 1, "column": start, "old": old, "new": new}
                start = line.find(old, start + 1)


def draw(sources: list[pathlib.Path], count: int, seed: int) -> list[dict]:
    """A damage a line at most."""
    every = [place for path in sorted(sources) for place in places(path)]
    random.Random(seed).shuffle(every)
    drawn: dict[tuple, dict] = {}
    for place in every:
        drawn.setdefault((place["file"], place["line"]), place)
        if len(drawn) == count:
            break
    return list(drawn.values())


def damaged(text: str, place: dict) -> str:
    lines = text.split("\n")
    line, start = lines[place["line"] - 1], place["column"]
    assert line.startswith(place["old"], start), place
    lines[place["line"] - 1] = line[:start] + place["new"] + line[start + len(place["old"]) :]
    return "\n".join(lines)


def run(command: list[str], tree: pathlib.Path, limit: float) -> tuple[int | None, str]:
    """Its status (None: it took too long, and was ended with what it started) and its last line."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    process = subprocess.Popen(command, cwd=tree, start_new_session=True, **pipes)
    try:
        output = process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, ""
    return process.returncode, output.strip().split("\n")[-1][:200]


def verdict(arguments: argparse.Namespace, tree: pathlib.Path, place: dict) -> dict:
    path = tree / place["file"]
    whole = path.read_text()
    start = time.monotonic()
    path.write_text(damaged(whole, place))
    try:
        status, last = run(["ninja", "-C", arguments.build, *arguments.target], tree, 1800)
        if status != 0:
            return {**place, "noticed": "build", "last": last}
        for command in arguments.run:
            status, last = run(shlex.split(command), tree, arguments.limit)
            if status != 0:
                return {**place, "noticed": "too slow" if status is None else command, "last": last}
        return {**place, "noticed": None}
    finally:
        path.write_text(whole)
        print(f"  {time.monotonic() - start:.1f} s", file=sys.stderr)


def prepare(arguments: argparse.Namespace, tree: pathlib.Path) -> None:
    """The copy, brought up to date, built; all runs must succeed on it. Only files that differ are
    written, so that their times tell ninja what to build."""
    tree.mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        source, copy = pathlib.Path(name), tree / name
        if copy.is_symlink() or (copy.exists() and copy.read_bytes() == source.read_bytes()):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy, follow_symlinks=False)
    kind = ["-DCMAKE_BUILD_TYPE=Release"]
    if arguments.sanitize:
        kind = ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DOMMA_SANITIZE=address,undefined"]
    configure = ["cmake", "-G", "Ninja", "-S", ".", "-B", arguments.build, "-DOMMA_TESTS=ON", *kind]
    for command in (configure, ["ninja", "-C", arguments.build, *arguments.target]):
        subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL)
    for command in arguments.run:
        status, last = run(shlex.split(command), tree, arguments.limit)
        if status != 0:
            sys.exit(f"mutate: without any damage fails: {command}: {last}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", nargs="+", type=pathlib.Path, required=True)
    parser.add_argument("--target", nargs="+", required=True, help="what ninja builds")
    parser.add_argument("--run", action="append", required=True, help="a command; all must succeed where nothing is damaged")
    parser.add_argument("--build", default="build/release", help="build folder, below the copy")
    parser.add_argument("--sanitize", action="store_true", help="build for ASan and UBSan, which see reads beyond an end")
    parser.add_argument("--tree", type=pathlib.Path, default=pathlib.Path("build/mutate-tree"))
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a run may take")
    parser.add_argument("--journal", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    done = [json.loads(line) for line in arguments.journal.read_text().splitlines()] if arguments.journal.exists() else []
    known = {(row["file"], row["line"], row["column"], row["old"]) for row in done}
    drawn = draw(arguments.sources, arguments.count, arguments.seed)
    rest = [place for place in drawn if (place["file"], place["line"], place["column"], place["old"]) not in known]
    if rest:
        prepare(arguments, arguments.tree.resolve())
    for place in rest:
        row = verdict(arguments, arguments.tree.resolve(), place)
        done.append(row)
        with arguments.journal.open("a") as journal:
            journal.write(json.dumps(row) + "\n")
    missed = [row for row in done if not row["noticed"]]
    for row in missed:
        print(f"{row['file']}:{row['line']}: not noticed: \"{row['old'].strip()}\" became \"{row['new'].strip()}\"")
    print(f"{len(done) - len(missed)} of {len(done)} damages were noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
