"""Vectors and scores of ommatidia.Model, bit for bit those of the command line and the server."""

import asyncio
import base64
import json
import os
import subprocess
import sys

import numpy as np
import ommatidia
import pytest
from gil import turns_while
from ommatidia import BadRequest, Model, _runtime, max_sim
from served import DEMO, GOLDEN, ROOT, TREE, Served, program

if not _runtime.LIBRARY_PATH.exists():
    pytest.skip("this package was built without libomma", allow_module_level=True)

sys.path.insert(0, str(ROOT / "tests" / "support"))
import token_vector_cases  # noqa: E402
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


def test_an_input_that_cannot_be_used_keeps_its_place(embedder):
    items = ["a dog", b"no image", "a cat"]
    with pytest.raises(Exception, match=r"inputs\[1\]: "):
        embedder.embed(items)
    for found in (embedder.embed(items, return_exceptions=True), asyncio.run(embedder.aembed(items, return_exceptions=True))):
        assert len(found) == 3 and isinstance(found[1], Exception)
        assert str(found[1]).startswith("inputs[1]: ") and "image" in str(found[1]) and "content" not in str(found[1])
        assert [found[i].tobytes() for i in (0, 2)] == [embedder.embed(items[i]).tobytes() for i in (0, 2)]


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
    assert len(reranker.rerank("a dog", texts, top_n=0)) == 4
    assert asyncio.run(reranker.ascore("a dog", texts)).tobytes() == scores.tobytes()


def test_waiting_for_vectors_releases_the_gil(embedder):
    assert turns_while(lambda: embedder.embed(["word " * 100] * 200)) > 100


def test_what_a_model_cannot_do_is_its_line(embedder):
    with pytest.raises(BadRequest, match="Instruct"):
        embedder.chat("a")
    with pytest.raises(ValueError, match="'color'"):
        embedder.embed({"color": "red"})
    with pytest.raises(TypeError, match="int"):
        embedder.embed([3])
    with Model(GOLDEN / "qwen2_5_vl_tied") as other:
        with pytest.raises(BadRequest, match="-Embedding models"):
            other.embed("a")
        with pytest.raises(BadRequest, match="-Reranker models"):
            other.rerank("a", ["b"])
    assert ommatidia.__version__


# ---- a vector for each token ----


@pytest.fixture(scope="module")
def demo():
    with Model(DEMO) as model:
        yield model


def test_vectors_of_tokens(request, demo, folder):
    cross, shapes = (DEMO / "images" / name for name in ("cross.png", "shapes.png"))
    found = demo.embed([cross, "a red circle", shapes])
    assert [one.shape[1] for one in found] == [demo.token_width] * 3 and found[0].dtype == np.float32
    assert all(np.allclose((one**2).sum(axis=1), 1, atol=1e-5) for one in found)
    assert demo.embed(cross).tobytes() == found[0].tobytes() == asyncio.run(demo.aembed([cross]))[0].tobytes()
    command = [program(request.config), "embed", DEMO, cross, "--text", "a red circle", "--output", folder / "t.npy"]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    assert np.load(folder / "t.npy").tobytes() == np.concatenate(found[:2]).tobytes()
    scores = demo.score("a red circle", [cross, shapes] * 10)
    assert len(scores) == 20 and scores[:2] == pytest.approx([max_sim(found[1], found[0]), max_sim(found[1], found[2])], abs=1e-5)
    assert demo.rerank("an orange cross", [shapes, cross])[0].index == 1
    assert str(demo.chat("What color is the cross?", image=cross, temperature=0))
    with pytest.raises(BadRequest, match="takes none"):
        demo.embed("a", instruction="Find.")
    with pytest.raises(BadRequest, match="one text or one image"):
        demo.embed({"text": "a", "image": cross})


def test_vectors_of_tokens_over_http(request, folder):
    directory = token_vector_cases.make_model(folder / "Tiny-ColQwen", "qwen2_5_vl_tied", "released")
    server = Served(request.config, directory, "--dtype", "f32")
    status, reply = server.post("/pooling", {"input": ["a", "b c"], "task": "token_embed"})
    assert status == 200 and [entry["object"] for entry in reply["data"]] == ["pooling"] * 2
    lists = [np.array(entry["data"], np.float32) for entry in reply["data"]]
    coded = server.post("/pooling", {"input": ["a", "b c"], "encoding_format": "base64"})[1]["data"]
    assert all(np.frombuffer(base64.b64decode(entry["data"]), "<f4").tobytes() == one.tobytes() for entry, one in zip(coded, lists))
    assert [one.shape[1] for one in lists] == [token_vector_cases.WIDTH] * 2
    scores = server.post("/score", {"queries": "a", "documents": ["b c", "a"]})[1]["data"]
    wanted = [max_sim(lists[0], lists[1]), len(lists[0])]
    assert [entry["score"] for entry in scores] == pytest.approx(wanted, abs=1e-5)
    ranked = server.post("/rerank", {"query": "a", "documents": ["b c", "a"]})[1]["results"]
    assert [entry["index"] for entry in ranked] == [1, 0]
    for path, body, said in (("/v1/embeddings", {"input": "a"}, "each token"), ("/pooling", {"input": "a", "task": "embed"}, "token_embed"),
                             ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}, "/pooling")):
        status, reply = server.post(path, body)
        assert status == 400 and said in json.dumps(reply)
    server.stop()
    with Model(directory, dtype="float32") as model:
        assert model.info()["task"] == "embed" and "embed" in repr(model)
        mine = model.request("/pooling", {"input": ["a", "b c"]})["data"]
        assert [np.array(entry["data"], np.float32).tobytes() for entry in mine] == [one.tobytes() for one in lists]


def test_the_example_finds_a_red_circle(folder):
    pytest.importorskip("PIL")
    from PIL import Image, ImageDraw

    photos = folder / "photos"
    photos.mkdir()
    colors = {"red": (215, 35, 35), "green": (35, 155, 65), "blue": (40, 80, 220), "yellow": (248, 218, 30)}
    for name, color in colors.items():
        for shape in ("circle", "square"):
            image = Image.new("RGB", (128, 96), (250, 250, 250))
            draw = ImageDraw.Draw(image)
            (draw.ellipse if shape == "circle" else draw.rectangle)((30, 15, 90, 75), fill=color)
            image.save(photos / f"{name}_{shape}.png")
    (photos / "damaged.png").write_bytes((photos / "red_circle.png").read_bytes()[:60])
    command = [sys.executable, ROOT / "examples" / "search_images.py", photos, "a red circle", "--model", DEMO, "--top", "5",
               "--index", folder / "index.npz", "--output", folder / "hits.png"]
    environment = {**os.environ, "PYTHONPATH": str(TREE.parent)}
    runs = [subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, env=environment) for _ in range(2)]
    first, again = (run.stdout for run in runs)
    assert first == again and first.splitlines()[0].endswith("red_circle.png") and len(first.splitlines()) == 5
    assert all(f"{photos / 'damaged.png'}: left out: " in run.stderr for run in runs)
    assert Image.open(folder / "hits.png").size == (4 * 192, 2 * 220)
