"""The program as the tests of the command line run it, and what several of them use."""

import json
import os
import pathlib
import pty
import struct
import subprocess

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"


class Omma:
    def __init__(self, path):
        self.path = os.path.abspath(path)

    def __call__(self, *arguments, stdin=b"", timeout=120):
        words = [str(word) for word in arguments]
        return subprocess.run([self.path, *words], input=stdin, capture_output=True, timeout=timeout, check=False)

    def json(self, *arguments, stdin=b""):
        done = self(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.count(b"\n") == 1 and done.stdout.endswith(b"\n")
        return json.loads(done.stdout)

    def on_terminal(self, *arguments):
        """What a run that succeeds writes to stderr where it is a terminal."""
        leader, follower = pty.openpty()
        words = [self.path, *map(str, arguments)]
        shown = b""
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=follower) as process:
            os.close(follower)
            try:
                while piece := os.read(leader, 65536):
                    shown += piece
            except OSError:  # nobody writes to it any more
                pass
        os.close(leader)
        assert process.returncode == 0, shown.decode()
        return shown.decode()


def refused(done, code, *words):
    """One line of error, nothing on stdout, the exit code, and all of the words in the line."""
    error = done.stderr.decode()
    assert done.returncode == code, error
    assert done.stdout == b""
    assert error.startswith("omma: ") and error.endswith("\n") and error.count("\n") == 1, error
    for word in words:
        assert str(word) in error, error


def read_safetensors(path):
    """Header without metadata, and the bytes of the tensors."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    return header, data[8 + size :]


def limited_to(omma, kilobytes, *words):
    """The stderr of omma where it has that many kilobytes of addresses; a sanitizer needs terabytes
    of them."""
    limited = ["sh", "-c", f'ulimit -v {kilobytes}; exec "$@"', "sh", omma.path, *map(str, words)]
    return subprocess.run(limited, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False).stderr.decode()
