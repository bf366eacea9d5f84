"""The program as the tests of the command line run it."""

import json
import os
import subprocess


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

    def is_instrumented(self):
        """Whether it was built with a sanitizer that keeps memory of its own."""
        with open(self.path, "rb") as program:
            code = program.read()
        return b"__asan_init" in code or b"__tsan_init" in code


def refused(done, code, *words):
    """One line of error, nothing on stdout, the exit code, and all of the words in the line."""
    error = done.stderr.decode()
    assert done.returncode == code, error
    assert done.stdout == b""
    assert error.startswith("omma: ") and error.endswith("\n") and error.count("\n") == 1, error
    for word in words:
        assert str(word) in error, error
