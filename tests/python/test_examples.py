"""The examples of python/examples say what is so. examples/search_images.py: test_vectors.py;
those in C: tests/tools/test_examples.sh."""

import os
import subprocess
import sys

import pytest
from ommatidia import _runtime
from served import DEMO, ROOT, TREE

EXAMPLES = ROOT / "python" / "examples"


def lines(name, *arguments):
    """What an example prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(TREE.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_every_example_is_run_here():
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == ["answers.py", "attention.py"]


@pytest.mark.skipif(not _runtime.LIBRARY_PATH.exists(), reason="this package was built without libomma")
def test_answers():
    shown, answer, streamed, color, number, box = lines("answers.py", DEMO, DEMO / "images" / "cross.png")
    assert shown.startswith("<ommatidia.Model") and "task generate" in shown
    text, _, logprobs = answer.partition(" [")
    assert text == streamed == "The cross is orange."
    assert len(logprobs.split(",")) == 6  # words, full stop, end
    assert color == "What color is the cross? The cross is orange."
    assert number == "How many shapes are there? There is one shape."
    # Its extent in the file's pixels is [273, 241, 727, 759].
    label, _, corners = box.rpartition(" [")
    assert label == "orange cross"
    assert [int(corner) for corner in corners.rstrip("]").split(",")] == pytest.approx([273, 241, 727, 759], abs=40)


def test_attention():
    *images, machine = lines("attention.py")
    assert images == [f"{n:5} patches: same bits alone: True" for n in (1024, 64, 400)]
    assert machine.startswith("CPU level ")
