"""Images' embeddings from encoder nodes (`omma serve --mm-encoder-only`) for a vLLM that then runs
no tower:

    vllm serve MODEL --ec-transfer-config '{"ec_connector": "OmmatidiaConnector", "ec_role": "ec_consumer",
        "ec_connector_module_path": "vllm_ommatidia.encoder_connector",
        "ec_connector_extra_config": {"encoder_urls": ["http://127.0.0.1:8100"]}}'

The scheduler's side fetches and checks them, off vLLM's own thread, and hands them to the workers
with the step that wants them: what is not there, or not what this model's own tower would make, is
known before the step is planned, so that vLLM encodes that image itself. docs/encoder-node.md has
the protocol and all keys."""

from __future__ import annotations

import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.distributed.ec_transfer.ec_connector.base import ECConnectorBase, ECConnectorMetadata, ECConnectorRole

from ._encodings import Expected, Refused, check_nodes, node_of, read_encoding, sources
from ._fingerprint import checkpoint_fingerprint
from ._node_card import WrongNode

_logger = logging.getLogger("vllm.ommatidia")

_KEYS = {"encoder_urls", "shared_storage_path", "timeout", "numeric_mode", "fingerprint"}
_FETCHES = 8
# Numeric modes of the tower that are as exact as a model of this type computes, or more.
_MODES = {torch.float32: ("f32",), torch.bfloat16: ("bf16", "f32")}


@dataclass
class _Loads(ECConnectorMetadata):
    """What the workers take over in a step."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)


def _output_width(model_config: Any) -> int:
    """Values of a token: the tower's output, and in some families those of further layers after
    it."""
    config = model_config.hf_config
    vision = getattr(config, "vision_config", None)
    width = getattr(vision, "out_hidden_size", None) or model_config.get_hidden_size()
    return int(width) * (1 + len(getattr(vision, "deepstack_visual_indexes", None) or []))


class OmmatidiaConnector(ECConnectorBase):
    """One object in the scheduler and one in each worker. The scheduler's thread calls all methods;
    fetches run on threads of their own."""

    def __init__(self, vllm_config: Any, role: ECConnectorRole) -> None:
        super().__init__(vllm_config=vllm_config, role=role)
        if not self.is_consumer or self.is_producer:
            raise ValueError('OmmatidiaConnector: ec_role must be "ec_consumer": embeddings come from `omma serve --mm-encoder-only`')
        if role is ECConnectorRole.SCHEDULER:
            self._set_up(vllm_config)

    def _set_up(self, vllm_config: Any) -> None:
        options = vllm_config.ec_transfer_config.ec_connector_extra_config
        model = vllm_config.model_config
        unknown = set(options) - _KEYS
        if unknown:
            raise ValueError(f"OmmatidiaConnector: ec_connector_extra_config: unknown {sorted(unknown)}; known are {sorted(_KEYS)}")
        if model.dtype not in _MODES:
            raise ValueError(f"OmmatidiaConnector: encoder nodes make float32 or bfloat16, not {model.dtype}")
        modes = options.get("numeric_mode") or _MODES[model.dtype]
        self._expected = Expected(
            width=_output_width(model), dtype=model.dtype, modes=(modes,) if isinstance(modes, str) else tuple(modes),
            fingerprint=options.get("fingerprint") or checkpoint_fingerprint(model.model),
        )
        self._sources = sources(options, os.environ.get("OMMA_API_KEY"))
        try:
            silent = check_nodes(self._sources, self._expected)
        except WrongNode as error:
            raise ValueError(f"OmmatidiaConnector: {error}") from None
        for line in silent:
            _logger.warning("Ommatidia: %s", line)
        self._pool = ThreadPoolExecutor(_FETCHES, thread_name_prefix="ommatidia-fetch")
        self._fetches: dict[str, Future[torch.Tensor]] = {}
        self._ready: dict[str, torch.Tensor] = {}  # fetched and good, not yet in a step
        self._loads = _Loads()
        self._kept: set[str] = set()  # in vLLM's own cache, or on the way there
        self._refused: dict[str, set[str]] = {}  # of each request
        self._lost: set[str] = set()  # requests that cannot go on

    # The scheduler's side.

    def ensure_cache_available(self, request: Any, num_computed_tokens: int) -> bool:
        ready = True
        for index, feature in enumerate(request.mm_features):
            position = feature.mm_position
            if position.offset + position.length > num_computed_tokens and feature.modality == "image":
                ready = self._is_settled(request, index) and ready
        return ready

    def _is_settled(self, request: Any, index: int) -> bool:
        feature = request.mm_features[index]
        key = feature.identifier
        if key in self._kept or key in self._ready:
            return True
        if key in self._refused.get(request.request_id, ()):
            return request.request_id not in self._lost
        fetch = self._fetches.get(key)
        if fetch is None:
            hint = node_of(request.ec_transfer_params, key)
            rows = request.get_num_encoder_embeds(index)
            self._fetches[key] = self._pool.submit(read_encoding, self._sources, key, rows, self._expected, hint)
            return False
        if not fetch.done():
            return False
        del self._fetches[key]
        try:
            self._ready[key] = fetch.result()
        except Refused as error:
            return self._refuse(request, feature, str(error))
        return True

    def _refuse(self, request: Any, feature: Any, reason: str) -> bool:
        """True where the request goes on: vLLM has the pixels."""
        self._refused.setdefault(request.request_id, set()).add(feature.identifier)
        has_pixels = feature.data is None or "pixel_values" in feature.data or "image_embeds" in feature.data
        outcome = "vLLM encodes the image itself" if has_pixels else "the request fails, for it came without the image"
        _logger.warning("Ommatidia: embeddings of %s refused: %s: %s", feature.identifier, reason, outcome)
        if not has_pixels:
            self._lost.add(request.request_id)
        return has_pixels

    def has_cache_item(self, identifier: str) -> bool:
        return identifier in self._ready

    def update_state_after_alloc(self, request: Any, index: int) -> None:
        key = request.mm_features[index].identifier
        self._kept.add(key)
        tensor = self._ready.pop(key, None)
        if tensor is not None:
            self._loads.tensors[key] = tensor

    def build_connector_meta(self, scheduler_output: Any) -> ECConnectorMetadata:
        self._kept.difference_update(scheduler_output.free_encoder_mm_hashes)
        loads, self._loads = self._loads, _Loads()
        return loads

    def take_unavailable_requests(self) -> set[str]:
        lost, self._lost = self._lost, set()
        return lost

    def request_finished(self, request: Any) -> tuple[bool, dict[str, Any] | None]:
        self._refused.pop(request.request_id, None)
        for feature in request.mm_features:  # of one that was cancelled before its step
            self._ready.pop(feature.identifier, None)
            self._fetches.pop(feature.identifier, None)
        return False, None

    def shutdown(self) -> None:
        if self.role is ECConnectorRole.SCHEDULER:
            self._pool.shutdown(wait=False, cancel_futures=True)

    # The workers' side.

    def start_load_caches(self, encoder_cache: dict[str, torch.Tensor], **kwargs: Any) -> None:
        loads = self._get_connector_metadata()
        assert isinstance(loads, _Loads)
        for key, tensor in loads.tensors.items():
            encoder_cache.setdefault(key, tensor)

    def save_caches(self, encoder_cache: dict[str, torch.Tensor], mm_hash: str, **kwargs: Any) -> None:
        """Nothing is published by a consumer."""
