"""What goes wrong is said where it is seen, in plain words, with a way on."""

import pathlib
import subprocess

import pytest
from selenium.webdriver.common.by import By
from server_process import ServerProcess, make_command

IMAGES = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo" / "images"
STRANGE = {"report.pdf": b"%PDF-1.7 ...", "clip.mp4": b"\0\0\0\x18ftypmp42" + bytes(12), "clip.mkv": b"\x1a\x45\xdf\xa3" + bytes(12),
           "clip.avi": b"RIFF\1\2\3\4AVI LIST", "files.zip": b"PK\3\4" + bytes(20), "files.gz": b"\x1f\x8b" + bytes(20),
           "drawing.svg": b'<?xml version="1.0"?>\n<svg>', "page.html": b"<!DOCTYPE html><html>", "layers.psd": b"8BPS" + bytes(20),
           "raw.cr3": b"\0\0\0\x18ftypcrx " + bytes(12), "new.jxl": b"\xff\x0a" + bytes(20), "old.jp2": b"\0\0\0\x0cjP  " + bytes(20)}


def drop(page, files):
    page.run("""const data = new DataTransfer();
      for (const [name, bytes] of arguments[0]) data.items.add(new File([new Uint8Array(bytes)], name));
      document.dispatchEvent(new DragEvent("drop", {dataTransfer: data, cancelable: true}));""", [[name, list(data)] for name, data in files])


def test_files_that_are_no_images(servers, open_page, request, tmp_path):
    """Each is named in a line, in the words of `omma chat`; the images among them are added. So is
    a PDF file where the server reads no documents."""
    page = open_page(servers("real", max_documents=0))
    image = ("cross.png", (IMAGES / "cross.png").read_bytes())
    drop(page, [image, *STRANGE.items(), ("notes.txt", b"hello"), ("empty.png", b"")])
    page.wait(lambda: len(page.all("#refused p")) == len(STRANGE) + 2, "a line for each file")
    assert len(page.all("#pending li")) == 1 and page.find("#refused").is_displayed()
    lines = [line.text for line in page.all("#refused p")]
    for (name, data), line in zip(STRANGE.items(), lines):
        (tmp_path / name).write_bytes(data)
        said = subprocess.run([request.config.getoption("--omma"), "chat", "--model", request.config.getoption("--model"), tmp_path / name, "?"],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL).stderr
        kind, hint = said.strip().split("; it is ")[1].split(": ", 1)
        assert line.startswith(f"{name} was not added: it is {kind}: {hint.split(', and then')[0].replace('FILE', name)}"), said
    assert lines[-2].startswith("notes.txt was not added: it is in no known format") and lines[-1].startswith("empty.png was not added: it is empty")
    drop(page, [image])
    page.wait(lambda: len(page.all("#pending li")) == 2, "the next is added")
    assert not page.all("#refused p")


@pytest.mark.parametrize("system", ["", "Be brief."])
def test_an_error_names_the_file(demo, open_page, tmp_path, system):
    (tmp_path / "broken.png").write_bytes((IMAGES / "cross.png").read_bytes()[:100])
    page = open_page(demo)
    page.run("document.getElementById('system').value = arguments[0]", system)
    page.expected = ["400 (Bad Request)", "blob:"]
    page.ask("Hello?")
    page.wait_for_answer(1)
    page.attach(IMAGES / "cross.png", tmp_path / "broken.png")
    page.ask("What is this?")
    said = page.wait_for_answer(2).find_element(By.CSS_SELECTOR, "[role=alert]").text
    assert said.startswith("broken.png: ") and "messages[" not in said
    assert page.find("#question").get_property("value") == "What is this?" and len(page.all("#pending li")) == 2


def test_an_answer_that_breaks_off(scripted, open_page):
    page = open_page(scripted)
    page.ask("[[tokens=9]] [[error_at=3]]")
    assert page.wait_for_answer().find_element(By.CSS_SELECTOR, "[role=alert]").text
    assert "w2" in page.text(".answer .text")


def test_a_server_that_is_gone(open_page, request):
    server = ServerProcess(make_command(request.config, "fake", {}))
    page = open_page(server)
    page.expected = ["ERR_CONNECTION_REFUSED"]
    page.wait(lambda: page.text("#model"), "the model's name")
    server.stop()
    page.ask("hello there")
    assert "The server cannot be reached" in page.wait_for_answer().find_element(By.CSS_SELECTOR, "[role=alert]").text
    again = ServerProcess([*make_command(request.config, "fake", {}), "--port", str(server.port)])
    try:
        page.find(".way").click()
        assert page.wait_for_answer().find_element(By.CSS_SELECTOR, ".text").text == "hello there" and len(page.answers()) == 1
    finally:
        page.forget()
        again.stop()


def test_a_full_context(demo, open_page):
    page = open_page(demo)
    page.expected = ["400 (Bad Request)"]
    long = "hello there " * 1200
    page.run("document.getElementById('question').value = arguments[0]", long)
    page.ask(" ")
    said = page.wait_for_answer().text
    assert "This is more than the model can read at once (2,048 tokens)." in said and "less text" in said and not page.all(".way")
    page.find("#question").clear()
    page.ask("What is this?")
    page.wait_for_answer(2)
    page.attach(IMAGES / "cross.png")
    page.run("document.getElementById('question').value = arguments[0]", long)
    page.ask("?")
    assert "The conversation is longer than the model can read at once (2,048 tokens)." in page.wait_for_answer(3).text
    page.find(".way").click()
    assert not page.answers() and page.find("#question").get_property("value") == (long + "?") and len(page.all("#pending li")) == 1


def test_an_answer_that_fills_the_context(scripted, open_page):
    page = open_page(scripted)
    page.wait(lambda: page.run("return contextSize"), "the model's size")
    usage = {"prompt_tokens": 8, "completion_tokens": 9, "total_tokens": page.run("return contextSize")}
    assert "fills the model's context" in page.show_answer("a", reason="length", usage=usage).text
    page.find(".way").click()
    assert not page.answers()
    assert "no more tokens were allowed" in page.show_answer("a", reason="length", usage={**usage, "total_tokens": 17}).text
