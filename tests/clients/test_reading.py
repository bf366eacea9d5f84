"""`omma read`'s requests, blocks and texts against mineru-vl-utils on 200 pages: tests/reading has
8 of them recorded."""

import subprocess
import sys

from conftest import REPOSITORY

N_PAGES = 200


def test_pages(tmp_path):
    made = tmp_path / "pages.json"
    script = REPOSITORY / "tools" / "make_reading_fixtures.py"
    subprocess.run([sys.executable, script, "--pages", str(N_PAGES), "--first", "0", "--out", made], check=True, capture_output=True)
    done = subprocess.run([REPOSITORY / "build/release/tests/test_reading", made], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
