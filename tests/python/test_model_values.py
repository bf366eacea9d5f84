"""ommatidia.Model: values of Python that requests and options are made of, requests with several
answers, tokens. That answers are the server's: test_model.py."""

import asyncio
import copy
import io
import pickle
import tempfile
import warnings

import numpy as np
import pytest
from ommatidia import BadRequest, Model, Tower, _runtime, max_sim
from ommatidia.encoder import Encoder
from served import DEMO, GOLDEN, Served, answers

if not _runtime.LIBRARY_PATH.exists():
    pytest.skip("this package was built without libomma", allow_module_level=True)

CROSS, SHAPES = DEMO / "images" / "cross.png", DEMO / "images" / "shapes.png"
QUESTION = "What color is the cross?"


@pytest.fixture(scope="module")
def demo():
    with Model(threads=2) as model:
        yield model


@pytest.fixture(scope="module")
def server(request):
    served = Served(request.config, DEMO, "--threads", 2)
    yield served
    served.stop()


def test_an_opened_file_is_an_image(demo):
    expected = demo.chat(QUESTION, image=CROSS, temperature=0)
    with tempfile.NamedTemporaryFile() as named, CROSS.open("rb") as opened:
        named.write(CROSS.read_bytes())
        named.seek(0)
        for file in (io.BytesIO(CROSS.read_bytes()), opened, named):
            assert demo.chat(QUESTION, image=file, temperature=0).text == expected.text
    assert demo.embed(io.BytesIO(CROSS.read_bytes())).tobytes() == demo.embed(CROSS).tobytes()
    with CROSS.open("rb") as opened, pytest.raises(TypeError, match="^images: expected a sequence, found BufferedReader; a single one"):
        demo.chat(QUESTION, images=opened)
    with pytest.raises(TypeError, match="found StringIO$"):
        demo.chat(QUESTION, image=io.StringIO("a"))
    with pytest.raises(TypeError, match="found list; several are given as images$"):
        demo.chat(QUESTION, image=[CROSS, SHAPES])


def test_a_stack_of_pixels_is_several_inputs(demo):
    pixels = np.random.default_rng(1).integers(0, 256, (2, 64, 64, 3), np.uint8)
    assert [one.tobytes() for one in demo.embed(pixels)] == [demo.embed(image).tobytes() for image in pixels]
    assert np.array_equal(demo.score("a", pixels), demo.score("a", list(pixels)))
    assert len(Tower(DEMO, "float32").preprocess(pixels).grid_thw) == 2


def test_a_string_that_is_a_path_is_a_text_and_said_so(demo):
    part = [{"role": "user", "content": [str(CROSS), QUESTION]}]
    for ask in (lambda: demo.embed([str(CROSS)]), lambda: demo.score("a", [str(CROSS)]), lambda: demo.chat(part, max_tokens=1)):
        with pytest.warns(UserWarning, match=r"cross\.png' is taken as a text; an image's path is given as pathlib\.Path"):
            ask()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        demo.embed(["none such.png", "a.png\0", "a" * 500 + ".png", CROSS])


def test_numbers_of_numpy_are_numbers(demo):
    found = demo.chat(QUESTION, image=CROSS, max_tokens=np.int64(3), temperature=np.float32(0), stop_token_ids=np.array([1]))
    assert found.usage.completion_tokens == 3
    ids = demo.tokenize("a red circle")
    assert demo.complete(np.array(ids), max_tokens=2, temperature=0).text == demo.complete("a red circle", max_tokens=2, temperature=0).text


@pytest.mark.parametrize("fields, kind, line", [
    ({"temperature": object()}, TypeError, "temperature: expected what JSON has, found object"),
    ({"temperature": float("nan")}, ValueError, "temperature: expected finite numbers$"),
    ({"stop": {1, 2}}, TypeError, "stop: expected what JSON has, found set"),
    ({"system": "a\ud800"}, ValueError, "messages: expected text, found half of a character"),
])
def test_what_json_does_not_have_is_named(demo, fields, kind, line):
    with pytest.raises(kind, match=f"^{line}"):
        demo.chat("a", **fields)


@pytest.mark.parametrize("options, kind, line", [
    ({"kv_cache_bytes": "1GiB"}, TypeError, "kv_cache_bytes: expected an integer, found '1GiB'"),
    ({"max_model_len": 1e3}, TypeError, "max_model_len: expected an integer, found 1000.0"),
    ({"max_model_len": 0}, ValueError, "max_model_len: expected at least 1, found 0"),
    ({"threads": (1 << 32) + 1}, ValueError, "threads: expected at most 2147483647, found 4294967297"),
    ({"threads": 2000}, ValueError, "threads: expected 1 to 1024, found 2000"),
    ({"max_num_seqs": -1}, ValueError, "max_num_seqs: expected at least 1, found -1"),
    ({"seed": -1}, ValueError, "seed: expected at least 0, found -1"),
    ({"min_pixels": 20000, "max_pixels": 10000}, ValueError, "min_pixels: expected at most max_pixels, which is 10000, found 20000"),
    ({"allowed_media_domains": "example.org"}, TypeError, "allowed_media_domains: expected a sequence, found str"),
    ({"allowed_media_domains": [3]}, TypeError, "allowed_media_domains: expected strings, found 3"),
    ({"quantization": 8}, TypeError, "quantization: expected a string, found 8"),
    ({"mmproj": 4}, TypeError, "mmproj: expected a string, found 4"),
    ({"task": ["embed"]}, ValueError, "task: expected one of auto, generate, embed, score, found ['embed']"),
    ({"trust_family_chat_template": "x"}, TypeError, "trust_family_chat_template: expected True or False, found 'x'"),
    ({"override_generation_config": {"a": {1}}}, TypeError, "override_generation_config: expected what JSON has, found set"),
])
def test_an_option_that_is_wrong_is_named(options, kind, line):
    with pytest.raises(kind) as raised:
        Model(DEMO, **options)
    assert str(raised.value).startswith(line) and "\n" not in str(raised.value)


@pytest.mark.parametrize("model", [3, b"x", "", ["demo"]])
def test_a_model_that_is_no_path_is_named(model):
    with pytest.raises(TypeError, match="^model: expected a path or a name, found "):
        Model(model)


ROWS = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize("ask, kind, line", [
    (lambda demo: demo.embed({"text": 3}), TypeError, "text: expected a string, found int"),
    (lambda demo: demo.embed({"video": 3}), TypeError, "video: expected a sequence of images, its frames"),
    (lambda demo: demo.chat("a", video=[]), ValueError, "video: expected at least one frame"),
    (lambda demo: demo.embed("a", instruction="b"), BadRequest, "instruction: a model with a vector"),
    (lambda demo: demo.embed(b"no image"), BadRequest, "cannot identify image"),
    (lambda demo: demo.embed({"images": [CROSS, b"no image"]}), BadRequest, "part 2: cannot identify image"),
    (lambda demo: demo.score(None, ["a"]), TypeError, "query: expected a text, an image"),
    (lambda demo: demo.score(b"no image", ["a"]), BadRequest, "query: cannot identify image"),
    (lambda demo: demo.score("a", ["a", 3]), TypeError, "documents[1]: expected a text, an image"),
    (lambda demo: demo.rerank("a", ["b"], top_n="x"), TypeError, "top_n: expected an integer, found 'x'"),
    (lambda demo: demo.batch(["a"], stream=True), TypeError, "stream: a batch gives whole answers"),
    (lambda demo: demo.batch([{"prompt": "a", "messages": "b"}]), TypeError, "requests[0]: prompt: messages is given already"),
    (lambda demo: demo.request(3, {}), TypeError, "path: expected a string, found int"),
    (lambda demo: demo.request("/tokenize", [1]), TypeError, "body: expected a dict of fields by their names, found [1]"),
    (lambda demo: demo.request("/tokenize", {3: 1}), TypeError, "body: expected a dict of fields by their names, found {3: 1}"),
    (lambda demo: demo.request("/v1/completions", {"prompt": "a", "stream": True, "max_tokens": 1}), ValueError, "expected a reply in JSON"),
    (lambda demo: demo.request("/pooling", {"input": "a", "encoding_format": "bytes_only"}), ValueError, "expected a reply in JSON"),
    (lambda demo: max_sim(3, ROWS), TypeError, "query: expected an array [n_tokens, width], found int"),
    (lambda demo: max_sim(ROWS, ROWS[0]), TypeError, "document: expected an array [n_tokens, width], found [3]"),
    (lambda demo: max_sim(ROWS, ROWS[:, :2]), ValueError, "document: expected [at least 1, 3], found [2, 2]"),
    (lambda demo: max_sim(ROWS, ROWS[:0]), ValueError, "document: expected [at least 1, 3], found [0, 3]"),
])
def test_an_argument_that_is_wrong_is_named(demo, ask, kind, line):
    with pytest.raises(kind) as raised:
        ask(demo)
    assert str(raised.value).startswith(line) and "\n" not in str(raised.value)


def test_a_model_for_answers_says_how_it_gives_vectors():
    with Model(GOLDEN / "qwen3_vl_tied") as model:
        for ask, task in ((lambda: model.embed("a"), "embed"), (lambda: model.embed(["a"], return_exceptions=True), "embed"),
                          (lambda: model.score("a", ["b"]), "score")):
            with pytest.raises(BadRequest, match=rf'^the model generates text; .*; Model\(\.\.\., task="{task}"\) asks this one for them$'):
                ask()
    with Model(GOLDEN / "qwen3_vl_tied", task="embed") as model:
        assert model.embed("a").ndim == 1


def test_a_model_is_not_copied(demo):
    for away in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="neither copied nor sent to another process"):
            away(demo)
    answer = demo.chat("a", max_tokens=1)
    assert pickle.loads(pickle.dumps(answer)) == answer


def test_an_error_says_which_of_many(demo, tmp_path):
    (bad := tmp_path / "bad.png").write_bytes(b"no image")
    for ask, place in (
        (lambda: demo.embed([CROSS, "a", bad]), r"inputs\[2\]: cannot"),
        (lambda: demo.score("a", [CROSS] * 17 + [bad]), r"documents\[17\]: cannot"),
        (lambda: demo.batch(["a", {"prompt": "a", "image": bad}]), r"requests\[1\]: messages\[0\]"),
        (lambda: asyncio.run(demo.abatch(["a", {"prompt": "a", "image": bad}])), r"requests\[1\]: messages\[0\]"),
    ):
        with pytest.raises(BadRequest, match=f"^{place}.*identify image") as raised:
            ask()
        again = pickle.loads(pickle.dumps(raised.value))
        assert type(again) is BadRequest
        assert (str(again), again.status, again.param) == (str(raised.value), raised.value.status, raised.value.param)
    with pytest.raises(ValueError, match="^inputs\\[1\\]: expected text, image, images or video, found 'photo'$"):
        demo.embed(["a", {"photo": CROSS}])
    with pytest.raises(ValueError, match="^top_n: expected at least 0, found -1$"):
        demo.rerank("a", ["b"], top_n=-1)


def test_an_encoder_is_on_the_cpu(demo):
    with Encoder(demo, device="cpu") as encoder:
        assert encoder.encode("a", device="cpu").tobytes() == demo.embed("a").tobytes()
        for ask in (lambda: Encoder(demo, device="cuda"), lambda: encoder.encode("a", device="cuda")):
            with pytest.raises(ValueError, match="^device: expected cpu, found 'cuda'$"):
                ask()


# ---- several answers ----


def test_all_answers_of_a_request_are_there(demo, server):
    fields = {"messages": [{"role": "user", "content": "What?"}], "n": 3, "seed": 1, "temperature": 2, "max_tokens": 4}
    mine, (_, theirs) = demo.chat(**fields), server.post("/v1/chat/completions", fields)
    assert answers(mine.raw) == answers(theirs)
    assert [answer.text for answer in mine.choices] == [choice["message"]["content"] for choice in theirs["choices"]]
    assert [answer.message["content"] for answer in mine.choices] == [answer.text for answer in mine.choices]
    assert mine.choices[0] is mine and len({answer.text for answer in mine.choices}) > 1
    assert mine.usage.total_tokens == theirs["usage"]["total_tokens"]
    texts = ["", "", ""]
    for piece in demo.chat(**fields, stream=True):
        texts[piece.index] += piece.text
    assert texts == [answer.text for answer in mine.choices]


def test_each_of_several_answers_is_parsed(demo):
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"], "additionalProperties": False}
    found = demo.chat("?", response_format=schema, n=2, seed=1, temperature=1)
    assert [isinstance(answer.parsed["yes"], bool) for answer in found.choices] == [True, True]


def test_completions_of_several_texts_and_as_a_stream(demo, server):
    fields = {"prompt": ["The cross", "a"], "max_tokens": 5, "temperature": 0, "logprobs": 1}
    mine, (_, theirs) = demo.complete(**fields), server.post("/v1/completions", fields)
    assert answers(mine.raw) == answers(theirs)
    assert [answer.text for answer in mine.choices] == [choice["text"] for choice in theirs["choices"]]
    alone = {**fields, "prompt": "The cross"}
    pieces = list(demo.complete(**alone, stream=True))
    whole = demo.complete(**alone)
    assert "".join(map(str, pieces)) == whole.text == mine.text
    assert sum((piece.logprobs or () for piece in pieces), ()) == whole.logprobs
    assert pieces[-1].usage.completion_tokens == 5

    async def ask():
        return "".join([str(piece) async for piece in await demo.acomplete(**alone, stream=True)])

    assert asyncio.run(ask()) == whole.text


def test_answers_are_formatted_as_their_texts(demo):
    answer = demo.chat(QUESTION, image=CROSS, temperature=0)
    assert f"{answer:>22}|{answer}" == "  The cross is orange.|The cross is orange."
    assert "".join(f"{piece:s}" for piece in demo.chat(QUESTION, image=CROSS, temperature=0, stream=True)) == answer.text


# ---- tokens ----


def test_tokens_are_the_server_s(demo, server):
    text = "Is there a cross? Größe 漢字"
    ids = demo.tokenize(text)
    assert ids == server.post("/tokenize", {"prompt": text})[1]["tokens"] and demo.detokenize(ids) == text
    assert demo.detokenize(np.array(ids)) == text
    message = {"role": "user", "content": [CROSS, QUESTION]}
    assert len(demo.tokenize([message])) == demo.chat([message], max_tokens=1).usage.prompt_tokens
    with pytest.raises(TypeError, match="^messages: expected a sequence, found dict; a message stands in a list$"):
        demo.tokenize(message)
    assert demo.max_model_len == demo.info()["max_model_len"] == 2048


# ---- towers ----


def test_a_tower_is_found_as_a_model_is(tmp_path):
    tower, named = Tower(DEMO, "float32"), Tower("demo", "float32")
    assert "share/ommatidia/demo" in repr(named) or "models/demo" in repr(named)
    pixels = np.full((64, 64, 3), 90, np.uint8)
    listed = tower.encode([pixels])
    for image in (pixels, CROSS, str(CROSS)):
        [found] = named.encode(image)
        [expected] = listed if image is pixels else tower.encode([image])
        assert found.tobytes() == expected.tobytes()
    with pytest.raises(FileNotFoundError, match="nothing is downloaded"):
        Tower(tmp_path / "none")
