"""What a model writes reaches a terminal without anything that a terminal obeys: every control
character (C0, DEL, C1) and every mark that turns the direction of writing, in answers of `omma
chat`, in `omma detokenize` and in JSON. A pipe gets the bytes as they are.

Run with: pytest tests/cli --omma build/release/omma --model DIR
"""

import json
import os
import pathlib
import pty
import select
import subprocess
import time

import pytest

C0 = [code for code in range(1, 0x20) if chr(code) not in "\n\t"] + [0x7F]
C1 = list(range(0x80, 0xA0))
BIDI = [0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
HOSTILE = [chr(code) for code in [*C0, *C1, *BIDI]]
# Lines, tabs, letters of many scripts, an emoji of several characters, a variant, an accent.
WANTED = "a\tb\nStraße 橋 \N{BUG} \U0001f468‍\U0001f469 \u2600\ufe0f q\u0301 می‌خواهم"


def screen(command, seconds=120):
    """What a program on a pseudo-terminal writes to its standard output."""
    master, slave = pty.openpty()
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    seen, end = b"", time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([master], [], [], max(0, end - time.monotonic()))
        assert ready, seen
        try:
            piece = os.read(master, 65536)
        except OSError:  # closed
            break
        if not piece:
            break
        seen += piece
    os.close(master)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    return seen.decode().replace("\r\n", "\n")


def check(shown):
    for character in HOSTILE:
        assert character not in shown, hex(ord(character))
    assert WANTED in shown, shown
    assert shown.count("|") == TEXT.count("|")  # the end is there


TEXT = "|".join(["", *HOSTILE, WANTED, ""])


@pytest.fixture(scope="session")
def omma(request):
    return pathlib.Path(request.config.getoption("--omma")).resolve()


@pytest.fixture
def chat(omma, model, tmp_path):
    """The command for an answer that is TEXT."""
    rule = tmp_path / "text.gbnf"
    rule.write_text('root ::= "' + "".join(c if c > "\x7f" else f"\\x{ord(c):02x}" for c in TEXT) + '"\n')
    return [omma, "chat", "--model", model, "--grammar", rule, "--max-tokens", "1500", "--max-model-len", "2048"]


def test_an_answer(chat):
    plain = subprocess.run([*map(str, chat), "hello"], capture_output=True, timeout=120)
    assert plain.stdout.decode() == TEXT + "\n", plain
    check(screen([*chat, "hello"]))


def test_detokenized_text(omma, model):
    ids = subprocess.run([omma, "tokenize", "--model", model], input=TEXT.encode(), capture_output=True, timeout=120)
    assert ids.returncode == 0, ids
    check(screen([omma, "detokenize", "--model", model, ids.stdout.decode()]))


def test_json(chat):
    shown = screen([*chat, "--json", "hello"])
    assert json.loads(shown)["text"] == TEXT
    assert all(character == "\n" or " " <= character <= "\x7f" for character in shown), shown
