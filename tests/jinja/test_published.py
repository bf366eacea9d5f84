"""Chat templates that others publish, compared with jinja2 as transformers sets it up: the same
text, or an error in both. tests/data/chat/published has those that stand in packages under the MIT
or the Apache License (tests/data/chat/SOURCES.md lists them), tests/data/chat/own more of the same
shapes, written for this test. `--templates DIR` names a further folder of *.jinja files, for
example vendor/llama.cpp/models/templates of llama-cpp-python's source package; of these a template
may also be refused when it is opened."""

import hashlib
import pathlib

import pytest
from test_jinja2 import expected

TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Tells the weather <now> & then.",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "A city's name"}, "unit": {"type": "string", "enum": ["c", "f"]},
        "days": {"type": "array", "items": {"type": "integer"}}}}}}
CALL = {"id": "call_123456789", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": [1, 2], "x": None}}}
USER = {"role": "user", "content": "What is 1 < 2?"}
ANSWER = {"role": "assistant", "content": "Yes.\n\nIt is."}
REASONING = {"role": "assistant", "content": "Yes.", "reasoning_content": "Compare them.", "reasoning": "Compare them."}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "call_123456789", "content": '{"t": 20.5}'}
PARTS = {"role": "user", "content": [{"type": "text", "text": "a "}, {"type": "image"}, {"type": "text", "text": "'b'"}]}
CONVERSATIONS = {
    "one question": [USER],
    "system": [{"role": "system", "content": " Be short. \n"}, USER],
    "developer": [{"role": "developer", "content": "Be short."}, USER],
    "turns": [USER, ANSWER, {"role": "user", "content": "Why?"}],
    "answer last": [USER, ANSWER],
    "reasoning": [USER, REASONING, USER],
    "reasoning in text": [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}, USER],
    "call": [USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}, RESULT],
    "call without content": [USER, {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]}, RESULT, RESULT, ANSWER, USER],
    "null": [USER, {"role": "assistant", "content": None}, USER],
    "parts": [PARTS],
    "late system": [USER, ANSWER, {"role": "system", "content": "Now shorter."}, USER],
    "empty": [{"role": "user", "content": ""}],
    "unknown role": [{"role": "oracle", "content": "x"}],
}
DOCUMENTS = [{"title": "Sums", "text": "1 + 1 = 2"}, {"title": "Order", "text": "1 < 2"}]
SETTINGS = {
    "prompt": {"add_generation_prompt": True}, "no prompt": {"add_generation_prompt": False},
    "thinking": {"add_generation_prompt": True, "enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
    "no thinking": {"add_generation_prompt": True, "enable_thinking": False, "thinking": False, "reasoning_effort": "low"},
    "documents": {"add_generation_prompt": True, "documents": DOCUMENTS},
}


def variables(messages, tools, settings):
    return {"messages": messages, "tools": tools, "documents": None, "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>",
            "unk_token": "<unk>", **settings}


DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "chat"
STORED = sorted(path for folder in ("published", "own", "templates") for path in (DATA / folder).glob("*.jinja"))


def table_rows(text, first):
    """The rows of SOURCES.md's table whose head begins with `first`."""
    lines = text.split(f"| {first} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def test_each_stored_template_has_its_source():
    text = (DATA / "SOURCES.md").read_text(encoding="utf-8")
    licences = {package: licence for package, _, _, licence in table_rows(text, "package")}
    assert all(licence.startswith(("MIT (", "Apache-2.0 (")) for licence in licences.values())
    rows = table_rows(text, "file")
    copies = [path for path in STORED if path.parent.name != "own" and path.name != "kimi_vl.jinja"]
    assert {name: digest for name, _, _, _, digest in rows} == {
        f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in copies}
    assert {package for _, package, *_ in rows} == set(licences)
    assert len(STORED) >= 100


def pytest_generate_tests(metafunc):
    if "template" in metafunc.fixturenames:
        folder = metafunc.config.getoption("--templates")
        metafunc.parametrize("template", STORED + (sorted(pathlib.Path(folder).glob("*.jinja")) if folder else []), ids=lambda path: path.name)


def test_published_template(render, template):
    text = template.read_text(encoding="utf-8")
    differences, refused = [], None
    for name, messages in CONVERSATIONS.items():
        for tools in (None, [TOOL]):
            for setting, values in SETTINGS.items():
                given = variables(messages, tools, values)
                found, wanted = render(text, given), expected(text, given)
                if "error" in found and found.get("status") != ARGUMENT:
                    refused = found["error"]
                elif found.get("text") != wanted:
                    differences.append((name, bool(tools), setting, found.get("error"), first_difference(found.get("text"), wanted)))
    assert not differences, (len(differences), differences[:3])
    assert not refused or template not in STORED, refused
    if refused:
        pytest.skip(f"refused when it is opened: {refused}")


ARGUMENT = 1  # enum omma_status: what rendering fails with


def first_difference(a, b):
    if a is None or b is None:
        return (a or b or "")[-80:], "an error" if b is None else "a text"
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return a[max(0, at - 40):at + 40], b[max(0, at - 40):at + 40]
