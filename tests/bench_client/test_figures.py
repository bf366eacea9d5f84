"""The table and the JSON against the definitions, and the client's times against the script's."""

import json
import math
import re
import subprocess
import xml.etree.ElementTree

import figures
import numpy as np
import pytest
from stub_server import StubServer, stream

RANDOM = ["--dataset-name", "random", "--random-input-len", "12"]


def check(result, **how):
    """Compares both forms of a result with the definitions."""
    percentiles = how.get("percentiles", (99.0,))
    goodput = how.get("goodput")
    expected = figures.compute(result.json, percentiles, goodput)
    for key, value in expected.items():
        if key in result.json:
            assert result.json[key] == (pytest.approx(value, rel=1e-9, abs=1e-12) if value is not None else None), key
    how["goodput"] = bool(goodput)
    assert result.stdout == figures.table(result.json, expected, **how)
    return expected


def varied(request):
    """Replies that differ: 1 to 9 tokens, some of them at once."""
    n = request.index % 9 + 1
    return stream(["ab"] * n, first=0.01 * (request.index % 4), gap=0.005 * (request.index % 3), prompt=10 + request.index)


def test_table_and_json(bench):
    with StubServer(varied) as server:
        result = bench(server, *RANDOM, "--num-prompts", 24)
    assert result.returncode == 0, result.stderr
    check(result)
    assert result.json["input_lens"] == [10 + i for i in by_arrival(server, result)]


def by_arrival(server, result):
    """For each request of the result, in order, its place in the order of arrival at the stub."""
    order = {request.headers["x-request-id"].rsplit("-", 1)[1]: request.index for request in server.requests}
    return [order[str(i)] for i in range(len(result.json["ttfts"]))]


def test_all_metrics_percentiles_goodput_and_limits(bench):
    metrics = ("ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue")
    percentiles = (50.0, 90.0, 99.9)
    slow = stream(["ab"] * 3, first=1.0, prompt=9)
    with StubServer(lambda request: slow if request.index % 5 == 2 else varied(request)) as server:
        result = bench(server, *RANDOM, "--num-prompts", 30, "--request-rate", 60, "--max-concurrency", 3, "--percentile-metrics",
                       ",".join(metrics), "--metric-percentiles", "50,90,99.9", "--goodput", "ttft:500", "e2el:900", "tpot:400")
    assert result.returncode == 0, result.stderr
    found = check(result, metrics=metrics, percentiles=percentiles, concurrency=3, rate=60.0,
                  goodput={"ttft": 500, "e2el": 900, "tpot": 400})
    assert 0 < found["request_goodput"] < found["request_throughput"]
    assert result.json["max_concurrency"] == 3 and result.json["request_rate"] == 60.0
    running = 0
    for _, step in sorted([(s, 1) for s in result.json["start_times"]] +
                          [(s + t, -1) for s, t in zip(result.json["start_times"], result.json["latencies"])]):
        running += step
        assert running <= 3


def test_one_token_has_no_tpot_and_no_gaps(bench):
    with StubServer(lambda request: stream(["x"])) as server:
        result = bench(server, *RANDOM, "--num-prompts", 3)
    check(result)
    assert result.json["mean_tpot_ms"] == 0 and result.json["std_itl_ms"] == 0 and result.json["itls"] == [[], [], []]


def test_completions_backend(bench):
    with StubServer(lambda request: stream(["a", "b", "é"], chat=False)) as server:
        result = bench(server, *RANDOM, "--num-prompts", 4, chat=False)
    assert result.returncode == 0, result.stderr
    check(result)
    assert {request.path for request in server.requests} == {"/v1/completions"}
    assert result.json["generated_texts"] == ["abé"] * 4 and result.json["backend"] == "openai"


@pytest.mark.release_too
def test_times_are_the_scripts(bench):
    """Each moment lies between the stub's write and what can only come later; tokens are seen as
    they come, not all in the end."""
    n, n_in_time = 6, 0
    with StubServer(lambda request: stream(["x"] * 6, first=0.12, gap=0.06)) as server:
        result = bench(server, *RANDOM, "--num-prompts", n, "--max-concurrency", 1)
    assert by_arrival(server, result) == list(range(n)) and min(result.json["ttfts"]) >= 0.119
    for i, request in enumerate(server.requests):
        written = np.array([moment for moment, data in request.writes if b"content" in data])
        start = result.json["start_times"][i]
        end = start + result.json["latencies"][i]
        seen = start + result.json["ttfts"][i] + np.concatenate([[0.0], np.cumsum(result.json["itls"][i])])
        assert start <= request.time and len(seen) == len(written)
        assert (seen - written > -1e-6).all() and seen[-1] <= end + 1e-6
        assert i + 1 == n or end <= server.requests[i + 1].time
        n_in_time += np.sum(seen[:-1] < written[1:])
    assert n_in_time > 0


def test_tokens_are_counted_here_where_the_server_does_not(bench, model, request):
    words = ["two", " red", " circles"]
    with StubServer(lambda request: stream(words, with_usage=False)) as server:
        result = bench(server, *RANDOM, "--num-prompts", 2)
    check(result)
    counted = json.loads(subprocess.run([request.config.getoption("--omma"), "tokenize", "--model", model, "--text",
                                         "".join(words)], capture_output=True, text=True).stdout)["count"]
    assert result.json["output_lens"] == [counted] * 2 and result.json["input_lens"] == [12, 12]


def test_result_file_name_keys_and_append(bench, tmp_path, request):
    with StubServer(lambda request: stream(["x"])) as server:
        command = [request.config.getoption("--omma"), "bench", "serve", "--port", str(server.port), "--backend", "openai-chat",
                   "--dataset-name", "custom_image", "--dataset-path", str(tmp_path / "d.jsonl"), "--num-prompts", "2",
                   "--save-result", "--result-dir", str(tmp_path / "a/b"), "--metadata", "tp=1", "note=a=b", "--label", "mine"]
        (tmp_path / "d.jsonl").write_text(json.dumps({"prompt": "x", "image_files": ["p.png"]}) + "\n")
        assert subprocess.run(command + ["--request-rate", "50", "--max-concurrency", "2"], capture_output=True).returncode == 0
        name = next((tmp_path / "a/b").iterdir()).name
        assert re.fullmatch(r"mine-50\.0qps-concurrency2-stub-model-\d{8}-\d{6}\.json", name)
        result = json.loads((tmp_path / "a/b" / name).read_text())
        assert list(result)[:7] == ["date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts"]
        assert result["tp"] == "1" and result["note"] == "a=b" and result["label"] == "mine" and "ttfts" not in result
        for _ in range(2):
            assert subprocess.run(command + ["--append-result", "--result-filename", "all.jsonl"], capture_output=True).returncode == 0
    rows = [json.loads(line) for line in (tmp_path / "a/b/all.jsonl").read_text().splitlines()]
    assert len(rows) == 2 and rows[0]["request_rate"] == "inf" and rows[0]["max_concurrency"] is None


def test_json_instead_of_the_table(bench):
    with StubServer(lambda request: stream(["x", "y"])) as server:
        result = bench(server, *RANDOM, "--num-prompts", 2, "--json")
    printed = json.loads(result.stdout)
    assert printed["completed"] == 2 and len(printed["ttfts"]) == 2


def test_plot(bench, tmp_path):
    path = tmp_path / "run.svg"
    with StubServer(varied) as server:
        result = bench(server, *RANDOM, "--num-prompts", 9, "--plot", path)
    assert result.returncode == 0, result.stderr
    root = xml.etree.ElementTree.parse(path).getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert root.tag.endswith("svg") and "Time to first token" in texts and "Inter-token latency" in texts
    rectangles = [element for element in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(rectangles) >= 18 and not any(math.isnan(float(r.get("x", 0))) for r in rectangles)


def test_plot_as_png(bench, tmp_path):
    """Where the build has librsvg; else refused with the way out, before anything is sent."""
    path = tmp_path / "run.PNG"
    with StubServer(varied) as server:
        result = bench(server, *RANDOM, "--num-prompts", 9, "--plot", path)
    if result.returncode == 2:
        assert "there is no librsvg here: use a name that ends in .svg" in result.stderr and not server.requests and not path.exists()
    else:
        assert result.returncode == 0 and path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n", result.stderr


def test_ready_check_and_warm_up_are_not_measured(bench):
    with StubServer(varied) as server:
        result = bench(server, *RANDOM, "--num-prompts", 5, "--ready-check-timeout-sec", 5, "--num-warmups", 3)
    assert result.json["completed"] == 5 and len(server.requests) == 9
    ids = [request.headers.get("x-request-id") for request in server.requests]
    assert ids[:4] == [None] * 4 and len(set(ids[4:])) == 5
    assert len({request.body for request in server.requests[:4]}) == 1
