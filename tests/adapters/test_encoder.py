"""Encoder: the calls of sentence-transformers."""

import numpy as np
import pytest
from ommatidia.encoder import Encoder


def test_encode(embedder, cross):
    encoder = Encoder(embedder, prompts={"query": "Find."})
    texts = ["a dog", "a cat", cross]
    found = encoder.encode(texts, batch_size=2, normalize_embeddings=True, show_progress_bar=True)
    assert found.dtype == np.float32 and found.tobytes() == embedder.embed(texts).tobytes()
    assert encoder.encode("a dog").shape == (embedder.info()["hidden_size"],) and len(encoder.encode([])) == 0
    assert encoder.encode_query("a dog").tobytes() == embedder.embed("a dog", instruction="Find.").tobytes()
    assert encoder.encode("a dog", prompt="Find.").tobytes() == encoder.encode("a dog", prompt_name="query").tobytes()
    assert encoder.encode(texts, truncate_dim=8).shape == (3, 8) and isinstance(encoder.encode(texts, convert_to_numpy=False), list)
    assert np.allclose(np.diag(encoder.similarity(found, found)), 1) and encoder.get_sentence_embedding_dimension() == found.shape[1]
    with pytest.raises(ValueError, match="prompt_name"):
        encoder.encode("a", prompt_name="passage")
    with pytest.raises(ValueError, match="output_value"):
        encoder.encode("a", output_value="token_embeddings")


def test_tensors(embedder):
    torch = pytest.importorskip("torch", reason="torch is not installed: tensors are not tried")
    found = Encoder(embedder).encode(["a", "b"], convert_to_tensor=True)
    assert isinstance(found, torch.Tensor) and found.numpy().tobytes() == embedder.embed(["a", "b"]).tobytes()


def test_vectors_of_tokens(demo, cross):
    encoder = Encoder(demo)
    pages, query = encoder.encode([cross, cross], output_value="token_embeddings"), encoder.encode("an orange cross")
    assert pages[0].shape[1] == query.shape[1] == demo.token_width
    assert np.allclose(encoder.similarity([query], pages)[0], demo.score("an orange cross", [cross, cross]), atol=1e-5)
