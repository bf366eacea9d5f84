"""Our client compared with vLLM's, `make test-vllm-bench`: the same stub sees the same requests
from both, and both tell the same figures, of the stub and of a real server."""

import base64
import io
import json
import pathlib
import subprocess
import sys

import datasets
import numpy as np
import PIL.Image
import pytest
import scipy.stats
from stub_server import StubServer, stream

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "tests/server"))

from server_process import ServerProcess, check_output  # noqa: E402

TOKENS = 5
VLLM = [sys.executable, "-c", "from vllm.entrypoints.cli.main import main; main()"]


@pytest.fixture
def clients(request, tmp_path, model):
    """Both clients: name -> run(server, *words), which gives the result's JSON."""

    def make(program):
        def run(server, *words, chat=True):
            path = tmp_path / "result.json"
            path.unlink(missing_ok=True)
            api = ["openai-chat", "/v1/chat/completions"] if chat else ["openai", "/v1/completions"]
            command = [*program, "bench", "serve", "--backend", api[0], "--endpoint", api[1], "--port", str(server.port), "--model", "m",
                       "--tokenizer", model, "--save-result", "--save-detailed", "--result-filename", str(path), "--disable-tqdm",
                       *map(str, words)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr[-3000:]
            result = json.loads(path.read_text())
            result["stdout"] = done.stdout
            return result

        return run

    return {"ours": make([request.config.getoption("--omma")]), "vllm": make(VLLM)}


def bodies(clients, *words, chat=True):
    """The bodies of both clients, in the order of request ids, and the results."""
    seen, results = {}, {}
    for name, run in clients.items():
        with StubServer(lambda request: stream(["x"] * TOKENS, chat=chat)) as server:
            results[name] = run(server, *words, chat=chat)
        numbered = [(int(r.headers["x-request-id"].rsplit("-", 1)[1]), r.json) for r in server.requests]
        seen[name] = [body for _, body in sorted(numbered, key=lambda pair: pair[0])]
    assert len(seen["vllm"]) > 0
    return seen, results


def same_rows(results):
    """Both tables have the same rows: names, order, form."""
    rows = {}
    for name, result in results.items():
        text = result["stdout"][result["stdout"].index("============ Serving") :]
        rows[name] = [line[:40].rstrip() if ":" in line else line for line in text.splitlines() if line]
    assert rows["ours"] == rows["vllm"][: len(rows["ours"])]
    keys = {name: [key for key in result if key != "stdout"] for name, result in results.items()}
    assert keys["ours"] == keys["vllm"]


@pytest.mark.parametrize("ratio", ["0.0", '{"input": 0.4, "output": 0.6}'])
def test_random(clients, ratio):
    seen, results = bodies(clients, "--dataset-name", "random", "--num-prompts", 40, "--random-input-len", 50, "--random-output-len", 20,
                           "--random-range-ratio", ratio, "--random-prefix-len", 11, "--seed", 7, chat=False)
    assert seen["ours"] == seen["vllm"]
    same_rows(results)


def test_random_images(clients):
    seen, _ = bodies(clients, "--dataset-name", "random-mm", "--num-prompts", 12, "--random-input-len", 30, "--random-output-len", 9,
                     "--random-range-ratio", 0.3, "--seed", 3, "--random-mm-base-items-per-request", 2,
                     "--random-mm-num-mm-items-range-ratio", 0.5, "--random-mm-bucket-config", "{(64, 96, 1): 0.5, (31, 17, 1): 0.5}")
    assert seen["ours"] == seen["vllm"]


def test_custom_image(clients, lines):
    rows = [{"prompt": f"what is {i}?", "image_files": [f"/p/{i}.png", "http://x/y.jpg"][: i % 2 + 1]} for i in range(9)]
    rows.append({"content": [{"type": "text", "text": "née"}, {"type": "image_url", "image_url": {"url": "a.png", "detail": "low"}}]})
    seen, results = bodies(clients, "--dataset-name", "custom_image", "--dataset-path", lines(*rows), "--num-prompts", 25, "--seed", 5,
                           "--temperature", 0, "--top-p", 0.5, "--extra-body", '{"a": {"b": 1}}', "--ignore-eos", "--max-concurrency", 4,
                           "--request-rate", 200, "--goodput", "ttft:100", "--percentile-metrics", "ttft,tpot,itl,e2el,client_queue_time",
                           "--metric-percentiles", "50,99.9")
    assert seen["ours"] == seen["vllm"]
    same_rows(results)


def test_sharegpt(clients, tmp_path):
    words = "red blue green circle square triangle left right above below".split()
    rng = np.random.default_rng(1)
    entries = [{"conversations": [{"value": " ".join(rng.choice(words, rng.integers(1, 60)))} for _ in range(rng.integers(1, 4))]}
               for _ in range(60)]
    path = tmp_path / "share.json"
    path.write_text(json.dumps(entries))
    seen, _ = bodies(clients, "--dataset-name", "sharegpt", "--dataset-path", path, "--num-prompts", 70, "--seed", 2, chat=False)
    assert seen["ours"] == seen["vllm"]


def test_hf(clients, tmp_path, images):
    files = [path for path in sorted(images.iterdir()) if path.suffix in (".png", ".jpg")]
    rows = {"turns": [[[{"content": f"question {i}", "role": "user"}]] for i in range(len(files))],
            "images": [[{"bytes": path.read_bytes(), "path": path.name}] for path in files]}
    features = datasets.Features({"turns": [[{"content": datasets.Value("string"), "role": datasets.Value("string")}]],
                                  "images": [datasets.Image()]})
    (tmp_path / "set/data").mkdir(parents=True)
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "set/data/train-00000-of-00001.parquet")
    subprocess.run([sys.executable, REPOSITORY / "tools/parquet_to_jsonl.py", tmp_path / "set", tmp_path / "lines"], check=True)
    words = ["--dataset-name", "hf", "--hf-name", "lmarena-ai/vision-arena-bench-v0.1", "--no-stream", "--num-prompts", len(files) + 3,
             "--seed", 6]
    with_path = {"ours": lambda server, *more, chat: clients["ours"](server, *more, "--dataset-path", tmp_path / "lines", chat=chat),
                 "vllm": lambda server, *more, chat: clients["vllm"](server, *more, "--dataset-path", tmp_path / "set", chat=chat)}
    seen, _ = bodies(with_path, *words)
    for ours, theirs in zip(seen["ours"], seen["vllm"], strict=True):
        assert pixels(ours) == pixels(theirs)
        assert ours == theirs


def pixels(body):
    """The question and the decoded image of a body."""
    text, image = body["messages"][0]["content"]
    image = PIL.Image.open(io.BytesIO(base64.b64decode(image["image_url"]["url"].split(",")[1])))
    return text["text"], image.size, image.tobytes()


def within_noise(figures, key, slack):
    """Whether the medians of both clients' runs differ by less than the spans of their runs and
    `slack`, in the figure's unit, together."""
    ours, theirs = ([result[key] for result in figures[name]] for name in ("ours", "vllm"))
    difference = abs(np.median(ours) - np.median(theirs))
    assert difference < slack + np.ptp(ours) + np.ptp(theirs), (key, ours, theirs)
    return f"{key}: ours {np.round(ours, 2)}, vLLM's {np.round(theirs, 2)}"


def test_figures_of_a_real_server(clients, model, request):
    """Three alternating runs against omma serve, images and questions one after the other and four
    at once. The demo model has a token ready in less time than vLLM's client takes for an event,
    hence the slack; --model names one that is slower."""
    n, tokens = 16, 12
    command = [request.config.getoption("--omma"), "serve", model, "--served-model-name", "m", "--port", "0", "--encoder-cache-bytes", "0"]
    words = ["--dataset-name", "random-mm", "--num-prompts", n, "--random-input-len", 16, "--random-output-len", tokens, "--ignore-eos",
             "--random-mm-base-items-per-request", 1, "--random-mm-bucket-config", "{(192, 256, 1): 1.0}", "--temperature", 0,
             "--percentile-metrics", "ttft,tpot,itl,e2el"]
    server = ServerProcess(command)
    try:
        for concurrency in (1, 4):
            figures = {"ours": [], "vllm": []}
            for name, run in (("ours", clients["ours"]), *list(clients.items()) * 3):
                figures[name].append(run(server, *words, "--max-concurrency", concurrency))
            figures["ours"] = figures["ours"][1:]  # the first run warms the server up
            for result in figures["ours"] + figures["vllm"]:
                assert result["completed"] == n and result["total_output_tokens"] == n * tokens
            assert figures["ours"][0]["input_lens"] == figures["vllm"][0]["input_lens"]
            for key, slack in (("median_ttft_ms", 6), ("mean_tpot_ms", 1.5), ("median_itl_ms", 1.5), ("median_e2el_ms", 12)):
                print(f"{concurrency} at once,", within_noise(figures, key, slack))
    finally:
        server.stop()
    check_output(server)


def test_arrivals_and_figures(clients):
    """Three alternating runs: arrivals by the same law, figures within noise."""
    words = ["--dataset-name", "random", "--random-input-len", 16, "--num-prompts", 150, "--request-rate", 50, "--burstiness", 0.7,
             "--percentile-metrics", "ttft,tpot,itl,e2el"]
    gaps, figures = {"ours": [], "vllm": []}, {"ours": [], "vllm": []}
    for seed in range(3):
        for name, run in clients.items():
            with StubServer(lambda request: stream(["x"] * 12, first=0.1 + 0.01 * (request.index % 5), gap=0.03)) as server:
                figures[name].append(run(server, *words, "--seed", seed))
            times = np.sort([request.time for request in server.requests])
            gaps[name] += list(np.diff(times))
    law = scipy.stats.ks_2samp(gaps["ours"], gaps["vllm"])
    assert law.pvalue > 0.01, law
    shown = [within_noise(figures, key, slack) for key, slack in (("median_ttft_ms", 6), ("mean_tpot_ms", 1.5), ("median_itl_ms", 1.5),
                                                                  ("median_e2el_ms", 12))]
    for key in ("request_throughput", "output_throughput", "total_token_throughput"):
        ours, theirs = (np.median([result[key] for result in figures[name]]) for name in ("ours", "vllm"))
        shown.append(f"{key}: ours {ours:.2f}, vLLM's {theirs:.2f}")
        assert ours == pytest.approx(theirs, rel=0.03), shown
    print(law, shown)
