"""POST /v1/ocr: Mistral's request and reply over scripted answers, refusals by field, PDF files
that were made to harm, clients that leave, and what is bounded."""

import base64
import json
import os
import pathlib
import select
import shutil
import struct
import sys
import time
import zlib

import pytest
from server_process import ServerProcess, check_output, make_command, read_all

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import pdf_files

needs_poppler = pytest.mark.skipif(not (shutil.which("pdftoppm") and shutil.which("pdfinfo")), reason="poppler-utils is not installed")

# Of a page of 278 x 278 pixels (100 points at 200 dpi).
LAYOUT = "".join(f"<|box_start|>{box}<|box_end|><|ref_start|>{kind}<|ref_end|><|{turn}|>\n" for box, kind, turn in (
    ("100 020 900 080", "header", "rotate_up"), ("100 100 900 200", "title", "rotate_up"), ("100 300 400 600", "image", "rotate_right"),
    ("500 300 900 600", "table", "rotate_up"), ("100 700 900 800", "text", "rotate_up"), ("450 300 480 330", "image", "rotate_up"),
    ("100 920 900 980", "footer", "rotate_up")))
TABLE = "<table><tr><td colspan=\"2\">a</td></tr><tr><td>b</td><td>c</td></tr></table>"
RECIPE = {"recipe": "mineru2.5"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """By the sizes of what is asked about: the page, its table; all else is a text."""
    folder = tmp_path_factory.mktemp("answers")
    (folder / "1036x1036").write_text(LAYOUT)
    (folder / "111x84").write_text("<fcel>a<lcel><nl><fcel>b<fcel>c<nl>")
    (folder / "other").write_text("A text of it")
    return folder


@pytest.fixture(scope="module")
def reader(pytestconfig, kind, answers):
    process = ServerProcess(make_command(pytestconfig, "fake", {"model": answers, "max_document_pages": 8}))
    yield process
    process.stop()
    check_output(process)


def pdf(n=1, **options):
    return data_url(pdf_files.pages(n, **{"side": 100, **options}), "application/pdf")


def data_url(data, media_type):
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def ask(server, url=None, timeout=60, **fields):
    document = {"type": "document_url", "document_url": url or pdf()}
    return server.post("/v1/ocr", {"model": "test-model", "document": document, "ommatidia": RECIPE, **fields}, timeout=timeout)


def read(server, url=None, **fields):
    reply = ask(server, url, **fields)
    assert reply.status == 200, reply.body
    return reply.json


def events(data):
    return [json.loads(line[6:]) for line in data.decode().split("\n\n") if line.startswith("data: {")]


# ---- replies ----


@needs_poppler
def test_reply(reader):
    reply = read(reader, pdf(2), include_image_base64=True)
    assert list(reply) == ["pages", "model", "document_annotation", "usage_info"] and reply["model"] == "test-model"
    assert reply["usage_info"] == {"pages_processed": 2, "doc_size_bytes": len(pdf_files.pages(2, side=100))}
    for index, page in enumerate(reply["pages"]):
        figure, small = f"img-{2 * index}.jpeg", f"img-{2 * index + 1}.jpeg"
        assert page["index"] == index and page["dimensions"] == {"dpi": 200, "height": 278, "width": 278}
        assert page["markdown"] == "\n\n".join(["A text of it", "# A text of it", f"![{figure}]({figure})", TABLE, "A text of it",
                                                f"![{small}]({small})", "A text of it"])
        assert [image["id"] for image in page["images"]] == [figure, small]
        assert {key: page["images"][0][key] for key in ("top_left_x", "top_left_y", "bottom_right_x", "bottom_right_y")} == {
            "top_left_x": 28, "top_left_y": 83, "bottom_right_x": 111, "bottom_right_y": 167}
        assert base64.b64decode(page["images"][0]["image_base64"].removeprefix("data:image/jpeg;base64,"))[:2] == b"\xff\xd8"
        assert [block["type"] for block in page["blocks"]] == ["header", "title", "image", "table", "text", "image", "footer"]
        assert page["blocks"][2]["image_id"] == figure and page["blocks"][3]["content"] == TABLE
    assert all(image["image_base64"] is None for image in read(reader)["pages"][0]["images"])


@needs_poppler
def test_an_image_is_a_page(reader):
    raw = b"".join(b"\0" + b"\xff\xff\xff" * 60 for _ in range(80))
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", 60, 80, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    data = b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks)
    url = data_url(data, "image/png")
    for image in (url, {"url": url}):
        reply = reader.post("/v1/ocr", {"document": {"type": "image_url", "image_url": image}})
        assert reply.status == 200, reply.body
        (page,) = reply.json["pages"]
        assert page["markdown"] == "A text of it" and page["dimensions"]["width"] == 60 and page["dimensions"]["height"] == 80
    for part in ({"document_url": url}, {"type": "document_url", "document_url": url}, {"image_url": url}):
        assert reader.post("/v1/ocr", {"document": part}).status == 200


@needs_poppler
def test_pages_of_a_tiff_file(reader):
    def page(at, width, after):
        entries = ((256, width), (257, 60), (258, 8), (259, 1), (262, 1), (273, 8), (279, 60 * width))
        return struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries) + struct.pack("<I", after)
    pixels, size = b"\xff" * 60 * 100, 2 + 7 * 12 + 4
    first = 8 + len(pixels)
    data = b"II*\0" + struct.pack("<I", first) + pixels + page(first, 80, first + size) + page(first + size, 100, 0)
    pages = read(reader, data_url(data, "image/tiff"), ommatidia={"recipe": "page"})["pages"]
    assert [(page["index"], page["dimensions"]["width"]) for page in pages] == [(0, 80), (1, 100)]
    (second,) = read(reader, data_url(data, "image/tiff"), ommatidia={"recipe": "page"}, pages=[1])["pages"]
    assert second == pages[1]


@needs_poppler
def test_pages(reader):
    def indices_of(reply):
        return [page["index"] for page in reply["pages"]]

    def indices(pages):
        return indices_of(read(reader, pdf(6), pages=pages))
    assert indices(None) == [0, 1, 2, 3, 4, 5]
    assert indices([4, 0, 4]) == [0, 4] and indices("0,2-4") == [0, 2, 3, 4] and indices("5 , 1") == [1, 5]
    for wrong in ([6], [-1], ["1"], [1.5], "", "x", "1-", "3-1", "6", "1,,2", 3, [], "99999999999999999999"):
        reply = ask(reader, pdf(6), pages=wrong)
        assert reply.status == 400 and reply.error["param"] == "pages", (wrong, reply.body)
    reply = ask(reader, pdf(9))
    assert reply.status == 400 and "9 pages, but this server reads at most 8" in reply.error["message"]
    assert indices_of(read(reader, pdf(9), pages="1-8")) == list(range(1, 9))


@needs_poppler
def test_images_tables_headers(reader):
    assert [image["id"] for image in read(reader, pdf(3), image_limit=3)["pages"][1]["images"]] == ["img-2.jpeg"]
    page = read(reader, image_min_size=20)["pages"][0]
    assert [image["id"] for image in page["images"]] == ["img-0.jpeg"] and page["markdown"].count("![") == 1
    assert read(reader, image_limit=0)["pages"][0]["images"] == []
    page = read(reader, table_format="html", extract_header=True, extract_footer=True)["pages"][0]
    assert page["tables"] == [{"id": "tbl-0.html", "content": TABLE, "format": "html"}] and "[tbl-0.html](tbl-0.html)" in page["markdown"]
    assert page["header"] == page["footer"] == "A text of it" and page["markdown"].startswith("# A text of it") and TABLE not in page["markdown"]
    assert page["blocks"][3]["table_id"] == "tbl-0.html" and read(reader, include_blocks=False)["pages"][0]["blocks"] is None


@needs_poppler
def test_own_fields(reader):
    page = read(reader, ommatidia={"recipe": "page", "dpi": 100, "page_images": True, "prompt": "Read."})["pages"][0]
    assert page["dimensions"] == {"dpi": 100, "height": 139, "width": 139} and page["page_image"].startswith("data:image/jpeg;base64,")
    assert page["markdown"] == "A text of it"


@needs_poppler
@pytest.mark.real_only
def test_answers_that_are_cut_off(request, kind, launch):
    """By the limit of tokens."""
    limit = {"override_generation_config": '{"max_new_tokens": 2}', "max_model_len": 256}
    server = launch(make_command(request.config, kind, limit))
    (page,) = read(server, ommatidia={"recipe": "page", "dpi": 50})["pages"]
    assert page["ommatidia"] == {"cut": 1} and page["blocks"]


@needs_poppler
def test_a_layout_without_blocks_is_noted(start, tmp_path):
    (tmp_path / "other").write_text("A text of it")
    page = read(start(model=tmp_path))["pages"][0]
    assert (page["markdown"], page["blocks"], page["ommatidia"]) == ("", [], {"layout_unread": True})


@needs_poppler
def test_stream(reader):
    reply = ask(reader, pdf(5), stream=True, pages="1-4")
    first, *pages, last = events(reply.body)
    assert first == {"object": "ocr.document", "model": "test-model", "pages": [1, 2, 3, 4]} and reply.body.endswith(b"data: [DONE]\n\n")
    whole = read(reader, pdf(5), pages="1-4")
    assert [{**page, "object": "ocr.page"} for page in whole["pages"]] == pages and last["usage_info"] == whole["usage_info"]


# ---- refusals ----


def test_refusals_name_the_field(reader):
    annotation = {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}
    for fields, param in (({"document": None}, "document"), ({"document": {"type": "file", "file_id": "a"}}, "document"),
                          ({"document": {"type": "x"}}, "document"), ({"document": {"type": "document_url"}}, "document"),
                          ({"document_annotation_format": annotation}, "document_annotation_format"),
                          ({"bbox_annotation_format": annotation}, "bbox_annotation_format"),
                          ({"document_annotation_prompt": "a"}, "document_annotation_prompt"),
                          ({"confidence_scores_granularity": "word"}, "confidence_scores_granularity"),
                          ({"temperature": 0.5}, "temperature"), ({"max_tokens": 1}, "max_tokens"),
                          ({"table_format": "markdown"}, "table_format"), ({"image_limit": -1}, "image_limit"),
                          ({"include_image_base64": "x"}, "include_image_base64"), ({"ommatidia": {"recipe": "x"}}, "ommatidia"),
                          ({"ommatidia": {"details": True}}, "ommatidia"), ({"ommatidia": {"dpi": 5000}}, "dpi"), ({"stream": "x"}, "stream")):
        reply = ask(reader, "data:,", **fields)
        assert reply.status == 400 and reply.error["param"] == param, (fields, reply.body)
    assert "known are mineru2.5, paddleocr-vl, " in ask(reader, "data:,", ommatidia={"recipe": "x"}).error["message"]
    assert ask(reader, model="other").status == 404


def test_addresses_are_those_of_images(reader):
    for url, said in (("https://example.org/a.pdf", "--allowed-media-domains"), ("file:///etc/passwd", "--allowed-local-media-path"),
                      ("/etc/passwd", "must begin with"), ("data:application/pdf;base64,!", "not valid base64")):
        reply = ask(reader, url)
        assert (reply.status, reply.error["param"]) == (400, "document")
        assert said in reply.error["message"] and "passwd" not in reply.error["message"].replace(url, "")


def test_pdf_files_are_promised_where_poppler_is(start, answers, tmp_path):
    server = start(model=answers, env={**os.environ, "PATH": str(tmp_path)})
    assert "capabilities" not in server.get("/v1/models").json["data"][0]
    reply = ask(server)
    assert reply.status == 400 and "pdfinfo is not installed" in reply.error["message"]


@needs_poppler
def test_the_list_of_models_says_so(reader, start, answers):
    assert reader.get("/v1/models").json["data"][0]["capabilities"] == {"ocr": True}
    for options in ({"max_documents": 0}, {"images": 0}, {"task": 2}):
        assert "capabilities" not in start(model=answers, **options).get("/v1/models").json["data"][0]


def test_a_server_that_reads_none(start, answers):
    reply = ask(start(model=answers, max_documents=0))
    assert reply.status == 400 and "reads no documents" in reply.error["message"]
    reply = ask(start(model=answers, images=0))
    assert reply.status == 400 and "takes no images" in reply.error["message"]


# ---- hostile documents ----


HOSTILE = {
    "encrypted": (pdf_files.encrypted, "is encrypted and needs a password"),
    "broken": (lambda: b"%PDF-1.4\nnothing of a document", "cannot be read"),
    "cut": (lambda: pdf_files.pages(3)[:300], None),
    "empty": (lambda: b"", "cannot identify image"),
    "no_document": (lambda: b"plain text", "cannot identify image"),
    "tree_of_itself": (pdf_files.tree_of_itself, None),
    "calling_itself": (pdf_files.calling_itself, ""),
    "ten_metres": (lambda: pdf_files.pages(1, side=28346), "needs more than 1024 MiB or 60 s"),
    "too_large": (lambda: pdf_files.pages(1, side=1500), "are allowed"),
    "script": (pdf_files.script, ""),
    "without_fonts": (pdf_files.without_fonts, ""),
}


@needs_poppler
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents(reader, name, tmp_path):
    """A line, and the server goes on; nothing is left. None: either is right."""
    make, expected = HOSTILE[name]
    before = set(os.listdir("/tmp"))
    reply = ask(reader, data_url(make(), "application/pdf"), timeout=120)
    if expected is not None:
        assert (reply.status == 400 and expected in reply.error["message"]) if expected else reply.status == 200, reply.body
    if reply.status != 200:
        assert reply.error["param"] == "document" and "/proc" not in reply.error["message"], reply.body
    assert not {entry for entry in set(os.listdir("/tmp")) - before if "pdf" in entry or "ppm" in entry or "document" in entry}
    assert read(reader)["usage_info"]["pages_processed"] == 1


@needs_poppler
def test_a_page_that_fails_in_a_stream_fails_alone(reader):
    reply = ask(reader, data_url(pdf_files.pages(1, side=1500), "application/pdf"), stream=True)
    _, page, last = events(reply.body)
    assert page["index"] == 0 and "are allowed" in page["error"]["message"] and page["error"]["code"] == 400
    assert last["usage_info"]["pages_processed"] == 1
    assert "omma:pages_failed_total" in reader.get("/metrics").body.decode()


# ---- clients that leave, and many at once ----


def children(server):
    """Programs that run for it."""
    pid = server.process.pid
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split() + [
        child for task in os.listdir(f"/proc/{pid}/task") for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split()]


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@needs_poppler
def test_a_client_that_leaves_ends_its_work(start, answers):
    server = start(model=answers)
    fields = {"document": {"type": "document_url", "document_url": pdf(400)}, "ommatidia": RECIPE}
    with server.send_post("/v1/ocr", fields):
        wait_until(lambda: children(server))
    time.sleep(1)
    wait_until(lambda: not children(server), 5)
    count = server.get("/metrics").body
    time.sleep(1)
    assert server.get("/metrics").body.split(b"omma:pages_read_total")[-1][:20] == count.split(b"omma:pages_read_total")[-1][:20]
    assert read(server)["usage_info"]["pages_processed"] == 1


@needs_poppler
def test_more_than_may_wait_are_refused(start, answers):
    server = start(model=answers, max_documents=1)
    fields = {"document": {"type": "document_url", "document_url": pdf(200)}, "ommatidia": RECIPE}
    connections = [server.send_post("/v1/ocr", fields)]
    wait_until(lambda: children(server))
    connections += [server.send_post("/v1/ocr", fields) for _ in range(9)]  # of which eight wait
    (refused,), _, _ = select.select(connections, [], [], 20)
    assert b" 503 " in refused.recv(4096).split(b"\r\n")[0]
    for connection in connections:
        connection.close()
    wait_until(lambda: ask(server).status == 200)


@needs_poppler
def test_stops_in_the_middle(start, answers):
    """SIGTERM while pages are read: the client hears of it, and no program stays."""
    server = start(model=answers, drain_ms=0)
    with server.send_post("/v1/ocr", {"document": {"type": "document_url", "document_url": pdf(400)}, "ommatidia": RECIPE}) as connection:
        wait_until(lambda: children(server))
        assert server.stop() == 0
        assert b" 503 " in read_all(connection).split(b"\r\n")[0]
