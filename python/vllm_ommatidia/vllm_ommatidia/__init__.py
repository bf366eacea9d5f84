"""Ommatidia's packed attention under vLLM's vision towers on CPUs, or whole towers of libomma
(OMMATIDIA_TOWER=1).

Installed compared with vLLM, the package is found through the entry point group
`vllm.general_plugins`; nothing else has to be done. What a vLLM offers is looked at, not its
version number: there were several layouts, and distributions of the CPU build count their own
way."""

from __future__ import annotations

import logging

__version__ = "0.2.0"

__all__ = ["__version__", "register"]

# vLLM's logging set-up shows loggers below its own name only.
_logger = logging.getLogger("vllm.ommatidia")

_LAYER_NAME = "MMEncoderAttention"

# Models whose towers libomma has.
_ARCHITECTURES = (
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
    "KimiVLForConditionalGeneration",
)


def register() -> None:
    """Puts the operator under vLLM's encoder attention layer. vLLM calls this in each of its
    processes, in some repeatedly.

    Does nothing on platforms other than the CPU. Where something that is needed is missing or
    wrong, logs it and leaves vLLM as it is: a server that is slower is better than one that does
    not start. ImportError without any vLLM, for there is no server then."""
    try:
        from vllm.platforms import current_platform
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise
        raise ImportError(
            "vllm_ommatidia: vLLM is not installed; install its CPU build next to this package, which it then finds by itself"
        ) from error

    if not current_platform.is_cpu():
        return
    try:
        _replace_layer()
    except Exception as error:  # whatever it is, it must not stop the server
        _logger.warning("Ommatidia is not active: %s", error)
    try:
        _replace_models()
    except Exception as error:
        _logger.warning("Ommatidia leaves vision towers to vLLM's own implementation: %s", error)


def _replace_layer() -> None:
    from vllm.model_executor import custom_op

    # In early versions the registry belonged to the class.
    registry = getattr(custom_op, "op_registry_oot", None)
    if registry is None:
        registry = getattr(custom_op.CustomOp, "op_registry_oot", None)
    if registry is None:
        raise RuntimeError("this vLLM cannot replace layers (it has no CustomOp.register_oot)")

    import ommatidia

    from ._layer import OmmatidiaEncoderAttention

    present = registry.get(_LAYER_NAME)
    if present is OmmatidiaEncoderAttention:
        return
    if present is not None:
        raise RuntimeError(f"{_LAYER_NAME} is already replaced by {present.__qualname__}")
    ommatidia.self_test()
    custom_op.CustomOp.register_oot(_decorated_op_cls=OmmatidiaEncoderAttention, name=_LAYER_NAME)


def _replace_models() -> None:
    """Where whole towers are asked for, puts our model classes into vLLM's registry."""
    from ._option import tower_option

    if tower_option() is None:
        return
    from vllm import ModelRegistry
    from vllm.model_executor.models import utils
    from vllm.model_executor.models.interfaces import SupportsMultiModal

    if not hasattr(utils, "no_init_weights") or not hasattr(SupportsMultiModal, "_mark_tower_model"):
        raise RuntimeError("vision towers of this vLLM cannot be replaced (it has no _mark_tower_model)")
    for name in _ARCHITECTURES:
        if name in ModelRegistry.models:
            ModelRegistry.register_model(name, f"vllm_ommatidia._tower:{name}")
