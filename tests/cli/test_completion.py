"""Completion of command lines: what the program offers, and the scripts in real shells. Manual
pages, which come from the same tables."""

import os
import pathlib
import pty
import re
import shutil
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS = ["chat", "run", "serve", "batch", "read", "encode", "embed", "rerank", "preprocess", "tokenize", "detokenize", "plan", "info",
            "verify", "bench attention", "bench encoder", "bench decode", "bench read",
            "bench serve", "bench scale"]


def offered(omma, *words):
    """{candidate: description}; ":files" is one of them where names of files may stand."""
    done = omma("__complete", *words)
    assert done.returncode == 0 and done.stderr == b""
    return dict(line.partition("\t")[::2] for line in done.stdout.decode().splitlines())


@pytest.mark.parametrize(
    "words, some, none",
    [
        ([""], ["chat", "generate", "serve", "bench", "help", "completion", "--version"], ["attention", ":files"]),
        (["se"], ["serve"], ["chat"]),
        (["bench", ""], ["attention", "encoder", "decode", "serve"], ["chat"]),
        (["help", ""], ["chat", "bench"], ["--version"]),
        (["help", "bench", "d"], ["decode"], ["serve"]),
        (["completion", ""], ["bash", "zsh", "fish"], ["chat"]),
        (["serve", "--ma"], ["--max-model-len", "--max-num-seqs"], ["--host", ":files"]),
        (["serve", "-"], ["--host", "--help", "-h"], [":files"]),
        (["serve", "--dtype", ""], ["bf16"], ["--dtype", ":files"]),
        (["serve", "--dtype=b"], ["--dtype=bf16"], ["--dtype=f32"]),
        (["run-batch", "-i", ""], [":files"], ["--help"]),
        (["batch", "--input-file", ""], [":files"], []),
        (["serve", "--port", ""], [], [":files", "--host"]),
        (["chat", "--", "-"], [":files"], ["--help"]),
        (["bench", "serve", "--n"], ["--num-prompts"], [":files"]),
        (["nonsense", ""], [], [":files"]),
    ],
)
def test_what_is_offered(omma, words, some, none):
    found = offered(omma, *words)
    assert set(some) <= set(found) and not set(none) & set(found)
    assert all(candidate == ":files" or candidate.startswith(words[-1]) for candidate in found)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_the_help_is_offered(omma, command):
    help_text = omma(*command.split(), "--help").stdout.decode()
    options = set(re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", help_text, re.M))
    found = offered(omma, *command.split(), "--")
    assert len(options) > 2 and options <= set(found)
    assert all(found[option] for option in options)


@pytest.mark.parametrize("words", [["completion"], ["completion", "tcsh"], ["completion", "bash", "zsh"]])
def test_usage_error(omma, words):
    done = omma(*words)
    assert done.returncode == 2 and b"expected bash, zsh or fish" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed(omma, shell):
    assert omma("completion", shell).stdout == (ROOT / "src" / "cli" / "completion" / f"omma.{shell}").read_bytes()


@pytest.fixture
def folder(omma, tmp_path):
    """A folder with files to complete, and the program in PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "omma").symlink_to(pathlib.Path(omma.path).resolve())
    (tmp_path / "a photo.png").write_text("")
    (tmp_path / "requests.jsonl").write_text("")
    return tmp_path


def environment(folder):
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder)}


def shell_program(name):
    return shutil.which(name) or pytest.skip(f"{name} is not installed")


COMPLETED = [
    (["omma", "ser"], ["serve"]),
    (["omma", "bench", "en"], ["encoder"]),
    (["omma", "serve", "--max-num-se"], ["--max-num-seqs"]),
    (["omma", "batch", "-i", "req"], ["requests.jsonl"]),
    (["omma", "chat", "a "], ["a photo.png"]),
]


@pytest.mark.parametrize("words, expected", [*COMPLETED, (["omma", "serve", "--dtype", "=", "bf1"], ["bf16"]),
                                             (["omma", "batch", "--input-file", "=", "req"], ["requests.jsonl"])])
def test_bash(folder, words, expected):
    """As bash calls it: words broken at =, the last one is completed."""
    quoted = " ".join("'" + word + "'" for word in words)
    script = f"source <(omma completion bash); COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _omma; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run([shell_program("bash"), "--norc", "-c", script], cwd=folder, env=environment(folder), capture_output=True, text=True)
    assert (done.stdout.splitlines(), done.stderr) == (expected, "")


@pytest.mark.parametrize("words, expected", COMPLETED)
def test_fish(folder, words, expected):
    line = " ".join([*words[:-1], words[-1].replace(" ", "\\ ")])
    script = f"omma completion fish | source; complete -C '{line}'"
    done = subprocess.run([shell_program("fish"), "-N", "-c", script], cwd=folder, env=environment(folder), capture_output=True, text=True)
    assert [text.split("\t")[0].replace("\\ ", " ") for text in done.stdout.splitlines()] == expected, done.stderr


@pytest.mark.parametrize("words, expected", COMPLETED)
def test_zsh(folder, words, expected):
    """In a terminal: Tab, and what the line becomes."""
    line = " ".join([*words[:-1], words[-1].replace(" ", "\\ ")])
    (folder / ".zshrc").write_text("PS1='> '; autoload -Uz compinit; compinit -u; source <(omma completion zsh)\necho ready\n")
    leader, follower = pty.openpty()
    process = subprocess.Popen([shell_program("zsh"), "-i"], cwd=folder, env={**environment(folder), "ZDOTDIR": str(folder), "TERM": "xterm"},
                               stdin=follower, stdout=follower, stderr=follower, start_new_session=True)
    os.close(follower)
    shown = ""

    def wait_for(text):
        nonlocal shown
        end = time.monotonic() + 60
        while text not in shown and time.monotonic() < end:
            shown += os.read(leader, 4096).decode(errors="replace")
        assert text in shown, shown

    try:
        wait_for("ready")
        os.write(leader, line.encode() + b"\t")
        wait_for(expected[0].replace(" ", "\\ ")[len(words[-1]):])
    finally:
        process.kill()
        process.wait()
        os.close(leader)


@pytest.mark.parametrize("command", COMMANDS)
def test_manual_pages(omma, command):
    """Every option of the help, and nothing that man warns of."""
    page = omma("help", "--man", *command.split()).stdout.decode()
    help_text = omma(*command.split(), "--help").stdout.decode()
    listed = re.findall(r"^\.TP\n(?:\\fB\\-\w\\fR, )?\\fB\\-\\-(\S+?)\\fR", page, re.M)
    options = re.findall(r"^  (?:-\w, )?--([a-z0-9-]+)", help_text, re.M)
    assert [name.replace("\\-", "-") for name in listed] + ["help"] == options
    if groff := shutil.which("groff"):
        done = subprocess.run([groff, "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_overview_names_what_there_is(omma):
    """docs/omma.1, which is written by hand: all commands, and no option that no command has."""
    page = (ROOT / "docs" / "omma.1").read_text().replace("\\-", "-")
    helps = {command: omma(*command.split(), "--help").stdout.decode() for command in COMMANDS}
    # the form of all options
    known = set(re.findall(r"--[a-z0-9-]+", "".join(helps.values()))) | {"--version", "--name"}
    assert all(re.search(rf"^\.(?:B|BR) (?:.*\\fB)?\"?{command}\b", page, re.M) for command in COMMANDS)
    assert set(re.findall(r"--[a-z][a-z0-9-]+", page)) <= known
