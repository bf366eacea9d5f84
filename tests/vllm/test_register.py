"""Registration: once, on the CPU platform only, and never at the price of a server that does not start."""

from __future__ import annotations

import logging
from importlib.metadata import entry_points
from typing import Any

import ommatidia
import pytest
import vllm_ommatidia
from vllm.model_executor import custom_op
from vllm.platforms import current_platform
from vllm_ommatidia._layer import OmmatidiaEncoderAttention


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An empty registry in place of vLLM's."""
    empty: dict[str, Any] = {}
    monkeypatch.setattr(custom_op, "op_registry_oot", empty)
    return empty


@pytest.fixture
def warnings_seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """vLLM's loggers do not propagate, so pytest's own capture does not see them."""
    seen: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("vllm.ommatidia")
    monkeypatch.setattr(logger, "handlers", [handler])
    return seen


def test_vllm_finds_the_plugin() -> None:
    (found,) = [point for point in entry_points(group="vllm.general_plugins") if point.name == "ommatidia"]
    assert found.load() is vllm_ommatidia.register


def test_registering_twice_is_registering_once(registry: dict[str, Any], warnings_seen: list[str]) -> None:
    vllm_ommatidia.register()
    vllm_ommatidia.register()
    assert registry == {"MMEncoderAttention": OmmatidiaEncoderAttention}
    assert warnings_seen == []


def test_other_platforms_are_left_alone(registry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda self: False)
    vllm_ommatidia.register()
    assert registry == {}


def test_another_replacement_is_left_alone(registry: dict[str, Any], warnings_seen: list[str]) -> None:
    registry["MMEncoderAttention"] = dict
    vllm_ommatidia.register()
    assert registry == {"MMEncoderAttention": dict}
    assert warnings_seen == ["Ommatidia is not active: MMEncoderAttention is already replaced by dict"]


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, MemoryError, AttributeError])
def test_kernels_that_fail_their_test_are_not_used(
    registry: dict[str, Any], monkeypatch: pytest.MonkeyPatch, warnings_seen: list[str], kind: type[Exception]
) -> None:
    def fails() -> None:
        raise kind("kernel: off by 1")

    monkeypatch.setattr(ommatidia, "self_test", fails)
    vllm_ommatidia.register()
    assert registry == {}
    assert warnings_seen == ["Ommatidia is not active: kernel: off by 1"]


def test_a_vllm_that_cannot_replace_layers_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, warnings_seen: list[str]
) -> None:
    monkeypatch.delattr(custom_op, "op_registry_oot")
    vllm_ommatidia.register()
    assert len(warnings_seen) == 1 and "cannot replace layers" in warnings_seen[0]
