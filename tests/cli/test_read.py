"""`omma read`: documents to Markdown with a real model, stopped and taken up again; PDF files that
were made to harm. Requests, blocks and their forms: tests/reading.

Run with: pytest tests/cli --omma build/release/omma
"""

import html.parser
import json
import os
import random
import shutil
import signal
import subprocess
import time

import pdf_files
import pytest
from PIL import Image

from omma_program import refused

needs_poppler = pytest.mark.skipif(not (shutil.which("pdftoppm") and shutil.which("pdfinfo")), reason="poppler-utils is not installed")


@pytest.fixture
def words(model, tmp_path):
    """A command that reads pages as a whole, briefly, into tmp_path/out."""
    return ["read", "--model", model, "--prompt", "Read.", "--dpi", "36", "--max-model-len", "128", "-o", tmp_path / "out"]


def save(folder, **files):
    for name, data in files.items():
        (folder / f"{name}.pdf").write_bytes(data)
    return [folder / f"{name}.pdf" for name in files]


def run(omma, words, *more, code=0):
    done = omma(*words, *more)
    assert (done.returncode, done.stdout) == (code, b""), done.stderr.decode()
    return done.stderr.decode()


def journal(folder, name):
    return [json.loads(line) for line in (folder / "out" / f"{name}.pages.jsonl").read_text(encoding="utf-8").splitlines()][1:]


@needs_poppler
def test_a_document_a_folder_and_an_image(omma, words, tmp_path):
    scans = tmp_path / "scans"
    scans.mkdir()
    Image.new("RGB", (80, 60), "white").save(scans / "b.png")
    Image.new("RGB", (70, 90), "white").save(scans / "a.jpg")
    (scans / "notes.txt").write_text("no image")
    paths = [*save(tmp_path, three=pdf_files.pages(3), b=pdf_files.pages(1)), scans]
    said = run(omma, words, *paths)
    assert "4 documents, 6 pages, as page" in said and "6 pages read, 0 failed" in said
    names = {"three", "b", "b-2", "a"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == {name + end for name in names for end in (".md", ".json", ".pages.jsonl")}
    document = json.loads((tmp_path / "out" / "three.json").read_text(encoding="utf-8"))
    assert document["source"] == str(paths[0]) and [page["page"] for page in document["pages"]] == [1, 2, 3]
    assert all((page["width"], page["height"]) == (100, 100) for page in document["pages"])
    contents = [page["blocks"][0]["content"] for page in document["pages"]]
    assert (tmp_path / "out" / "three.md").read_bytes().decode() == "\n\n".join(text for text in contents if text) + "\n"
    assert json.loads((tmp_path / "out" / "a.json").read_text(encoding="utf-8"))["pages"][0]["width"] == 70


@needs_poppler
@pytest.mark.parametrize(("form", "ending"), [("html", "html"), ("text", "txt"), ("doctags", "doctags"), ("json", "json")])
def test_forms(omma, words, tmp_path, form, ending):
    run(omma, words, *save(tmp_path, two=pdf_files.pages(2)), "--format", form)
    text = (tmp_path / "out" / f"two.{ending}").read_text(encoding="utf-8")
    assert sorted(file.suffix for file in (tmp_path / "out").iterdir()) == sorted({f".{ending}", ".json", ".jsonl"})
    if form == "html":
        parser = html.parser.HTMLParser()
        parser.feed(text)
        assert text.count("<section") == 2 and "</html>" in text
    elif form == "doctags":
        assert text.startswith("<doctag>\n<text><loc_0><loc_0><loc_500><loc_500>") and text.count("<page_break>") == 1


@needs_poppler
def test_some_pages(omma, words, tmp_path):
    paths = save(tmp_path, five=pdf_files.pages(5))
    for given, wanted in (("2-3", [2, 3]), ("4-", [4, 5]), ("5", [5]), ("3-99", [3, 4, 5]), ("5,2-3,3-", [2, 3, 4, 5]), ("4,1", [1, 4])):
        run(omma, words, *paths, "--pages", given)
        assert sorted(page["page"] for page in journal(tmp_path, "five")) == wanted
    assert "has fewer pages" in run(omma, words, *paths, "--pages", "6", code=1)
    for wrong in ("0", "3-1", "x", "1-2-3", "-", "", "1,", ",1", "1 2", "+3", "99999999999999999999", ",".join("1" * 65)):
        refused(omma(*words, *paths, f"--pages={wrong}"), 2, "--pages")


@needs_poppler
def test_fonts_were_installed_since(omma, words, tmp_path):
    """The list of them is out of date, in a name space of the test's own: poppler wants to write
    it, and may write no file."""
    paths = save(tmp_path, two=pdf_files.pages(2))
    script = 'mount -t tmpfs none /var/cache/fontconfig || exit 77; exec "$@"'
    if not shutil.which("unshare"):
        pytest.skip("no unshare")
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", omma.path, *map(str, [*words, *paths])], capture_output=True, timeout=120)
    if done.returncode == 77 or b"unshare" in done.stderr:
        pytest.skip(f"nothing can be mounted: {done.stderr.decode()}")
    assert done.returncode == 0, done.stderr.decode()
    assert len(journal(tmp_path, "two")) == 2


@needs_poppler
def test_a_page_that_fails_fails_alone(omma, words, tmp_path):
    paths = save(tmp_path, good=pdf_files.pages(2), wide=pdf_files.pages(1, side=3000))
    said = run(omma, words, *paths, "--max-page-pixels", "100000", code=1)
    assert f"read: {paths[1]}: page 1: has 1500 x 1500 pixels: at most 100000 are allowed (--dpi, --max-page-pixels)" in said and "2 pages read, 1 failed" in said
    assert (tmp_path / "out" / "wide.md").read_text(encoding="utf-8") == "<!-- page 1 could not be read -->\n"
    assert "error" in journal(tmp_path, "wide")[0] and len(journal(tmp_path, "good")) == 2
    said = run(omma, words, *paths, "--resume")
    assert "1 page read, 0 failed, 2 read before" in said


def test_an_image_with_too_many_pixels_and_a_file_that_is_none(omma, words, tmp_path):
    """A page that fails, and a document that cannot be opened: both are counted."""
    Image.new("RGB", (400, 300), "white").save(tmp_path / "large.png")
    Image.new("RGB", (80, 60), "white").save(tmp_path / "small.png")
    (tmp_path / "no.pdf").write_text("text")
    said = run(omma, words, *[tmp_path / name for name in ("large.png", "small.png", "no.pdf")], "--max-page-pixels", "100000", "--format", "html", code=1)
    assert f"read: {tmp_path}/large.png: page 1: image is too large: 400 x 300 pixels, at most 100000 in all are allowed (--max-page-pixels)" in said
    assert "1 page read, 1 failed" in said and "read: 1 of the documents could not be opened, as said above" in said
    assert "<!-- page 1 could not be read -->\n</body>" in (tmp_path / "out" / "large.html").read_text(encoding="utf-8")
    assert "could not be read" not in (tmp_path / "out" / "small.html").read_text(encoding="utf-8")


def test_the_demo_model_has_a_name(omma, tmp_path):
    Image.new("RGB", (80, 60), "white").save(tmp_path / "a.png")
    run(omma, ["read", "--prompt", "Read.", "--max-model-len", "128", "-o", tmp_path / "out"], tmp_path / "a.png")
    head = json.loads((tmp_path / "out" / "a.pages.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert os.path.isdir(head["model"])
    assert os.path.isdir(omma.json("bench", "read", tmp_path / "a.png", "--max-model-len", "128", "--json")["model"])


def test_answers_that_are_cut_off(omma, model, tmp_path):
    """By the limit of tokens: marked and counted. A second run that is not to keep them says so."""
    Image.new("RGB", (80, 60), "white").save(tmp_path / "a.png")
    words = ["read", "--model", model, "--prompt", "Read.", "--max-model-len", "128", "-o", tmp_path / "out"]
    said = run(omma, words, tmp_path / "a.png", "--override-generation-config", '{"max_new_tokens": 2}')
    assert "1 page read, 0 failed" in said and "1 of them ended at the limit of tokens before their text did" in said and "--resume keeps" not in said
    page = json.loads((tmp_path / "out" / "a.json").read_text(encoding="utf-8"))["pages"][0]
    assert page["cut"] == 1 and page["blocks"][0]["cut"] is True and "limits" not in page
    for tokens, read in ((2, 0), (4, 1), (4, 0)):
        said = run(omma, words, tmp_path / "a.png", "--resume", "--override-generation-config", json.dumps({"max_new_tokens": tokens}))
        assert f"{read} page{'' if read == 1 else 's'} read, 0 failed, {1 - read} read before" in said
    longer = json.loads((tmp_path / "out" / "a.json").read_text(encoding="utf-8"))["pages"][0]
    assert longer["blocks"][0]["content"].startswith(page["blocks"][0]["content"]) and longer["blocks"] != page["blocks"]
    said = run(omma, words, tmp_path / "a.png")
    assert f"read: {tmp_path}/out/a.pages.jsonl: pages that an earlier run has read are read again; --resume keeps them\n" in said


def test_pages_of_a_tiff_file(omma, words, tmp_path):
    """Scanners and fax machines write such files. A page comes out as in a file of its own."""
    images = [Image.new("RGB", (80 + 10 * i, 60), color) for i, color in enumerate(("white", "black", "red"))]
    images[0].save(tmp_path / "three.tiff", save_all=True, append_images=images[1:])
    for i, image in enumerate(images):
        image.save(tmp_path / f"p{i}.png")
    said = run(omma, words, tmp_path / "three.tiff", *[tmp_path / f"p{i}.png" for i in range(3)])
    assert "4 documents, 6 pages" in said and "6 pages read, 0 failed" in said
    pages = json.loads((tmp_path / "out" / "three.json").read_text(encoding="utf-8"))["pages"]
    alone = [json.loads((tmp_path / "out" / f"p{i}.json").read_text(encoding="utf-8"))["pages"][0] for i in range(3)]
    assert [page["width"] for page in pages] == [80, 90, 100]
    assert [page["blocks"] for page in pages] == [page["blocks"] for page in alone]


def test_a_layout_without_blocks_is_noted(omma, model, tmp_path):
    """As of a model that was not trained for the recipe."""
    Image.new("RGB", (80, 60), "white").save(tmp_path / "a.png")
    limit = ["--override-generation-config", '{"max_new_tokens": 20}']
    words = ["read", "--model", model, "--recipe", "mineru2.5", *limit, "-o", tmp_path / "out"]
    said = run(omma, words, tmp_path / "a.png")
    assert f"warning: read: {tmp_path}/a.png: page 1: the answer about its layout has no block; is --recipe that of this model?" in said


def test_where_nothing_is_to_be_read(omma, model, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    Image.new("RGB", (80, 60), "white").save(tmp_path / "a.png")
    words = ["read", "--model", model, "--prompt", "Read.", "--max-model-len", "128"]
    refused(omma(*words, tmp_path / "empty", "-o", tmp_path / "out"), 1, "empty: has no PDF file and no image (folders in it are not read)")
    refused(omma(*words, tmp_path / "a.png", "-o", tmp_path / "file"), 1, "file: not a folder")
    refused(omma(*words, tmp_path / "a.png", "-o", tmp_path / "no" / "out"), 1, "no/out: the folder that it is to lie in is missing")


@needs_poppler
def test_killed_and_started_again(omma, words, tmp_path, request):
    """At any moment: each page is read once, and the files are those of a run without a stop."""
    paths = save(tmp_path, twelve=pdf_files.pages(12), four=pdf_files.pages(4))
    run(omma, words, *paths)
    wanted = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir() if file.suffix != ".jsonl"}
    rng = random.Random(time.time_ns())
    for _ in range(10 if request.config.getoption("--full") else 2):
        shutil.rmtree(tmp_path / "out")
        for attempt in range(40):
            process = subprocess.Popen([omma.path, *map(str, words), *map(str, paths), "--resume"], stderr=subprocess.PIPE)
            try:
                process.communicate(timeout=rng.uniform(0.05, 0.6) * (1 + attempt / 4))
            except subprocess.TimeoutExpired:
                process.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM]))
                process.communicate()
            if process.returncode == 0:
                break
        assert process.returncode == 0
        assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir() if file.suffix != ".jsonl"} == wanted
        for name, n in (("twelve", 12), ("four", 4)):
            assert sorted(page["page"] for page in journal(tmp_path, name)) == list(range(1, n + 1))


@needs_poppler
def test_resume_begins_anew_with_other_settings(omma, words, tmp_path):
    paths = save(tmp_path, two=pdf_files.pages(2))
    again = "two.pages.jsonl: all pages are read again: "
    assert "warning" not in run(omma, words, *paths, "--resume")
    said = run(omma, words, *paths, "--resume")
    assert "0 pages read, 0 failed, 2 read before" in said and "read again" not in said
    said = run(omma, words, *paths, "--resume", "--dpi", "40")
    assert "2 pages read" in said and f"{again}the earlier run had another --dpi\n" in said
    (tmp_path / "two.pdf").write_bytes(pdf_files.pages(3))
    said = run(omma, words, *paths, "--resume", "--dpi", "40")
    assert "3 pages read" in said and f"{again}the earlier run had another size of the document" in said and "--dpi" not in said.split(again)[1]
    with (tmp_path / "out" / "two.pages.jsonl").open("a") as file:
        file.write('{"page": 1, "blo')  # torn
    assert "0 pages read, 0 failed, 3 read before" in run(omma, words, *paths, "--resume", "--dpi", "40")
    assert len(journal(tmp_path, "two")) == 3


@needs_poppler
def test_resume_with_paths_spelled_in_other_ways(omma, model, words, tmp_path):
    paths = save(tmp_path, two=pdf_files.pages(2))
    run(omma, words, *paths)
    (tmp_path / "link").symlink_to(os.path.realpath(model))
    for spelled in (os.path.realpath(model), os.path.relpath(model), f"{os.path.realpath(model)}/", tmp_path / "link"):
        words[2] = spelled
        said = run(omma, words, os.path.relpath(paths[0]), "--resume")
        assert "0 pages read, 0 failed, 2 read before" in said and "read again" not in said, (spelled, said)


@needs_poppler
def test_pages_are_added(omma, words, tmp_path):
    paths = save(tmp_path, four=pdf_files.pages(4))
    pages = lambda: [page["page"] for page in json.loads((tmp_path / "out" / "four.json").read_text(encoding="utf-8"))["pages"]]
    run(omma, words, *paths, "--pages", "1,3")
    said = run(omma, words, *paths, "--pages", "2", "--resume")
    assert "1 page read, 0 failed, 0 read before" in said and pages() == [1, 2, 3]
    run(omma, words, *paths, "--pages", "4")
    assert pages() == [4]


def test_files_stay_those_of_their_document(omma, words, tmp_path):
    """Whatever the order, and whether a document between them can be opened."""
    paths = [tmp_path / folder / f"a.{ending}" for folder, ending in (("x", "png"), ("y", "jpg"), ("z", "png"))]
    for i, path in enumerate(paths):
        path.parent.mkdir()
        Image.new("RGB", (80, 60 + 10 * i), "white").save(path)
    sources = lambda: {file.stem: json.loads(file.read_text(encoding="utf-8"))["source"] for file in (tmp_path / "out").glob("*.json")}
    run(omma, words, paths[0], paths[1])
    wanted = {"a": str(paths[0]), "a-2": str(paths[1])}
    assert sources() == wanted
    said = run(omma, words, paths[2], paths[1], paths[0])
    assert f"read: {paths[2]}: the files of the name a in {tmp_path}/out stay those of {paths[0]}\n" in said
    assert sources() == {**wanted, "a-3": str(paths[2])}
    paths[0].unlink()
    run(omma, words, *paths, "--resume", code=1)
    assert sources() == {**wanted, "a-3": str(paths[2])}


@needs_poppler
def test_resume_with_a_file_that_is_not_a_journal(omma, words, tmp_path):
    paths = save(tmp_path, two=pdf_files.pages(2))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "two.pages.jsonl").write_text("notes\nof mine\n")
    said = run(omma, words, *paths, "--resume")
    assert "2 pages read" in said and "two.pages.jsonl: all pages are read again: its first line is not one of omma read" in said


HOSTILE = {
    "encrypted": (pdf_files.encrypted, "is encrypted and needs a password"),
    "broken": (lambda: b"%PDF-1.4\nnothing of a document", "cannot be read"),
    "cut": (lambda: pdf_files.pages(3)[:300], None),
    "empty": (lambda: b"", "cannot identify image"),
    "no_pdf": (lambda: b"plain text", "is not a PDF file"),
    "tree_of_itself": (pdf_files.tree_of_itself, None),
    "calling_itself": (pdf_files.calling_itself, ""),
    "ten_metres": (lambda: pdf_files.pages(1, side=28346), "needs more than 1024 MiB or 60 s"),
    "script": (pdf_files.script, ""),
    "without_fonts": (pdf_files.without_fonts, ""),
}


@needs_poppler
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(omma, words, tmp_path, name, monkeypatch):
    """One line each; a good file next to them is read. None: either is right."""
    make, expected = HOSTILE[name]
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    paths = save(tmp_path, good=pdf_files.pages(1), **{name: make()})
    words = [word if word != "36" else "200" for word in words] if name == "ten_metres" else words
    done = omma(*words, *paths)
    said = done.stderr.decode()
    lines = [line for line in said.splitlines() if str(paths[1]) in line]
    if expected is not None:
        assert bool(lines) == bool(expected) and expected in "".join(lines), said
    assert len(lines) <= 3 and done.returncode == bool(lines), said
    assert len(journal(tmp_path, "good")) == 1 and not list(temporary.iterdir())


@needs_poppler
def test_many_pages(omma, words, tmp_path):
    """Only those that are asked for are rendered."""
    paths = save(tmp_path, many=pdf_files.pages(5000))
    assert "1 document, 2 pages" in run(omma, words, *paths, "--pages", "4999-")
    assert sorted(page["page"] for page in journal(tmp_path, "many")) == [4999, 5000]


@needs_poppler
@pytest.mark.release_only
def test_memory_does_not_grow_with_the_pages(omma, words, tmp_path):
    def peak(n):
        process = subprocess.Popen([omma.path, *map(str, words), *map(str, save(tmp_path, many=pdf_files.pages(n)))], stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_maxrss
    assert peak(60) < peak(6) + 8192  # KiB


@needs_poppler
def test_a_bomb_of_pixels(omma, words, tmp_path, request):
    """Rendered within its limits or refused in a line; 32,768 x 32,768 pixels with --full."""
    side = 32768 if request.config.getoption("--full") else 8192
    done = omma(*words, *save(tmp_path, bomb=pdf_files.image_of(side)))
    assert done.returncode == 0 or "needs more than" in done.stderr.decode() or "takes longer than" in done.stderr.decode()


def test_what_is_missing(omma, model, tmp_path):
    Image.new("RGB", (40, 40), "white").save(tmp_path / "a.png")
    refused(omma("read", tmp_path / "a.png", "--model", model), 2, "--output is missing")
    refused(omma("read", "-o", tmp_path / "out", "--model", model), 2)
    refused(omma("read", tmp_path / "a.png", "-o", "-", "--model", model), 2, "--output -: a document has several files: give a folder")
    os.mkfifo(tmp_path / "pipe")
    for stream in ("-", tmp_path / "pipe", "/dev/null"):
        refused(omma("read", stream, "-o", tmp_path / "out", "--model", model), 1, f"read: {stream}: standard input and pipes are not read, as ")
    done = omma("read", tmp_path / "none.pdf", "-o", tmp_path / "out", "--model", model)
    assert done.returncode == 1 and b"none.pdf: cannot be read: No such file" in done.stderr
    (tmp_path / "a.pdf").write_bytes(pdf_files.pages(1))
    done = subprocess.run([omma.path, "read", tmp_path / "a.pdf", "-o", tmp_path / "out", "--model", model], env={"PATH": "/nowhere"},
                          capture_output=True)
    assert done.returncode == 1 and b"a.pdf: pdfinfo is not installed: PDF files need poppler's programs" in done.stderr


# ---- omma bench read ----


def test_bench(omma, model, tmp_path):
    """Figures of a model that was not trained to read: only what they must be is compared."""
    Image.new("RGB", (80, 60), "white").save(tmp_path / "a.png")
    Image.new("RGB", (70, 90), "white").save(tmp_path / "b.jpg")
    words = ["bench", "read", "--model", model, "--prompt", "Read.", "--max-model-len", "128", tmp_path / "a.png", tmp_path / "b.jpg"]
    done = omma(*words, "--json")
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert (found["pages"], found["failed"], found["recipe"], found["requests_per_page"]) == (2, 0, "page", 1)
    assert set(found["seconds_per_page"]) == {"render", "layout", "encode", "prefill", "decode"} and found["seconds_per_page"]["layout"] == 0
    assert found["seconds_per_page"]["encode"] > 0 and found["pages_per_minute"] > 0 and 0 < found["tokens_per_page"] < 128
    assert found["prompt_tokens_per_page"] > 0 and "truth" not in found
    text = omma(*words).stdout.decode()
    assert "pages_per_minute" in text and "seconds_per_page.encode" in text


def test_bench_with_a_truth(omma, model, tmp_path):
    Image.new("RGB", (80, 60), "white").save(tmp_path / "a.png")
    words = ["bench", "read", "--model", model, "--prompt", "Read.", "--max-model-len", "128", "--json", tmp_path / "a.png"]
    table = "<table><tr><td>a</td></tr></table>"
    text = {"category_type": "text_block", "text": "Q", "order": 1}
    for elements, texts, tables in (([], 0, 0), ([{"category_type": "table", "html": table, "order": 1}], 0, 1), ([text], 1, 0)):
        truth = [{"page_info": {"image_path": "images/a.png"}, "layout_dets": elements}, {"page_info": {"image_path": "other.png"}, "layout_dets": []}]
        (tmp_path / "truth.json").write_text(json.dumps(truth))
        done = omma(*words, "--truth", tmp_path / "truth.json")
        found = json.loads(done.stdout)["truth"]
        assert (found["pages"], found["tables"], found["teds"]) == (1, tables, 0 if tables else None)
        assert (0 < found["text_edit_distance"] <= 1) if texts else found["text_edit_distance"] is None
        assert found["formula_edit_distance"] is None
    (tmp_path / "truth.json").write_text(json.dumps(truth[1:]))
    done = omma(*words, "--truth", tmp_path / "truth.json")
    assert done.returncode == 1 and b"truth.json: no image that was read has its name in it\n" in done.stderr
    assert json.loads(done.stdout)["truth"]["pages"] == 0
    text = omma(*[word for word in words if word != "--json"], "--truth", tmp_path / "truth.json").stdout
    assert b"truth.text_edit_distance     -\n" in text
    (tmp_path / "truth.json").write_text("{}")
    refused(omma(*words, "--truth", tmp_path / "truth.json"), 1, "expected a list of pages")
    refused(omma(*words, "--truth", tmp_path / "none.json"), 1, "--truth")
