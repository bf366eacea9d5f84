"""The plugin's one setting, of the environment, which all of vLLM's processes share."""

from __future__ import annotations

import os

TOWER_VARIABLE = "OMMATIDIA_TOWER"


def tower_option() -> str | None:
    """What vision towers run on: None, vLLM's own with Ommatidia's attention; "1", libomma's;
    "int8", that with 8-bit weights."""
    value = os.environ.get(TOWER_VARIABLE, "").strip().lower()
    if value in ("", "0", "false"):
        return None
    if value in ("1", "true"):
        return "1"
    if value == "int8":
        return value
    raise ValueError(f"{TOWER_VARIABLE}: expected 0, 1 or int8, found {value!r}")
