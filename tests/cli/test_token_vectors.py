"""Models with a vector for each token: omma embed and omma rerank against what the official
computation gives (tests/data/vectors/tokens.npz), and the demo model's on drawings."""

import base64
import json
import pathlib
import sys

import numpy as np
import pytest

from omma_program import refused

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "tools"))
import token_vector_cases as cases
import train_demo_vectors

ITEMS = cases.items()
STORED = np.load(cases.DATA)
CASES = [(name, form) for name in cases.MODELS for form in cases.PREFIXES]


def official(name, form, index):
    item = ITEMS[index]
    same = "image" in item or item.get("document")
    return STORED[f"{name}/{'released' if same else form}/{index}"]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def model(request, tmp_path_factory):
    name, form = request.param
    return name, form, cases.make_model(tmp_path_factory.mktemp("tokens") / f"{name}-{form}", name, form)


def embed(omma, directory, output, items, *options):
    lines = [json.dumps({key: item[key] for key in ("text", "image") if key in item}) for item in items]
    done = omma("embed", directory, "--input", "-", "--output", output, "--dtype", "f32", *options, stdin="\n".join(lines).encode())
    assert done.returncode == 0, done.stderr.decode()
    vectors, offsets = np.load(output), np.load(output.with_suffix(".offsets.npy"))
    assert offsets[0] == 0 and len(offsets) == len(items) + 1 and offsets[-1] == len(vectors) and vectors.dtype == np.float32
    return [vectors[begin:end] for begin, end in zip(offsets[:-1], offsets[1:])]


def test_vectors_are_the_official_ones(omma, model, tmp_path):
    name, form, directory = model
    chosen = [index for index, item in enumerate(ITEMS) if not item.get("document")]
    found = embed(omma, directory, tmp_path / "a.npy", [ITEMS[index] for index in chosen])
    for index, vectors in zip(chosen, found):
        wanted = official(name, form, index)
        assert vectors.shape == wanted.shape, ITEMS[index]
        assert np.abs(vectors - wanted).max() < 1e-5, ITEMS[index]
    # The same bits alone, in small pieces, and on one thread.
    pieces = embed(omma, directory, tmp_path / "b.npy", [ITEMS[i] for i in chosen[::-1]], "--max-num-batched-tokens", "64", "--threads", "1")
    alone = embed(omma, directory, tmp_path / "c.npy", [ITEMS[chosen[-1]]])
    assert all(one.tobytes() == other.tobytes() for one, other in zip(found, pieces[::-1])) and alone[0].tobytes() == found[-1].tobytes()


def max_sim(query, document):
    return (query.astype(np.float64) @ document.astype(np.float64).T).max(axis=1).sum()


def test_scores_are_those_of_the_official_vectors(omma, model, tmp_path):
    name, form, directory = model
    lines = [json.dumps({key: item[key] for key in ("text", "image") if key in item}) for item in ITEMS if "image" in item or item.get("document")]
    wanted = [max_sim(official(name, form, 2), official(name, form, i)) for i, item in enumerate(ITEMS) if "image" in item or item.get("document")]
    done = omma("rerank", directory, "--query", ITEMS[2]["text"], "--input", "-", "--output", tmp_path / "s.npy", "--dtype", "f32",
                stdin="\n".join(lines).encode())
    assert done.returncode == 0, done.stderr.decode()
    assert np.abs(np.load(tmp_path / "s.npy") - wanted).max() < 1e-4
    ranking = omma("rerank", directory, "--query", ITEMS[2]["text"], "--input", "-", "--dtype", "f32", "--json", "--top-n", "3",
                   stdin="\n".join(lines).encode())
    assert [entry["index"] for entry in json.loads(ranking.stdout)["results"]] == list(np.argsort(wanted)[::-1][:3])


# Qwen3-VL's way to write a conversation, with END after the last message instead of a new line.
TEMPLATE = """{%- for message in messages -%}{{ '<|im_start|>' + message.role + '\n' }}{%- for part in message.content -%}
{{ part.text if part.type == 'text' else '<|vision_start|><|image_pad|><|vision_end|>' }}{%- endfor -%}{%- endfor -%}END"""


def last_state(omma, body, *options):
    """The last token's state after the final norm, of each input to a checkpoint without the layer;
    and the number of all their tokens."""
    line = {"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {**body, "use_activation": False}}
    done = omma("batch", cases.GOLDEN / "qwen3_vl_tied", "-i", "-", "-o", "-", "--runner", "pooling", "--dtype", "f32", *options,
                stdin=json.dumps(line).encode())
    assert done.returncode == 0, done.stderr.decode()
    reply = json.loads(done.stdout)["response"]["body"]
    return np.array([entry["embedding"] for entry in reply["data"]]), reply["usage"]["prompt_tokens"]


def test_a_class_that_transformers_lacks(omma, tmp_path):
    """ColQwen3's vectors are those that the layer makes of Qwen3-VL's states, each that of the last
    token of a prompt that ends there."""
    directory = cases.make_model(tmp_path / "m", "qwen3_vl_tied", "released")
    text, image = "a red circle and a dog", cases.IMAGES / "tile_64x64.png"
    query, page = embed(omma, directory, tmp_path / "a.npy", [{"text": text}, {"image": str(image)}])

    added = json.loads((directory / "tokenizer.json").read_text())["added_tokens"]
    [end_of_text] = [token["id"] for token in added if token["content"] == "<|endoftext|>"]
    ids = omma.json("tokenize", "--model", directory, "--text", text)["tokens"] + [end_of_text] * 10
    states, _ = last_state(omma, {"input": [ids[: i + 1] for i in range(len(ids))]})
    layer, bias = cases.make_layer(states.shape[1])

    def vectors(states):
        found = states @ layer.T.astype(np.float64) + bias
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    assert query.shape == (len(ids), cases.WIDTH) and np.abs(query - vectors(states)).max() < 1e-5

    url = {"url": "data:image/png;base64," + base64.b64encode(image.read_bytes()).decode()}
    ends = [("Describe the image.", "<|im_end|><|endoftext|>"), ("Describe the image.", "<|im_end|>"), ("Describe the image.", ""), ("Describe", "")]
    for i, (words, end) in enumerate(ends):
        (tmp_path / "template").write_text(TEMPLATE.replace("END", end))
        parts = [{"type": "image_url", "image_url": url}, {"type": "text", "text": words}]
        states, n = last_state(omma, {"messages": [{"role": "user", "content": parts}]}, "--chat-template", tmp_path / "template")
        assert i or n == len(page)
        assert np.abs(page[n - 1] - vectors(states)[0]).max() < 1e-5, (words, end)


def test_lines_and_refusals(omma, tmp_path):
    directory = cases.make_model(tmp_path / "m", "qwen2_5_vl_tied", "released")
    done = omma("embed", directory, "--text", "a", "--text", "b c", "--output", "-", "--dtype", "f32")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [len(line["embedding"][0]) for line in lines] == [cases.WIDTH] * 2
    image = next(item["image"] for item in ITEMS if "image" in item)
    for line, reason in (({"text": "a", "image": image}, "one text or one image"), ({"image": [image, image]}, "one text or one image"),
                         ({"text": "a", "instruction": "find"}, "takes none")):
        done = omma("embed", directory, "--input", "-", "--output", tmp_path / "x.npy", stdin=json.dumps(line).encode())
        assert done.returncode == 1 and reason in done.stderr.decode()
    # A document stands alone, so that an empty one has no token; a query has its suffix.
    for line in ("{}", '""', '{"text": ""}', '{"image": []}'):
        done = omma("rerank", directory, "--query", "a", "--input", "-", stdin=line.encode())
        assert done.returncode == 1 and "expected at least one token" in done.stderr.decode(), (line, done)
    done = omma("embed", directory, "--text", "", "--output", "-")
    assert done.returncode == 0 and json.loads(done.stdout)["embedding"]
    for words in (["embed", "--dimensions", "8"], ["embed", "--instruction", "find"], ["rerank", "--instruction", "find", "--query", "a"]):
        refused(omma(words[0], directory, *words[1:], "--text", "a", "--text", "b", "--output", "-"), 1, words[1])
    done = omma("chat", directory, "--prompt", "a")
    assert done.returncode != 0 and len(done.stderr.decode().strip().splitlines()) == 1


@pytest.mark.long
def test_the_demo_model_finds_what_is_asked_for(omma, tmp_path):
    """Measured: 0.92 and 0.34 (models/demo/README.md)."""
    found = train_demo_vectors.measure(pathlib.Path(omma.path), ROOT / "models" / "demo", tmp_path, 20_001, 200)
    assert found["things"] > 40 and found["thing"] > 0.8 and found["drawing"] > 0.2, found
