"""The README's recording: what the tool writes is an image of the real commands' output.

Run with: pytest tests/cli --omma build/release/omma
"""

import importlib.util
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def lines_of(image):
    tree = xml.etree.ElementTree.parse(image)
    return ["".join(line.itertext()) for line in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_recording(request, tmp_path):
    omma, image = request.config.getoption("--omma"), tmp_path / "out" / "demo.svg"
    subprocess.run([sys.executable, ROOT / "tools/record_terminal.py", "--omma", omma, "--output", image], check=True, timeout=300)
    lines = lines_of(image)
    assert lines[0].startswith("$ omma chat") and "> /quit" in lines
    answer = lines.index("> What colour is the circle?") + 1
    assert lines[answer] == "The circle is red."
    assert image.stat().st_size < 60_000
    stored = lines_of(ROOT / "docs/images/demo.svg")
    assert [line for line in stored if line.startswith(("$", ">"))] == [line for line in lines if line.startswith(("$", ">"))]


def test_output_that_came_with_an_echo_counts(request, tmp_path, monkeypatch):
    """A recorder that reads late finds a line's echo, its output and the next prompt in one
    piece."""
    spec = importlib.util.spec_from_file_location("record_terminal", ROOT / "tools/record_terminal.py")
    recorder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recorder)
    read_some = recorder.read_some

    def read_late(master, seconds):
        time.sleep(0.3)
        return read_some(master, min(seconds, 10))

    monkeypatch.setattr(recorder, "read_some", read_late)
    recording = recorder.Recording()
    omma = pathlib.Path(request.config.getoption("--omma")).resolve()
    recorder.run(recording, omma, f"omma chat {ROOT}/models/demo", ["/reset", "/quit"], tmp_path)
    lines = ["".join(text for _, text, _ in line) for line in recording.lines]
    assert lines[2:5] == ["> /reset", "(a new conversation)", "> /quit"]
