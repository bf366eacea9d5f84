#!/usr/bin/env python3
"""Checks the messages of the commits that are not in a base yet: the subject is `area: what it does
now` of at most 130 columns, without a full stop; where more than 20 lines below src change, a body
says why.

    tools/check_commits.py [BASE]    BASE: a revision; default: origin/main, or main where there is none"""

from __future__ import annotations

import re
import subprocess
import sys

MAX_SUBJECT = 130
LINES_WITHOUT_BODY = 20


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], capture_output=True, text=True)


def changed_lines(commit: str) -> int:
    """Lines below src that the commit adds and takes away; binary files count none."""
    counts = git("show", "--numstat", "--format=", "-M", commit, "--", "src").stdout
    return sum(int(n) for line in counts.splitlines() for n in line.split("\t")[:2] if n.isdigit())


def faults(subject: str, body: str, n_lines: int) -> list[str]:
    found = []
    if not re.match(r"[^\s:][^:]*: \S", subject):
        found.append("the subject is not `area: what it does now`")
    if len(subject) > MAX_SUBJECT:
        found.append(f"the subject has {len(subject)} columns, more than {MAX_SUBJECT}")
    if subject.endswith("."):
        found.append("the subject ends with a full stop")
    if n_lines > LINES_WITHOUT_BODY and not body.strip():
        found.append(f"{n_lines} lines below src change, and no body says why")
    return found


def main() -> int:
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and sys.argv[1].startswith("-")):
        sys.exit(__doc__)
    bases = sys.argv[1:] or ["origin/main", "main"]
    known = [base for base in bases if git("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}").returncode == 0]
    if not known and len(sys.argv) == 2:
        sys.exit(f"check_commits: no revision {sys.argv[1]}")
    if not known:
        print("check_commits: skipped: neither origin/main nor main is there to compare with")
        return 0
    base = known[0]
    n_faults = 0
    for commit in git("rev-list", "--no-merges", "--reverse", f"{base}..HEAD").stdout.split():
        subject, _, body = git("show", "--no-patch", "--format=%s%n%b", commit).stdout.partition("\n")
        for fault in faults(subject, body, changed_lines(commit)):
            print(f"check_commits: {commit[:10]} {subject!r}: {fault}", file=sys.stderr)
            n_faults += 1
    return 1 if n_faults else 0


if __name__ == "__main__":
    sys.exit(main())
