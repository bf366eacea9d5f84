#!/usr/bin/env python3
"""Lists the options of other programs that `omma` answers, as their parsers know them.

    VLLM_PYTHON tools/list_foreign_options.py --vllm > src/cli/foreign/vllm_options.txt
    tools/list_foreign_options.py --llama .../common/arg.cpp VERSION > src/cli/foreign/llama_options.txt

The first is run by the Python of an environment with vLLM. What is answered to each of them stands
in src/cli/foreign; the build names those without an answer."""

from __future__ import annotations

import pathlib
import re
import sys

# Presets of models are left out: their names stand in src/families alone.
PRESETS = re.compile("qwen|gpt-oss|gemma")


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


def main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--vllm"]:
        list_vllm()
    elif arguments[:1] == ["--llama"] and len(arguments) == 3:
        list_llama(*arguments[1:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
