"""Vectors and scores of ommatidia.Model, bit for bit those of the command line and the server."""

import asyncio
import json
import subprocess
import sys

import numpy as np
import ommatidia
import pytest
from ommatidia import BadRequest, Model, _runtime
from served import DEMO, ROOT, Served, program

if not _runtime.LIBRARY_PATH.exists():
    pytest.skip("this package was built without libomma", allow_module_level=True)

sys.path.insert(0, str(ROOT / "tests" / "support"))
import vector_cases  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("vectors")


@pytest.fixture(scope="module")
def cases(folder):
    pytest.importorskip("PIL")
    return vector_cases.load(folder)


@pytest.fixture(scope="module")
def embedder(folder):
    with Model(vector_cases.make_model(folder / "Tiny-Embedding"), dtype="float32") as model:
        yield model


@pytest.fixture(scope="module")
def reranker(folder):
    with Model(vector_cases.make_model(folder / "Tiny-Reranker"), dtype="float32") as model:
        yield model


def test_vectors_are_those_of_the_command_line(request, embedder, cases, folder):
    items = [item for item in cases["embed"] if (item.get("text") or item.get("images")) and not item.get("video")
             and len(item.get("text") or "") < 2000 and not any(str(folder) in image for image in item.get("images", []))]
    lines = [json.dumps({"text": item.get("text", ""), "image": item.get("images", []), "instruction": item.get("instruction") or ""})
             for item in items]
    command = [program(request.config), "embed", embedder.path, "--input", "-", "--output", folder / "a.npy", "--dtype", "f32"]
    done = subprocess.run([str(word) for word in command], input="\n".join(lines).encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = np.load(folder / "a.npy")
    found = [embedder.embed({"text": item.get("text") or None, "images": item.get("images")}, instruction=item.get("instruction"))
             for item in items]
    assert len(items) > 15 and np.stack(found).tobytes() == wanted.tobytes()


def test_many_are_as_each_alone(embedder, cases):
    image = cases["embed"][next(i for i, item in enumerate(cases["embed"]) if item.get("images"))]["images"][0]
    items = ["a dog", {"text": "a cat"}, _path(image), {"image": image, "text": "a dog"}] * 30
    found = embedder.embed(iter(items))
    assert found.dtype == np.float32 and found.shape == (120, embedder.info()["hidden_size"])
    assert np.allclose((found**2).sum(axis=1), 1, atol=1e-5)
    for index, item in enumerate(items[:4]):
        assert embedder.embed(item).tobytes() == found[index].tobytes() == found[index + 116].tobytes()
    assert embedder.embed([]).shape == (0, 0)
    assert embedder.embed("a dog", dimensions=16).shape == (16,)
    assert asyncio.run(embedder.aembed(items[:4])).tobytes() == found[:4].tobytes()


def _path(name):
    from pathlib import Path

    return Path(name)


def test_vectors_and_scores_are_the_server_s(request, embedder, reranker):
    for model, path, body in ((embedder, "/v1/embeddings", {"input": ["a", "b c"], "encoding_format": "base64"}),
                              (reranker, "/v1/score", {"queries": "a", "documents": ["b", "c d"]}),
                              (reranker, "/rerank", {"query": "a", "documents": ["b", "c d"], "top_n": 1})):
        server = Served(request.config, model.path, "--dtype", "f32")
        status, theirs = server.post(path, body)
        server.stop()
        mine = model.request(path, body)
        assert status == 200 and mine.get("data") == theirs.get("data") and mine.get("results") == theirs.get("results")


def test_scores_and_their_order(reranker, cases):
    texts = ["a dog", "a cat in the sun", "nothing", "a dog"]
    scores = reranker.score("a dog", texts)
    assert scores.shape == (4,) and ((scores > 0) & (scores < 1)).all() and scores[0] == scores[3]
    assert reranker.score("a dog", texts[1])[0] == scores[1]
    ranked = reranker.rerank("a dog", texts, top_n=3)
    assert [entry.score for entry in ranked] == sorted(scores, reverse=True)[:3]
    assert [entry.index for entry in ranked] == [int(i) for i in np.argsort(-scores, kind="stable")[:3]]
    assert asyncio.run(reranker.arerank("a dog", texts, top_n=3)) == ranked


def test_what_a_model_cannot_do_is_its_line(embedder):
    with pytest.raises(BadRequest, match="Instruct"):
        embedder.chat("a")
    with pytest.raises(ValueError, match="'color'"):
        embedder.embed({"color": "red"})
    with pytest.raises(TypeError, match="int"):
        embedder.embed([3])
    with Model(DEMO) as demo:
        with pytest.raises(BadRequest, match="-Embedding models"):
            demo.embed("a")
        with pytest.raises(BadRequest, match="-Reranker models"):
            demo.rerank("a", ["b"])
    assert ommatidia.__version__
