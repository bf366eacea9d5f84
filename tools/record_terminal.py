#!/usr/bin/env python3
"""Records a terminal in which the demo model is asked, as an SVG image that plays by itself.

    tools/record_terminal.py [--omma build/release/omma] [--output docs/images/demo.svg]

The commands below are really run, each on a pseudo-terminal; what they write, and when, is what the
image shows. Only waiting is shortened. The image needs no script: lines appear by CSS animation,
and all of them stand there where animations are not played.
"""

import argparse
import html
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 88, 26
CHARACTER_WIDTH, LINE_HEIGHT, MARGIN, TITLE = 8.43, 19, 14, 26
TYPED_SECONDS = 0.035  # a key
LONGEST_WAIT = 1.2
REST_SECONDS = 4.0  # at the end, before it begins anew

# What is typed: commands for the shell, and the lines of a conversation inside the last one.
COMMANDS = [
    ("omma chat --model .. -i shapes.png -p 'How many objects are there?'", []),
    ("omma plan shapes.png 1920x1080 | head -4", []),
    ("omma chat --model ..", ["shapes.png", "What colour is the circle?", "What shape is the blue object?", "/quit"]),
]

STYLE = """
text { font: 14px 'DejaVu Sans Mono', Menlo, Consolas, monospace; white-space: pre; fill: #d6deeb; }
.prompt { fill: #7fdbca; }
.typed { fill: #ffffff; font-weight: bold; }
@media (prefers-reduced-motion: reduce) { tspan { animation: none !important; } }
"""


class Recording:
    """Lines of the screen, each with the pieces (second, text, class) that it grew from."""

    def __init__(self):
        self.lines = [[]]
        self.now = 0.0

    def add(self, text, kind=""):
        for index, part in enumerate(text.split("\n")):
            if index:
                self.lines.append([])
            if part:
                self.lines[-1].append((self.now, part, kind))

    def type(self, text):
        """A line as typed, a word at a time."""
        for word in re.findall(r"\S+\s*", text):
            self.now += TYPED_SECONDS * len(word)
            self.add(word, "typed")
        self.now += 0.25

    def wait(self, seconds):
        self.now += min(seconds, LONGEST_WAIT)


def plain(text):
    """Output without what terminals do and an image cannot: progress lines and control
    sequences."""
    text = re.sub(r"\r[^\n\r]*\x1b\[K", "", text.replace("\r\n", "\n"))
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "")


def read_some(master, seconds):
    """What a terminal got; None at its end."""
    ready, _, _ = select.select([master], [], [], seconds)
    if not ready:
        return ""
    try:
        return os.read(master, 65536).decode(errors="replace") or None
    except OSError:
        return None


def run(recording, omma, command, lines, folder):
    """Runs a command in a terminal of its own and types the lines at its prompts."""
    recording.add("$ ", "prompt")
    recording.type(command)
    recording.add("\n")
    master, slave = pty.openpty()
    environment = {**os.environ, "PATH": f"{omma.parent}:{os.environ['PATH']}", "COLUMNS": str(COLUMNS),
                   "TERM": "dumb"}
    with subprocess.Popen(["sh", "-c", command], stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment,
                          start_new_session=True) as process:
        os.close(slave)
        waiting = list(lines)
        before, echo, tail = time.monotonic(), "", ""
        # What came together with an echo may have been all there is.
        while (got := read_some(master, 0.2 if echo else 120)) is not None:
            if not got and not echo:
                process.kill()
                sys.exit(f"record_terminal: {command}: no answer for two minutes")
            now = time.monotonic()
            recording.wait(now - before)
            before = now
            text = plain(echo + got)
            echo = ""
            tail = (tail + text)[-4:]
            recording.add(text)
            if waiting and tail.endswith("> "):
                line = waiting.pop(0)
                recording.type(line)
                # The terminal's echo is read here: it stands on the screen already, as typed.
                os.write(master, (line + "\n").encode())
                echoed = ""
                while "\n" not in echoed:
                    echoed += read_some(master, 10) or "\n"
                echo = "\n" + echoed.split("\n", 1)[1]
                before = time.monotonic()
        os.close(master)
        if process.wait() != 0:
            sys.exit(f"record_terminal: {command}: failed")
    if recording.lines[-1]:
        recording.add("\n")
    recording.wait(0.8)


def check(recording):
    if len(recording.lines) > ROWS:
        sys.exit(f"record_terminal: {len(recording.lines)} lines do not fit on {ROWS}")
    for line in recording.lines:
        text = "".join(part for _, part, _ in line)
        if len(text) > COLUMNS:
            sys.exit(f"record_terminal: a line is longer than {COLUMNS} columns: {text}")


def render(recording):
    """The SVG: a text element per line; pieces that came at one time are one tspan."""
    total = recording.now + REST_SECONDS
    moments = sorted({second for line in recording.lines for second, _, _ in line})
    names = {second: f"m{number}" for number, second in enumerate(moments)}
    width, height = COLUMNS * CHARACTER_WIDTH + 2 * MARGIN, len(recording.lines) * LINE_HEIGHT + MARGIN + TITLE
    steps = "".join(
        f".{name}{{animation:{name} {total:.1f}s step-end infinite}}@keyframes {name}"
        f"{{0%{{visibility:hidden}}{100 * second / total:.2f}%{{visibility:visible}}}}\n"
        for second, name in names.items() if second > 0)
    body = []
    for number, line in enumerate(recording.lines):
        y = TITLE + LINE_HEIGHT * (number + 1) - 4
        pieces = "".join(f'<tspan class="{(names[second] + " " + kind).strip()}">{html.escape(part, quote=False)}</tspan>'
                         for second, part, kind in line)
        if pieces:
            body.append(f'<text x="{MARGIN}" y="{y}">{pieces}</text>')
    dots = "".join(f'<circle cx="{MARGIN + 5 + 18 * i}" cy="14" r="5" fill="{colour}"/>'
                   for i, colour in enumerate(("#ff6059", "#ffbe2f", "#28c93f")))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
            'xml:space="preserve" role="img" aria-label="A terminal: the demo model is asked about a drawing">\n'
            f"<style>{STYLE}{steps}</style>\n"
            f'<rect width="100%" height="100%" rx="8" fill="#101826"/>{dots}\n' + "\n".join(body) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--omma", type=pathlib.Path, default=ROOT / "build/release/omma", help="the program (%(default)s)")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/images/demo.svg", help="the image (%(default)s)")
    options = parser.parse_args()
    if not options.omma.is_file():
        parser.error(f"{options.omma}: no such program: build it first")
    recording = Recording()
    for command, lines in COMMANDS:
        run(recording, options.omma.resolve(), command, lines, ROOT / "models/demo/images")
    while not recording.lines[-1]:
        recording.lines.pop()
    check(recording)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(render(recording), encoding="utf-8")
    print(f"{options.output}: {len(recording.lines)} lines, {recording.now:.1f} s, {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
