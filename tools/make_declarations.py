#!/usr/bin/env python3
"""Reads include/omma and writes what must agree with it:

- src/attention/layout_attention.inc and src/model/layout_omma.inc: the members of every public
  struct, for the tables that omma_attention_layout and omma_layout return;
- python/ommatidia/_declarations.py: structs, constants and functions for ctypes.

    tools/make_declarations.py           writes the files
    tools/make_declarations.py --check   fails where a file is not what would be written

It reads the form that the headers have: no nested struct definitions, no bit fields, one typedef a
line."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
HEADERS = ROOT / "include" / "omma"
# The headers of libomma-attention; libomma has the others too.
ATTENTION = ("status", "host", "team", "attention", "layout")
PYTHON = ("status", "host", "team", "attention", "layout", "log", "model", "engine_figures", "sampling", "omma", "tower", "service")
# Functions of these headers that libomma-attention lacks.
ELSEWHERE = {"omma_layout"}
# Handed over as plain addresses, like the structs that are not defined in a header.
ADDRESSES = {"omma_team", "omma_allocator"}
MADE = "Made by tools/make_declarations.py from include/omma; do not edit."


class Member(NamedTuple):
    name: str
    type: str  # without const: "char *", "struct omma_team", "int64_t"; "()" is a function pointer
    count: str  # of an array; "" for others


class Function(NamedTuple):
    result: str
    arguments: list[str]


class Header(NamedTuple):
    structs: dict[str, list[Member]]
    enums: dict[str, list[tuple[str, int]]]
    functions: dict[str, Function]
    constants: dict[str, int]
    callbacks: set[str]


def code_of(path: Path) -> str:
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"//[^\n]*", " ", text)


def plain(type_words: str) -> str:
    """A type in one spelling: without const, stars at the end."""
    words = re.sub(r"\b(const|OMMA_API)\b", " ", type_words)
    stars = words.count("*")
    return " ".join(words.replace("*", " ").split()) + (" " + "*" * stars if stars else "")


def members_of(body: str) -> list[Member]:
    members = []
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        pointer = re.match(r".*?\(\*\s*(\w+)\)\s*\(.*\)$", declaration, re.S)
        if pointer:
            members.append(Member(pointer.group(1), "()", ""))
            continue
        first, *others = declaration.split(",")
        base = re.match(r"(.*?[\s*])(\w+)\s*(?:\[(\w+)\])?$", first.strip(), re.S)
        if not base:
            raise SystemExit(f"make_declarations.py: cannot read the member {declaration!r}")
        members.append(Member(base.group(2), plain(base.group(1)), base.group(3) or ""))
        for other in others:
            match = re.match(r"\s*(\**)(\w+)\s*(?:\[(\w+)\])?$", other)
            if not match:
                raise SystemExit(f"make_declarations.py: cannot read the member {declaration!r}")
            kind = base.group(1).replace("*", "") + match.group(1)
            members.append(Member(match.group(2), plain(kind), match.group(3) or ""))
    return members


def enum_of(body: str) -> list[tuple[str, int]]:
    values: list[tuple[str, int]] = []
    for entry in filter(None, (part.strip() for part in body.split(","))):
        name, _, value = (part.strip() for part in entry.partition("="))
        values.append((name, int(value, 0) if value else (values[-1][1] + 1 if values else 0)))
    return values


def read_header(name: str) -> Header:
    text = code_of(HEADERS / f"{name}.h")
    constants = {match[1]: int(match[2]) for match in re.finditer(r"^#define (OMMA_\w+) (\d+)\s*$", text, re.M)}
    callbacks = {match[1] for match in re.finditer(r"^typedef [^;]*?\(\*(\w+)\)", text, re.M)}
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    structs = {match[1]: members_of(match[2]) for match in re.finditer(r"^struct (\w+) \{(.*?)^\};", text, re.M | re.S)}
    enums = {match[1]: enum_of(match[2]) for match in re.finditer(r"^enum (\w+) \{(.*?)\};", text, re.M | re.S)}
    functions = {}
    for match in re.finditer(r"^OMMA_API ([^;(]*?[\s*])(\w+)\(([^;]*?)\);", text, re.M | re.S):
        listed = [part.strip() for part in match[3].split(",")]
        arguments = [] if listed == ["void"] else [plain(re.sub(r"\w+$", "", part)) for part in listed]
        functions[match[2]] = Function(plain(match[1]), arguments)
    return Header(structs, enums, functions, constants, callbacks)


def table(names: list[str], headers: dict[str, Header]) -> str:
    lines = [f"/* {MADE} */"]
    for name in names:
        lines.append(f"\n/* omma/{name}.h */")
        for struct, members in headers[name].structs.items():
            lines.append(f"OMMAI_STRUCT({struct})")
            lines += [f"OMMAI_MEMBER({struct}, {member.name})" for member in members]
        for values in headers[name].enums.values():
            lines += [f"OMMAI_CONSTANT({constant})" for constant, _ in values]
        lines += [f"OMMAI_CONSTANT({constant})" for constant in headers[name].constants]
    return "\n".join(lines) + "\n"


SCALARS = {
    "void *": "c_void_p",
    "char *": "c_char_p",
    "bool": "c_bool",
    "char": "c_char",
    "double": "c_double",
    "float": "c_float",
    "int": "c_int",
    "int32_t": "c_int32",
    "int64_t": "c_int64",
    "size_t": "c_size_t",
    "uint64_t": "c_uint64",
    "()": "c_void_p",
}


def class_name(struct: str) -> str:
    return "".join(word.capitalize() for word in struct.removeprefix("omma_").split("_"))


class Ctypes:
    """Spells C types for ctypes."""

    def __init__(self, headers: list[Header]) -> None:
        self.structs = {name for header in headers for name in header.structs} - ADDRESSES
        self.values = self.structs | ADDRESSES
        self.callbacks = {name for header in headers for name in header.callbacks}

    def scalar(self, kind: str) -> str | None:
        if kind.startswith("enum ") and "*" not in kind:
            return "c_int"
        return "c_void_p" if kind in self.callbacks else SCALARS.get(kind)

    def member(self, member: Member) -> str:
        kind = member.type
        if kind.startswith("struct "):
            struct = kind.removeprefix("struct ").rstrip(" *")
            if "*" not in kind:
                return class_name(struct)
            return f"POINTER({class_name(struct)})" if struct in self.structs and kind.count("*") == 1 else "c_void_p"
        found = self.scalar(kind) or ("c_void_p" if "*" in kind else None)
        if not found:
            raise SystemExit(f"make_declarations.py: no type of ctypes for {kind!r}")
        return found

    def argument(self, kind: str) -> str:
        """A pointer to a number is a place for a result."""
        if kind.endswith(" *") and (self.scalar(kind[:-2]) and kind[:-2] != "char"):
            return SCALARS.get(kind) or f"POINTER({self.scalar(kind[:-2])})"
        if kind.startswith("struct ") and kind.endswith(" **"):
            return "POINTER(c_void_p)"
        return self.member(Member("", kind, ""))

    def result(self, kind: str) -> str:
        return "None" if kind == "void" else self.argument(kind)


def python_struct(struct: str, members: list[Member], spell: Ctypes, constants: dict[str, int]) -> list[str]:
    lines = ["", "", f"class {class_name(struct)}(Structure):", "    _fields_ = ["]
    for member in members:
        count = f" * {constants.get(member.count, member.count)}" if member.count else ""
        lines.append(f'        ("{member.name}", {spell.member(member)}{count}),')
    return [*lines, "    ]"]


def python_functions(title: str, names: list[str], functions: dict[str, Function], spell: Ctypes) -> list[str]:
    lines = ["", f"{title}: dict[str, tuple[Any, list[Any]]] = {{"]
    for name in names:
        result, arguments = functions[name]
        lines += [f'    "{name}": (', f"        {spell.result(result)},"]
        lines += [f"        [{', '.join(spell.argument(kind) for kind in arguments)}],", "    ),"]
    return [*lines, "}"]


def python_text(headers: dict[str, Header]) -> str:
    chosen = [headers[name] for name in PYTHON]
    spell = Ctypes(chosen)
    constants = {name: value for header in chosen for name, value in header.constants.items()}
    body: list[str] = []
    for header in chosen:
        values = [pair for listed in header.enums.values() for pair in listed] + list(header.constants.items())
        body += ["", *(f"{name.removeprefix('OMMA_')} = {value}" for name, value in values)] if values else []
    for header in chosen:
        for struct, members in header.structs.items():
            body += python_struct(struct, members, spell, constants)
    body += ["", "", "STRUCTS: dict[str, type[Structure]] = {"]
    body += [f'    "{struct}": {class_name(struct)},' for header in chosen for struct in header.structs]
    body += ["}"]
    functions = {name: function for header in chosen for name, function in header.functions.items()}
    service = headers["service"].functions
    whole = {*(name for header in PYTHON if header not in (*ATTENTION, "service") for name in headers[header].functions), *ELSEWHERE}
    body += python_functions("ATTENTION_FUNCTIONS", [name for name in functions if name not in whole and name not in service], functions, spell)
    body += python_functions("OMMA_FUNCTIONS", [name for name in functions if name in whole], functions, spell)
    body += python_functions("SERVICE_FUNCTIONS", list(service), functions, spell)
    text = "\n".join(body)
    used = "".join(f"    {name},\n" for name in sorted(set(re.findall(r"\bc_\w+", text))))
    return (
        f'"""The C interface as ctypes sees it.\n\n{MADE}"""\n\nfrom __future__ import annotations\n\n'
        f"from ctypes import (\n    POINTER,\n    Structure,\n{used})\nfrom typing import Any\n{text}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file differs")
    check = parser.parse_args().check
    headers = {path.stem: read_header(path.stem) for path in sorted(HEADERS.glob("*.h"))}
    others = [name for name in headers if name not in ATTENTION]
    made = {
        "src/attention/layout_attention.inc": table(list(ATTENTION), headers),
        "src/model/layout_omma.inc": table(others, headers),
        "python/ommatidia/_declarations.py": python_text(headers),
    }
    stale = [path for path, text in made.items() if not (ROOT / path).exists() or (ROOT / path).read_text("utf-8") != text]
    for path in stale:
        if check:
            print(f"{path}: differs from what include/omma says; run tools/make_declarations.py", file=sys.stderr)
        else:
            (ROOT / path).write_text(made[path], encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
