"""ommatidia.Model: answers in the process, equal to the server's bit for bit; what Python gives and
gets; errors, threads, interrupts, forks, and that nothing is left of what was given up."""

import asyncio
import base64
import enum
import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import ommatidia
import pytest
from gil import turns_while
from ommatidia import BadRequest, Model, RequestError, _fields, _media, _runtime
from served import DEMO, GOLDEN, IMAGES, ROOT, TREE, Served, answers

if not _runtime.LIBRARY_PATH.exists():
    pytest.skip("this package was built without libomma", allow_module_level=True)

CROSS = DEMO / "images" / "cross.png"
QUESTION = "What color is the cross?"
TEMPLATE = ROOT / "tests" / "data" / "chat" / "templates" / "qwen3_vl_instruct.jinja"
ENDLESS = {"ignore_eos": True, "temperature": 0}


@pytest.fixture(scope="module")
def demo():
    with Model(threads=2) as model:
        yield model


def settle(model):
    """Waits until the engine has nothing left to do."""
    deadline = time.monotonic() + 30
    while (stats := model.stats())["n_running"] + stats["n_waiting"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert stats["n_running"] == stats["n_waiting"] == 0
    return stats


# ---- equal to the server ----

REQUESTS = {
    "text": {"messages": [{"role": "user", "content": "What is this?"}]},
    "sampled": {"messages": [{"role": "user", "content": "What is this?"}], "temperature": 1.5, "seed": 7},
    "image": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": CROSS}}, {"type": "text", "text": QUESTION}]}]},
    "top": {"messages": [{"role": "user", "content": "What?"}], "top_logprobs": 3, "max_tokens": 5, "repetition_penalty": 1.3},
    "choices": {"messages": [{"role": "user", "content": "What?"}], "n": 3, "seed": 1, "temperature": 2, "max_tokens": 4},
    "schema": {"messages": [{"role": "user", "content": "?"}], "response_format": {"type": "json_schema", "json_schema": {
        "name": "a", "schema": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}}}},
}


@pytest.fixture(scope="module", params=["demo", "qwen3_vl_tied"])
def pair(request):
    path = DEMO if request.param == "demo" else GOLDEN / request.param
    server = Served(request.config, path, "--threads", 2)
    with Model(path, threads=2) as model:
        yield model, server
    server.stop()


@pytest.mark.parametrize("name", REQUESTS)
def test_answers_are_the_server_s_bit_for_bit(pair, name):
    model, server = pair
    fields = {"logprobs": True, "return_token_ids": True, "max_tokens": 12, "seed": 3, **REQUESTS[name]}
    mine = model.chat(**fields)
    as_sent = {**fields, "messages": [_media.message_of(message) for message in fields["messages"]]}
    status, theirs = server.post("/v1/chat/completions", as_sent)
    assert status == 200
    assert answers(mine.raw) == answers(theirs)
    choice = theirs["choices"][0]
    assert mine.text == (choice["message"]["content"] or "") and list(mine.token_ids) == choice["token_ids"]
    assert [entry.logprob for entry in mine.logprobs] == [entry["logprob"] for entry in choice["logprobs"]["content"]]
    assert mine.usage.completion_tokens == theirs["usage"]["completion_tokens"]


def test_a_stream_has_the_bits_of_the_whole_answer(pair):
    model, _ = pair
    fields = {"messages": REQUESTS["image"]["messages"], "logprobs": True, "max_tokens": 12, "return_token_ids": True, "seed": 4}
    whole, pieces = model.chat(**fields), list(model.chat(**fields, stream=True))
    assert "".join(map(str, pieces)) == whole.text == str(whole)
    assert sum((piece.logprobs or () for piece in pieces), ()) == whole.logprobs
    assert sum((piece.token_ids or () for piece in pieces), ()) == whole.token_ids
    assert pieces[-2].finish_reason == whole.finish_reason
    assert pieces[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_completions_and_other_endpoints_are_the_server_s(pair):
    model, server = pair
    fields = {"prompt": "a b", "max_tokens": 6, "logprobs": 2, "temperature": 0}
    mine, (_, theirs) = model.complete(**fields), server.post("/v1/completions", fields)
    assert answers(mine.raw) == answers(theirs)
    assert [entry.logprob for entry in mine.logprobs] == theirs["choices"][0]["logprobs"]["token_logprobs"]
    assert model.request("/tokenize", {"prompt": "a b"}) == server.post("/tokenize", {"prompt": "a b"})[1]


def test_tool_calls_are_the_server_s(request):
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"enum": ["Köln", "Rome"]}}, "required": ["city"], "additionalProperties": False}}}]
    fields = {"messages": [{"role": "user", "content": "What weather?"}], "tools": tools, "tool_choice": "required",
              "seed": 1, "max_tokens": 300}
    path = GOLDEN / "qwen3_vl_tied"
    server = Served(request.config, path, "--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--chat-template", TEMPLATE)
    with Model(path, tool_call_parser="hermes", chat_template=TEMPLATE) as model:
        mine, (status, theirs) = model.chat(**fields), server.post("/v1/chat/completions", fields)
        assert status == 200 and mine.finish_reason == "tool_calls"
        assert answers(mine.raw) == answers(theirs)
        called = mine.tool_calls[0]
        assert called.name == "weather" and called.parsed()["city"] in ("Köln", "Rome")
        added = [delta for piece in model.chat(**fields, stream=True) for delta in piece.tool_calls]
        assert added[0]["function"]["name"] == "weather" and {delta["index"] for delta in added} == {0}
        assert "".join(delta["function"].get("arguments", "") for delta in added) == called.arguments
        answered = model.chat([*fields["messages"], mine.message, {"role": "tool", "tool_call_id": called.id, "content": "rain"}], max_tokens=4)
        assert answered.usage.completion_tokens == 4
    server.stop()


def test_errors_are_the_server_s(pair):
    model, server = pair
    for fields in ({"temperature": -3}, {"max_tokens": "many"}, {"messages": []}, {"response_format": {"type": "json_schema"}}):
        sent = {"messages": [{"role": "user", "content": "a"}], **fields}
        status, theirs = server.post("/v1/chat/completions", sent)
        with pytest.raises(BadRequest) as raised:
            model.request("/v1/chat/completions", sent)
        assert (raised.value.status, str(raised.value), raised.value.param) == (status, theirs["error"]["message"], theirs["error"]["param"])
        with pytest.raises(ValueError, match=".") as streamed:
            list(model.chat(**sent, stream=True))
        assert str(streamed.value) == str(raised.value)


# ---- what Python gives and gets ----


def test_every_form_of_an_image_gives_the_same_answer(demo):
    pil = pytest.importorskip("PIL.Image")
    opened = pil.open(CROSS)
    rgb = np.asarray(opened.convert("RGB"))
    url = "data:image/png;base64," + base64.b64encode(CROSS.read_bytes()).decode()
    forms = [CROSS, str(CROSS), f"file://{CROSS}", CROSS.read_bytes(), bytearray(CROSS.read_bytes()), url, opened, rgb,
             np.dstack([rgb, np.full(rgb.shape[:2], 255, np.uint8)]), opened.convert("RGBA"), np.asfortranarray(rgb)]
    expected = demo.chat(QUESTION, image=CROSS, logprobs=True, temperature=0)
    assert str(expected) == "The cross is orange."
    for form in forms:
        assert demo.chat(QUESTION, image=form, logprobs=True, temperature=0) == Same(expected)
    for part in ({"type": "image", "image": rgb}, {"type": "image_pil", "image_pil": opened}, {"type": "image_url", "image_url": CROSS}, rgb):
        found = demo.chat([{"role": "user", "content": [part, QUESTION]}], logprobs=True, temperature=0)
        assert found == Same(expected)


class Same:
    """Equal in all that was generated."""

    def __init__(self, answer):
        self.answer = answer

    def __eq__(self, other):
        return (other.text, other.logprobs, other.finish_reason) == (self.answer.text, self.answer.logprobs, self.answer.finish_reason)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 2), (5, 7, 3), (5, 7, 4)])
def test_pixels_become_png_without_loss(shape):
    pil = pytest.importorskip("PIL.Image")
    import io

    pixels = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    read = np.asarray(pil.open(io.BytesIO(_media.png_of(pixels))))
    assert np.array_equal(read.reshape(shape), pixels)


@pytest.mark.parametrize("ask, line", [
    (lambda model: model.chat("a", images="cat.jpg"), "images: expected a sequence, found str; a single one is given as image"),
    (lambda model: model.chat("a", images=np.zeros((8, 8, 3), np.uint8)), "images: expected a sequence, found ndarray; a single one is given as image"),
    (lambda model: model.chat(["a", "b"]), "messages: expected dicts with role and content, found str"),
    (lambda model: model.chat({"role": "user", "content": "a"}), "messages: expected a sequence, found dict; a message stands in a list"),
    (lambda model: model.chat(3), "messages: expected a sequence, found int; a message stands in a list"),
    (lambda model: model.batch("a"), "requests: expected a sequence, found str; a single one is for chat"),
    (lambda model: model.batch(None), "requests: expected a sequence, found NoneType; a single one is for chat"),
    (lambda model: model.embed(None), "inputs: expected a sequence, found NoneType"),
    (lambda model: model.embed({"images": "cat.jpg"}), "images: expected a sequence, found str; a single one is given as image"),
    (lambda model: model.score("a", 3), "documents: expected a sequence, found int"),
])
def test_one_is_not_taken_for_several(demo, ask, line):
    """A path has characters and an image has rows: they are not images."""
    with pytest.raises(TypeError) as raised:
        ask(demo)
    assert str(raised.value) == line


def test_a_stack_of_pixels_is_several_images(demo):
    pixels = np.zeros((2, 32, 32, 3), np.uint8)
    assert demo.chat("a", images=pixels, max_tokens=1).usage == demo.chat("a", images=list(pixels), max_tokens=1).usage


def test_what_is_no_image_is_refused(demo):
    for wrong, kind in ((np.zeros((3, 3)), TypeError), (np.zeros((3, 3, 5), np.uint8), ValueError), (3, TypeError),
                        ("/no/such/file.png", FileNotFoundError), (b"no image", BadRequest)):
        with pytest.raises(kind):
            demo.chat("a", image=wrong)
    with pytest.raises(ValueError, match="messages"):
        demo.chat([{"role": "user", "content": "a"}], image=CROSS)
    with pytest.raises(BadRequest, match="fetches no images"):
        demo.chat("a", image="https://example.org/a.png")


def test_a_video_is_its_frames(demo):
    frames = [np.full((32, 32, 3), 40 * n, np.uint8) for n in range(4)]
    found = demo.chat("What?", video=frames, max_tokens=2)
    assert found.usage.prompt_tokens > demo.chat("What?", max_tokens=2).usage.prompt_tokens
    same = demo.chat([{"role": "user", "content": [{"type": "video", "video": frames}, "What?"]}], max_tokens=2)
    assert same.usage.prompt_tokens == found.usage.prompt_tokens
    with pytest.raises(TypeError, match="frames"):
        demo.chat("What?", video="a.mp4")


def test_a_pydantic_model_is_filled(demo):
    pydantic = pytest.importorskip("pydantic")

    class Color(str, enum.Enum):
        red = "red"
        orange = "orange"

    class Shape(pydantic.BaseModel):
        color: Color

    answer = demo.chat(QUESTION, image=CROSS, response_format=Shape, temperature=0)
    assert isinstance(answer.parsed, Shape) and answer.parsed == Shape.model_validate_json(answer.text)
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"], "additionalProperties": False}
    assert isinstance(demo.chat("?", response_format=schema, temperature=0).parsed["yes"], bool)
    with pytest.raises(ValueError, match="cut off after 2 tokens"):
        demo.chat("?", response_format=schema, max_tokens=2)
    with pytest.raises(TypeError, match="pydantic"):
        demo.chat("?", response_format=int)


def test_a_batch_is_in_order_and_equal_to_one_by_one(demo, capsys):
    requests = ["What is this?", {"prompt": QUESTION, "image": CROSS}, [{"role": "user", "content": "What?"}], {"messages": "x", "max_tokens": 1}] * 40
    found = demo.batch(iter(requests), temperature=0, max_tokens=6, logprobs=True)
    alone = [demo.chat("What is this?", temperature=0, max_tokens=6, logprobs=True),
             demo.chat(QUESTION, image=CROSS, temperature=0, max_tokens=6, logprobs=True),
             demo.chat("What?", temperature=0, max_tokens=6, logprobs=True),
             demo.chat("x", temperature=0, max_tokens=1, logprobs=True)]
    assert len(found) == 160 and all(answer == Same(alone[index % 4]) for index, answer in enumerate(found))
    assert demo.batch([]) == []
    failed = demo.batch(["a", {"prompt": "a", "temperature": -1}, "b"], max_tokens=1, return_exceptions=True)
    assert [isinstance(answer, RequestError) for answer in failed] == [False, True, False]
    assert str(failed[1]).startswith("requests[1]: ")
    with pytest.raises(BadRequest, match="temperature"):
        demo.batch(["a", {"prompt": "a", "temperature": -1}], ignore_eos=True)
    settle(demo)


def test_a_stream_keeps_its_model_open(demo):
    """Nothing else refers to it, and it is freed once the stream has ended or is closed."""
    fields = {"temperature": 0, "max_tokens": 6, "stream": True}
    alone = demo.chat("What is this?", **{**fields, "stream": False}).text

    async def awaited():
        stream = await Model(demo.path).achat("What is this?", **fields)
        gc.collect()
        return "".join([piece.text async for piece in stream]), stream

    stream, left = Model(demo.path).chat("What is this?", **fields), Model(demo.path).chat("What is this?", **fields)
    gc.collect()
    assert "".join(piece.text for piece in stream) == alone
    found, ended = asyncio.run(awaited())
    assert found == alone
    left.close()
    assert all(done._model is None for done in (stream, ended, left))


def test_a_request_that_cannot_be_made_is_one_of_the_exceptions(demo, tmp_path):
    requests = ["a", {"prompt": "a", "image": tmp_path / "none.png"}, {"prompt": "a", "max_token": 3}, {"prompt": "a", "stream": True}, "b"]
    found = demo.batch(requests, max_tokens=1, return_exceptions=True)
    assert [type(answer) for answer in found[1:4]] == [FileNotFoundError, TypeError, TypeError]
    assert found[0] == Same(demo.chat("a", max_tokens=1)) and found[4] == Same(demo.chat("b", max_tokens=1))
    with pytest.raises(FileNotFoundError):
        demo.batch(requests, max_tokens=1)
    settle(demo)


MISSPELT = {
    "chat": lambda model: model.chat("a", max_token=3),
    "stream": lambda model: model.chat("a", stream=True, max_token=3),
    "complete": lambda model: model.complete("a", max_token=3),
    "batch": lambda model: model.batch(["a"], max_token=3),
    "batch_of_none": lambda model: model.batch([], max_token=3, return_exceptions=True),
    "row": lambda model: model.batch(["a", {"prompt": "a", "max_token": 3}]),
    "achat": lambda model: asyncio.run(model.achat("a", max_token=3)),
    "astream": lambda model: asyncio.run(model.achat("a", stream=True, max_token=3)),
    "acomplete": lambda model: asyncio.run(model.acomplete("a", max_token=3)),
    "abatch": lambda model: asyncio.run(model.abatch(["a", {"prompt": "a", "max_token": 3}])),
}


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_name_is_refused(demo, name):
    place = r"requests\[1\]: " if name in ("row", "abatch") else ""
    with pytest.raises(TypeError, match=f"^{place}unexpected keyword argument 'max_token': did you mean 'max_tokens'\\?$"):
        MISSPELT[name](demo)
    settle(demo)


def test_a_name_like_no_other_is_refused(demo):
    with pytest.raises(TypeError, match="^unexpected keyword argument 'zzz'; the fields of requests are those of docs/serve.md$"):
        demo.chat("a", zzz=1)
    with pytest.raises(TypeError, match="did you mean 'image'"):
        demo.chat("a", imge=CROSS)
    with pytest.raises(TypeError, match="unexpected keyword argument 'messages'"):
        demo.complete("a", messages=[])
    with pytest.raises(TypeError, match="'text': did you mean 'messages'"):
        demo.batch([{"text": "a"}])


def test_nothing_to_answer(demo):
    with pytest.raises(TypeError, match="^messages: expected a text or messages, found None$"):
        demo.chat(None)
    assert demo.chat(None, image=CROSS, max_tokens=1).usage.prompt_tokens > 1


def test_the_names_are_those_that_the_server_reads(pair):
    _, server = pair
    paths = server.process.request("GET", "/openapi.json").json["paths"]
    for path, names in (("/v1/chat/completions", _fields.CHAT_FIELDS), ("/v1/completions", _fields.COMPLETION_FIELDS)):
        schema = paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert names == set(schema["properties"]), path


def test_progress_is_shown_where_tqdm_is(demo, capsys, monkeypatch):
    pytest.importorskip("tqdm")
    demo.batch(["a", "b"], max_tokens=1)
    assert "2/2" in capsys.readouterr().err
    demo.batch(["a", "b"], max_tokens=1, use_tqdm=False)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    demo.batch(["a", "b"], max_tokens=1)
    assert capsys.readouterr().err == ""


# ---- asyncio ----


def test_async_twins(demo):
    async def ask():
        stream = await demo.achat(QUESTION, image=CROSS, temperature=0, stream=True)
        text = "".join([str(piece) async for piece in stream])
        many = await asyncio.gather(*(demo.achat(QUESTION, image=CROSS, temperature=0) for _ in range(40)))
        tokens = await demo.arequest("/tokenize", {"prompt": "a b"})
        assert tokens == demo.request("/tokenize", {"prompt": "a b"})
        return text, {str(answer) for answer in many}, await demo.abatch([QUESTION] * 3, max_tokens=1), await demo.acomplete("a", max_tokens=1)

    text, texts, batch, completed = asyncio.run(ask())
    assert text == "The cross is orange." and texts == {text}
    assert len(batch) == 3 and completed.usage.completion_tokens == 1


def test_a_cancelled_task_ends_its_answer(demo):
    async def ask():
        # On a fast machine one alone has its 2,036 tokens in a fifth of a second.
        tasks = [asyncio.create_task(demo.achat("a", **ENDLESS)) for _ in range(4)]
        stream = await demo.achat("a", stream=True, **ENDLESS)
        await anext(stream)
        for _ in range(5000):
            if demo.stats()["n_running"] == 5:
                break
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with pytest.raises(asyncio.CancelledError):
                await task
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    before = settle(demo)["n_finished"][2]
    asyncio.run(ask())
    assert settle(demo)["n_finished"][2] == before + 5


# ---- threads, interrupts, forks, the end ----


def test_threads_share_one_engine(demo):
    found = []

    def ask():
        found.append(str(demo.chat(QUESTION, image=CROSS, temperature=0)))

    threads = [threading.Thread(target=ask) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["The cross is orange."] * 24


def test_waiting_releases_the_gil(demo):
    assert turns_while(lambda: demo.chat("a", max_tokens=300, **ENDLESS)) > 100


@pytest.fixture
def interrupts():
    """Python's own handler: a program that a shell started in the background ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_the_answer_and_not_the_model(demo, interrupts):
    before = settle(demo)["n_finished"][2]
    calls = (lambda: demo.chat("a", **ENDLESS), lambda: list(demo.chat("a", stream=True, **ENDLESS)), lambda: demo.batch(["a"] * 3, use_tqdm=False, **ENDLESS))
    for call in calls:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            call()
        timer.join()
    gc.collect()
    assert settle(demo)["n_finished"][2] > before
    assert str(demo.chat(QUESTION, image=CROSS, temperature=0)) == "The cross is orange."


def test_a_stream_that_is_left_ends(demo):
    before = settle(demo)["n_finished"][2]
    with demo.chat("a", stream=True, **ENDLESS) as stream:
        next(stream)
    assert list(stream) == []
    for piece in demo.chat("a", stream=True, **ENDLESS):
        if piece.text:
            break
    gc.collect()
    assert settle(demo)["n_finished"][2] == before + 2


def test_a_forked_process_gets_an_error(demo):
    stream = demo.chat("a", stream=True, **ENDLESS)
    next(stream)
    child = os.fork()
    if not child:
        code = 1
        try:
            demo.chat("a")
        except RuntimeError as error:
            code = 0 if "forked process" in str(error) and "another process" in repr(demo) else 2
            demo.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert next(stream) is not None
    stream.close()


def test_closing_ends_what_runs():
    model = Model(threads=1)
    raised = []

    def ask():
        try:
            model.chat("a", **ENDLESS)
        except RuntimeError as error:
            raised.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    stream = model.chat("a", stream=True, **ENDLESS)
    next(stream)
    while model.stats()["n_running"] < 4:
        time.sleep(0.001)
    model.close()
    model.close()
    for thread in threads:
        thread.join()
    assert raised == ["the model was closed while it answered"] * 3
    with pytest.raises(RuntimeError, match="closed"):
        list(stream)
    for call in (lambda: model.chat("a"), model.stats, model.info):
        with pytest.raises(RuntimeError, match="this model is closed"):
            call()
    assert "closed" in repr(model)


def test_a_program_may_end_at_any_time():
    """With a stream that is open, a thread that waits, and a model that is not closed."""
    code = f"""
        import contextlib, threading
        from ommatidia import Model
        model = Model({str(DEMO)!r})
        stream = model.chat("a", stream=True, ignore_eos=True)
        next(stream)
        def ask():
            with contextlib.suppress(RuntimeError):  # the model was closed while it answered
                model.chat("a", ignore_eos=True)
        threading.Thread(target=ask, daemon=True).start()
        print("ended")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env={**os.environ, "PYTHONPATH": str(TREE.parent)},
                          capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


# ---- opening ----


def test_what_cannot_be_opened_is_one_line(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing is downloaded"):
        Model(tmp_path / "none")
    with pytest.raises(ValueError, match=r"config\.json"):
        Model(tmp_path)
    for fields, named in (({"dtype": "int8"}, "dtype"), ({"quantization": "int3"}, "int3"), ({"task": "sing"}, "task"),
                          ({"reasoning_parser": "none such"}, "none such"), ({"tool_call_parser": "none such"}, "none such")):
        with pytest.raises((ValueError, NotImplementedError), match=named) as raised:
            Model(DEMO, **fields)
        assert "\n" not in str(raised.value)


def test_a_model_of_the_hub_s_cache_is_found(tmp_path, monkeypatch):
    folder = tmp_path / "models--someone--demo"
    (folder / "snapshots").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc\n")
    (folder / "snapshots" / "abc").symlink_to(DEMO)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--other--Tiny-Instruct").symlink_to(folder)
    assert ommatidia._paths.find_model("TINY") == tmp_path / "models--other--Tiny-Instruct" / "snapshots" / "abc"
    assert ommatidia._paths.find_model("tiny-instruct") == ommatidia._paths.find_model("other/Tiny-Instruct")
    (tmp_path / "models--third--tiny-instruct").symlink_to(folder)
    with pytest.raises(ValueError, match="other/Tiny-Instruct, third/tiny-instruct"):
        ommatidia._paths.find_model("tiny")
    with pytest.raises(FileNotFoundError, match="huge"):
        ommatidia._paths.find_model("huge")
    with Model("someone/demo", max_model_len=256, max_num_seqs=2) as model:
        assert model.info()["max_model_len"] == 256 and model.stats()["max_sequences"] == 2


def test_what_is_shown_says_something(demo):
    shown = repr(demo)
    assert all(word in shown for word in ("qwen3_vl", "generate", "2,048 tokens", str(demo.path)))
    assert demo.info()["model_type"] == "qwen3_vl" and demo.info()["task"] == "generate"
    answer = demo.chat("a", max_tokens=1)
    assert "finish_reason='length'" in repr(answer) and "choices" not in repr(answer)
    with demo.chat("a", stream=True, max_tokens=1) as stream:
        assert "under way" in repr(stream)
    assert "ended" in repr(stream)


def test_quantized_weights():
    with Model(DEMO, quantization="int8") as model:
        assert model.info()["kept_weights"] == "int8"
        assert str(model.chat(QUESTION, image=CROSS, temperature=0)) == "The cross is orange."


def test_the_same_seed_gives_the_same_answers():
    found = []
    for _ in range(2):
        with Model(DEMO, seed=11) as model:
            found.append([str(model.chat("a", temperature=2, max_tokens=8)) for _ in range(3)])
    assert found[0] == found[1] and len(set(found[0])) == 3


def test_no_file_descriptor_is_left():
    def descriptors():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    for _ in range(2):
        with Model(IMAGES.parent / "qwen3_vl_tied") as model:
            model.batch(["a"] * 5, max_tokens=1, use_tqdm=False)
            next(model.chat("a", stream=True))
    assert descriptors() == before


def test_json_of_messages_is_not_ascii_alone(demo):
    text = "Größe 漢字 \u2028 \"quoted\""
    ids = demo.request("/tokenize", {"prompt": text})["tokens"]
    assert demo.request("/detokenize", {"tokens": ids})["prompt"] == text
    assert json.loads(json.dumps(demo.chat(text, max_tokens=1).raw))
