"""The README's recording: what the tool writes is a picture of the real commands' output.

Run with: pytest tests/cli --omma build/release/omma
"""

import pathlib
import subprocess
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def lines_of(picture):
    tree = xml.etree.ElementTree.parse(picture)
    return ["".join(line.itertext()) for line in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_recording(request, tmp_path):
    omma, picture = request.config.getoption("--omma"), tmp_path / "out" / "demo.svg"
    subprocess.run([sys.executable, ROOT / "tools/record_terminal.py", "--omma", omma, "--output", picture], check=True, timeout=300)
    lines = lines_of(picture)
    assert lines[0].startswith("$ omma chat") and "> /quit" in lines
    answer = lines.index("> What colour is the circle?") + 1
    assert lines[answer] == "The circle is red."
    assert picture.stat().st_size < 60_000
    stored = lines_of(ROOT / "docs/images/demo.svg")
    assert [line for line in stored if line.startswith(("$", ">"))] == [line for line in lines if line.startswith(("$", ">"))]
