"""omma embed and omma rerank against what the official computation gives (tests/data/vectors)."""

import base64
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from gguf_files import convert
from omma_program import GOLDEN, refused
from test_gguf import rewrite

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import vector_cases

DATA = vector_cases.DATA


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("vectors")


@pytest.fixture(scope="module")
def cases(scratch):
    return vector_cases.load(scratch)


@pytest.fixture(scope="module")
def embedder(scratch):
    return vector_cases.make_model(scratch / "Tiny-Embedding")


@pytest.fixture(scope="module")
def reranker(scratch):
    return vector_cases.make_model(scratch / "Tiny-Reranker")


def line_of(item, instruction=None):
    line = {"text": item.get("text", ""), "image": item.get("images", [])}
    if item.get("video"):
        line |= {"video": item["video"], "fps": 2}
    if item.get("instruction") or instruction:
        line["instruction"] = item.get("instruction") or instruction
    return json.dumps(line)


def run(omma, command, model, lines, output, *options):
    done = omma(command, model, "--input", "-", "--output", output, *options, stdin="\n".join(lines).encode())
    assert done.returncode == 0, done.stderr.decode()
    return np.load(output)


def compared(omma, embedder, cases, tmp_path, chosen):
    """The vectors of the chosen cases are the official ones."""
    vectors = run(omma, "embed", embedder, [line_of(cases["embed"][i]) for i in chosen], tmp_path / "a.npy", "--dtype", "f32")
    wanted = np.load(DATA / "embed.npy")
    assert len(cases["embed"]) == len(wanted)
    wanted = wanted[chosen]
    assert vectors.dtype == np.float32 and vectors.shape == wanted.shape
    assert np.abs(vectors - wanted).max() < 1e-5
    assert ((vectors * wanted).sum(axis=1) > 0.9999).all()


def has_large_image(item):
    return any(re.search(r"\d{4}x\d{4}\.png$", image) for image in item.get("images", []))


def test_vectors_are_the_official_ones(omma, embedder, cases, tmp_path):
    compared(omma, embedder, cases, tmp_path, [i for i, item in enumerate(cases["embed"]) if not has_large_image(item)])


@pytest.mark.long
def test_vectors_of_large_images_are_the_official_ones(omma, embedder, cases, tmp_path):
    """Of more than a megapixel: below the default limit of a model of vectors, and above."""
    large = [i for i, item in enumerate(cases["embed"]) if has_large_image(item)]
    assert len(large) == 3
    compared(omma, embedder, cases, tmp_path, large)


def test_scores_are_the_official_ones(omma, reranker, cases, tmp_path):
    """A query a call: pairs of the same query and instruction go together."""
    groups = {}
    for i, pair in enumerate(cases["score"]):
        key = json.dumps([pair["query"], pair.get("instruction")])
        groups.setdefault(key, []).append(i)
    found = np.full(len(cases["score"]), np.nan, np.float32)
    for key, indices in groups.items():
        query, instruction = json.loads(key)
        words = ["--query", query.get("text", "")] + [word for image in query.get("images", []) for word in ("--query-image", image)]
        words += ["--instruction", instruction] if instruction else []
        lines = [line_of(cases["score"][i]["document"]) for i in indices]
        found[indices] = run(omma, "rerank", reranker, lines, tmp_path / "s.npy", "--dtype", "f32", *words)
    assert np.abs(found - np.load(DATA / "score.npy")).max() < 1e-5
    assert found.std() > 1e-3


@pytest.mark.parametrize("options", [["--threads", "1"], ["--max-num-seqs", "1"], ["--max-num-batched-tokens", "64"]])
def test_bits_depend_on_nothing(omma, embedder, cases, tmp_path, options):
    lines = [line_of(item) for item in cases["embed"][:25]]
    once = run(omma, "embed", embedder, lines, tmp_path / "a.npy")
    again = run(omma, "embed", embedder, lines[::-1], tmp_path / "b.npy", *options)
    assert (once == again[::-1]).all()


@pytest.mark.parametrize("options", [[], ["--kv-cache-dtype", "int8"]])
def test_bits_of_a_shared_instruction(omma, embedder, cases, tmp_path, options):
    """One alone finds nothing of it; with others its rows are copied, before texts and images."""
    [image] = next(item["images"] for item in cases["embed"] if len(item.get("images", [])) == 1)
    lines = [line_of({"text": f"{i} things", "images": [image] if i % 3 == 0 else []}) for i in range(10)]
    together = run(omma, "embed", embedder, lines, tmp_path / "a.npy", "--max-num-seqs", "2", *options)
    for i in (0, 7, 9):
        [alone] = run(omma, "embed", embedder, lines[i : i + 1], tmp_path / "b.npy", *options)
        assert (alone == together[i]).all()


def test_dimensions(omma, embedder, tmp_path):
    lines = ['"a dog"', '"a cat"']
    whole = run(omma, "embed", embedder, lines, tmp_path / "a.npy")
    part = run(omma, "embed", embedder, lines, tmp_path / "b.npy", "--dimensions", "16")
    wanted = whole[:, :16] / np.linalg.norm(whole[:, :16], axis=1, keepdims=True)
    assert part.shape == (2, 16) and np.abs(part - wanted).max() < 1e-6
    done = omma("embed", embedder, "--text", "x", "--dimensions", "65", "--output", tmp_path / "c.npy")
    assert done.returncode == 1 and b"dimensions: expected 1 to 64, found 65" in done.stderr and not (tmp_path / "c.npy").exists()


def test_json_lines(omma, embedder, images, tmp_path):
    done = omma("embed", embedder, images / "tile_64x64.png", "--text", "a dog", "--output", "-")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["index"] for row in rows] == [0, 1]
    binary = run(omma, "embed", embedder, [json.dumps({"image": str(images / "tile_64x64.png")}), '"a dog"'], tmp_path / "a.npy")
    assert (np.array([row["embedding"] for row in rows], np.float32) == binary).all()


def test_what_fails_is_named(omma, embedder, tmp_path):
    bad = ['{"image": "/nowhere.png"}', "[1]", "{", '{"txt": "a"}', '{"text": 7}', '{"text": "a", "image": 3}']
    lines = "\n".join(['"good"', *bad, '"good"'])
    output = tmp_path / "a.npy"
    done = omma("embed", embedder, "--input", "-", "--output", output, stdin=lines.encode())
    assert done.returncode == 1 and b"6 of 8 inputs failed" in done.stderr
    for words in (b"/nowhere.png", b"line 3", b"line 4", b'unknown key "txt"', b"text must be", b"image must be"):
        assert words in done.stderr, done.stderr.decode()
    vectors = np.load(output)
    assert np.isnan(vectors[1:7]).all() and (vectors[0] == vectors[7]).all() and np.isfinite(vectors[0]).all()


@pytest.mark.parametrize("command, words", [("embed", []), ("rerank", ["--query", "a dog"])])
def test_lines_of_what_fails_say_why(omma, embedder, reranker, command, words):
    """What stands on stderr, and in the line of the input."""
    model = {"embed": embedder, "rerank": reranker}[command]
    bad = ['{"image": "/nowhere.png"}', "{", '{"text": 7}']
    done = omma(command, model, *words, "/none.png", "--input", "-", "--output", "-", stdin="\n".join(['"good"', *bad]).encode())
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["index"] for row in rows] == [0, 1, 2, 3, 4] and "error" not in rows[1]
    errors = [rows[i]["error"] for i in (0, 2, 3, 4)]
    assert errors == [line[len("omma: "):] for line in done.stderr.decode().splitlines()[:4]]
    for error, part in zip(errors, ["/none.png: cannot open", "/nowhere.png: cannot open", "line 3", "line 4: text must be"]):
        assert part in error, errors


@pytest.mark.release_only
def test_memory_does_not_grow_with_the_inputs(omma, embedder, images):
    """800 images of 190 KB each when decoded come through a pipe. Their files do not differ, which
    nothing here makes use of; 3 MiB are far from what keeping anything of them would take."""
    line = json.dumps({"image": str(images / "harbour_301x211.jpg")}).encode() + b"\n"
    words = [omma.path, "embed", str(embedder), "--input", "-", "--output", "-", "--max-pixels", "4096"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        feeder = threading.Thread(target=lambda: process.stdin.write(line * 900))
        feeder.start()
        peaks = {}
        for row in range(800):
            assert b"embedding" in process.stdout.readline()
            if row in (150, 799):
                status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
                peaks[row] = int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024
        process.kill()
        feeder.join()
    assert peaks[799] < peaks[150] + 3, peaks


def test_progress(omma, embedder, tmp_path):
    """Of a file, whose lines are not counted before, and of a pipe, whose end nobody knows."""
    source, count = tmp_path / "in.jsonl", 300
    source.write_text('"a dog that runs"\n' * count)
    for words in (["--input", str(source)], ["--input", "-"]):
        leader, follower = pty.openpty()
        done = subprocess.run([omma.path, "embed", str(embedder), *words, "--output", str(tmp_path / "a.npy"), "--max-num-seqs", "1"],
                              input=source.read_bytes(), stderr=follower, check=False)
        os.close(follower)
        try:
            shown = os.read(leader, 1 << 20).decode().split("\r")
        except OSError:  # a terminal that nothing was written to
            shown = []
        os.close(leader)
        assert done.returncode == 0
        # Nothing is drawn in the first 0.3 s.
        for line in [line for line in shown if line.startswith("embed") and "0 failed" in line]:
            if words[1] == "-":
                assert re.fullmatch(r"embed  [\d.]+ s  \d+, 0 failed, [\d.]+/s\x1b\[K", line), line
            else:
                assert re.fullmatch(rf"embed \[[#.]+\] +\d+ %  [\d.]+ s  \d+/{count}, 0 failed, [\d.]+/s, \d+ s left\x1b\[K", line), line


@pytest.mark.parametrize("ends", [False, True], ids=["waits", "ends"])
@pytest.mark.parametrize("command, output, said", [
    ("embed", "a.npy", r"embed: interrupted after \d+ inputs?: {}/a.npy was not written, nothing of it is kept"),
    ("embed", "-", r"embed: interrupted after \d+ inputs?"),
    ("rerank", None, r"rerank: interrupted: the ranking is of the first \d+ inputs?"),
])
def test_interrupted(omma, embedder, tmp_path, command, output, said, ends):
    """While it waits for lines, and where Ctrl-C ends the program before it in a pipe as well."""
    words = [omma.path, command, embedder, "--input", "-", "--log-level", "debug", *(["--query", "a dog"] if command == "rerank" else [])]
    words += ["--output", tmp_path / output if output != "-" else "-"] if output else []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdin.write('"a dog"\n' * 3)
        process.stdin.flush()
        while "request" not in process.stderr.readline():  # of the first line
            pass
        process.send_signal(signal.SIGINT)
        if ends:
            process.stdin.close()
        try:
            process.wait(timeout=60)
        finally:
            process.kill()
        error = [line for line in process.stderr.read().splitlines() if "interrupted" in line]
    assert process.returncode == 130 and len(error) == 1 and re.fullmatch("omma: " + said.format(re.escape(str(tmp_path))), error[0]), error
    assert list(tmp_path.iterdir()) == []


def test_ranking(omma, reranker, images):
    words = ["--query", "a dog", "--text", "first", "--text", "second", images / "tile_64x64.png"]
    done = omma("rerank", reranker, *words)
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 3 and {line.split("  ")[1] for line in lines} == {"0", "1", "2"}
    scores = [float(line.split("  ")[0]) for line in lines]
    assert scores == sorted(scores, reverse=True)
    ranking = omma.json("rerank", reranker, *words, "--top-n", "2", "--json")["results"]
    assert [str(result["index"]) for result in ranking] == [line.split("  ")[1] for line in lines[:2]]


def test_rankings_have_the_documents(omma, reranker, images):
    """Those of the command line, and those of lines; the best of many lines alone are kept."""
    image = str(images / "tile_64x64.png")
    parts = [{"type": "image_url", "image_url": {"url": image}}]
    lines = ['"a cat"', '{"text": "a bird", "instruction": "x"}', json.dumps({"text": "both", "image": [image, image]}), '{}',
             json.dumps({"video": [image, image], "fps": 2})]
    wanted = [(None, parts), ("a dog", None), ("a cat", None), ("a bird", None), (None, [*parts, *parts, {"type": "text", "text": "both"}]),
              ("", None), (None, [{"type": "video", "video": [image, image]}])]
    words = ["rerank", reranker, image, "--query", "a dog", "--text", "a dog", "--input", "-"]
    source = "\n".join(lines).encode()
    found = omma.json(*words, "--json", stdin=source)
    assert found["errors"] == [] and len(found["results"]) == len(wanted)
    for result in found["results"]:
        text, multi_modal = wanted[result["index"]]
        assert list(result) == ["index", "document", "relevance_score"]
        assert result["document"] == {"text": text, "multi_modal": multi_modal}
    columns = dict(line.split("  ", 2)[1:] for line in omma(*words, stdin=source).stdout.decode().splitlines())
    assert columns == {"0": image, "1": "a dog", "2": "a cat", "3": "a bird", "4": f"{image} {image} both", "5": "", "6": f"{image} {image}"}
    inline = "data:image/png;base64," + base64.b64encode((images / "tile_64x64.png").read_bytes()).decode()
    line = json.dumps({"image": [inline], "text": "data:" + "x" * 60}).encode()
    words = ["rerank", reranker, "--query", "a dog", "--input", "-"]
    [result] = omma.json(*words, "--json", stdin=line)["results"]
    assert [part.get("text") or part["image_url"]["url"] for part in result["document"]["multi_modal"]] == [inline[:40] + "...", "data:" + "x" * 60]
    assert omma(*words, stdin=line).stdout.decode().endswith(f"  0  {inline[:40]}... data:{'x' * 60}\n")
    many = [json.dumps(f"document {i % 7}") for i in range(2100)]
    best = omma.json("rerank", reranker, "--query", "a dog", "--input", "-", "--top-n", "9", "--json", stdin="\n".join(many).encode())
    results = best["results"]
    assert len(results) == 9 and len({result["relevance_score"] for result in results}) == 1
    assert [result["document"]["text"] for result in results] == [f"document {result['index'] % 7}" for result in results]
    assert [result["index"] for result in results] == [results[0]["index"] + 7 * i for i in range(9)] and results[0]["index"] < 7


def test_a_ranking_names_what_failed(omma, reranker):
    bad = ['{"image": "/nowhere.png"}', "{"]
    words = ["rerank", reranker, "--query", "a dog", "--input", "-", "--json"]
    done = omma(*words, stdin="\n".join(bad).encode())
    found = json.loads(done.stdout)
    assert done.returncode == 1 and found["results"] == [] and [error["index"] for error in found["errors"]] == [0, 1]
    assert "/nowhere.png: cannot open" in found["errors"][0]["error"] and "line 2" in found["errors"][1]["error"]
    done = omma(*words, stdin="\n".join([*bad, '"a dog"']).encode())
    found = json.loads(done.stdout)
    assert done.returncode == 1 and [result["index"] for result in found["results"]] == [2] and len(found["errors"]) == 2
    done = omma(*words, stdin=b"")
    assert done.returncode == 0 and json.loads(done.stdout) == {"results": [], "errors": []}


def test_a_model_of_vectors_ranks_by_their_cosine(omma, embedder, images, tmp_path):
    """As /rerank, in the model's form of prompts; the query has the instruction too."""
    image, texts = str(images / "tile_64x64.png"), ["a cat", "a dog", "two things"]
    url = "data:image/png;base64," + base64.b64encode(pathlib.Path(image).read_bytes()).decode()
    part = {"type": "image_url", "image_url": {"url": url}}
    for i, words in enumerate([[], ["--instruction", "Find animals."]]):
        body = {"query": "a dog", "documents": [{"content": [part]}, *texts]} | ({"instruction": words[1]} if words else {})
        rows = run_batch(omma, embedder, tmp_path / f"{i}", [("a", "/rerank", body)], 0)
        wanted = {row["index"]: row["relevance_score"] for row in rows["a"][1]["results"]}
        done = omma("rerank", embedder, image, "--query", "a dog", *words, *[word for text in texts for word in ("--text", text)], "--json")
        found = {row["index"]: row["relevance_score"] for row in json.loads(done.stdout)["results"]}
        assert done.returncode == 0 and done.stderr == b"" and found == pytest.approx(wanted, abs=1e-6)
        assert 1 - 1e-6 < max(found.values()) <= 1 + 1e-6 and min(found.values()) < 0.99
    scores = run(omma, "rerank", embedder, ['"a cat"', '{"text": "a dog", "instruction": "Find animals."}'], tmp_path / "s.npy", "--query", "a dog")
    vectors = run(omma, "embed", embedder, ['"a dog"', '"a cat"', '{"text": "a dog", "instruction": "Find animals."}'], tmp_path / "v.npy")
    assert np.abs(scores - vectors[1:] @ vectors[0]).max() < 1e-6


def test_refusals(omma, embedder, reranker, model, tmp_path):
    output = tmp_path / "a.npy"
    for words, code, message in [
        (["embed", embedder, "--text", "x"], 2, b"--output is missing"),
        (["embed", embedder, "--output", output], 2, b"nothing to do"),
        (["embed", embedder, "--text", "x", "--output", tmp_path / "a.csv"], 2, b".npy or .jsonl"),
        (["embed", embedder, "--text", "x", "--output", tmp_path / "no" / "a.npy"], 1, b"/no/a.npy: the folder that it is to lie in is missing"),
        (["rerank", reranker, "--text", "x"], 2, b"--query or --query-image is missing"),
        (["embed", embedder, "--input", tmp_path / "none.jsonl", "--output", output], 1, b"No such file"),
        (["embed", model.replace("qwen3_vl_tied", "kimi_vl"), "--text", "x", "--output", output], 1,
         b"type kimi_vl gives no vectors and scores; those of these types do: qwen3_vl, and with a layer for a vector of each token: "
         b"qwen2_vl qwen2_5_vl qwen3_vl\n"),
        (["rerank", model, "--query", "x", "--text", "x", "--text", "y"], 1, b'no token is "yes", whose logit a score is read off; Qwen3-VL-Reranker models'),
    ]:
        done = omma(*words)
        assert done.returncode == code and message in done.stderr, (words, done.stderr)
        assert not output.exists() and done.stderr.count(b"\n") <= 2


def test_models_for_something_else_are_noted(omma, embedder, reranker, scratch):
    """By their files and names; the demo has a layer that was trained for vectors of tokens."""
    chat, demo = vector_cases.make_model(scratch / "Tiny-Chat"), GOLDEN.parents[1] / "models" / "demo"
    note = "neither this model's files nor its name say that it was trained for"
    embed, rerank = ["--text", "a dog", "--output", "-"], ["--text", "a dog", "--query", "a dog"]
    for model, command, words, said in [
        (chat, "embed", embed, f"omma: embed: {note} vectors, which may be of no use: docs/embeddings.md\n"),
        (chat, "rerank", rerank, f"omma: rerank: {note} scores, which may be of no use: docs/embeddings.md\n"),
        (reranker, "embed", embed, f"omma: embed: {note} vectors, which may be of no use: docs/embeddings.md\n"),
        (embedder, "embed", embed, ""), (embedder, "rerank", rerank, ""), (reranker, "rerank", rerank, ""), (demo, "embed", embed, ""), (demo, "rerank", rerank, ""),
    ]:
        done = omma(command, model, *words)
        assert done.returncode == 0 and done.stdout and done.stderr.decode() == said, (model, command)


def test_texts_that_are_no_options(omma, embedder, reranker, images):
    """A word that is no file: what to do with a text is said."""
    image = images / "tile_64x64.png"
    done = omma("embed", embedder, image, "a red circle", "--output", "-")
    assert done.returncode == 1 and b"omma: image: a red circle: cannot open: No such file or directory (a text goes after --text)\n" in done.stderr
    done = omma("rerank", reranker, "a red circle", image)
    assert done.returncode == 2 and done.stderr == (
        b"omma: rerank: --query or --query-image is missing: 'a red circle' is no file; a text to search by goes after --query\n")
    done = omma("rerank", reranker, image)
    assert done.stderr == b"omma: rerank: --query or --query-image is missing\n"


def test_a_first_word_that_is_no_file(omma, images, tmp_path):
    """Without a model the demo model would answer: a name that is misspelt ends it all."""
    output, image = tmp_path / "a.npy", images / "tile_64x64.png"
    for command, words in (("embed", ["--output", output]), ("rerank", ["--query", "a dog"])):
        for further in ([], [image], ["--text", "a dog"]):
            refused(omma(command, "Qwen3-VL-Embeding-2B", *further, *words), 1,
                    f"{command}: Qwen3-VL-Embeding-2B: No such file or directory: the first word is a model")
    assert not output.exists()


def test_folders(omma, embedder, images, tmp_path):
    """The images in them by name; neither hidden files, nor others, nor those of folders within."""
    folder = tmp_path / "photos"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for name in ("b.png", "a.PNG", ".c.png", "sub/d.png"):
        shutil.copy(images / "tile_64x64.png", folder / name)
    shutil.copy(images / "meadow_163x97.jpg", folder / "c.jpg")
    (folder / "notes.txt").write_text("none")
    wanted = [str(folder / name) for name in ("a.PNG", "b.png", "c.jpg")]
    for words in ([embedder, f"{folder}/"], ["--model", embedder, folder]):
        assert omma("embed", *words, "--text", "a dog", "--output", tmp_path / "a.npy").returncode == 0
        assert omma("embed", embedder, *wanted, "--text", "a dog", "--output", tmp_path / "b.npy").returncode == 0
        assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    ranking = omma.json("rerank", embedder, folder, wanted[0], "--query", "a dog", "--json")["results"]
    found = {result["index"]: result["document"]["multi_modal"][0]["image_url"]["url"] for result in ranking}
    assert [found[i] for i in range(4)] == [*wanted, wanted[0]]
    # Without a model the demo model answers, as for an image.
    for further in (wanted, [folder]):
        done = omma("embed", *further, "--output", tmp_path / f"{len(further)}.npy")
        assert done.returncode == 0 and b"no model is named: the demo model answers" in done.stderr
    assert (tmp_path / "1.npy").read_bytes() == (tmp_path / "3.npy").read_bytes()
    for words, message in (([embedder, tmp_path / "empty"], f"{tmp_path}/empty: a folder without images"),
                           ([tmp_path / "empty"], f"{tmp_path}/empty: a directory without config.json")):
        refused(omma("embed", *words, "--output", tmp_path / "c.npy"), 1, message)
    refused(omma("embed", "--model", embedder, embedder, "--output", tmp_path / "c.npy"), 2, "given by --model already")


@pytest.mark.parametrize("command, options, message", [
    ("embed", ["--dimensions", "65"], "--dimensions: expected 1 to 64, found 65"),
    ("embed", ["--min-pixels", "5000", "--max-pixels", "4000"], "--min-pixels: expected at most --max-pixels, which is 4000, found 5000"),
    ("embed", ["--instruction", b"\xff"], "--instruction: invalid UTF-8"),
    ("rerank", ["--instruction", b"\xff", "--query", "a dog"], "--instruction: invalid UTF-8"),
])
def test_wrong_options_fail_once(omma, embedder, images, command, options, message):
    words = [omma.path, command, embedder, "--text", "a", "--text", "b", images / "tile_64x64.png", *options]
    words += ["--output", "-"]
    refused(subprocess.run(words, capture_output=True, timeout=120, check=False), 1, message)


def test_gguf_files(omma, scratch, images, tmp_path):
    """The same vectors from a file whose name says nothing, by its pooling_type."""
    source = vector_cases.make_model(tmp_path / "source", "qwen3_vl_untied")
    path, mmproj_file = convert(source, tmp_path / "files", "F16", tmp_path / "plain")
    for pooling, command, words in [(3, "embed", []), (4, "rerank", ["--query", "a dog"])]:
        folder = tmp_path / command
        folder.mkdir()
        rewrite(path, folder / "model.gguf", {"qwen3vl.pooling_type": pooling})
        lines = ['"a dog"', json.dumps({"image": str(images / "tile_64x64.png"), "text": "x"})]
        mmproj = ["--mmproj", mmproj_file]
        found = run(omma, command, folder / "model.gguf", lines, tmp_path / "a.npy", *words, *mmproj)
        wanted = run(omma, command, tmp_path / "plain", lines, tmp_path / "b.npy", *words)
        assert (found == wanted).all()
        assert omma.json("info", folder / "model.gguf", "--json", *mmproj)["model"]["task"] == {3: "embed", 4: "score"}[pooling]


def run_batch(omma, model, tmp_path, lines, code):
    """{custom_id: (status, body)}"""
    tmp_path.mkdir(exist_ok=True)
    source, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps({"custom_id": name, "method": "POST", "url": url, "body": body}) + "\n" for name, url, body in lines))
    done = omma("batch", model, "-i", source, "-o", output)
    assert done.returncode == code, done.stderr.decode()
    rows = [json.loads(row) for row in output.read_text().splitlines()]
    return {row["custom_id"]: (row["response"]["status_code"], row["response"]["body"]) for row in rows}


def test_lines_of_a_batch(omma, embedder, reranker, tmp_path):
    """The same vectors and scores as the commands give."""
    embedding, ranking = {"input": "a dog", "instruction": "Represent the user's input."}, {"query": "a dog", "documents": ["a cat", "a dog"]}
    rows = run_batch(omma, embedder, tmp_path, [
        ("vector", "/v1/embeddings", embedding), ("cosine", "/v1/score", {"queries": "a dog", "documents": "a dog"}),
        ("bytes", "/v1/embeddings", {**embedding, "encoding_format": "bytes_only"}), ("chat", "/v1/chat/completions", {"messages": []})], 1)
    wanted = run(omma, "embed", embedder, ['"a dog"'], tmp_path / "a.npy")[0]
    assert rows["vector"][0] == 200 and (np.array(rows["vector"][1]["data"][0]["embedding"], np.float32) == wanted).all()
    assert rows["cosine"][1]["data"][0]["score"] == pytest.approx(1, abs=1e-6)
    assert rows["bytes"][0] == 400 and rows["chat"][0] == 400 and "/v1/embeddings" in rows["chat"][1]["error"]["message"]
    (tmp_path / "out.jsonl").unlink()
    scores = run(omma, "rerank", reranker, ['"a cat"', '"a dog"'], tmp_path / "s.npy", "--query", "a dog")
    rows = run_batch(omma, reranker, tmp_path, [(url, url, ranking) for url in ("/v1/rerank", "/rerank", "/v2/rerank")], 0)
    for status, body in rows.values():
        assert status == 200
        assert {one["index"]: np.float32(one["relevance_score"]) for one in body["results"]} == dict(enumerate(scores))


@pytest.mark.parametrize("words, message", [
    (["--task", "embed", "--runner", "pooling"], b"not together"), (["--convert", "embed", "--runner", "generate"], b"needs --runner pooling"),
    (["--task", "other"], b"embed"),
])
def test_options_that_say_what_a_model_is_for(omma, embedder, words, message, tmp_path):
    """They are read before the model is."""
    (tmp_path / "in.jsonl").write_text("")
    done = omma("batch", embedder, "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl", *words)
    assert done.returncode == 2 and message in done.stderr, done.stderr


@pytest.mark.parametrize("words, serves", [
    ([], True), (["--runner", "generate"], False), (["--task", "generate"], False), (["--convert", "embed"], True), (["--task", "embedding"], True),
])
def test_a_model_is_for_what_the_options_say(omma, embedder, words, serves, tmp_path):
    (tmp_path / "in.jsonl").write_text(json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {"input": "a"}}) + "\n")
    done = omma("batch", embedder, "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl", *words)
    assert done.returncode == (0 if serves else 1), done.stderr


def test_a_model_that_answers_gives_vectors_where_the_options_say_so(omma, model, tmp_path):
    (tmp_path / "in.jsonl").write_text(json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {"input": "a"}}) + "\n")
    for words, code in [([], 1), (["--runner", "pooling"], 0)]:
        (tmp_path / "out.jsonl").unlink(missing_ok=True)
        assert omma("batch", model, "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl", *words).returncode == code
