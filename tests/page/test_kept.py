"""A conversation survives a reload, with its images within a bound, until a new one begins."""

import pathlib

from selenium.webdriver.common.by import By
from waiting import cancelled

IMAGES = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo" / "images"


def test_a_reload(demo, open_page):
    page = open_page(demo)
    page.attach(IMAGES / "cross.png", IMAGES / "shapes.png")
    page.ask("Where is the orange cross?")
    page.wait_for_answer(1)
    page.ask("What shape is this?")
    page.wait_for_answer(2)
    before = [page.said(), page.run("return messagesOf()"), [article.text for article in page.all("article")], len(page.all("figure .box"))]
    page.reload()
    assert [page.said(), page.run("return messagesOf()"), [article.text for article in page.all("article")], len(page.all("figure .box"))] == before
    page.wait(lambda: page.run("return [...document.querySelectorAll('.question img')].map(image => image.naturalWidth > 0)") == [True, True], "the images")
    page.ask("What colour is it?")
    assert page.wait_for_answer(3).find_element(By.CSS_SELECTOR, ".text").text
    # The page is left before the database is cleared.
    page.run("window.withStore = () => new Promise(() => {})")
    page.find("#fresh").click()
    page.browser.refresh()
    page.run_when_done("work")
    assert not page.answers() and page.find("#welcome").is_displayed()
    assert page.browser.execute_async_script("withStore('readonly', store => store.count()).then(arguments[0])") == 0


def test_a_thought_is_kept(servers, open_page):
    page = open_page(servers("fake", reasoning_parser="angles"))
    page.ask("[[tokens=5]] [[think=3]]")
    page.wait_for_answer()
    page.reload()
    assert page.text(".answer .text") == "w3 w4" and page.run("return turns[0].thought") == "w0 w1 w2 "


def test_a_page_that_is_left_during_an_answer(scripted, open_page):
    page = open_page(scripted)
    before = cancelled(scripted)
    page.ask("[[tokens=100000]] [[pace_ms=20]]")
    page.wait(lambda: "w3" in page.text(".answer .text"), "the stream has begun")
    page.reload()
    assert "w3" in page.text(".answer .text") and "The page was left before the answer was complete." in page.answers()[0].text
    page.wait(lambda: cancelled(scripted) == before + 1, "the server has cancelled the request")
    page.run("document.getElementById('most').value = 2")
    page.ask("Go on.")
    assert page.wait_for_answer(2).find_element(By.CSS_SELECTOR, ".text").text == "w0 w1"


def test_a_question_without_an_answer_is_given_back(scripted, open_page):
    page = open_page(scripted)
    page.attach(IMAGES / "cross.png")
    page.ask("[[tokens=5]] [[first_ms=600000]]")
    page.wait(lambda: page.text(".phases .now").startswith("Queue"), "the phase")
    page.reload()
    assert page.find("#question").get_property("value") == "[[tokens=5]] [[first_ms=600000]]" and len(page.all("#pending li")) == 1
    assert page.said() == []


def test_images_beyond_the_bound(demo, open_page):
    page = open_page(demo)
    page.run("keptBytes = MOST_KEPT")
    page.attach(IMAGES / "cross.png")
    page.ask("What shape is this?")
    page.wait_for_answer()
    assert "cross.png is too large to keep" in page.find(".question").text
    page.reload()
    assert "cross.png was not kept" in page.find(".question").text and "without the images that were not kept" in page.find(".answer").text
    assert [text for role, text in page.said() if role == "user"] == ["What shape is this?"], "the image is not sent"
    page.attach(IMAGES / "shapes.png")
    page.ask("What colour is the circle?")
    page.wait_for_answer(2)
    assert page.said()[2] == ["user", "image_url What colour is the circle?"]


def test_a_browser_that_keeps_nothing(scripted, open_page):
    page = open_page(scripted)
    page.run("opened = null; indexedDB.open = () => { throw new Error('no storage'); }")
    page.ask("hello")
    page.wait_for_answer()
    page.wait(lambda: "This browser keeps no conversation" in page.text(".answer"), "it is said")
    page.ask("again")
    page.wait_for_answer(2)
    assert page.find("#talk").text.count("keeps no conversation") == 1
