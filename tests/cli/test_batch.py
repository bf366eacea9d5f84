"""`omma batch`: files of OpenAI's batch format, answered by a real model, stopped in the middle and
taken up again.

Run with: pytest tests/cli --omma build/release/omma
"""

import base64
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import threading
import time

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion

from omma_program import refused

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def line(custom_id, body, url=CHAT, **fields):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": {"model": "m", **body}, **fields})


def chat(custom_id, content, **fields):
    return line(custom_id, {"messages": [{"role": "user", "content": content}], "max_tokens": 4, **fields})


def hello(n):
    return [chat(f"r{i}", f"Hello {i}", temperature=1, ignore_eos=True) for i in range(n)]


class Batch:
    """One input and one output file, and the command that goes from one to the other."""

    def __init__(self, omma, model, folder):
        self.omma, self.folder = omma, folder
        self.input, self.output = folder / "in.jsonl", folder / "out.jsonl"
        self.words = ["batch", model, "-i", self.input, "-o", self.output, "--served-model-name", "m", "--seed", "1"]

    def write(self, *lines):
        self.input.write_text("".join(text + "\n" for text in lines), encoding="utf-8")

    def run(self, *words, code=0):
        done = self.omma(*self.words, *words)
        assert (done.returncode, done.stdout) == (code, b""), done.stderr.decode()
        return done.stderr.decode()

    def results(self):
        text = self.output.read_text(encoding="utf-8")
        assert text.endswith("\n") or not text
        return [json.loads(row) for row in text.splitlines()]

    def by_id(self):
        rows = self.results()
        assert len({row["custom_id"] for row in rows}) == len(rows)
        return {row["custom_id"]: row for row in rows}

    def texts(self):
        return {name: row["response"]["body"]["choices"][0]["message"]["content"] for name, row in self.by_id().items()}

    def start(self, **streams):
        return subprocess.Popen([str(word) for word in [self.omma.path, *self.words]], stderr=subprocess.PIPE, **streams)

    def wait_for_lines(self, n):
        end = time.monotonic() + 60
        while not self.output.exists() or self.output.read_bytes().count(b"\n") < n:
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.fixture
def batch(omma, model, tmp_path):
    return Batch(omma, model, tmp_path)


def test_results_are_what_openai_gives(batch):
    batch.write(chat("größe", "Hello", n=2, logprobs=True, top_logprobs=2), line("b", {"prompt": "Hello", "max_tokens": 3}, COMPLETIONS))
    said = batch.run()
    assert re.search(r"batch: 2 answered, 0 failed, 0 done before; [\d.]+ s, [\d.]+ requests/s", said)
    rows = batch.by_id()
    assert set(rows) == {"größe", "b"}
    for row in rows.values():
        assert set(row) == {"id", "custom_id", "response", "error"} and row["error"] is None
        assert set(row["response"]) == {"status_code", "request_id", "body"} and row["response"]["status_code"] == 200
        assert row["id"] == "batch_req_" + row["response"]["request_id"]
    answer = ChatCompletion.model_validate(rows["größe"]["response"]["body"])
    assert len(answer.choices) == 2 and answer.usage.completion_tokens == 8
    assert len(answer.choices[0].logprobs.content[0].top_logprobs) == 2
    assert Completion.model_validate(rows["b"]["response"]["body"]).usage.completion_tokens == 3


def test_images(batch, images):
    """As data: URLs, and as files below an allowed directory; the answer is that of omma chat."""
    file = images / "tile_64x64.png"
    urls = {"data": "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode(), "file": f"file://{file}", "no": "file:///etc/passwd"}
    batch.write(*(chat(name, [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is this?"}], temperature=0)
                  for name, url in urls.items()))
    batch.run("--allowed-local-media-path", images, code=1)
    rows = batch.by_id()
    assert rows["no"]["response"]["status_code"] == 400 and rows["no"]["error"]["message"]
    texts = [rows[name]["response"]["body"]["choices"][0]["message"]["content"] for name in ("data", "file")]
    words = ["chat", "--model", batch.words[1], file, "What is this?", "--max-tokens", "4", "--temperature", "0", "--json"]
    assert texts == [batch.omma.json(*words)["text"]] * 2


def test_answers_do_not_repeat(batch):
    """The fields by which clients of vLLM end loops, in both spellings."""
    few = {"allowed_token_ids": list(range(50, 58)), "max_tokens": 20, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    fields = ({}, {"no_repeat_ngram_size": 3}, {"vllm_xargs": {"no_repeat_ngram_size": 3}})
    batch.write(*(chat(f"r{i}", "Hello", **(few | more)) for i, more in enumerate(fields)))
    batch.run()
    rows = batch.by_id()
    for i in range(3):
        ids = rows[f"r{i}"]["response"]["body"]["choices"][0]["token_ids"]
        triples = list(zip(ids, ids[1:], ids[2:]))
        assert len(triples) == 18 and (len(set(triples)) == 18) == (i > 0), ids


def test_bad_lines_are_lines_of_output(batch):
    good = chat("good", "Hello")
    bad = {
        2: "nonsense",
        3: "[]",
        5: line("", {}),
        6: json.dumps({"method": "POST", "url": CHAT, "body": {}}),
        7: line("get", {}, method="GET"),
        8: line("url", {}, "/v1/audio/transcriptions"),
        9: json.dumps({"custom_id": "body", "method": "POST", "url": CHAT}),
        10: chat("stream", "Hello", stream=True),
        11: chat("good", "again"),
        12: '{"custom_id": "cut off',
        13: json.dumps({"custom_id": 5, "method": "POST", "url": CHAT, "body": {}}),
        15: chat("long", "x" * 5000),
        16: json.dumps({"custom_id": "no method", "url": CHAT, "body": {}}),
        17: json.dumps({"custom_id": "no url", "method": "POST", "body": {}}),
    }
    failing = [chat("model", "Hello", model="other"), chat("field", "Hello", temperature=9)]
    batch.write(good, bad[2], bad[3], "", *(bad[number] for number in range(5, 14)), " \t\r", bad[15], bad[16], bad[17], *failing)
    said = batch.run("--max-body-bytes", "4000", code=1)
    assert "1 answered, 16 failed, 0 done before" in said and "--retry-failed" in said
    rows = batch.results()
    assert {row["error"]["line"] for row in rows if row["error"] and "line" in row["error"]} == set(bad)
    for row in rows:
        if row["error"] is None:
            continue
        inner = row["response"]["body"]["error"]
        assert row["response"]["status_code"] == inner["code"] in (400, 404) and inner["message"]
        assert {**inner, **({"line": row["error"]["line"]} if "line" in row["error"] else {})} == row["error"]
    by_line = {row["error"]["line"]: row for row in rows if row["error"] and "line" in row["error"]}
    assert [by_line[number]["custom_id"] for number in (2, 7, 11, 15)] == [None, "get", "good", None]
    for number, field in ((6, "custom_id"), (9, "body"), (16, "method"), (17, "url")):
        error = by_line[number]["error"]
        assert error["param"] == field and error["message"].startswith(f"Field required: {field}, ")
    assert "earlier line" in by_line[11]["error"]["message"] and "4000 bytes" in by_line[15]["error"]["message"]
    assert {row["custom_id"]: row["response"]["status_code"] for row in rows if row["error"] and "line" not in row["error"]} == {"model": 404, "field": 400}
    before = batch.output.read_bytes()
    assert "0 answered, 0 failed, 17 done before" in batch.run("--max-body-bytes", "4000", code=1)
    assert batch.output.read_bytes() == before


def test_failed_lines_are_run_again_when_asked(batch):
    batch.write(chat("a", "Hello"), "nonsense", chat("b", "Hello", model="other"), chat("c", "Hello"))
    batch.run(code=1)
    kept = [row for row in batch.results() if row["error"] is None]
    batch.write(chat("a", "Hello"), chat("n", "Hello"), chat("b", "Hello"), chat("c", "Hello"))
    # a mended bad line runs; b has failed
    assert "1 answered, 0 failed, 3 done before" in batch.run(code=1)
    batch.write(*(chat(name, "Hello") for name in "anbc"))
    assert "1 answered, 0 failed, 3 done before" in batch.run("--retry-failed")
    assert set(batch.by_id()) == {"a", "b", "c", "n"} and all(row in batch.results() for row in kept)
    assert not list(batch.folder.glob("*.retry"))


@pytest.fixture
def fed(batch):
    """A batch whose input is a pipe: the program is in the middle for as long as the test wants."""
    os.mkfifo(batch.input)
    process = batch.start()
    feeder = open(batch.input, "w", encoding="utf-8")

    def feed(*lines):
        feeder.write("".join(text + "\n" for text in lines))
        feeder.flush()

    yield batch, process, feed
    if process.poll() is None:
        process.kill()
    process.communicate()
    feeder.close()


def test_killed_in_the_middle(fed, omma, model, tmp_path):
    """The last line torn; what is left is run, nothing twice, with the answers of a run that was
    not stopped."""
    batch, process, feed = fed
    lines = hello(12)
    feed(*lines[:6])
    batch.wait_for_lines(6)
    process.kill()
    process.wait()
    os.truncate(batch.output, batch.output.stat().st_size - 20)
    batch.input.unlink()
    batch.write(*lines)
    assert "7 answered, 0 failed, 5 done before" in batch.run()
    (tmp_path / "whole").mkdir()
    whole = Batch(omma, model, tmp_path / "whole")
    whole.write(*lines)
    whole.run("--max-num-seqs", "1")
    assert batch.texts() == whole.texts()
    assert len(set(batch.texts().values())) > 1


def test_an_answer_may_hold_nul(batch):
    batch.write(line("a", {"prompt": "x", "max_tokens": 8, "structured_outputs": {"regex": r"\x00{3}"}}, "/v1/completions"))
    assert "1 answered, 0 failed, 0 done before" in batch.run()
    assert b"\\u0000" in batch.output.read_bytes()
    assert "0 answered, 0 failed, 1 done before" in batch.run()


def test_interrupted(fed):
    batch, process, feed = fed
    feed(*hello(3), chat("endless", "Hello", max_tokens=400, ignore_eos=True, temperature=1))
    batch.wait_for_lines(3)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130 and "the same command continues" in error
    assert {"r0", "r1", "r2"} <= set(batch.by_id())


def test_two_batches_do_not_share_an_output(fed):
    batch, process, feed = fed
    feed(*hello(1))
    batch.wait_for_lines(1)
    other = batch.folder / "other.jsonl"
    other.write_text(hello(1)[0] + "\n")
    refused(batch.omma("batch", batch.words[1], "-i", other, "-o", batch.output), 1, batch.output, "another batch")
    assert process.poll() is None


def test_an_output_of_something_else_is_left_alone(batch):
    batch.write(*hello(1))
    for text in ("my notes\n", '{"custom_id": "r0"}\n', "[1]\n"):
        batch.output.write_text(text)
        for words in ([], ["--retry-failed"]):
            refused(batch.omma(*batch.words, *words), 1, batch.output, "line 1")
            assert batch.output.read_text() == text
    batch.output.write_text('{"custom_id": "r0", "resp')
    batch.run()
    assert set(batch.by_id()) == {"r0"}


def test_an_output_of_another_input_is_reported(batch):
    batch.write(*hello(2))
    batch.run()
    batch.write(hello(2)[1], chat("x", "Hello"))
    assert "1 of its lines come from no line of this input" in batch.run()


def test_input_forms(batch, omma):
    """A mark of the byte order, line ends of Windows, no last line end, standard input."""
    text = "\ufeff" + "\r\n".join(hello(2))
    batch.input.write_text(text, encoding="utf-8", newline="")
    batch.run()
    expected = batch.texts()
    batch.output.unlink()
    words = [word if word != batch.input else "-" for word in batch.words]
    assert omma(*words, stdin=text.encode()).returncode == 0
    assert batch.texts() == expected
    batch.output.unlink()
    batch.write()
    batch.run()
    assert batch.results() == []


def test_through_pipes(batch):
    """With - for both files an answer comes while the input is still open: how another program
    feeds requests one by one."""
    words = ["-" if word in (batch.input, batch.output) else str(word) for word in batch.words]
    with subprocess.Popen([str(batch.omma.path), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for text in hello(2):
            process.stdin.write(text + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["custom_id"] == json.loads(text)["custom_id"]
        said = process.communicate()[1]
    assert process.returncode == 0 and "2 answered" in said and "in standard output" in said


def test_as_many_are_read_as_run_and_are_prepared(batch):
    """With two engines of three requests each, six that run and six that are prepared meanwhile:
    lines longer than the pipe show how many were taken, before there is an answer."""
    words = ["-" if word in (batch.input, batch.output) else str(word) for word in batch.words]
    command = [str(batch.omma.path), *words, "--data-parallel-size", "2", "--threads", "1", "--max-num-seqs", "3"]
    taken = 0

    def feed():
        nonlocal taken
        with contextlib.suppress(BrokenPipeError):  # it has had enough
            for i in range(40):
                text = chat(f"r{i}", "Hello", ignore_eos=True, max_tokens=4000)
                process.stdin.write(text.encode().ljust(1 << 17) + b"\n")
                taken += 1

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0) as process:
        fcntl.fcntl(process.stdin, fcntl.F_SETPIPE_SZ, 4096)
        feeder = threading.Thread(target=feed)
        feeder.start()
        until = time.monotonic() + 60
        while taken < 12 and time.monotonic() < until and not select.select([process.stdout], [], [], 0.01)[0]:
            pass
        time.sleep(0.2)  # for one that is taken though it should not be
        n = taken
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        process.wait()
        feeder.join()
    assert 12 <= n <= 14


def test_progress_on_a_terminal(batch):
    batch.write(*(chat(f"r{i}", "Hello", max_tokens=100, ignore_eos=True) for i in range(12)))
    leader, follower = pty.openpty()
    done = subprocess.run([str(word) for word in [batch.omma.path, *batch.words]], stderr=follower, check=False)
    os.close(follower)
    shown = os.read(leader, 1 << 20).decode()
    os.close(leader)
    assert done.returncode == 0
    if time_was_long_enough := re.findall(r"\d+/12, 0 failed, [\d.]+/s(?:, \d+ s left)?", shown):
        assert "\x1b[K" in shown and time_was_long_enough
    assert "12 answered" in shown


def test_full_disk(batch):
    batch.write(*hello(1))
    batch.words[batch.words.index(batch.output)] = "/dev/full"
    assert "/dev/full: cannot be written" in batch.run(code=1)


@pytest.mark.parametrize(
    "words, code, why",
    [
        (["-o", "out"], 2, "--input-file is missing"),
        (["-i", "in"], 2, "--output-file is missing"),
        (["-i", "https://example.org/in", "-o", "out"], 2, "curl -o"),
        (["-i", "in", "-o", "http://example.org/out"], 2, "curl -T"),
        (["-i", "/nowhere/in", "-o", "/nowhere/out"], 1, "/nowhere/in"),
        (["-i", "/", "-o", "/nowhere/out"], 1, "is a directory"),
        (["-i", "/dev/null", "-o", "/nowhere/out"], 1, "/nowhere/out"),
        (["-i", __file__, "-o", __file__], 2, "the input itself"),
        (["-i", __file__, "-o", "-", "--retry-failed"], 2, "give a file with -o"),
        (["-i", "in", "--tokenizer", "other"], 2, "vLLM's flag"),
        (["-i", "in", "--enable-metric"], 2, "did you mean --enable-metrics?"),
    ],
)
def test_usage_error(omma, words, code, why):
    refused(omma("batch", *words), code, why)


def test_flags_of_vllm_run_batch(batch):
    batch.write(*hello(1))
    words = ["run-batch", "--model", batch.words[1], "--input-file", batch.input, "--output-file", batch.output, "--served-model-name", "m",
             "--enable-metrics", "--port", "9000", "--output-tmp-dir", "/tmp", "--gpu-memory-utilization", "0.9"]
    done = batch.omma(*words)
    assert done.returncode == 0 and done.stderr.count(b"means nothing to this program") == 4
    assert set(batch.by_id()) == {"r0"}
