"""A phone, upright and on its side."""

import json

import pytest
from selenium_axe_python import Axe

WORDS = "[[tokens=300]] [[pace_ms=5]]"


def test_the_end_stays_in_sight(scripted, open_page):
    page = open_page(scripted, width=390, height=844)
    page.ask(WORDS)
    page.wait(lambda: "w100" in page.text(".answer .text"), "some of the answer")
    page.wait(page.is_at_end, "the end is in sight while it comes")
    page.wait_for_answer()
    page.wait(page.is_at_end, "and when it is over")
    button = page.all(".copy")[-1].rect
    assert page.run("return scrollY") < button["y"] < page.run("return scrollY + document.querySelector('#composer').getBoundingClientRect().top")


def test_a_reader_who_scrolls_up_is_left_alone(scripted, open_page):
    page = open_page(scripted, width=390, height=844)
    page.ask(WORDS)
    page.wait_for_answer(1)
    page.ask("[[tokens=400]] [[pace_ms=10]]")
    page.wait(lambda: "w20" in page.run("return turns[1].text"), "some of the answer")
    page.run("scrollTo(0, 50)")
    page.wait_for_answer(2)
    assert page.run("return scrollY") == 50
    page.ask("hello")
    page.wait_for_answer(3)
    page.wait(page.is_at_end, "a new question goes to the end")


@pytest.mark.parametrize("size", [(844, 390), (667, 375)])
def test_on_its_side_with_settings(scripted, open_page, size):
    page = open_page(scripted, width=size[0], height=size[1])
    page.ask(WORDS)
    page.wait_for_answer()
    seen = "const {top, bottom} = document.querySelector(arguments[0]).getBoundingClientRect(); return top >= 0 && bottom <= innerHeight"
    page.find("#tune").click()
    for selector in ("#temperature", "#most", "#system", "#send"):
        page.run("document.querySelector(arguments[0]).scrollIntoView({block: 'nearest'})", selector)
        assert page.run(seen, selector), selector
    page.run("scrollTo(0, 0)")
    covered = page.run("""return [...document.querySelectorAll("header, #composer")].reduce((sum, each) => {
      const {top, bottom} = each.getBoundingClientRect(); return sum + Math.max(0, Math.min(bottom, innerHeight) - Math.max(top, 0)) }, 0) / innerHeight""")
    assert covered < 0.4 and not page.is_too_wide()


@pytest.mark.parametrize("dark", [False, True])
def test_rules_of_accessibility(scripted, open_page, dark):
    page = open_page(scripted, width=390, height=844)
    page.prefer_dark(dark)
    text = "### A\n# B\n- [a](https://example.org)\n\n| a |\n|---|\n| b |\n\n```c\nint a;\n```\n> c\n\n$$x$$"
    page.show_answer(text, thought="hm")
    page.show_answer(text)
    page.run("document.querySelector('.thought').open = true")
    page.run("addFiles([new File(['<!DOCTYPE html>'], 'a.html')])")
    page.wait(lambda: page.all("#refused p"), "the refusal")
    axe = Axe(page.browser)
    axe.inject()
    violations = axe.run()["violations"]
    assert not violations, json.dumps(violations, indent=1)
