"""Every option of every command stands in all the places that its table is for: the help, the
manual page, the completion, docs/options.md, the error about a wrong name, and, where a command
takes one, the configuration file."""

import pathlib
import re

import pytest

OPTIONS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "options.md"
PAGE = OPTIONS.read_text()
GROUPS = re.findall(r"^## [^:\n]+: ([^\n]+)\n\n((?:\|[^\n]*\n)+)", PAGE, re.M)
COMMANDS = {}
for names, rows in GROUPS:
    for name in names.split(", "):
        COMMANDS.setdefault(name, []).extend(re.findall(r"^\| `--([a-z0-9-]+)", rows, re.M))


def printed(omma, *words):
    done = omma(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_the_page_is_made_from_the_tables(omma):
    assert printed(omma, "help", "--options") == PAGE, "omma help --options > docs/options.md"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_option_is_everywhere(omma, command):
    words = command.split()
    text, page = printed(omma, *words, "--help"), printed(omma, "help", "--man", *words).replace("\\", "")
    offered = printed(omma, "__complete", *words, "--").splitlines()
    for option in COMMANDS[command]:
        assert re.search(rf"^  (-\w, )?--{option}\b", text, re.M), option
        assert f"--{option}fR" in page, option
        assert any(line.startswith(f"--{option}\t") for line in offered), option
    described = re.findall(r"^  (?:-\w, )?--([a-z0-9-]+)", text, re.M)
    assert sorted(described) == sorted([*COMMANDS[command], "help"])


@pytest.mark.parametrize("command", ["serve", "batch", "read"])
def test_each_option_is_a_key_of_a_file(omma, tmp_path, command):
    """A list of a list is no value of any of them, so that each key is refused by its own name, and
    not as an unknown one."""
    for option in COMMANDS[command]:
        file = tmp_path / "options.yaml"
        file.write_text(f"{option}: [[]]\nno-such-option: 1\n")
        done = omma(command, *(["x"] if command == "read" else []), "--config", file)
        assert done.returncode == 2
        assert f"{option}: no such option" not in done.stderr.decode(), option
