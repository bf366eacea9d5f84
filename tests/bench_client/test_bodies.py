"""What is sent: bodies key by key, headers, order, images and token counts."""

import base64
import io
import json
import random
import subprocess

import numpy as np
import pytest
from stub_server import StubServer, error, stream

ONE = lambda request: stream(["x"])  # noqa: E731
STREAMING = {"stream": True, "stream_options": {"include_usage": True}}


def sent(server):
    """Bodies by request number."""
    numbered = [(int(r.headers["x-request-id"].rsplit("-", 1)[1]), r.json) for r in server.requests if "x-request-id" in r.headers]
    return [body for _, body in sorted(numbered, key=lambda pair: pair[0])]


def count_tokens(request, model, text):
    done = subprocess.run([request.config.getoption("--omma"), "tokenize", "--model", model], input=text.encode(),
                          capture_output=True, check=True)
    return json.loads(done.stdout)["count"]


def jpeg_size(data):
    """Width and height from the frame header."""
    at = 2
    while True:
        marker, size = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == 0xC0:
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        at += 2 + size


def test_custom_image(bench, lines):
    rows = [
        {"prompt": "How many?", "image_files": ["/images/a.png", "http://host/b.jpg"]},
        {"content": [{"type": "text", "text": "Compare"}, {"type": "image", "image": "c.png"},
                     {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
                     {"type": "image_url", "image_url": "file:///d.png"}]},
    ]
    with StubServer(ONE) as server:
        result = bench(server, "--dataset-name", "custom_image", "--dataset-path", lines(*rows), "--num-prompts", 2,
                       "--disable-shuffle", "--temperature", 0, "--top-k", 5, "--extra-body", '{"top_k": 6, "x": [1]}',
                       "--served-model-name", "other")
    assert result.returncode == 0, result.stderr
    first, second = sent(server)
    image = lambda url, **more: {"type": "image_url", "image_url": {"url": url, **more}}  # noqa: E731
    common = {"model": "other", "max_completion_tokens": 256, **STREAMING, "temperature": 0, "top_k": 6, "x": [1]}
    assert first == {**common, "messages": [{"role": "user", "content": [
        {"type": "text", "text": "How many?"}, image("file:///images/a.png"), image("http://host/b.jpg")]}]}
    assert second == {**common, "messages": [{"role": "user", "content": [
        {"type": "text", "text": "Compare"}, image("file://c.png"), image("data:image/png;base64,AA==", detail="low"),
        image("file:///d.png")]}]}


def test_images_are_sent_themselves_on_request(bench, lines, images):
    pil = pytest.importorskip("PIL.Image")
    path = sorted(images.glob("*.png"))[0]
    with StubServer(ONE) as server:
        result = bench(server, "--dataset-name", "custom_image", "--dataset-path",
                       lines({"prompt": "x", "image_files": [str(path)]}), "--num-prompts", 1, "--custom-ensure-client-side-data")
    assert result.returncode == 0, result.stderr
    url = sent(server)[0]["messages"][0]["content"][1]["image_url"]["url"]
    assert url.startswith("data:image/png;base64,")
    decoded = pil.open(io.BytesIO(base64.b64decode(url.split(",")[1])))
    assert np.array_equal(np.asarray(decoded), np.asarray(pil.open(path).convert("RGB")))


def test_order_and_repetition_are_pythons(bench, lines):
    rows = [{"prompt": str(i), "image_files": ["a.png"]} for i in range(23)]
    with StubServer(ONE) as server:
        bench(server, "--dataset-name", "custom_image", "--dataset-path", lines(*rows), "--num-prompts", 40, "--seed", 5)
    random.seed(5)
    order = list(range(23))
    random.shuffle(order)
    random.seed(5)
    order += [order[random.choice(range(23))] for _ in range(17)]
    assert [body["messages"][0]["content"][0]["text"] for body in sent(server)] == [str(i) for i in order]


def test_all_lines_and_no_oversampling(bench, lines):
    rows = [{"prompt": str(i), "image_files": ["a.png"]} for i in range(7)]
    for words in (["--num-prompts", 0], ["--num-prompts", 50, "--no-oversample"]):
        with StubServer(ONE) as server:
            result = bench(server, "--dataset-name", "custom_image", "--dataset-path", lines(*rows), *words)
        assert result.json["completed"] == 7 == len(server.requests)


def test_sharegpt(bench, tmp_path, request, model):
    turns = lambda *texts: {"conversations": [{"from": "x", "value": text} for text in texts]}  # noqa: E731
    long = "the red circle is here " * 400
    entries = [turns("a red circle and a blue square", "yes it is indeed so"), turns("only one turn"),
               turns("a", "too short a question"), turns(long, "too long a question for this"), {"id": 3},
               turns("where is the green triangle", "to the left of the circle", "and so on")]
    path = tmp_path / "share.json"
    path.write_text(json.dumps(entries))
    with StubServer(lambda r: stream(["x"], chat=False, with_usage=False)) as server:
        result = bench(server, "--dataset-name", "sharegpt", "--dataset-path", path, "--num-prompts", 2, "--disable-shuffle", chat=False)
    assert result.returncode == 0, result.stderr
    used = [entries[0], entries[5]]
    for body, entry, length in zip(sent(server), used, result.json["input_lens"]):
        question, answer = (turn["value"] for turn in entry["conversations"][:2])
        assert body == {"model": "stub-model", "prompt": question, "repetition_penalty": 1.0,
                        "max_tokens": count_tokens(request, model, answer), "logprobs": None, **STREAMING}
        assert length == count_tokens(request, model, question)


def test_hf_rows(bench, tmp_path, images):
    data = base64.b64encode(sorted(images.glob("*.png"))[0].read_bytes()).decode()
    rows = [{"turns": [[{"content": f"question {i}", "role": "user"}]], "images": [{"bytes": data, "path": "x.png"}]} for i in range(5)]
    (tmp_path / "set").mkdir()
    for part in (0, 1):
        (tmp_path / f"set/train-{part:05}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[part * 3 : part * 3 + 3]))
    with StubServer(ONE) as server:
        result = bench(server, "--dataset-name", "hf", "--dataset-path", tmp_path / "set", "--hf-name",
                       "lmarena-ai/vision-arena-bench-v0.1", "--hf-split", "train", "--num-prompts", 5, "--no-stream", "--seed", 3)
    assert result.returncode == 0, result.stderr
    bodies = sent(server)
    order = np.random.default_rng(3).permutation(5)
    assert [body["messages"][0]["content"][0]["text"] for body in bodies] == [f"question {i}" for i in order]
    assert all(body["max_completion_tokens"] == 128 for body in bodies)
    url = bodies[0]["messages"][0]["content"][1]["image_url"]["url"]
    assert url.startswith("data:image/jpeg;base64,")
    pil = pytest.importorskip("PIL.Image")
    expected = io.BytesIO()
    pil.open(io.BytesIO(base64.b64decode(data))).convert("RGB").save(expected, format="JPEG")
    assert base64.b64decode(url.split(",")[1]) == expected.getvalue()


@pytest.mark.parametrize("prefix", [0, 9])
def test_random_prompts_have_their_length(bench, request, model, prefix):
    with StubServer(lambda r: stream(["x"], chat=False, with_usage=False)) as server:
        result = bench(server, "--dataset-name", "random", "--num-prompts", 20, "--random-input-len", 40, "--random-output-len", 10,
                       "--random-range-ratio", '{"input": 0.5, "output": 0.3}', "--random-prefix-len", prefix, "--seed", 11, chat=False)
    assert result.returncode == 0, result.stderr
    rng = np.random.default_rng(11)
    inputs, outputs = rng.integers(20, 61, size=20), rng.integers(7, 14, size=20)
    bodies = sent(server)
    assert [body["max_tokens"] for body in bodies] == list(outputs)
    assert all(body["ignore_eos"] is True for body in bodies)
    assert result.json["input_lens"] == [count_tokens(request, model, body["prompt"]) for body in bodies]
    near = sum(abs(int(found) - int(wanted) - prefix) <= 1 for found, wanted in zip(result.json["input_lens"], inputs))
    assert near >= 18
    if prefix:
        assert len({body["prompt"][:6] for body in bodies}) == 1


def test_random_images(bench):
    with StubServer(ONE) as server:
        words = ["--dataset-name", "random-mm", "--num-prompts", 24, "--random-input-len", 8, "--random-output-len", 3,
                 "--random-mm-base-items-per-request", 2, "--random-mm-num-mm-items-range-ratio", 0.5, "--random-mm-limit-mm-per-prompt",
                 '{"image": 2, "video": 0}', "--random-mm-bucket-config", "{(32, 48, 1): 0.5, (64, 16, 1): 1.5, (720, 1280, 16): 0.0}"]
        first, again = bench(server, *words), None
        bodies = sent(server)
        server.requests.clear()
        again = bench(server, *words)
    assert first.returncode == again.returncode == 0, first.stderr
    assert bodies == sent(server)
    counts, sizes = [], []
    for body in bodies:
        text, *images_sent = body["messages"][0]["content"]
        assert text["type"] == "text" and body["max_completion_tokens"] == 3
        counts.append(len(images_sent))
        for part in images_sent:
            assert part["image_url"]["url"].startswith("data:image/jpeg;base64,")
            sizes.append(jpeg_size(base64.b64decode(part["image_url"]["url"].split(",")[1])))
    assert set(counts) == {1, 2} and set(sizes) == {(48, 32), (16, 64)}
    assert sizes.count((16, 64)) > sizes.count((48, 32))


def test_headers_and_first_model(bench, request, model):
    with StubServer(ONE) as server:
        done = subprocess.run([request.config.getoption("--omma"), "bench", "serve", "--backend", "openai-chat", "--base-url",
                               f"http://127.0.0.1:{server.port}/", "--tokenizer", model, "--num-prompts", "2", "--random-input-len", "8",
                               "--header", "Authorization=Bearer abc", "x-y = 1", "--request-id-prefix", "mine-"],
                              capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [r.path for r in server.others] == ["/v1/models", "/tokenize"]
    for r in server.requests:
        assert r.headers["authorization"] == "Bearer abc" and r.headers["x-y"] == "1"
        assert r.headers["content-type"] == "application/json" and r.headers["x-request-id"].startswith("mine-")
        assert r.json["model"] == "stub-model"


def vqa(given, answers):
    return np.mean([min(1, sum(a == given for k, a in enumerate(answers) if k != i) / 3) for i in range(len(answers))])


def test_accuracy(bench, lines):
    ten = ["red"] * 2 + ["blue"] * 5 + ["green"] * 3
    rows = [{"prompt": "a", "image_files": ["a.png"], "answers": ten}, {"prompt": "b", "image_files": ["a.png"], "answers": ["Two dogs!"]},
            {"prompt": "c", "image_files": ["a.png"], "answers": ["don't know"] * 10}, {"prompt": "d", "image_files": ["a.png"]}]
    answers = {"a": "The red.", "b": "2 dogs", "c": "i do not", "d": "anything"}

    def script(request):
        return stream([answers[request.json["messages"][0]["content"][0]["text"]]])

    with StubServer(script) as server:
        result = bench(server, "--dataset-name", "custom_image", "--dataset-path", lines(*rows), "--num-prompts", 4)
    assert result.json["accuracy"]["judged"] == 3
    assert result.json["accuracy"]["exact_match"] == pytest.approx(2 / 3)
    assert result.json["accuracy"]["vqa_score"] == pytest.approx((vqa("red", ten) + 1 + 0) / 3)
    assert "Exact match (%):                         66.67" in result.stdout


@pytest.mark.parametrize("extra", [0, 3])
def test_prompts_are_cut_where_the_server_counts_more_tokens(bench, extra):
    """A server whose tokens are characters, of which it finds `extra` too many at first."""
    questions = []

    def other(r):
        questions.append(r.path)
        if r.path == "/tokenize":
            assert r.json["add_special_tokens"] is False
            return error("200 OK", {"tokens": list(range(6 + extra))})
        assert r.path == "/detokenize" and r.json["tokens"] == list(range(6))
        return error("200 OK", {"prompt": "cut"})

    with StubServer(lambda r: stream(["x"], chat=False), other) as server:
        result = bench(server, "--dataset-name", "random", "--num-prompts", 3, "--random-input-len", 6, "--random-output-len", 1, chat=False)
    assert result.returncode == 0, result.stderr
    assert questions == (["/tokenize", "/detokenize"] * 3 if extra else ["/tokenize"])
    assert all((body["prompt"] == "cut") == bool(extra) for body in sent(server))
    assert ("counts 9 tokens" in result.stderr) == bool(extra)
