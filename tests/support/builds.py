"""Which build a test of a program runs in. Sanitizers notice what a release build does and more
(what an optimiser breaks is left to the C tests), so `make test` runs a test under them alone,
unless it is marked:

- release_only: a sanitizer changes what it looks at, or leaves no room for it: memory of the
  process, libraries that are preloaded, how the program was linked. It runs in a release build.
- long: it measures, or computes at length what C tests do under sanitizers. It runs in a release
  build, and under sanitizers in the full tier.
- release_too: it looks at more in a release build, or at speed. It runs in both.

--part says for which of the two runs tests are chosen; without it, all run that the program can."""

import pathlib

MARKS = {
    "release_only": "not on a program with sanitizers",
    "long": "on a program with sanitizers in the full tier alone",
    "release_too": "on programs with sanitizers and without",
}


def is_instrumented(path):
    """Whether it was built with a sanitizer that keeps memory of its own."""
    code = pathlib.Path(path).read_bytes()
    return b"__asan_init" in code or b"__tsan_init" in code


def add_option(parser):
    parser.addoption("--part", choices=["release", "sanitizers"], help="only tests that make test runs on such a program")


def add_marks(config):
    for name, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def select(config, items):
    """Deselects what is not for this run, which pytest counts."""
    part, instrumented = config.getoption("--part"), is_instrumented(config.getoption("--omma"))

    def runs(item):
        marks = {mark.name for mark in item.iter_markers()} & MARKS.keys()
        if part == "release":
            return bool(marks)
        return not (instrumented and "release_only" in marks or part == "sanitizers" and "long" in marks)

    left_out = [item for item in items if not runs(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if runs(item)]
