"""vLLM's encoder attention layer with the operator inside."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import numpy as np
import ommatidia
import ommatidia.torch
import torch
from ommatidia import _handles

try:
    from vllm.model_executor.layers.attention.mm_encoder_attention import MMEncoderAttention
except ImportError:  # where it was until the attention layers moved
    from vllm.attention.layers.mm_encoder_attention import MMEncoderAttention  # type: ignore[no-redef]

_logger = logging.getLogger("vllm.ommatidia")


@cache
def _announce(dtype: torch.dtype, head_dim: int) -> None:
    """Says once per process, type and head dimension that the operator is active, and on which
    kernels."""
    type_name = str(dtype).removeprefix("torch.")
    probe = torch.zeros(1, 1, 1, head_dim, dtype=dtype)
    reason = ommatidia.torch.refusal(probe, probe, probe, None)
    if reason is not None:
        _warn_of_fallback(reason)
        return
    kernels = ommatidia.info([head_dim])["kernels"]
    kernel, of_windows = (kernels[mode][type_name][head_dim] for mode in ("encoder", "windows"))
    windows = "" if of_windows == kernel else f" (windows of up to 64 tokens: {of_windows})"
    threads = "PyTorch's OpenMP threads" if ommatidia.torch.team() == "openmp" else "threads of its own"
    _logger.info(
        "Ommatidia %s is active: encoder attention in %s, heads of %d, kernel %s%s, on %s",
        ommatidia.__version__, type_name, head_dim, kernel, windows, threads,
    )


@cache
def _warn_of_fallback(reason: str) -> None:
    _logger.warning("Ommatidia leaves encoder attention to vLLM's own implementation: %s", reason)


def _flat_borders(cu_seqlens: torch.Tensor, n_batch: int, n_tokens: int) -> torch.Tensor:
    """Borders over the flattened tokens of a batch, from those that vLLM applies to each of its
    rows alike."""
    if int(cu_seqlens[-1]) != n_tokens:
        raise ValueError(f"cu_seqlens: ends at {int(cu_seqlens[-1])}, but the rows have {n_tokens} tokens")
    first_token = torch.arange(n_batch, dtype=torch.int64).unsqueeze(1) * n_tokens
    return torch.cat([cu_seqlens[:1].to(torch.int64), (cu_seqlens[1:] + first_token).flatten()])


class OmmatidiaEncoderAttention(MMEncoderAttention):
    """Stands in for `MMEncoderAttention`, with its constructor's arguments.

    A segmentation's plan is immutable, built by the first layer that meets it, and shared by all
    that follow, also where layers alternate between two segmentations or the tower of the next
    request has the same one. Layers find it through the handle that `maybe_compute_seq_lens` has
    made of it; in towers that do not call that hook, by the content of cu_seqlens."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        # vLLM 0.32 itself refuses fp8 on CPUs; one that does not is not to get another type's
        # result without a word.
        self._unsupported = "fp8 attention is asked for" if getattr(self, "fp8_enabled", False) else None
        # On the meta device it is built for its shapes alone.
        if self._unsupported is None and torch.get_default_device().type != "meta":
            _announce(torch.get_default_dtype(), self.head_size)

    @classmethod
    def maybe_compute_seq_lens(
        cls, attn_backend: object, cu_seqlens: np.ndarray[Any, Any], device: torch.device
    ) -> torch.Tensor | None:
        """What vLLM is to hand to the layers as `sequence_lengths`: the handle. None leaves them to
        cu_seqlens alone."""
        try:
            return _handles.table.handle(cu_seqlens)
        except (TypeError, ValueError):
            return None  # what is wrong with it is for the layers to say

    def forward_cpu(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cu_seqlens: torch.Tensor | None = None,
        max_seqlen: torch.Tensor | None = None,
        sequence_lengths: torch.Tensor | None = None,
        **hints: Any,
    ) -> torch.Tensor:
        """query [b, s, H, D] or [b, s, H * D], key and value [b, sk, Hkv, D] or [b, sk, Hkv * D];
        returns query's shape.

        sequence_lengths is what `maybe_compute_seq_lens` returned, if anything; max_seqlen and
        hints are for other kernels."""
        q, k, v = query, key, value
        if query.dim() == 3:
            q = query.unflatten(-1, (self.num_heads, self.head_size))
            k = key.unflatten(-1, (self.num_kv_heads, self.head_size))
            v = value.unflatten(-1, (self.num_kv_heads, self.head_size))
        reason = self._unsupported or ommatidia.torch.refusal(q, k, v, cu_seqlens)
        if reason is not None:
            if not torch.compiler.is_compiling():
                _warn_of_fallback(reason)
            return super().forward_cpu(query, key, value, cu_seqlens)
        if cu_seqlens is not None and q.shape[0] > 1:
            cu_seqlens, sequence_lengths = _flat_borders(cu_seqlens, q.shape[0], q.shape[1]), None
        out: torch.Tensor = torch.ops.ommatidia.encoder_attention(q, k, v, cu_seqlens, sequence_lengths, self.scale)
        return out.flatten(-2) if query.dim() == 3 else out

    forward_native = forward_cpu
