"""How answers are shown: thoughts, Markdown, copies, figures and their boxes."""

import json
import pathlib

import pytest
from images import png
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

IMAGES = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo" / "images"
WRITTEN = r"""# A drawing

Three **bold** and *slanted* words, `code`, ~~gone~~, [a guide](https://example.org/a_(b)), https://example.org/x?y=1.
<b>no markup</b> snake_case_name 2 * 3 * 4 costs $5 and $10, \*not slanted\*

### Steps
1. one
   - inner **a**
     1. deep
   - inner b
2. two
   goes on

- other

| Shape | Area |
|:-----:|-----:|
| a \| b | *7* |

> said $E = mc^2$

---
$$
x^2
$$
```python
a = "*x*"

b
```
[bad](javascript:alert(1)) [file](notes.pdf) ![photo](https://example.org/photo.png)"""


def shape(page, selector=".answer .text"):
    """Names and texts of the elements, as nested lists."""
    return page.run("""const shape = node => node.nodeType === 3 ? node.data
      : [node.localName, ...[...node.childNodes].map(shape)];
      return [...document.querySelector(arguments[0]).childNodes].map(shape)""", selector)


def test_markdown(scripted, open_page):
    page = open_page(scripted)
    page.show_answer(WRITTEN)
    heading, text, steps, ordered, bullets, table, quote, rule, formula, code, end = shape(page)
    assert heading == ["div", "A drawing"] and steps == ["div", "Steps"] and rule == ["hr"] and formula == ["div", "x^2"]
    assert [part for part in text[1:] if isinstance(part, list)] == [
        ["strong", "bold"], ["em", "slanted"], ["code", "code"], ["del", "gone"], ["a", "a guide"], ["a", "https://example.org/x?y=1"]]
    assert "".join(part for part in text if isinstance(part, str)).endswith(
        "\n<b>no markup</b> snake_case_name 2 * 3 * 4 costs $5 and $10, *not slanted*")
    assert ordered == ["ol", ["li", ["p", "one"], ["ul", ["li", ["p", "inner ", ["strong", "a"]], ["ol", ["li", ["p", "deep"]]]], ["li", ["p", "inner b"]]]],
                       ["li", ["p", "two\ngoes on"]]]
    assert bullets == ["ul", ["li", ["p", "other"]]]
    assert table == ["div", ["table", ["thead", ["tr", ["th", "Shape"], ["th", "Area"]]], ["tbody", ["tr", ["td", "a | b"], ["td", ["em", "7"]]]]]]
    assert quote == ["blockquote", ["p", "said ", ["span", "E = mc^2"]]]
    assert code[1][:2] == ["div", ["span", "python"]] and code[2] == ["pre", 'a = "*x*"\n\nb']
    assert end[:2] == ["p", "[bad](javascript:alert(1)) [file](notes.pdf) "] and end[2] == ["a", "photo"]
    links = page.run("return [...document.querySelectorAll('.answer a')].map(link => [link.getAttribute('href'), link.rel, link.target])")
    assert links == [["https://example.org/" + path, "noopener noreferrer nofollow", "_blank"] for path in ("a_(b)", "x?y=1", "photo.png")]
    assert not page.all(".answer img") and [each.get_attribute("aria-level") for each in page.all("[role=heading]")] == ["2", "3"]


@pytest.mark.parametrize("text", [
    "```\nopen", "| a |\n", "- ", "- a\n\n\n", "> ", "$$", "**", "[a](", "`", "1.", "#", "|-|\n|-|", "\\", "- a\n  ```\n  b", "~~~\n```\n~~~", "$$ x",
    "a\n- - -\n***", "> > > a", "- 1\n1. 2\n* 3"])
def test_text_that_is_not_complete(scripted, open_page, text):
    """Nothing is lost or fails at any length of what has come so far."""
    page = open_page(scripted)
    for size in range(1, len(text) + 1):
        page.run("showMarkdown(document.body.appendChild(document.createElement('div')), arguments[0])", text[:size])
    letters = {c for c in text if c.isalnum() and not (text[:1] in "-1" and c.isdigit())}
    assert letters <= set(page.run("return document.body.lastChild.innerText"))


def test_hostile_text_is_cheap(scripted, open_page):
    page = open_page(scripted)
    for text in ("*a " * 40000, "[" * 100000, "# " + " #" * 50000, "> " * 50000, "|-" * 50000 + "\n" + "|-" * 50000, "- " * 50000 + "a", "`" * 99999,
                 "$a " * 40000, "\n".join(" " * depth + "- a" for depth in range(0, 2000, 2)), "https://" * 10000, "** " * 30000):
        shown = page.run("""const holder = document.createElement("div"); showMarkdown(holder, arguments[0]); return holder.textContent.length""", text)
        assert shown > 0, text[:20]  # an unbounded search would take hours, more than a script may


def test_what_stays_keeps_its_elements(scripted, open_page):
    page = open_page(scripted)
    page.run("""const holder = document.body.appendChild(document.createElement("div")); holder.id = "grows";
                showMarkdown(holder, "first\\n\\n- a"); window.first = [...holder.children]; showMarkdown(holder, "first\\n\\n- a\\n- b\\n\\nc")""")
    assert page.run("return [...document.getElementById('grows').children].map((each, i) => each === window.first[i])") == [True, False, False]


def test_a_thought_is_folded_and_streams(servers, open_page):
    page = open_page(servers("fake", reasoning_parser="angles"))
    page.ask("[[tokens=60]] [[think=50]] [[pace_ms=20]]")
    page.wait(lambda: page.text(".thought summary") == "Thinking" and page.find(".thought summary").is_displayed(), "the thought is announced")
    assert not page.find(".thought .inner").is_displayed() and not page.find(".progress").is_displayed()
    page.find(".thought summary").click()
    page.wait(lambda: "w3 w4" in page.text(".thought .inner"), "the thought is read while it comes")
    answer = page.wait_for_answer()
    assert answer.find_element(By.CSS_SELECTOR, ".text").text == "w50 w51 w52 w53 w54 w55 w56 w57 w58 w59"
    assert page.text(".thought .inner").endswith("w48 w49") and page.text(".thought summary").startswith("Thought for ")
    assert page.facts(answer)["Answer"] == "60 tokens, 50 of the thought"


def test_an_answer_cut_off_inside_its_thought_is_kept(servers, open_page):
    page = open_page(servers("fake", reasoning_parser="angles"))
    page.run("document.getElementById('most').value = 4")
    page.ask("[[tokens=60]] [[think=50]]")
    answer = page.wait_for_answer()
    assert "cut off" in answer.text and page.find("#question").get_property("value") == ""
    answer.find_element(By.TAG_NAME, "summary").click()
    assert page.text(".thought .inner") == "w0 w1 w2 w3"
    assert page.run("return messagesOf().at(-1)") == {"role": "assistant", "content": "", "reasoning": "w0 w1 w2 w3 "}
    page.ask("Go on.")
    assert not page.wait_for_answer(2).find_elements(By.CSS_SELECTOR, "[role=alert]"), "the server takes the thought back"


@pytest.mark.parametrize("text, thought, answer", [
    ("<think>\nhm\n</think>\n\nyes", "hm\n", "yes"), ("hm</think>yes", "hm", "yes"), ("<think>hm", "hm", ""), ("yes <think>", "", "yes <think>")])
def test_a_thought_in_marks(scripted, open_page, text, thought, answer):
    page = open_page(scripted)
    page.show_answer(text)
    assert page.run("return partsOf(turns[0])") == [thought, answer]


@pytest.mark.parametrize("host", ["127.0.0.1", "lan.test"])
def test_copies(scripted, open_page, host):
    """Over http from another machine there is no clipboard for pages."""
    page = open_page(scripted, host=host)
    assert page.run("return Boolean(navigator.clipboard)") == (host == "127.0.0.1")
    answer = page.show_answer("See\n```sh\nls -l\n```\n")
    for button, text in zip(answer.find_elements(By.CSS_SELECTOR, ".copy"), ("ls -l", "See\n```sh\nls -l\n```\n"), strict=True):
        button.click()
        page.wait(lambda: button.text == "Copied", "it is copied")
        page.find("#question").clear()
        page.type(Keys.CONTROL + "v" + Keys.NULL)
        assert page.find("#question").get_property("value") == text


@pytest.mark.parametrize("width", [1280, 390])
def test_figures_are_as_wide_as_their_images(demo, open_page, tmp_path, width):
    sizes = ((3000, 2000), (4000, 800), (400, 2000), (40, 40))
    files = [tmp_path / f"{w}x{h}.png" for w, h in sizes]
    for file, (w, h) in zip(files, sizes):
        file.write_bytes(png(w, h))
    page = open_page(demo, width=width)
    page.run("document.getElementById('most').value = 1")
    for number, images in enumerate(([files[0]], [files[1]], files), 1):
        page.attach(*images)
        page.ask("What is this?")
        page.wait_for_answer(number)
    found = page.run("""return [...document.querySelectorAll("figure")].map(figure => [figure, figure.querySelector("img")].flatMap(element => {
      const {width, height} = element.getBoundingClientRect(); return [width, height]; }))""")
    assert len(found) == 6
    for (w, h), (figure_w, figure_h, w_shown, h_shown) in zip(sizes[:2] + sizes, found):
        assert figure_w - w_shown <= 2 and figure_h - h_shown <= 2, "no bars"
        assert w_shown / h_shown == pytest.approx(w / h, rel=0.05) and w_shown <= width
    assert found[0][2] > min(width, 576) * 0.85 and not page.is_too_wide()


def test_boxes_of_several_images(demo, open_page):
    page = open_page(demo)
    page.run("document.getElementById('most').value = 1")
    page.attach(IMAGES / "cross.png", IMAGES / "shapes.png")
    assert page.run("document.querySelectorAll('#ideas button')[3].click(); return document.querySelector('#question').value").count('"image"') == 2
    page.find("#question").clear()
    page.ask("Where?")
    page.wait_for_answer()
    assert [number.text for number in page.all("figure .number")] == ["1", "2"]
    box = json.dumps({"bbox_2d": [100, 100, 500, 500], "label": "a"})
    for text, images in ((box, [1]), (f'{box[:-1]}, "image": 2}}', [2]), (f"Image 2: {box} and in image 1: {box}{box}", [2, 1, 1]), (f"image 7: {box}", [])):
        assert page.run("return boxesIn(arguments[0]).map(box => place(box, turns[0].media, 0)).filter(Boolean).map(box => shown.indexOf(box.image) + 1)", text) == images
    page.run("turns[0].text = arguments[0]; paint(turns[0])", f'{box[:-1]}, "image": 2}}')
    assert page.text(".boxes button") == "a · image 2" and len(page.all("figure:nth-child(2) .box")) == 1 and not page.all("figure:nth-child(1) .box")
