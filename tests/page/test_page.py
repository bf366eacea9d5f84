"""What a person does with the page: ask about images, read, stop, go on, by mouse, keys and screen
reader, on a desk and on a phone."""

import json
import pathlib

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from waiting import cancelled, wait_for_load

IMAGES = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo" / "images"
QUESTION = "Where is the orange cross?"
SLOW = "[[tokens=100000]] [[pace_ms=20]]"
SILENT = "[[tokens=5]] [[first_ms=600000]]"


def known_answer(question):
    return next(entry["answer"] for entry in json.loads((IMAGES / "questions.json").read_text()) if entry["question"] == question)


def test_load(demo, open_page):
    page = open_page(demo)
    page.wait(lambda: page.text("#model").startswith("test-model · 2,048 tokens"), "the model's name")
    assert page.browser.title == "Ommatidia" and page.text("h1") == "Ommatidia"
    assert page.focused() == "Question" and not page.find("#send").is_enabled()
    loaded = page.run("return performance.getEntriesByType('resource').map(entry => new URL(entry.name).pathname)")
    assert loaded == ["/v1/models"], "the page loads nothing else"


def test_an_image_and_a_question(demo, open_page):
    page = open_page(demo)
    page.attach(IMAGES / "cross.png")
    page.ask("What shape is this?")
    answer = page.wait_for_answer()
    assert answer.find_element(By.CSS_SELECTOR, ".text").text == known_answer("What shape is this?")
    facts = page.facts(answer)
    assert list(facts) == ["Queue", "Preprocess", "Encode", "Prefill", "Decode", "First token", "Total", "Speed", "Prompt", "Answer"]
    assert facts["Speed"].endswith(" tokens/s") and float(facts["Speed"].split()[0]) > 0
    assert int(facts["Prompt"].split()[0]) > 20 and "cached" in facts["Prompt"] and facts["Answer"].endswith(" tokens")
    assert page.text("#status") == "Answer: " + known_answer("What shape is this?")
    assert not page.all("#pending li") and page.find("#question").get_property("value") == ""


def test_a_box_is_drawn_where_the_answer_has_it(demo, open_page):
    page = open_page(demo)
    page.attach(IMAGES / "cross.png")
    page.ask(QUESTION)
    answer = page.wait_for_answer()
    found = json.loads(answer.find_element(By.CSS_SELECTOR, ".text").text)
    assert [button.text for button in answer.find_elements(By.CSS_SELECTOR, ".boxes button")] == [box["label"] for box in found]
    image, *drawn = page.run("""return [...document.querySelectorAll('.question img, .question .box')].map(element => {
      const {left, top, width, height} = element.getBoundingClientRect(); return [left, top, width, height]; })""")
    assert len(drawn) == len(found) > 0
    for (left, top, width, height), box in zip(drawn, found):
        corners = [(left - image[0]) / image[2], (top - image[1]) / image[3],
                   (left + width - image[0]) / image[2], (top + height - image[1]) / image[3]]
        assert corners == pytest.approx([corner / 1000 for corner in box["bbox_2d"]], abs=0.01)


def test_several_turns(demo, open_page):
    page = open_page(demo)
    page.attach(IMAGES / "shapes.png")
    page.ask("What colour is the circle?")
    page.wait_for_answer(1)
    page.ask("Where is the red circle?")
    answer = page.wait_for_answer(2)
    prompts = [int(page.facts(each)["Prompt"].split()[0]) for each in page.answers()]
    assert prompts[1] > prompts[0]
    # on a copy of the image of the first question
    if answer.find_elements(By.CSS_SELECTOR, ".boxes button"):
        assert answer.find_elements(By.CSS_SELECTOR, "figure .box")
    page.find("#fresh").click()
    page.wait(lambda: not page.answers(), "a new conversation")
    assert page.find("#welcome").is_displayed()


def test_corners_in_pixels_of_the_resized_image(scripted, open_page):
    """As Qwen2.5-VL counts; and what has no place on an image."""
    page = open_page(scripted)
    found = page.run("""shown = [{name: 'first', figures: []}, {name: 'second', figures: []}];
      const media = {box_unit: 'resized_pixels', images: [{resized_width: 200, resized_height: 100}, {resized_width: 400, resized_height: 400}]};
      const at = (corners, image, media, first) => {
        const box = place({corners, label: '', image}, media, first);
        return box && [box.image.name, box.x1, box.y1, box.x2, box.y2]; };
      return [at([20, 10, 100, 50], -1, media, 0), at([100, 0, 500, 40], 1, media, 0), at([100, 100, 200, 300], -1, media, 1),
              at([5, 5, 5, 9], 0, media, 0), at([1, 1, 2, 2], 2, media, 0), at([1, 1, 2, 2], 0, {box_unit: null, images: []}, 0),
              at([250, 0, 750, 1000], -1, {box_unit: 'thousandths', images: []}, 0)];""")
    assert found == [["first", 0.1, 0.1, 0.5, 0.5], ["second", 0.25, 0, 1, 0.1], ["second", 0.25, 0.25, 0.5, 0.75], None, None, None,
                     ["first", 0.25, 0, 0.75, 1]]


def test_boxes_are_found_wherever_they_stand(scripted, open_page):
    """As `omma chat --boxes` finds them."""
    page = open_page(scripted)
    text = 'Here { are ```json\n[{"bbox_2d": [1, 2, 3, 4], "label": "a {"}, {"x": [{"bbox_2d": [5, 6, 7, 8], "text_content": "b", "image": 2}]},' \
           '{"bbox_2d": [1, 2]}, {"bbox_2d": [1, 2, 3, 4], "label": 5}, {"bbox_2d": [1,'
    found = page.run("return [...objectsIn(arguments[0])].flatMap(([value]) => collect(value, []))", text)
    assert [(box["corners"], box["label"], box["image"]) for box in found] == [([1, 2, 3, 4], "a {", -1), ([5, 6, 7, 8], "b", 1), ([1, 2, 3, 4], "", -1)]


def test_several_images_at_once(demo, open_page):
    page = open_page(demo)
    page.attach(IMAGES / "cross.png", IMAGES / "shapes.png", IMAGES / "stars.jpg")
    page.all("#pending button")[1].click()
    page.wait(lambda: len(page.all("#pending li")) == 2, "one is removed")
    page.ask("How many objects are there?")
    page.wait_for_answer()
    assert [image.get_property("alt") for image in page.all(".question img")] == ["Image: cross.png", "Image: stars.jpg"]


@pytest.mark.parametrize("how", ["paste", "drop"])
def test_images_are_pasted_and_dropped(demo, open_page, how):
    page = open_page(demo)
    page.run("""const [how, bytes] = arguments, data = new DataTransfer();
      data.items.add(new File([new Uint8Array(bytes)], 'cross.png', {type: 'image/png'}));
      document.dispatchEvent(how === 'paste' ? new ClipboardEvent('paste', {clipboardData: data, cancelable: true})
                                             : new DragEvent('drop', {dataTransfer: data, cancelable: true}));""",
             how, list((IMAGES / "cross.png").read_bytes()))
    page.wait(lambda: len(page.all("#pending li img")) == 1, "the image is there")
    page.ask("What shape is this?")
    assert page.wait_for_answer().find_element(By.CSS_SELECTOR, ".text").text == known_answer("What shape is this?")


@pytest.mark.parametrize("by", ["button", "key"])
def test_stop(scripted, open_page, by):
    page = open_page(scripted)
    before = cancelled(scripted)
    page.ask(SLOW)
    page.wait(lambda: "w3" in page.text(".answer .text"), "the stream has begun")
    assert page.text("#send") == "Stop"
    if by == "button":
        page.find("#send").click()
    else:
        page.press(Keys.ESCAPE)
    answer = page.wait_for_answer()
    assert "Stopped." in answer.text and page.text("#send") == "Ask" and page.text("#status") == "Stopped."
    page.wait(lambda: cancelled(scripted) == before + 1, "the server has cancelled the request")
    wait_for_load(scripted, 0)
    said = page.said()
    assert len(said) == 2 and said[1][1].startswith("w0 w1 w2 w3"), "what there was of the answer belongs to the conversation"


def test_phases_are_shown_before_the_first_token(scripted, open_page):
    page = open_page(scripted)
    page.ask(SILENT)
    page.wait(lambda: page.text(".phases .now").startswith("Queue"), "the phase")
    assert page.text("#status") == "Queue" and page.find(".answer progress").is_displayed()
    page.press(Keys.ESCAPE)
    page.wait_for_answer()
    assert page.find("#question").get_property("value") == SILENT, "a question without any answer is given back"


def test_progress_of_an_image(scripted, open_page):
    page = open_page(scripted)
    page.ask(SILENT)
    page.wait(lambda: page.text(".phases .now").startswith("Queue"), "the phase")
    page.run("take(running.turn, ': ommatidia {\"stage\":\"encode\",\"done\":3,\"total\":4}')")
    assert page.text(".phases .now") == "Encode images 75 %" and page.text("#status") == "Encode images"
    bar = page.find(".answer progress")
    assert (bar.get_property("value"), bar.get_property("max")) == (3, 4)
    page.press(Keys.ESCAPE)
    page.wait_for_answer()


def test_what_a_model_writes_is_text(scripted, open_page):
    page = open_page(scripted)
    said = "<img src=x onerror=alert(1)> <b>bold</b> **strong** `code` {\"bbox_2d\": [0, 0, 1, 1]}"
    page.ask(said)
    answer = page.wait_for_answer()
    assert answer.find_element(By.CSS_SELECTOR, ".text").text == said.replace("**", "").replace("`", "")
    assert not answer.find_elements(By.CSS_SELECTOR, "img, b") and answer.find_element(By.TAG_NAME, "strong").text == "strong"


def test_light_and_dark(demo, open_page):
    page = open_page(demo)
    for dark in (True, False):
        page.prefer_dark(dark)
        assert page.is_dark() == dark
    page.find("#theme").click()
    page.find("#theme").click()
    assert page.is_dark() and page.find("#theme").accessible_name == "Theme: dark"
    page.browser.refresh()
    assert page.is_dark(), "the choice is remembered"
    page.find("#theme").click()
    assert not page.is_dark() and page.run("return localStorage.length") == 0


def test_a_phone(demo, open_page):
    page = open_page(demo, width=360, height=740)
    assert not page.is_too_wide()
    page.attach(IMAGES / "cross.png", IMAGES / "shapes.png")
    page.find("#tune").click()
    assert not page.is_too_wide()
    page.ask(QUESTION + " " + "x" * 200)
    page.wait_for_answer()
    assert not page.is_too_wide()
    for selector in ("#theme", "#fresh", "#attach", "#send", "#question"):
        size = page.find(selector).size
        assert size["height"] >= 32 and size["width"] >= 24, selector


def test_by_keys_alone(demo, open_page):
    page = open_page(demo)
    page.be_greedy()
    page.attach(IMAGES / "cross.png")
    assert page.focused() == "Question"
    page.press("What shape", Keys.SHIFT, Keys.ENTER, Keys.SHIFT, "is this?")
    assert page.find("#question").get_property("value") == "What shape\nis this?"
    names = []
    while len(names) < 3:
        page.press(Keys.TAB)
        names.append(page.focused())
        assert page.run("return getComputedStyle(document.activeElement).outlineStyle") == "solid", names
    assert names == ["Add images", "Settings", "Ask"]
    page.press(Keys.SPACE)
    answer = page.wait_for_answer()
    assert page.focused() == "Question"
    page.press(Keys.SHIFT, Keys.TAB, Keys.SHIFT)
    assert page.focused() == "Copy" and answer.find_elements(By.TAG_NAME, "button")


def test_a_key_is_asked_for(servers, open_page):
    page = open_page(servers("real", api_key="sesame"))
    page.expected = ["401 (Unauthorized)"]
    page.wait(lambda: page.find("#lock").is_displayed(), "the question for the key")
    assert page.focused() == "API key"
    page.press("wrong", Keys.ENTER)
    page.wait(lambda: page.find("#lock-error").is_displayed(), "the key is refused")
    page.press("sesame", Keys.ENTER)
    page.wait(lambda: page.text("#model").startswith("test-model"), "the key is taken")
    page.browser.refresh()
    page.wait(lambda: page.text("#model").startswith("test-model"), "the tab remembers it")
    assert not page.find("#lock").is_displayed() and page.run("return localStorage.length") == 0
    page.attach(IMAGES / "cross.png")
    page.ask("What shape is this?")
    assert page.wait_for_answer().find_element(By.CSS_SELECTOR, ".text").text == known_answer("What shape is this?")


@pytest.mark.parametrize("path", ["/models", "/models/"])
def test_with_a_proxy(servers, open_page, path):
    page = open_page(servers("fake", root_path="/models"), path)
    page.wait(lambda: page.text("#model").startswith("test-model"), "the model's name")
    page.ask("hello there")
    assert page.wait_for_answer().find_element(By.CSS_SELECTOR, ".text").text == "hello there"
    assert set(page.run("return performance.getEntriesByType('resource').map(entry => new URL(entry.name).pathname.slice(0, 11))")) == {"/models/v1/"}


@pytest.mark.parametrize("dark", [False, True])
def test_rules_of_accessibility(demo, open_page, dark):
    from selenium_axe_python import Axe

    page = open_page(demo)
    page.prefer_dark(dark)
    page.attach(IMAGES / "cross.png")
    page.ask(QUESTION)
    page.wait_for_answer()
    page.find("#tune").click()
    page.attach(IMAGES / "shapes.png")
    axe = Axe(page.browser)
    axe.inject()
    violations = axe.run()["violations"]
    assert not violations, json.dumps(violations, indent=1)
