#!/usr/bin/env python3
"""Makes the tables of other programs' options that `omma` answers: src/cli/core/vllm_flags.c and
src/cli/core/llama_flags.c. Which options there are, with which values, is read from their parsers;
what is answered stands in tools/foreign_flags.toml.

    VLLM_PYTHON tools/make_foreign_flags.py --list-vllm > tests/cli/vllm_serve_flags.txt
    tools/make_foreign_flags.py --list-llama .../common/arg.cpp VERSION > tests/cli/llama_flags.txt
    tools/make_foreign_flags.py [--check]

The first is run by the Python of an environment with vLLM. Without one of these arguments the
tables are written, with --check only compared. An option of a parser without an answer is an
error: somebody must decide whether it changes what is answered or served."""

from __future__ import annotations

import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
ANSWERS = ROOT / "tools/foreign_flags.toml"
VLLM_LIST = ROOT / "tests/cli/vllm_serve_flags.txt"
LLAMA_LIST = ROOT / "tests/cli/llama_flags.txt"
# Presets of models are left out: their names stand in src/families alone.
PRESETS = re.compile("qwen|gpt-oss|gemma")
KINDS = {"none": "SWITCH", "one": "VALUE", "optional": "OPTIONAL", "many": "WORDS"}


def list_vllm() -> None:
    import vllm
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    forms = {None: "one", 0: "none", "?": "optional", "+": "many", "*": "many"}
    print(f"# Options of `vllm serve` {vllm.__version__}, as its parser knows them, and the values after each:")
    print("# none, one, optional (none or one), many (one or more)")
    for action in make_arg_parser(FlexibleArgumentParser())._actions:
        if action.dest == "help":
            continue
        for word in sorted(action.option_strings, key=lambda word: not word.startswith("--")):
            print(word, forms[action.nargs])


def list_llama(source: str, version: str) -> None:
    text = pathlib.Path(source).read_text()
    print(f"# Options of llama.cpp {version} (common/arg.cpp), those of one entry in a line")
    for entry in re.split(r"add_opt\(common_arg\(", text)[1:]:
        words: list[str] = []
        for group in re.finditer(r"\s*\{((?:\s*\"-[^\"]*\",?)+)\s*\},", entry):
            if group.start() > 400:
                break
            words += re.findall(r'"(-[^"]*)"', group.group(1))
        words = [word for word in words if not PRESETS.search(word)]
        if words:
            print(" ".join(words))


def listed(path: pathlib.Path) -> tuple[str, list[list[str]]]:
    lines = path.read_text().splitlines()
    stamp = re.search(r"(\S*\d\S*)[, ]", lines[0].split("Options of ")[1]).group(1)
    return stamp, [line.split() for line in lines if line and not line.startswith("#")]


def quoted(text: str | None) -> str:
    return "NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def vllm_table(answers: dict) -> str:
    stamp, lines = listed(VLLM_LIST)
    options: dict[str, list] = {}  # name: [kind, letters]
    last = None
    for word, form in lines:
        if not word.startswith("--"):
            if last:
                options[last][1] = word[1:]
            continue
        name = word[2:]
        if name.startswith("no-") and name[3:] in options:
            continue
        options[name] = [KINDS[form], None]
        last = name
    for name, letters in answers["letters"].items():
        options[name][1] = letters
    own = set(answers["own"].split())
    older = {name: [KINDS[form], None] for name, form in answers["older"].items()}
    accepted = answers["accepted"].split()
    refused = {name: answers["refused"][group][name] for group in answers["refused"] for name in answers["refused"][group]
               if name != "why"}
    undecided = [name for name in options if name not in own and name not in accepted and name not in refused]
    if undecided:
        sys.exit(f"{ANSWERS}: no answer for {', '.join(undecided)}")
    # An own flag's --no- form may be one that only vLLM has.
    negated = {word[2:]: [KINDS[form], None] for word, form in lines if word.startswith("--no-")}
    known = {**negated, **options, **older}
    gone = [name for name in [*accepted, *refused] if name not in known]
    if gone:
        sys.exit(f"{ANSWERS}: neither in {VLLM_LIST.name} nor among the older ones: {', '.join(gone)}")
    rows = [f"    {{{quoted(name)}, {known[name][0]}, {quoted(known[name][1])}, NULL, NULL}}," for name in accepted]
    for group in answers["refused"].values():
        for name, but_for in group.items():
            if name == "why":
                continue
            kind, letters = known[name]
            rows.append(f"    {{{quoted(name)}, {kind}, {quoted(letters)}, {quoted(group['why'])}, {quoted(but_for or None)}}},")
    return "\n".join([
        f"/* Options of `vllm serve` {stamp}, and what older versions had: first those that are accepted and",
        " * mean nothing, then those that are refused, with the values that are accepted all the same. Made",
        " * by tools/make_foreign_flags.py from tools/foreign_flags.toml. */",
        '#include "cli/core/vllm_flags.h"', "",
        *[f"#define {word} OMMAI_FOREIGN_{word}" for word in KINDS.values()], "",
        "/* clang-format off */", "const struct ommai_foreign_option ommai_vllm_flags[] = {", *rows,
        "    {NULL, SWITCH, NULL, NULL, NULL},", "};", ""])


def llama_table(answers: dict) -> str:
    stamp, entries = listed(LLAMA_LIST)
    reasons: dict[str, str] = {}
    for group in answers["instead"].values():
        reasons.update({word: group["why"] for word in group["words"].split()})
    words = [word for entry in entries for word in entry]
    gone = [word for word in reasons if word not in words and word not in answers["others"].split()]
    if gone:
        sys.exit(f"{ANSWERS}: no option of llama.cpp: {', '.join(gone)}")
    rows = [f"    {{{quoted(word)}, {quoted(why)}}}," for word, why in reasons.items()]
    rows += [f"    {{{quoted(word)}, NULL}}," for word in dict.fromkeys(words) if word not in reasons and word[1] == "-"]
    return "\n".join([
        f"/* Options of llama.cpp {stamp}, and some of vLLM and transformers. Made by",
        " * tools/make_foreign_flags.py from tools/foreign_flags.toml. */",
        '#include "cli/core/foreign_options.h"', "",
        "/* clang-format off */",
        "const struct ommai_option_hint ommai_option_hints[] = {", *rows, "    {NULL, NULL},", "};", ""])


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--list-vllm"]:
        return list_vllm()
    if arguments[:1] == ["--list-llama"] and len(arguments) == 3:
        return list_llama(*arguments[1:])
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    answers = tomllib.loads(ANSWERS.read_text())
    tables = {"src/cli/core/vllm_flags.c": vllm_table(answers["vllm"]), "src/cli/core/llama_flags.c": llama_table(answers["llama"])}
    for name, text in tables.items():
        if arguments and (ROOT / name).read_text() != text:
            sys.exit(f"{name}: is not what tools/make_foreign_flags.py makes of tools/foreign_flags.toml")
        (ROOT / name).write_text(text)


if __name__ == "__main__":
    main()
