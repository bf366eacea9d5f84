"""A PDF, or an image of a page, on the page at /: pages with boxes next to their text."""

import pathlib
import shutil
import sys

import pytest
from selenium.webdriver.common.by import By

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import pdf_files  # noqa: E402

needs_poppler = pytest.mark.skipif(not shutil.which("pdftoppm"), reason="poppler-utils is not installed")
LAYOUT = "".join(f"<|box_start|>{box}<|box_end|><|ref_start|>{kind}<|ref_end|><|rotate_up|>\n" for box, kind in (
    ("100 060 900 160", "title"), ("100 200 400 480", "image"), ("450 200 900 480", "table"), ("100 560 900 900", "text")))


@pytest.fixture(scope="module")
def scripted(servers, tmp_path_factory):
    """Named so that its recipe is that of MinerU2.5; every crop but the table's is a text."""
    folder = tmp_path_factory.mktemp("answers")
    (folder / "1036x1036").write_text(LAYOUT)
    (folder / "250x156").write_text("<fcel>a & <b<lcel><nl><fcel>1<fcel>2<nl>")
    (folder / "444x56").write_text("A heading of it")
    (folder / "other").write_text("A **text** of it, which goes on for a while so that its lines are more than one.")
    return servers("fake", model=folder, served_model_name="mineru-scripted")


@pytest.fixture
def paper(tmp_path):
    path = tmp_path / "paper.pdf"
    path.write_bytes(pdf_files.pages(2))
    return path


def read(page, path):
    page.wait(lambda: page.text("#model"), "the model's name")
    page.find("#files").send_keys(str(path))
    page.wait(lambda: page.text("#read-state") == "2 of 2 pages", "both pages")


@needs_poppler
def test_a_document(open_page, scripted, paper):
    page = open_page(scripted)
    read(page, paper)
    assert page.text("#read-name") == "paper.pdf" and len(page.all("#sheets article")) == 2
    assert len(page.all("#sheets article:first-child figure i")) == 4
    text = page.find("#sheets article:first-child .markdown")
    assert text.find_element(By.CSS_SELECTOR, "[role=heading]").text == "A heading of it" and text.find_element(By.TAG_NAME, "strong").text == "text"
    cells = [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")] for row in text.find_elements(By.TAG_NAME, "tr")]
    assert cells == [["a & <b"], ["1", "2"]] and text.find_element(By.TAG_NAME, "td").get_attribute("colspan") == "2"
    assert page.run("return document.querySelector('#sheets .markdown img').naturalWidth") > 0
    box, image = page.run("return ['#sheets i', '#sheets figure img'].map(at => document.querySelector(at).getBoundingClientRect())")
    assert box["x"] - image["x"] == pytest.approx(0.1 * image["width"], abs=2) and box["y"] - image["y"] == pytest.approx(0.06 * image["height"], abs=2)
    page.run("window.saved = []; URL.createObjectURL = blob => { saved.push(blob); return '#'; }")
    next(button for button in page.all("#reader button") if button.text == "Download").click()
    page.wait(lambda: page.run("return saved.length"), "a file")
    page.run("saved[0].text().then(text => { window.got = text; })")
    page.wait(lambda: page.run("return window.got"), "its text")
    assert page.run("return got").count("# A heading of it") == 2
    page.find("#read-close").click()
    page.wait(lambda: not page.run("return document.querySelector('#reader').open"), "its end")


@needs_poppler
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_fits(open_page, scripted, paper, width, theme, request):
    page = open_page(scripted, width=width, height=900)
    page.run("setTheme(arguments[0])", theme)
    read(page, paper)
    assert page.run("return document.documentElement.scrollWidth <= innerWidth && $('reader').scrollWidth <= $('reader').clientWidth")
    sheet, text = page.run("return ['#sheets figure', '#sheets .markdown'].map(at => document.querySelector(at).getBoundingClientRect())")
    assert (text["x"] > sheet["x"] + sheet["width"] - 1) if width == 1280 else text["y"] > sheet["y"] + sheet["height"] - 1
    if folder := request.config.getoption("--screenshots"):
        page.browser.save_screenshot(str(pathlib.Path(folder) / f"document-{width}-{theme}.png"))


@needs_poppler
def test_an_image_of_a_page(open_page, scripted, demo, tmp_path):
    image = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo" / "images" / "cross.png"
    page = open_page(scripted)
    page.wait(lambda: page.text("#model"), "the model's name")
    page.attach(image)
    next(button for button in page.all("#ideas button") if button.text == "Read as a document").click()
    page.wait(lambda: page.text("#read-state") == "1 of 1 page", "the page")
    page.find("#read-close").click()


@needs_poppler
def test_a_failure_is_shown(open_page, scripted, tmp_path):
    path = tmp_path / "locked.pdf"
    path.write_bytes(pdf_files.encrypted())
    page = open_page(scripted)
    page.expected.append("400")
    page.wait(lambda: page.text("#model"), "the model's name")
    page.find("#files").send_keys(str(path))
    page.wait(lambda: "needs a password" in page.text("#read-state"), "the reason")


def test_only_where_the_server_reads(open_page, servers, paper):
    page = open_page(servers("fake", max_documents=0))
    page.wait(lambda: page.text("#model"), "the model's name")
    page.find("#files").send_keys(str(paper))
    page.wait(lambda: "it is a PDF" in page.text("#refused"), "a refusal")
    assert not page.run("return document.querySelector('#reader').open")
