"""Vectors with the calls of sentence-transformers, for code that has `model.encode(...)`.

    from ommatidia.encoder import Encoder

    encoder = Encoder("qwen3-vl-embedding-2b")
    vectors = encoder.encode(["a red circle", Path("circle.png")], normalize_embeddings=True)"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np

from ._bodies import is_item
from ._model import Model, Vectors, max_sim


def _check_device(device: str | None) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"device: expected cpu, found {device!r}")


class Encoder:
    """model: a Model, or what Model opens. prompts: instructions by name, such as {"query":
    "Retrieve images or text relevant to the user's query."}."""

    def __init__(
        self,
        model: Model | str | os.PathLike[str] | None = None,
        *,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        truncate_dim: int | None = None,
        device: str | None = None,
        **options: Any,
    ) -> None:
        _check_device(device)
        self._owned = not isinstance(model, Model)
        self.model = model if isinstance(model, Model) else Model(model, **options)
        self.prompts = dict(prompts or {})
        self.default_prompt_name = default_prompt_name
        self.truncate_dim = truncate_dim

    def _prompt(self, prompt: str | None, name: str | None) -> str | None:
        name = name or self.default_prompt_name
        if prompt is not None or name is None:
            return prompt
        if name not in self.prompts:
            raise ValueError(f"prompt_name: expected one of {', '.join(map(repr, self.prompts)) or '(no prompts)'}, found {name!r}")
        return self.prompts[name]

    def encode(
        self,
        sentences: Any,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        output_value: str = "sentence_embedding",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        device: str | None = None,
    ) -> Any:
        """float32 [n, width] of texts and images, [width] of a single one, or tensors of torch.
        Where each token has a vector: a list of [n_tokens, width].

        prompt: the instruction. normalize_embeddings: as they are anyway; without it too, since the
        models were trained for vectors of length 1. batch_size has no effect: up to 128 inputs are
        under way whatever it is, and results do not depend on it. output_value:
        "token_embeddings" asks for a model with a vector for each token. device: "cpu" or None."""
        _check_device(device)
        if output_value not in ("sentence_embedding", "token_embeddings"):
            raise ValueError(f"output_value: expected sentence_embedding or token_embeddings, found {output_value!r}")
        if output_value == "token_embeddings" and not self.model.token_width:
            raise ValueError("output_value: this model gives no vectors of tokens")
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, found {batch_size}")
        single = is_item(sentences)
        found = self.model.embed(
            [sentences] if single else sentences,
            instruction=self._prompt(prompt, prompt_name),
            dimensions=truncate_dim or self.truncate_dim,
            use_tqdm=bool(show_progress_bar),
        )
        if convert_to_tensor:
            found = _tensors(found)
        elif not convert_to_numpy and not isinstance(found, list):
            found = list(found)
        return found[0] if single else found

    def encode_query(self, sentences: Any, **options: Any) -> Any:
        """`encode` with the prompt named "query", where there is one."""
        return self.encode(sentences, **{"prompt_name": "query" if "query" in self.prompts else None, **options})

    def encode_document(self, sentences: Any, **options: Any) -> Any:
        """`encode` with the prompt named "document", where there is one."""
        return self.encode(sentences, **{"prompt_name": "document" if "document" in self.prompts else None, **options})

    def similarity(self, queries: Any, documents: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        """float64 [n, m] of results of `encode`: cosines, or max_sim of token vectors."""
        if self.model.token_width:
            return np.array([[max_sim(query, document) for document in documents] for query in queries], np.float64)
        left, right = (np.atleast_2d(np.asarray(side, np.float64)) for side in (queries, documents))
        lengths = np.linalg.norm(left, axis=1)[:, None] * np.linalg.norm(right, axis=1)[None, :]
        cosines: np.ndarray[Any, np.dtype[np.float64]] = left @ right.T / np.maximum(lengths, 1e-12)
        return cosines

    def get_sentence_embedding_dimension(self) -> int:
        return self.truncate_dim or self.model.token_width or int(self.model.info()["hidden_size"])

    def close(self) -> None:
        """Closes the model if this object opened it."""
        if self._owned:
            self.model.close()

    def __enter__(self) -> Encoder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ommatidia.encoder.Encoder of {self.model!r}>"


def _tensors(vectors: Vectors | list[Vectors]) -> Any:
    torch: Any = importlib.import_module("torch")
    if isinstance(vectors, list):
        return [torch.from_numpy(one.copy()) for one in vectors]
    return torch.from_numpy(vectors.copy())
