"""The conversation of `omma chat` as people have it: over a pseudo-terminal.

Run with: pytest tests/cli --omma build/release/omma
"""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import termios
import time

import pytest


class Terminal:
    """A program on a terminal of its own; everything that it writes, errors too, ends in `screen`."""

    def __init__(self, words):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [str(word) for word in words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.screen = ""

    def read(self, pattern, seconds=60):
        """What stands on the screen up to the pattern, which is taken off it."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.screen)):
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {pattern!r} in {self.screen!r}"
            try:
                self.screen += os.read(self.master, 4096).decode(errors="replace").replace("\r\n", "\n")
            except OSError as closed:
                raise AssertionError(f"ended without {pattern!r}: {self.screen!r}") from closed
        before, self.screen = self.screen[: found.end()], self.screen[found.end() :]
        return before

    def write(self, text):
        os.write(self.master, text.encode())

    def tell(self, line):
        """Types a line at the prompt and gives what comes back before the next prompt."""
        self.write(line + "\n")
        self.read(r"\n")
        return self.read(r"(^|\n)> $")[:-2]

    def leave(self):
        code = self.process.wait(timeout=30)
        os.close(self.master)
        return code


@pytest.fixture
def session(request, model):
    opened = []

    def start(*words):
        path = os.path.abspath(request.config.getoption("--omma"))
        terminal = Terminal([path, "chat", "--model", model, "--max-tokens", "4", "--ignore-eos", *words])
        opened.append(terminal)
        terminal.read(r"/help lists the commands\.\n> $")
        return terminal

    yield start
    for terminal in opened:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()


def test_commands(session):
    terminal = session()
    for command in ("/image", "/system", "/reset", "/help", "/quit", "Ctrl-C"):
        assert command in terminal.tell("/help")
    assert "no such command" in terminal.tell("/nonsense")
    assert "a new conversation)" in terminal.tell("/reset")
    assert "with this system message" in terminal.tell("/system Be brief.")
    assert "without a system message" in terminal.tell("/system")
    assert terminal.tell("") == ""
    assert terminal.tell("Hello").strip()
    terminal.write("/quit\n")
    assert terminal.leave() == 0


def test_end_of_input(session):
    terminal = session()
    terminal.write("\x04")
    assert terminal.leave() == 0


def test_questions_go_on(session):
    """The same question has another answer behind a first one, and the same after /reset."""
    terminal = session("--max-tokens", "12")
    first = terminal.tell("Hello")
    second = terminal.tell("Hello")
    terminal.tell("/reset")
    assert terminal.tell("Hello") == first != second


@pytest.fixture
def odd_names(pictures, tmp_path):
    folder = tmp_path / "my 'odd' folder"
    folder.mkdir()
    for name in ("a.png", "b 1.png"):
        shutil.copy(pictures / "tile_64x64.png", folder / name)
    return folder


def test_pictures_however_their_path_is_written(session, odd_names):
    terminal = session()
    taken = "(64x64, goes with the next question)"
    path = str(odd_names / "b 1.png")
    escaped = re.sub(r"([ '])", r"\\\1", path)
    address = "file://" + path.replace(" ", "%20").replace("'", "%27")
    for form in (path, f'"{path}"', escaped, address, "file://localhost" + address[7:], f" {escaped} "):
        assert terminal.tell(form).count(taken) == 1, form
        assert terminal.tell("/image " + form).count(taken) == 1, form
    both = escaped + " " + escaped.replace("b\\ 1.png", "a.png")
    assert terminal.tell(both).count(taken) == 2
    assert terminal.tell("/image " + both).count(taken) == 2
    assert terminal.tell("What is this?").strip()


def test_pictures_that_are_not_there(session, tmp_path):
    terminal = session()
    assert "none.png" in terminal.tell(f"{tmp_path}/none.png")
    assert "none.png" in terminal.tell("/image none.png")
    assert "a file is missing" in terminal.tell("/image")
    assert "a quote is open" in terminal.tell('/image "none.png')
    (tmp_path / "text.png").write_text("no picture")
    assert "cannot identify image" in terminal.tell(f"{tmp_path}/text.png")
    assert terminal.process.poll() is None


def test_a_question_that_speaks_of_files_is_a_question(session, odd_names):
    terminal = session()
    for question in ("What's in a.png?", "Is a.png and/or b 1.png red?", "it's"):
        answer = terminal.tell(question)
        assert answer.strip() and "omma:" not in answer and "goes with" not in answer


def test_interrupt_ends_the_answer_alone(session):
    terminal = session("--max-tokens", "100000", "--temperature", "1")
    terminal.write("Hello\n")
    terminal.read(r"\n.")
    terminal.write("\x03")
    # A small model may have filled its context before the key came.
    terminal.read(r"\n> ")
    assert terminal.process.poll() is None
    assert "a new conversation" in terminal.tell("/reset")


def test_interrupt_at_the_prompt(session):
    terminal = session()
    terminal.write("half a line\x03")
    terminal.read(r"\(again Ctrl-C, Ctrl-D or /quit leaves\)\n> $")
    assert "a new conversation" in terminal.tell("/reset")
    terminal.write("\x03")
    terminal.read(r"leaves\)\n> $")
    terminal.write("\x03")
    assert terminal.leave() == 0


def test_terminate_at_the_prompt(session):
    terminal = session()
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.leave() == 0


def test_wrong_use_on_a_terminal(request, model):
    path = os.path.abspath(request.config.getoption("--omma"))
    for words in (["--json"], ["--boxes", "out.png", "--image", "x.png"]):
        terminal = Terminal([path, "chat", "--model", model, *words])
        terminal.read(f"omma: chat: {words[0]}: needs --prompt")
        assert terminal.leave() == 2
