"""Servers that fail: counted with their reason, exit code 1, and never a hang. Command lines that
are wrong: exit code 2."""

import asyncio
import json
import os
import pathlib
import pty
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from stub_server import CLOSE, END, RESET, StubServer, chunk, error, event, head, stream, token

RANDOM = ["--dataset-name", "random", "--random-input-len", "8", "--num-prompts"]
GOOD = lambda: stream(["a", "b"])  # noqa: E731


def check(result, n_failed, n_good, *parts):
    assert result.returncode == 1, result.stderr
    assert (result.json["failed"], result.json["completed"]) == (n_failed, n_good)
    assert len([text for text in result.json["errors"] if text]) == n_failed
    for part in parts:
        assert part in result.stderr and any(part in text for text in result.json["errors"])
    if n_good:
        assert f"Failed requests:                         {n_failed} " in result.stdout
    else:
        lines = result.stderr.splitlines()
        assert result.stdout == "" and re.search(r"no request to http://\S+ succeeded", lines[-1])
        assert all(re.match(r"omma: \d+ of \d+ requests? failed: ", line) for line in lines[:-1]) and len(lines) > 1


@pytest.mark.parametrize("status, body, part", [
    ("400 Bad Request", {"error": {"message": "max_tokens is too large"}}, "HTTP 400 Bad Request: max_tokens is too large"),
    ("404 Not Found", {"object": "error", "message": "no such model"}, "HTTP 404 Not Found: no such model"),
    ("429 Too Many Requests", {"error": "slow down"}, "HTTP 429 Too Many Requests: slow down"),
    ("500 Internal Server Error", b"<html>" + b"x" * 100_000, "HTTP 500 Internal Server Error: <html>" + "x" * 114),
    ("502 Bad Gateway", b"\r\n  no upstream\tleft\r\n<hr>", "HTTP 502 Bad Gateway: no upstream left"),
    ("422 Unprocessable Entity", {"detail": "no such field"}, 'HTTP 422 Unprocessable Entity: {"detail": "no such field"}'),
    ("500 Internal Server Error", ("x" + "é" * 100).encode(), "HTTP 500 Internal Server Error: x" + "é" * 59),
    ("503 Service Unavailable", b"", "HTTP 503 Service Unavailable"),
    ("302 Found", b"", "HTTP 302 Found"),
    ("204 No Content", b"", "HTTP 204 No Content"),
])
def test_http_errors(bench, status, body, part):
    with StubServer(lambda request: error(status, body) if request.index % 3 == 0 else GOOD()) as server:
        check(bench(server, *RANDOM, 9), 3, 6, part)


@pytest.mark.parametrize("data, part", [
    ("data: {not json}\n\n", "not a JSON object"),
    ("data: [1]\n\n", "not a JSON object"),
    (event({"choices": [{"index": 0}]}), "has no delta"),
    (event({"error": {"message": "engine is gone"}}), "engine is gone"),
    ("data: \xff\n\n".encode("latin-1"), "not a JSON object"),
])
@pytest.mark.parametrize("before", [True, False])
def test_malformed_events(bench, data, part, before):
    start = [chunk(event(token("x")))] if before else []
    with StubServer(lambda request: [head(), *start, chunk(data), END] if request.index % 2 else GOOD()) as server:
        check(bench(server, *RANDOM, 6), 3, 3, part)


def test_no_token_at_all(bench):
    with StubServer(lambda request: [head(), chunk(event("[DONE]")), END]) as server:
        check(bench(server, *RANDOM, 2), 2, 0, "without a token")


def test_not_an_event_stream(bench):
    with StubServer(lambda request: error("200 OK", {"choices": [{"message": {"content": "x"}}]})) as server:
        check(bench(server, *RANDOM, 2), 2, 0, "without a token")


@pytest.mark.parametrize("ending", [RESET, CLOSE])
@pytest.mark.parametrize("start", [[], [head()], [head(), chunk(event(token("x")))], [head(), b"5\r\nda"]])
def test_connections_that_break(bench, ending, start):
    """By request id: a request whose reused connection died before a reply is sent once more on a
    new one."""
    odd = lambda request: int(request.headers["x-request-id"].rsplit("-", 1)[1]) % 2  # noqa: E731
    with StubServer(lambda request: [*start, 0.02, ending] if odd(request) else GOOD()) as server:
        result = bench(server, *RANDOM, 6)
    check(result, 3, 3)
    assert all(text == "" or re.search("recv|closed|transfer|read|Empty|Connection|server", text, re.I) for text in result.json["errors"])


def test_server_dies_in_the_middle(bench):
    """Running requests break, none of which is near its end; later ones find nobody: all are
    counted."""

    def script(request):
        if request.index == 3:
            server.loop.call_later(0.05, die)
        return stream(["x"] * 50, gap=10.0)

    def die():
        server.listener.close()
        for task in list(asyncio.all_tasks(server.loop)):
            task.cancel()

    with StubServer(script) as server:
        result = bench(server, *RANDOM, 12, "--request-rate", 40)
    assert result.returncode == 1 and result.json["failed"] == 12


@pytest.fixture
def nobody():
    """A port at which nobody listens, and which nobody else gets."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_nobody_there(bench, nobody):
    result = bench(nobody, *RANDOM, 3)
    check(result, 3, 0, "cannot connect: Connection refused")
    assert "3 of 3 requests failed" in result.stderr


def test_reasons_are_counted_and_no_table_of_zeros(bench):
    """--json still prints an object, with the counts in it."""
    script = lambda request: error("503 Service Unavailable" if request.index % 3 else "429 Too Many Requests", b"")  # noqa: E731
    with StubServer(script) as server:
        result, printed = bench(server, *RANDOM, 6), bench(server, *RANDOM, 3, "--json")
    check(result, 6, 0, "HTTP 503", "HTTP 429")
    assert {line.split(" failed")[0] for line in result.stderr.splitlines()[:-1]} == {"omma: 4 of 6 requests", "omma: 2 of 6 requests"}
    assert printed.returncode == 1 and json.loads(printed.stdout)["completed"] == 0


def test_nobody_there_for_the_model_or_the_ready_check(bench, request, nobody):
    command = [request.config.getoption("--omma"), "bench", "serve", "--port", str(nobody)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and f"http://127.0.0.1:{nobody}/v1/models" in done.stderr and "running" in done.stderr
    result = bench(nobody, *RANDOM, 3, "--ready-check-timeout-sec", 1)
    assert result.returncode == 1 and "not ready after 1 s" in result.stderr and result.json is None


def test_server_that_becomes_ready(bench):
    def script(request):
        return GOOD() if request.index else error("503 Service Unavailable", b"")

    with StubServer(script) as server:
        result = bench(server, *RANDOM, 2, "--ready-check-timeout-sec", 30)
    assert result.returncode == 0 and "HTTP 503" in result.stderr and result.json["completed"] == 2


def test_slow_server(bench):
    """The limit binds the good replies as well, so it is not near what they take."""
    with StubServer(lambda request: [head(), chunk(event(token("x"))), 600.0] if request.index % 2 else GOOD()) as server:
        check(bench(server, *RANDOM, 4, "--request-timeout-sec", 6), 2, 2, "no end within 6 s")


def test_silent_server(bench):
    """Accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        result = bench(silent.getsockname()[1], *RANDOM, 2, "--request-timeout-sec", 1)
    assert result.returncode == 1 and result.json["errors"] == ["no end within 1 s"] * 2
    assert "/tokenize, 10 s at most" in result.stderr and "2 of 2 requests failed: no end within 1 s" in result.stderr


def test_the_ready_check_ends_with_a_silent_server(bench):
    """The limit of a request, hours, does not bind here."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        before = time.monotonic()
        result = bench(silent.getsockname()[1], *RANDOM, 2, "--ready-check-timeout-sec", 2)
    assert time.monotonic() - before > 1.5 and result.returncode == 1 and result.json is None
    assert "not ready after 2 s: no end within 2 s" in result.stderr


def test_equal_reasons_are_one_line(bench):
    """Each reply broke off after another number of bytes."""
    script = lambda request: [head(), chunk(event(token("x" * (10 * request.index + 1)))), 600.0]  # noqa: E731
    with StubServer(script) as server:
        result = bench(server, *RANDOM, 5, "--request-timeout-sec", 1)
    assert "5 of 5 requests failed: no end within 1 s" in result.stderr and len(result.stderr.splitlines()) == 2


def test_more_reasons_than_are_printed(bench):
    with StubServer(lambda request: error("400 Bad Request", {"message": f"no {request.index}"})) as server:
        result = bench(server, *RANDOM, 13)
        all_printed = bench(server, *RANDOM, 10)
    lines = result.stderr.splitlines()
    assert len(lines) == 12 and lines[10].startswith("omma: 3 more for other reasons; --save-result --save-detailed")
    assert len(all_printed.stderr.splitlines()) == 11 and "other reasons" not in all_printed.stderr


def test_events_without_end(bench):
    with StubServer(lambda request: [head()] + [chunk("x" * 65536)] * 400 + [END]) as server:
        check(bench(server, *RANDOM, 1), 1, 0, "limit")


def test_interrupt_prints_what_there_is(request, model):
    """With three at a time the sixth comes when the three good ones are over, and three are under
    way."""
    with StubServer(lambda request: GOOD() if request.index < 3 else [head(), 600.0]) as server:
        process = subprocess.Popen(
            [request.config.getoption("--omma"), "bench", "serve", "--backend", "openai-chat", "--port", str(server.port), "--model", "m",
             "--tokenizer", model, *RANDOM, "6", "--max-concurrency", "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(server.requests) < 6 and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in err
    assert "Successful requests:                     3 " in out and "Failed requests:                         3 " in out


def test_progress_on_a_terminal_only(request, model):
    leader, follower = pty.openpty()
    with StubServer(lambda request: stream(["x"] * 8, gap=0.1)) as server:
        command = [request.config.getoption("--omma"), "bench", "serve", "--backend", "openai-chat", "--port", str(server.port), "--model",
                   "m", "--tokenizer", model, *RANDOM, "4"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower)
        os.close(follower)
        shown = os.read(leader, 65536).decode()
        quiet = subprocess.run(command, capture_output=True, text=True)
    os.close(leader)
    assert done.returncode == 0 and re.search(r"requests \[[#.]+\].* running, 0 failed, .* req/s, .* tok/s", shown)
    assert quiet.stderr == ""


def test_too_many_open_files(bench, request, model):
    command = " ".join([request.config.getoption("--omma"), "bench", "serve", "--model", "m", "--tokenizer", model, "--num-prompts", "500"])
    done = subprocess.run(["sh", "-c", f"ulimit -n 200 && exec {command}"], capture_output=True, text=True)
    assert done.returncode == 1 and "564 open files" in done.stderr and "200" in done.stderr and "--max-concurrency 136" in done.stderr


@pytest.mark.parametrize("words, part", [
    (["--backend", "tgi"], "must be one of openai, vllm, openai-chat"),
    (["--request-rate", "0"], "must be above 0"),
    (["--request-rate", "nan"], "must be a number"),
    (["--max-concurrency", "0"], "from 1"),
    (["--num-prompts", "0"], "must be 1 or more"),
    (["--endpoint", "/v1/x"], "must end in"),
    (["--dataset-name", "sonnet"], "must be one of"),
    (["--dataset-name", "custom_image"], "--dataset-path"),
    (["--dataset-name", "random", "--dataset-path", "x"], "random data needs none"),
    (["--dataset-name", "random-mm"], "openai-chat"),
    (["--goodput", "itl:4"], "ttft:MS"),
    (["--goodput", "ttft:x"], "ttft:MS"),
    (["--metadata", "x"], "KEY=VALUE"),
    (["--header", "x"], "KEY=VALUE"),
    (["--percentile-metrics", "ttft,foo"], "must be among"),
    (["--metric-percentiles", "99,101"], "from 0 to 100"),
    (["--extra-body", "[1]"], "JSON object"),
    (["--extra-body", "{"], "--extra-body"),
    (["--random-range-ratio", "1.0"], "below 1"),
    (["--random-mm-bucket-config", "{(0, 3, 1): 1}"], "HEIGHT"),
    (["--random-mm-bucket-config", "{(8, 8, 16): 1}"], "videos"),
    (["--random-mm-bucket-config", "{}"], "HEIGHT"),
    (["--random-mm-limit-mm-per-prompt", "3"], "JSON"),
    (["--ramp-up-strategy", "linear"], "--ramp-up-start-rps"),
    (["--ramp-up-strategy", "linear", "--ramp-up-start-rps", "5", "--ramp-up-end-rps", "2"], "must not be above"),
    (["--ramp-up-strategy", "linear", "--request-rate", "3"], "give one of them"),
    (["--ramp-up-start-rps", "1"], "--ramp-up-start-rps needs --ramp-up-strategy"),
    (["--ramp-up-end-rps", "2"], "--ramp-up-end-rps needs --ramp-up-strategy"),
    (["--plot", "run.pdf"], "must end in .svg or .png"),
    (["--plot", "png"], "must end in .svg or .png"),
    (["--plot-timeline"], "--plot OUT.svg"),
    (["--lora-modules", "a", "b"], "--model"),
    (["--profile"], "profiler"),
    (["--self-timed"], "--request-rate"),
    (["--probe-request-rate", "1"], "next to the measured ones"),
    (["--plot-dataset-stats"], "--save-detailed"),
    (["--tokenizer-mode", "mistral"], "must be one of auto, hf"),
    (["--skip-tokenizer-init"], "need a tokenizer"),
    (["--num-promts", "3"], "--num-prompts"),
])
def test_usage_error(request, words, part):
    done = subprocess.run([request.config.getoption("--omma"), "bench", "serve", *words], capture_output=True, text=True)
    assert done.returncode == 2 and part in done.stderr and done.stdout == ""


@pytest.mark.parametrize("content, name, part", [
    ('{"prompt": "x"}\n', "custom_image", 'expected "prompt" and "image_files"'),
    ('{"prompt": "x", "image_files": []}\n', "custom_image", "image_files"),
    ('{"prompt": 3, "image_files": ["x"]}\n', "custom_image", '"prompt" must be a string'),
    ('\n{"prompt"\n', "custom_image", "line 2"),
    ('[1]\n', "custom_image", "JSON object"),
    ('{"content": [{"type": "video"}]}\n', "custom_image", "text, image or image_url"),
    ("", "custom_image", "no usable entry"),
    ('{"a": 1}', "sharegpt", "JSON array"),
    ("[]", "sharegpt", "no usable entry"),
    ('{"question": "x"}\n', "hf", "expected an image"),
    ('{"image": "x"}\n', "hf", "expected a question"),
    ('{"question": "x", "image": {"bytes": "!"}}\n', "hf", "base64"),
])
def test_broken_data(bench, tmp_path, content, name, part):
    path = tmp_path / "data.jsonl"
    path.write_text(content)
    result = bench(9, "--dataset-name", name, "--dataset-path", path, "--num-prompts", 2)
    assert result.returncode == 1 and part in result.stderr and str(path) in result.stderr and result.json is None


def test_data_sets_that_are_not_here(bench, tmp_path):
    result = bench(9, "--dataset-name", "hf", "--dataset-path", "lmarena-ai/vision-arena-bench-v0.1")
    assert result.returncode == 1 and "hf download --repo-type dataset lmarena-ai/vision-arena-bench-v0.1" in result.stderr
    assert "tools/parquet_to_jsonl.py" in result.stderr
    (tmp_path / "set/data").mkdir(parents=True)
    (tmp_path / "set/data/train.parquet").write_bytes(b"PAR1")
    result = bench(9, "--dataset-name", "hf", "--dataset-path", tmp_path / "set")
    assert result.returncode == 1 and "tools/parquet_to_jsonl.py" in result.stderr
    result = bench(9, "--dataset-name", "custom_image", "--dataset-path", tmp_path / "none.jsonl")
    assert result.returncode == 1 and "none.jsonl" in result.stderr


def test_no_tokenizer(bench, lines):
    """Needed for random data; for images only where the server counts nothing."""
    result = bench(9, *RANDOM, 1, tokenizer=False)
    assert result.returncode == 1 and "--tokenizer DIR" in result.stderr
    images = ["--dataset-name", "custom_image", "--dataset-path", lines({"prompt": "x", "image_files": ["a"]}), "--num-prompts", 1]
    with StubServer(lambda request: GOOD()) as server:
        result = bench(server, *images, tokenizer=False)
    assert result.returncode == 0 and result.stderr == "" and result.json["tokenizer_id"] is None
    assert result.json["output_lens"] == [2]
    with StubServer(lambda request: stream(["a", "b"], with_usage=False)) as server:
        result = bench(server, *images, tokenizer=False)
        counted = bench(server, *images)
    assert result.returncode == 0 and "1 reply without a count of tokens" in result.stderr and "--tokenizer DIR" in result.stderr
    assert result.json["output_lens"] == [1] and counted.returncode == 0 and counted.stderr == ""


@pytest.mark.parametrize("words, part", [
    (["--plot", "{tmp}/none/run.svg"], "No such file or directory"),
    (["--plot", "{tmp}/file/run.svg"], "Not a directory"),
    (["--plot", "{tmp}/folder.svg"], "it is a directory"),
    (["--result-dir", "{tmp}/file/x"], "Not a directory"),
    (["--result-filename", "{tmp}/none/r.json"], "No such file or directory"),
    (["--result-dir", "{tmp}/new", "--result-filename", "none/r.json"], "No such file or directory"),
    (["--result-dir", "{tmp}/new", "--result-filename", "", "--label", "none/mine"], "it is a directory"),
    (["--result-dir", "/proc/none"], "No such file or directory"),
])
def test_files_that_cannot_be_written(bench, tmp_path, words, part):
    """Found before anything is sent."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.svg").mkdir()
    with StubServer(lambda request: GOOD()) as server:
        result = bench(server, *RANDOM, 1, *[word.format(tmp=tmp_path) for word in words])
    assert result.returncode == 1 and part in result.stderr and result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 and not server.requests and not server.others


def test_a_label_with_a_directory(request, model, tmp_path):
    """The name that the client makes has it in it."""
    command = [pathlib.Path(request.config.getoption("--omma")).resolve(), "bench", "serve", "--backend", "openai-chat", "--model", "m",
               "--tokenizer", model, *RANDOM, "1", "--save-result", "--label", "runs/mine", "--port"]
    with StubServer(lambda _: GOOD()) as server:
        missing = subprocess.run([*command, str(server.port)], capture_output=True, text=True, cwd=tmp_path)
        assert missing.returncode == 1 and "runs/mine" in missing.stderr and not server.requests
        (tmp_path / "runs").mkdir()
        assert subprocess.run([*command, str(server.port)], capture_output=True, cwd=tmp_path).returncode == 0
    assert [path.name.split("-")[0] for path in (tmp_path / "runs").iterdir()] == ["mine"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_directories_without_permission(bench, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    with StubServer(lambda request: GOOD()) as server:
        result = bench(server, *RANDOM, 1, "--plot", tmp_path / "locked/run.svg")
    assert result.returncode == 1 and "Permission denied" in result.stderr and not server.requests


def test_flags_without_effect(bench):
    """Those of vLLM's client, with a warning for those that somebody might count on."""
    with StubServer(lambda request: GOOD()) as server:
        silent = bench(server, *RANDOM, 1, "--tokenizer-mode", "auto", "--trust-remote-code", "--no-stream")
        warned = bench(server, *RANDOM, 1, "--use-beam-search", "--chat-template-kwargs", '{"thinking": true}')
    assert silent.returncode == 0 and silent.stderr == ""
    assert warned.returncode == 0 and len(warned.stderr.splitlines()) == 2 and "--chat-template-kwargs" in warned.stderr


def test_details_without_a_result(request, model):
    """Nothing would be written; with --json they are printed."""
    with StubServer(lambda _: GOOD()) as server:
        command = [request.config.getoption("--omma"), "bench", "serve", "--backend", "openai-chat", "--port", str(server.port), "--model",
                   "m", "--tokenizer", model, *RANDOM, "1", "--save-detailed"]
        warned = subprocess.run(command, capture_output=True, text=True)
        printed = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert warned.returncode == 0 and len(warned.stderr.splitlines()) == 1 and "without --save-result" in warned.stderr
    assert printed.stderr == "" and json.loads(printed.stdout)["generated_texts"] == ["ab"]


def test_converting_without_pyarrow(tmp_path):
    (tmp_path / "pyarrow.py").write_text("raise ImportError")
    tool = pathlib.Path(__file__).resolve().parent.parent.parent / "tools/parquet_to_jsonl.py"
    done = subprocess.run([sys.executable, tool, tmp_path, tmp_path / "out"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1 and done.stderr.splitlines() == ["parquet_to_jsonl: pyarrow is missing: python3 -m pip install pyarrow"]
