"""Where a model's files are: a path, a name in the local cache of the Hugging Face hub, or the demo
model. Nothing is downloaded."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve()


def _demo() -> Path:
    """The demo model of the environment that the wheel was installed into, of the repository of a
    built tree, or of a system installation."""
    places = [
        Path(sys.prefix) / "share" / "ommatidia" / "demo",
        *(parent / "models" / "demo" for parent in _HERE.parents[2:4]),
        *(parent / "share" / "ommatidia" / "demo" for parent in _HERE.parents[2:5]),
        Path("/usr/local/share/ommatidia/demo"),
        Path("/usr/share/ommatidia/demo"),
    ]
    for place in places:
        if (place / "config.json").exists():
            return place
    raise FileNotFoundError(f"model: the demo model is not there (looked at {places[0]} and {len(places) - 1} other places)")


def _cache() -> Path:
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub")


def _cached(name: str) -> Path | None:
    """A snapshot in the hub's cache, as `hf download NAME` leaves it."""
    folder = _cache() / f"models--{name.replace('/', '--')}"
    try:
        found = folder / "snapshots" / (folder / "refs" / "main").read_text().strip()
    except OSError:
        return None
    return found if found.is_dir() else None


def _called(name: str) -> list[str]:
    """The names in the hub's cache that a short one means, in any case: OWNER/NAME, and where there
    is none OWNER/NAME-Instruct."""
    try:
        folders = sorted(entry.name for entry in _cache().iterdir() if entry.name.startswith("models--"))
    except OSError:
        return []
    names = ["/".join(folder.split("--", 2)[1:]) for folder in folders]
    for wanted in (name.lower(), f"{name.lower()}-instruct"):
        found = [full for full in names if full.lower().rpartition("/")[2] == wanted and _cached(full)]
        if found:
            return found
    return []


def find_model(name: str | os.PathLike[str] | None) -> Path:
    """The directory or GGUF file of a model. FileNotFoundError where there is none."""
    if not isinstance(name, (str, os.PathLike, type(None))) or name == "":
        raise TypeError(f"model: expected a path or a name, found {name!r}")
    if name is None or name == "demo" and not Path("demo").exists():
        return _demo()
    path = Path(name)
    if path.exists():
        return path
    cached = _cached(os.fspath(name)) if isinstance(name, str) and name.count("/") == 1 else None
    if cached is not None:
        return cached
    called = _called(name) if isinstance(name, str) and "/" not in name else []
    if len(called) > 1:
        raise ValueError(f"model: {name}: several models in the local cache are called so: {', '.join(called)}")
    if called:
        return _cached(called[0]) or path
    raise FileNotFoundError(
        f"model: {os.fspath(name)}: no such file or directory, nor a model in the local cache of the Hugging Face hub: a model "
        "is a Hugging Face directory with config.json, tokenizer.json and *.safetensors, or a GGUF file; nothing is downloaded"
    )
