#!/usr/bin/env python3
"""Lists the Prometheus metrics in the source of an installed vLLM: names, types, labels, bounds of
buckets. The server's /metrics is compared with the list.

    tools/make_vllm_metrics.py .../site-packages/vllm > tests/data/vllm/metrics.json

The source is read, not run. A counter has the name that it is exposed by (`_total`). What only a
run would show is left out. A metric whose name is put together, or is another package's, is not
found."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

NAME = re.compile(r"vllm:[a-z][a-z0-9_]*[a-z0-9]")
KINDS = {"counter": "counter", "gauge": "gauge", "histogram": "histogram"}
ENGINE_LABELS = ["model_name", "engine"]


def kind_of(call: ast.Call) -> str | None:
    function = call.func
    word = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return KINDS.get(word.removeprefix("_").removesuffix("_cls").lower())


def argument(call: ast.Call, keyword: str, position: int) -> ast.expr | None:
    for given in call.keywords:
        if given.arg == keyword:
            return given.value
    return call.args[position] if len(call.args) > position else None


def constants_of(tree: ast.Module) -> dict[str, str]:
    """Strings by the name or attribute that they are assigned to."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for target in node.targets:
                found[target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")] = node.value.value
    return found


def labels_of(value: ast.expr | None, constants: dict[str, str]) -> list[str] | None:
    if value is None:
        return []
    if isinstance(value, (ast.Name, ast.Attribute)):
        word = getattr(value, "id", None) or getattr(value, "attr", "")
        return list(ENGINE_LABELS) if word.lstrip("_") == "labelnames" else None
    if isinstance(value, ast.BinOp):
        left, right = labels_of(value.left, constants), labels_of(value.right, constants)
        return None if left is None or right is None else left + right
    if not isinstance(value, ast.List):
        return None
    words = [item.value if isinstance(item, ast.Constant) else constants.get(getattr(item, "attr", "")) for item in value.elts]
    return None if None in words else words


def families_of(tree: ast.Module) -> dict[str, str]:
    """Families of buckets by the variable that holds them."""
    found = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        if getattr(node.value.func, "id", "") == "histogram_buckets":
            found[node.targets[0].id] = node.value.args[0].value
    return found


def read_file(path: Path, metrics: dict[str, dict]) -> None:
    text = path.read_text(encoding="utf-8")
    if '"vllm:' not in text:
        return
    tree = ast.parse(text)
    constants, families = constants_of(tree), families_of(tree)
    plain = {"type": None, "labels": None, "buckets": None}

    def walk(node: ast.AST, enclosing: dict) -> None:
        if isinstance(node, ast.FunctionDef):
            enclosing = plain
            for call in (inner for inner in ast.walk(node) if isinstance(inner, ast.Call) and kind_of(inner)):
                if isinstance(argument(call, "name", 0), ast.Name):  # in a loop over names
                    labels = labels_of(argument(call, "labelnames", 2), constants)
                    enclosing = {"type": kind_of(call), "labels": labels, "buckets": None}
        if isinstance(node, ast.Call) and kind_of(node):
            name = argument(node, "name", 0)
            value = name.value if isinstance(name, ast.Constant) else constants.get(getattr(name, "id", ""))
            if value and NAME.fullmatch(value):
                buckets = argument(node, "buckets", 99)
                metrics[value] = {
                    "type": kind_of(node),
                    "labels": labels_of(argument(node, "labelnames", 2), constants),
                    "buckets": families.get(getattr(buckets, "id", "")),
                }
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
            known = metrics.setdefault(node.value, dict(enclosing))
            if known["type"] is None:
                known.update(enclosing)
        for child in ast.iter_child_nodes(node):
            walk(child, enclosing)

    walk(tree, plain)


def bounds_of(path: Path) -> dict[str, list[float]]:
    """Of the families that do not depend on the model."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    values = {}
    for node in tree.body:
        if not isinstance(node, ast.AnnAssign) or node.value is None:
            continue
        if isinstance(node.value, ast.Tuple):
            values[node.target.id] = ast.literal_eval(node.value)
        elif isinstance(node.value, ast.Dict):
            return {key.value: list(values[value.id]) for key, value in zip(node.value.keys, node.value.values)}
    raise SystemExit(f"{path}: no table of buckets")


def exposed(name: str, metric: dict) -> str:
    return f"{name}_total" if metric["type"] == "counter" and not name.endswith("_total") else name


def main() -> None:
    package = Path(sys.argv[1])
    version = re.search(r"version = '([^'+]+)", (package / "_version.py").read_text(encoding="utf-8"))
    if not version:
        raise SystemExit(f"{package}: no version in _version.py")
    metrics: dict[str, dict] = {}
    for path in sorted(package.rglob("*.py")):
        read_file(path, metrics)
    # beginnings of names that are compared with
    words = [name for name, metric in metrics.items() if metric["type"] or not any(n.startswith(f"{name}_") for n in metrics)]
    table = {exposed(name, metrics[name]): metrics[name] for name in sorted(words)}
    out = {"vllm": version[1], "buckets": bounds_of(package / "v1/metrics/buckets.py")}
    known = {name: {key: value for key, value in metric.items() if value is not None} for name, metric in table.items()}
    lines = [f"    {json.dumps(name)}: {json.dumps(metric)}" for name, metric in known.items()]
    head = ",\n".join(f"  {json.dumps(key)}: {json.dumps(out[key])}" for key in ("vllm", "buckets"))
    print("{\n" + head + ',\n  "metrics": {\n' + ",\n".join(lines) + "\n  }\n}")


if __name__ == "__main__":
    main()
