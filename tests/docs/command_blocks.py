"""Finds blocks of commands in Markdown files, and what a comment before one says about it:

<!-- commands not run: REASON -->     never run here; the reason is shown
<!-- commands long: REASON -->        run by `make test-docs` alone
<!-- commands with: COMMAND -->       COMMAND runs before: what the text assumes was done before
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("not run", "long", "with")

_PROGRAMS = {"cc", "cmake", "curl", "export", "git", "hf", "make", "omma", "omma-encoder-proxy", "pip", "pkg-config", "python", "python3", "vllm", "vllm-router"}
_MARK = re.compile(r"<!-- commands ([a-z ]+): (.*?)\s+-->", re.S)


@dataclass
class Block:
    file: str
    line: int
    text: str
    marks: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}"


def _is_command(line: str) -> bool:
    """By its first word: a program, a path of this repository or of its build, or an assignment."""
    words = [word for word in line.split() if not re.match(r"[A-Z_]+=", word)]
    if not words or line.startswith(("{", "}")):
        return False
    first = words[0]
    return first in _PROGRAMS or first.startswith("build/") or ("/" in first and (ROOT / first).is_file())


def _blocks(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Line number and text of each fenced block of a shell and of each indented one."""
    at, fence = 0, None
    while at < len(lines):
        start = at
        fence = re.match(r"```(\w*)$", lines[at])
        if fence:
            at += 1
            while at < len(lines) and not lines[at].startswith("```"):
                at += 1
            if fence[1] in ("sh", "bash", "console"):
                yield start + 1, [line.removeprefix("$ ") for line in lines[start + 1 : at]]
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            while at + 1 < len(lines) and (lines[at + 1].startswith("    ") or not lines[at + 1].strip()):
                at += 1
            yield start + 1, [line[4:] for line in lines[start : at + 1]]
        at += 1


def blocks_of(path: Path) -> list[Block]:
    """The blocks whose first line is a command. ValueError for a mark that none follows."""
    lines = path.read_text(encoding="utf-8").split("\n")
    name = str(path.relative_to(ROOT))
    found: list[Block] = []
    n_marks = 0
    for number, block in _blocks(lines):
        if not _is_command(block[0]):
            continue
        # Marks are the comments right before the block.
        before = "\n".join(lines[: number - 1]).rstrip()
        marks = {}
        while before.endswith("-->"):
            before, _, comment = before.rpartition("<!--")
            mark = _MARK.fullmatch(f"<!--{comment}")
            if mark:
                marks[mark[1]] = " ".join(mark[2].split())
            before = before.rstrip()
        n_marks += len(marks)
        if unknown := marks.keys() - set(KINDS):
            raise ValueError(f"{name}:{number}: a mark of an unknown kind: {', '.join(unknown)}")
        found.append(Block(name, number, "\n".join(block).rstrip() + "\n", marks))
    if n_marks != "\n".join(lines).count("<!-- commands "):
        raise ValueError(f"{name}: a mark that no block of commands follows")
    return found


def published() -> list[str]:
    """The files of the repository, those not yet committed too."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True
    ).stdout
    return [name for name in listed.split("\n") if name and (ROOT / name).exists()]


def all_blocks() -> list[Block]:
    pages = [name for name in published() if name.endswith(".md") and not name.startswith("tests/")]
    return [block for name in pages for block in blocks_of(ROOT / name)]
