"""Registration: once, on the CPU platform only, and never at the price of a server that does not
start."""

from __future__ import annotations

import logging
from importlib.metadata import entry_points
from types import SimpleNamespace
from typing import Any

import ommatidia
import pytest
import torch
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


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A copy of vLLM's registry of models."""
    from vllm import ModelRegistry

    copy = dict(ModelRegistry.models)
    monkeypatch.setattr(ModelRegistry, "models", copy)
    return copy


@pytest.mark.parametrize(("value", "replaced"), [(None, False), ("", False), ("0", False), ("1", True), ("int8", True)])
def test_models_are_replaced_where_towers_are_asked_for(
    registry: dict[str, Any], models: dict[str, Any], monkeypatch: pytest.MonkeyPatch, value: str | None, replaced: bool
) -> None:
    monkeypatch.delenv("OMMATIDIA_TOWER", raising=False)
    if value is not None:
        monkeypatch.setenv("OMMATIDIA_TOWER", value)
    vllm_ommatidia.register()
    ours = [name for name, model in models.items() if getattr(model, "module_name", "").startswith("vllm_ommatidia")]
    assert sorted(ours) == (sorted(vllm_ommatidia._ARCHITECTURES) if replaced else [])


def test_an_option_that_is_none_is_named(
    registry: dict[str, Any], models: dict[str, Any], monkeypatch: pytest.MonkeyPatch, warnings_seen: list[str]
) -> None:
    monkeypatch.setenv("OMMATIDIA_TOWER", "fast")
    vllm_ommatidia.register()
    assert registry and warnings_seen == [
        "Ommatidia leaves vision towers to vLLM's own implementation: OMMATIDIA_TOWER: expected 0, 1 or int8, found 'fast'"
    ]


def config(**changes: Any) -> Any:
    """As much of a VllmConfig as is asked about, with one part changed."""
    parts = dict(
        dtype=torch.bfloat16, hf_overrides={}, tensor_parallel_size=1, quant_config=None, load_format="auto", lora_config=None,
        mm_encoder_attn_dtype=None, model="/nowhere",
    )  # fmt: skip
    parts |= changes
    mm_config = SimpleNamespace(mm_encoder_attn_dtype=parts["mm_encoder_attn_dtype"])
    model = SimpleNamespace(
        dtype=parts["dtype"], hf_overrides=parts["hf_overrides"], model=parts["model"], revision=None,
        get_multimodal_config=lambda: mm_config,
    )  # fmt: skip
    return SimpleNamespace(
        model_config=model, quant_config=parts["quant_config"], lora_config=parts["lora_config"],
        parallel_config=SimpleNamespace(tensor_parallel_size=parts["tensor_parallel_size"]),
        load_config=SimpleNamespace(load_format=parts["load_format"]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (dict(dtype=torch.float16), "type is torch.float16"),
        (dict(tensor_parallel_size=2), "tensor parallel size 2"),
        (dict(quant_config=SimpleNamespace(get_name=lambda: "awq")), "quantised (awq)"),
        (dict(load_format="dummy"), "load format dummy"),
        (dict(hf_overrides={"a": 1}), "hf_overrides"),
        (dict(mm_encoder_attn_dtype="fp8"), "in fp8"),
        (dict(lora_config=SimpleNamespace(enable_tower_connector_lora=True)), "LoRA adapters"),
        (dict(), "/nowhere"),
    ],
)
def test_what_towers_are_left_to_vllm(changes: dict[str, Any], reason: str, warnings_seen: list[str]) -> None:
    from vllm_ommatidia._tower import open_source

    assert open_source(config(**changes)) is None
    assert len(warnings_seen) == 1 and reason in warnings_seen[0]
    assert warnings_seen[0].startswith("Ommatidia leaves the vision tower to vLLM's own implementation: ")
