"""The operator as an attention implementation of Hugging Face transformers.

    import ommatidia.transformers
    ommatidia.transformers.register()
    model = AutoModelForImageTextToText.from_pretrained(..., attn_implementation="ommatidia")

It serves bidirectional attention without a mask, that is vision towers: all images and windows of a
layer in one call where the model hands over cu_seqlens. What it does not serve (causal layers,
masks, dropout, gradients, other devices and types) goes to "sdpa"."""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from .torch import encoder_attention, refusal

__all__ = ["NAME", "attention_forward", "register"]

NAME = "ommatidia"

# Towers that pack images and hand over cu_seqlens, if asked to.
_PACKING = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")

# What changes the result and this operator does not know.
_UNKNOWN = ("position_bias", "s_aux", "softcap", "cache")

_logger = logging.getLogger("transformers.ommatidia")


@functools.cache
def _warn_of_fallback(reason: str) -> None:
    _logger.warning("Ommatidia leaves attention to sdpa: %s", reason)


def _is_for_sdpa(
    module: torch.nn.Module, query: torch.Tensor, attention_mask: torch.Tensor | None, is_causal: bool | None, dropout: float
) -> bool:
    """What this operator is not for, as opposed to what it would serve if the tensors were other
    ones."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    return attention_mask is not None or dropout > 0 or (causal and query.shape[2] > 1)


def _reason(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, borders: torch.Tensor | None, keys: torch.Tensor | None, others: Any
) -> str | None:
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return "gradients are asked for; call under torch.no_grad()"
    if keys is not None and keys is not borders and (borders is None or not torch.equal(keys, borders)):
        return "cu_seq_lens_k differs from cu_seq_lens_q"
    for name in _UNKNOWN:
        if others.get(name) is not None:
            return f"{name} is given"
    return refusal(q, k, v, borders)


def _by_segment(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, borders: torch.Tensor, attend: Callable[..., torch.Tensor]
) -> torch.Tensor:
    """sdpa knows no borders: segment by segment, as the models do it for implementations that get
    none."""
    lengths = (borders[1:] - borders[:-1]).tolist()
    parts = zip(*(torch.split(tensor, lengths, dim=2) for tensor in (query, key, value)), strict=True)
    return torch.cat([attend(*part) for part in parts], dim=1)


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    cu_seq_lens_k: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """query [b, H, s, D], key and value [b, Hkv, sk, D]; borders over the b * s flattened tokens.
    Returns [b, s, H, D] and None."""

    def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = sdpa_attention_forward(
            module, q, k, v, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **others
        )[0]
        return out

    if _is_for_sdpa(module, query, attention_mask, is_causal, dropout):
        return sdpa(query, key, value), None
    q, k, v = (tensor.transpose(1, 2) for tensor in (query, key, value))
    reason = _reason(q, k, v, cu_seq_lens_q, cu_seq_lens_k, others)
    if reason is None:
        return encoder_attention(q, k, v, cu_seq_lens_q, scaling), None
    if not torch.compiler.is_compiling():
        _warn_of_fallback(reason)
    if cu_seq_lens_q is None:
        return sdpa(query, key, value), None
    return _by_segment(query, key, value, cu_seq_lens_q, sdpa), None


def _hand_over_borders(module: Any) -> None:
    """transformers gives cu_seqlens only to implementations with "flash" in their names, and calls
    others once per image or window.

    The module's towers get the answer that this one takes them too. Answers about other
    implementations and about text stay as they are."""
    asked: Callable[..., bool] = module.is_flash_attention_requested
    if getattr(asked, "of_ommatidia", False):
        return

    @functools.wraps(asked)
    def is_flash_attention_requested(config: Any = None, *args: Any, **named: Any) -> bool:
        if getattr(config, "_attn_implementation", None) == NAME and hasattr(config, "patch_size"):
            return True
        return asked(config, *args, **named)

    is_flash_attention_requested.of_ommatidia = True  # type: ignore[attr-defined]
    module.is_flash_attention_requested = is_flash_attention_requested


def register() -> None:
    """Makes attn_implementation="ommatidia" known to transformers. May be called repeatedly."""
    AttentionInterface.register(NAME, attention_forward)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    for family in _PACKING:
        try:
            module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
        except ImportError:
            continue  # not in this transformers
        if hasattr(module, "is_flash_attention_requested"):
            _hand_over_borders(module)
