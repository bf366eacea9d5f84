#!/usr/bin/env python3
"""Makes the conversations by which tests compare chat templates with transformers.

    tools/make_chat_templates.py            write everything anew
    tools/make_chat_templates.py --check    compare with the files that are there

tests/data/chat/templates holds the texts of the released templates as NAME.jinja. Their SHA-256 is
checked. tests/data/chat/SOURCES.md lists where each text comes from.

Output
    tests/data/chat/cases.json     conversations, and per template the prompt that transformers renders

Needs transformers, jinja2 and the libraries that tools/make_fixtures.py needs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import transformers
from transformers.utils.chat_template_utils import render_jinja_template

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Known:
    """A released template."""

    name: str
    sha256: str | None = None
    lacks: tuple[str, ...] = ()  # what of a conversation this template would pass over in silence

    def text(self, folder: Path) -> str:
        data = (folder / f"{self.name}.jinja").read_bytes()
        if self.sha256 and hashlib.sha256(data).hexdigest() != self.sha256:
            raise SystemExit(f"{folder / self.name}.jinja: not the released text")
        return data.decode()


KNOWN = (
    Known("qwen2_5_vl", "a0bc6f6fc7a29a80017a433e8f03a1cc1236e838a944a2d034295a60c4f2fddb", lacks=("tools",)),
    Known(
        "qwen3_vl_instruct",
        "3636d0f0bd6bef02654cdffdc447b79cb2cef8ab02cc75267345946291a489e4",
        lacks=("late system", "image outside user"),
    ),
    Known(
        "qwen3_vl_thinking",
        "36e042fe45641f067b1f2381fcc8955d10d956a3ed333ecdf7f7eb0916f68956",
    ),
    Known("kimi_vl", lacks=("video", "tools", "kwargs")),
)


# ---- conversations ----

IMAGE = {"type": "image"}
VIDEO = {"type": "video"}


def said(role: str, *parts: str | dict[str, str]) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]}


def case(
    name: str,
    *messages: dict[str, Any],
    goes_on: bool = False,
    holds: tuple[str, ...] = (),
    tools: list[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    this = {"name": name, "messages": list(messages), "continue_final_message": goes_on, "holds": holds}
    return this | ({"tools": tools} if tools else {}) | ({"kwargs": kwargs} if kwargs else {})


def calls(*arguments: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [{"id": f"c{i}", "type": "function", "function": {"name": "look", "arguments": a}} for i, a in enumerate(arguments)]}


# What json.dumps writes in its own way: other scripts, quotation marks and HTML, numbers, order,
# nothing at all.
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Sieht nach, \"jetzt\" & <hier>: \u00e9 \u6f22 \U0001f600\n",
            "parameters": {
                "type": "object",
                "properties": {
                    "where": {"type": "string", "enum": ["here", "\t"]},
                    "much": {"type": "number", "default": 1.0, "examples": [1e20, 1e-7, -0.5, 0.1, 123456789012345680.0, 2]},
                },
                "required": [],
                "additionalProperties": False,
            },
        },
    },
    {"function": {"parameters": None, "strict": True, "name": "rest"}, "type": "function"},
]


THOUGHT = "<think>\nIt may be two.\n</think>\n\nTwo."
QUESTION = said("user", "How many?")
CASES = (
    case("one question", QUESTION),
    case("a system message", said("system", "Be short."), QUESTION),
    case("line ends and blanks stay", said("system", " Be short.\n\n"), said("user", "\n  How many?\t\n")),
    case("an image", said("user", IMAGE, "What is this?")),
    case("images between texts", said("user", "First ", IMAGE, " or ", IMAGE, "?")),
    case("a video", said("user", VIDEO, "What happens?"), holds=("video",)),
    case("a video and an image", said("system", "See."), said("user", IMAGE, VIDEO, "Same?"), holds=("video",)),
    case("turns", QUESTION, said("assistant", "Two."), said("user", "Sure?")),
    case("turns with images", said("user", IMAGE, "A?"), said("assistant", "Yes."), said("user", "B?", IMAGE), said("assistant", "No.")),
    case("the answer stands last", QUESTION, said("assistant", "Two.")),
    case("an empty answer stands last", QUESTION, said("assistant", "")),
    case("two questions in a row", QUESTION, said("user", "And why?")),
    case("two answers in a row", QUESTION, said("assistant", "One."), said("assistant", "Two.")),
    case("an answer first", said("assistant", "Hello."), QUESTION),
    case("no question", said("system", "Talk."), said("assistant", "Hello.")),
    case("a late system message", QUESTION, said("system", "Be long."), said("user", "Well?"), holds=("late system",)),
    case("an image for the system", said("system", "Like ", IMAGE), QUESTION, holds=("image outside user",)),
    case(
        "an image in an answer",
        QUESTION,
        said("assistant", "So: ", IMAGE),
        QUESTION,
        holds=("image outside user",),
    ),
    case("a thought of earlier", QUESTION, said("assistant", THOUGHT), said("user", "Sure?")),
    case("a thought without its beginning", QUESTION, said("assistant", "It may be two.\n</think>\n\nTwo."), said("user", "Sure?")),
    case("a thought stands last", QUESTION, said("assistant", THOUGHT)),
    case("thoughts after the last question", QUESTION, said("assistant", THOUGHT), said("assistant", "Or one."), said("assistant", THOUGHT)),
    case("line ends in an answer", QUESTION, said("assistant", "\n\nTwo.\n"), QUESTION, said("assistant", "\n\nTwo.\n")),
    case("two ends of thoughts", QUESTION, said("assistant", "<think>a</think>b</think>\n\nc"), QUESTION),
    case("two ends of thoughts last", QUESTION, said("assistant", "<think>x<think>\na\n\n</think>b</think>\n\nc")),
    case("a thought that never ends", QUESTION, said("assistant", "<think>\nIt may"), QUESTION),
    case("a tool's response", QUESTION, said("assistant", THOUGHT), said("user", "<tool_", "response>1</tool_response>"), said("assistant", THOUGHT)),
    case("almost a tool's response", QUESTION, said("assistant", THOUGHT), said("user", "<tool_response>1</tool_response> ")),
    case("go on", QUESTION, said("assistant", "It is "), goes_on=True),
    case("go on, parts", said("system", "Count."), QUESTION, said("assistant", "It", " is"), goes_on=True),
    case("go on after line ends", QUESTION, said("assistant", "\n\nIt\n"), goes_on=True),
    case("go on after a thought", QUESTION, said("assistant", "<think>\nIt may be two.\n</think>\n\nTw"), goes_on=True),
    case("go on right after a thought", QUESTION, said("assistant", "<think>\nIt may be two.\n</think>\n\n"), goes_on=True),
    case("go on after a thought in other lines", QUESTION, said("assistant", "<think>It may.</think>Tw"), goes_on=True),
    case("go on with a thought", QUESTION, said("assistant", "<think>\nIt may"), goes_on=True),
    case("tools", QUESTION, tools=TOOLS, holds=("tools",)),
    case("tools and a system message", said("system", "Be ", "short."), said("user", IMAGE, "What?"), tools=TOOLS, holds=("tools",)),
    case("a call", QUESTION, said("assistant") | calls({"where": "K\u00f6ln", "much": 1.5}), said("tool", "12 \u00b0C"), tools=TOOLS, holds=("tools",)),
    case(
        "calls, responses and an image in one",
        QUESTION,
        said("assistant", "I look.") | calls({}, {"where": "here"}),
        said("tool", "1", IMAGE),
        said("tool", "2"),
        said("assistant", "Done."),
        said("user", IMAGE, "More?"),
        tools=TOOLS,
        holds=("tools",),
    ),
    case("a call after a thought", QUESTION, said("assistant", THOUGHT) | calls({"a": [1, None, True]}), said("tool", "x"), holds=("tools",)),
    case("a thought apart", QUESTION, said("assistant", "Two.") | {"reasoning_content": "\nhm\n"}, said("tool", "x"), holds=("tools",)),
    case("images with numbers", said("user", IMAGE, "A", IMAGE), said("assistant", "B"), said("user", IMAGE), kwargs={"add_vision_id": True}),
    case("go on without a question", said("assistant", "<think>\nIt may.\n</think>\n\nTw"), goes_on=True),
)

# What the processors put in a video's place where it is one temporal patch of two frames at 2 a
# second.
TIMED = "<|vision_start|><0.2 seconds><|vision_start|><|video_pad|><|vision_end|><|vision_end|>"


def render(known: Known, template: str, this: dict[str, Any]) -> str | None:
    """The prompt, or None where there is none: transformers refuses, or the template would lose a
    part."""
    if set(this["holds"]) & set(known.lacks) or ("kwargs" in this and "kwargs" in known.lacks):
        return None
    goes_on = this["continue_final_message"]
    try:
        rendered, _ = render_jinja_template(
            [this["messages"]],
            tools=this.get("tools"),
            chat_template=template,
            continue_final_message=goes_on,
            add_generation_prompt=not goes_on,
            **this.get("kwargs", {}),
        )
    except ValueError:
        return None
    text = rendered[0]
    if "qwen3" in known.name:
        text = text.replace("<|vision_start|><|video_pad|><|vision_end|>", TIMED)
    return text


def cases_text(folder: Path) -> str:
    texts = {known.name: known.text(folder) for known in KNOWN}
    out = [
        {key: this[key] for key in ("name", "messages", "continue_final_message", "tools", "kwargs") if key in this}
        | {"prompts": {known.name: render(known, texts[known.name], this) for known in KNOWN}}
        for this in CASES
    ]
    versions = {"transformers": transformers.__version__, "jinja2": jinja2.__version__}
    return json.dumps({"made_with": versions, "cases": out}, indent=1) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--templates", type=Path, default=ROOT / "tests/data/chat/templates", help="folder of the released texts")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    files = {
        "tests/data/chat/cases.json": cases_text(arguments.templates),
    }
    wrong = 0
    for name, text in files.items():
        path = ROOT / name
        if not arguments.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{name}: differs")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
