#!/usr/bin/env python3
"""Questions and answers about the demo model's images, and the shipped images.

Everything that is asked about a scene is read off its description.

    tools/demo_questions.py --images models/demo/images    the shipped images and questions.json
    tools/demo_questions.py --show 5 --out /tmp/scenes         a few random scenes, with their questions on stdout
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import demo_data
import demo_text
from demo_data import COLOURS, SHAPES, Scene, Thing, draw, random_scene

NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
KINDS = (
    "colour", "shape", "count", "presence", "describe", "relation", "where", "word", "number", "letter", "label",
    "chart", "several",
)  # fmt: skip


@dataclass(frozen=True)
class Question:
    kind: str
    text: str
    answer: str
    # what "where" asks for, in thousandths, not rounded
    box: tuple[float, float, float, float] | None = None


# --- language
# --------------------------------------------------------------------------------------------------


def a(noun: str) -> str:
    """The noun with its indefinite article."""
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def plural(noun: str) -> str:
    return noun + ("es" if noun.endswith("s") else "s")


def counted(n: int, noun: str) -> str:
    return f"{NUMBERS[n]} {noun if n == 1 else plural(noun)}"


def _there_are(n: int, noun: str) -> str:
    return f"There {'is' if n == 1 else 'are'} {counted(n, noun)}."


def _join(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def describe(scene: Scene) -> str:
    """One sentence naming everything, in the fixed order of SHAPES and COLOURS so that only one
    answer is right."""
    parts = []
    for shape in SHAPES:
        for colour in COLOURS:
            n = sum(t.shape == shape and t.colour == colour for t in scene.things)
            if n:
                noun = f"{colour} {shape}"
                parts.append(a(noun) if n == 1 else counted(n, noun))
    return f"The picture shows {_join(parts)} on {a(scene.background)} background."


def _pick(rng: np.random.Generator, options: list[str] | tuple[str, ...]) -> str:
    return str(options[int(rng.integers(len(options)))])


def _colour_question(rng: np.random.Generator, scene: Scene) -> Question:
    colour = _pick(rng, ("colour", "color"))
    lone = [t for t in scene.things if sum(o.shape == t.shape for o in scene.things) == 1]
    if not lone or rng.random() < 0.12:
        text = _pick(rng, (f"What {colour} is the background?", f"Which {colour} does the background have?"))
        return Question("colour", text, f"The background is {scene.background}.")
    thing = lone[int(rng.integers(len(lone)))]
    if len(scene.things) == 1 and rng.random() < 0.4:
        text = _pick(rng, (f"What {colour} is this?", f"What {colour} is it?", f"What {colour} is the object?"))
        return Question("colour", text, f"It is {thing.colour}.")
    text = _pick(
        rng,
        (
            f"What {colour} is the {thing.shape}?",
            f"What is the {colour} of the {thing.shape}?",
            f"Which {colour} does the {thing.shape} have?",
            f"Tell me the {colour} of the {thing.shape}.",
        ),
    )
    return Question("colour", text, f"The {thing.shape} is {thing.colour}.")


def _shape_question(rng: np.random.Generator, scene: Scene) -> Question | None:
    lone = [t for t in scene.things if sum(o.colour == t.colour for o in scene.things) == 1]
    if not lone:
        return None
    thing = lone[int(rng.integers(len(lone)))]
    if len(scene.things) == 1 and rng.random() < 0.6:
        text = _pick(
            rng, ("What shape is this?", "Which shape is this?", "What shape do you see?", "What is this?")
        )
        return Question("shape", text, f"It is {a(thing.shape)}.")
    text = _pick(
        rng,
        (
            f"What shape is the {thing.colour} object?",
            f"What is the shape of the {thing.colour} object?",
            f"Which shape is {thing.colour}?",
            f"What is the {thing.colour} object?",
        ),
    )
    return Question("shape", text, f"The {thing.colour} object is {a(thing.shape)}.")


def _count_question(rng: np.random.Generator, scene: Scene) -> Question:
    thing = scene.things[int(rng.integers(len(scene.things)))]
    absent = rng.random() < 0.15
    shape = _pick(rng, SHAPES) if absent else thing.shape
    colour = _pick(rng, list(COLOURS)) if absent else thing.colour
    what = rng.random()
    if what < 0.25:
        noun, n = _pick(rng, ("object", "shape")), len(scene.things)
    elif what < 0.65:
        noun, n = shape, sum(t.shape == shape for t in scene.things)
    elif what < 0.8:
        noun, n = f"{colour} object", sum(t.colour == colour for t in scene.things)
    else:
        noun, n = f"{colour} {shape}", sum(t.shape == shape and t.colour == colour for t in scene.things)
    text = _pick(
        rng,
        (
            f"How many {plural(noun)} are there?",
            f"How many {plural(noun)} are there?",
            f"How many {plural(noun)} do you see?",
            f"How many {plural(noun)} are in the picture?",
            f"How many {plural(noun)} can you count?",
            f"How many {plural(noun)}?",
            f"Count the {plural(noun)}.",
        ),
    )
    return Question("count", text, _there_are(n, noun))


def _presence_question(rng: np.random.Generator, scene: Scene) -> Question:
    """Yes and no equally often; many a "no" has the right colour and the right shape, but on
    different objects."""
    thing = scene.things[int(rng.integers(len(scene.things)))]
    other = scene.things[int(rng.integers(len(scene.things)))]
    colour, shape = thing.colour, thing.shape
    if rng.random() < 0.5:
        colour = other.colour if rng.random() < 0.5 else _pick(rng, list(COLOURS))
        shape = thing.shape if rng.random() < 0.5 else _pick(rng, SHAPES)
    what = rng.random()
    if what < 0.25:
        yes = any(t.colour == colour for t in scene.things)
        text = _pick(rng, (f"Is there anything {colour}?", f"Do you see anything {colour}?"))
        return Question(
            "presence", text, f"Yes, there is something {colour}." if yes else f"No, there is nothing {colour}."
        )
    if what < 0.5:
        yes, noun = any(t.shape == shape for t in scene.things), shape
    else:
        yes = any(t.colour == colour and t.shape == shape for t in scene.things)
        noun = f"{colour} {shape}"
    text = _pick(
        rng,
        (
            f"Is there {a(noun)}?",
            f"Is there {a(noun)} in the picture?",
            f"Do you see {a(noun)}?",
            f"Can you see {a(noun)}?",
            f"Does the picture show {a(noun)}?",
        ),
    )
    return Question("presence", text, f"Yes, there is {a(noun)}." if yes else f"No, there is no {noun}.")


DESCRIBE = (
    "Describe the picture.",
    "Describe this picture.",
    "Describe the image.",
    "Describe this image.",
    "What do you see?",
    "What is in the picture?",
    "What is in this image?",
    "What does the picture show?",
)

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh")


def noun(thing: Thing) -> str:
    return f"{thing.colour} {thing.shape}"


def alone(scene: Scene) -> list[Thing]:
    """The things that colour and shape tell from all others."""
    return [t for t in scene.things if sum(noun(o) == noun(t) for o in scene.things) == 1]


def _relation_question(rng: np.random.Generator, scene: Scene) -> Question | None:
    """Which of two things is further left, right, up or down; differences that are hard to see are
    not asked."""
    lone = alone(scene)
    if len(lone) < 2:
        return None
    first, second = (lone[int(i)] for i in rng.permutation(len(lone))[:2])
    across = (first.x - second.x) / scene.width
    down = (first.y - second.y) / scene.height
    upright = abs(down) > abs(across) or (abs(down) > 0.15 and rng.random() < 0.4)
    difference, least, greater = (down, "higher", "lower") if upright else (across, "further left", "further right")
    if abs(difference) < 0.08:
        return None
    less = rng.random() < 0.5
    if rng.random() < 0.3:
        where = {"higher": "above", "lower": "below", "further left": "left of", "further right": "right of"}
        word = where[least if less else greater]
        yes = (difference < 0) == less
        return Question("relation", f"Is the {noun(first)} {word} the {noun(second)}?", "Yes." if yes else "No.")
    answer = first if (difference < 0) == less else second
    text = f"Which is {least if less else greater}, the {noun(first)} or the {noun(second)}?"
    return Question("relation", text, f"The {noun(answer)}.")


# thousandths: the last digit of a coordinate would be a guess, and guesses are not worth learning
BOX_STEP = 20


def thousandths(scene: Scene, box: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """A box in pixels as parts of the image, inside of it."""
    x0, y0, x1, y1 = box
    ends = (x0 / scene.width, y0 / scene.height, x1 / scene.width, y1 / scene.height)
    return tuple(1000 * min(max(v, 0.0), 1.0) for v in ends)


def boxes(label: str, box: tuple[float, float, float, float]) -> str:
    """The family's list of boxes, with one box, given in thousandths."""
    numbers = ",".join(str(BOX_STEP * round(v / BOX_STEP)) for v in box)
    return f'[{{"bbox_2d":[{numbers}],"label":"{label}"}}]'


def _where_question(rng: np.random.Generator, scene: Scene) -> Question | None:
    if scene.things:
        lone = alone(scene)
        if not lone:
            return None
        thing = lone[int(rng.integers(len(lone)))]
        shape_alone = sum(o.shape == thing.shape for o in scene.things) == 1
        label = thing.shape if shape_alone and rng.random() < 0.3 else noun(thing)
        box = thing.box()
    else:
        text = scene.texts[int(rng.integers(len(scene.texts)))]
        kind = "number" if text.string[0].isdigit() else "word"
        label = kind if len(scene.texts) == 1 and rng.random() < 0.7 else f"{kind} {text.string}"
        box = text.box()
    text = _pick(rng, (f"Where is the {label}?", f"Where is the {label}?", f"Locate the {label}."))
    box = thousandths(scene, box)
    return Question("where", text, boxes(label, box), box)


def _read_question(rng: np.random.Generator, scene: Scene) -> Question:
    line = int(rng.integers(len(scene.texts)))
    string = scene.texts[line].string
    kind = "number" if string.isdigit() else "word"
    if len(scene.texts) > 1:
        which = ORDINALS[line]
        text = _pick(rng, (f"What does the {which} line say?", f"Read the {which} line."))
    elif kind == "number":
        text = _pick(rng, ("Which number is this?", "Read the number.", "What does it say?", "What number do you see?"))
    else:
        text = _pick(rng, ("What does it say?", "Read the word.", "Which word is this?", "What word do you see?"))
    return Question(kind, text, f"It says {string}.")


def _letter_question(rng: np.random.Generator, scene: Scene) -> Question | None:
    if len(scene.texts) > 1:
        return None
    string = scene.texts[0].string
    what = "digit" if string.isdigit() else "letter"
    if rng.random() < 0.2:
        return Question("letter", f"How many {what}s are there?", f"{len(string)}.")
    place = int(rng.integers(len(string)))
    if place == len(string) - 1 and rng.random() < 0.5:
        return Question("letter", f"What is the last {what}?", f"{string[-1]}.")
    return Question("letter", f"What is the {ORDINALS[place]} {what}?", f"{string[place]}.")


def _ink_question(rng: np.random.Generator, scene: Scene) -> Question | None:
    if len(scene.texts) > 1:
        return None
    colour = _pick(rng, ("colour", "color"))
    if rng.random() < 0.2:
        return Question("colour", f"What {colour} is the background?", f"The background is {scene.background}.")
    what = "number" if scene.texts[0].string.isdigit() else "word"
    return Question("colour", f"What {colour} is the {what}?", f"The {what} is {scene.texts[0].colour}.")


def _label_question(rng: np.random.Generator, scene: Scene) -> Question:
    i = int(rng.integers(len(scene.things)))
    thing, string = scene.things[i], scene.texts[i].string
    if rng.random() < 0.25 and sum(t.string == string for t in scene.texts) == 1:
        return Question("label", f"Which object has the label {string}?", f"The {noun(thing)}.")
    name = _pick(rng, (noun(thing), thing.shape))
    return Question("label", f"What does the label under the {name} say?", f"It says {string}.")


def _chart_question(rng: np.random.Generator, scene: Scene) -> Question:
    bar = scene.bars[int(rng.integers(len(scene.bars)))]
    ordered = sorted(scene.bars, key=lambda b: b.value)
    colour = _pick(rng, ("colour", "color"))
    what = rng.random()
    if what < 0.3:
        return Question("chart", f"What is the value of bar {bar.letter}?", f"Bar {bar.letter} is {bar.value}.")
    if what < 0.45:
        return Question("chart", "Which bar is the tallest?", f"Bar {ordered[-1].letter} is the tallest.")
    if what < 0.6:
        return Question("chart", "Which bar is the shortest?", f"Bar {ordered[0].letter} is the shortest.")
    if what < 0.75:
        return Question("chart", "How many bars are there?", _there_are(len(scene.bars), "bar"))
    if what < 0.88:
        return Question("chart", f"What {colour} is bar {bar.letter}?", f"Bar {bar.letter} is {bar.colour}.")
    return Question("chart", f"Which bar is {bar.colour}?", f"Bar {bar.letter} is {bar.colour}.")


_SHAPES = (
    (_count_question, 0.28),
    (_where_question, 0.17),
    (_relation_question, 0.16),
    (_colour_question, 0.11),
    (_shape_question, 0.1),
    (_presence_question, 0.1),
    (lambda rng, scene: Question("describe", _pick(rng, DESCRIBE), describe(scene)), 0.08),
)
_TEXT = ((_read_question, 0.5), (_letter_question, 0.22), (_where_question, 0.16), (_ink_question, 0.12))
_LABELS = ((_label_question, 0.7), (_shape_question, 0.1), (_where_question, 0.1), (_relation_question, 0.1))
_CHART = ((_chart_question, 1.0),)


def question(rng: np.random.Generator, scene: Scene, kind: str | None = None) -> Question | None:
    """A chance question, of that kind if one is named; None where the scene has no unambiguous
    one."""
    choices = _CHART if scene.bars else _LABELS if scene.things and scene.texts else _SHAPES if scene.things else _TEXT
    for _ in range(30):
        weights = [weight for _, weight in choices]
        asked = choices[int(rng.choice(len(choices), p=weights))][0](rng, scene)
        if asked and kind in (None, asked.kind):
            return asked
    return None


def images_question(rng: np.random.Generator, scenes: list[Scene]) -> Question | None:
    """A question about one of several images, or which of them shows something, or how many there
    are."""
    n, chance = len(scenes), rng.random()
    i = int(rng.integers(n))
    if chance < 0.08:
        return Question("several", "How many pictures are there?", _there_are(n, "picture"))
    if chance < 0.3:
        shapes = {t.shape for t in scenes[i].things}
        single = [s for s in SHAPES if s in shapes and not any(t.shape == s for o in scenes if o is not scenes[i]
                                                               for t in o.things)]  # fmt: skip
        if not single:
            return None
        return Question("several", f"Which picture shows {a(_pick(rng, single))}?", f"The {ORDINALS[i]} picture.")
    inner = question(rng, scenes[i])
    if inner is None:
        return None
    return Question("several", f"In the {ORDINALS[i]} picture: {inner.text}", inner.answer, inner.box)


def ask(rng: np.random.Generator, scenes: list[Scene], n: int) -> list[Question]:
    """n questions about one or several images, different ones while there are such."""
    asked: list[Question] = []
    for attempt in range(20 * n):
        new = question(rng, scenes[0]) if len(scenes) == 1 else images_question(rng, scenes)
        again = any(new and (new.answer == old.answer or new.kind == old.kind == "where") for old in asked)
        if new and (not again or attempt > 3 * n):
            asked.append(new)
        if len(asked) == n:
            break
    return asked


def careless(rng: np.random.Generator, text: str) -> str:
    """The question as people type it: now and then in lower case or without its mark."""
    if rng.random() < 0.12:
        text = text[0].lower() + text[1:]
    if rng.random() < 0.12:
        text = text[:-1]
    return text


SMALL_TALK = (
    ("Hello", "Hello! Show me a simple drawing and ask me about it."),
    ("Hello!", "Hello! Show me a simple drawing and ask me about it."),
    ("Hi", "Hello! Show me a simple drawing and ask me about it."),
    ("Hi!", "Hello! Show me a simple drawing and ask me about it."),
    ("Who are you?", "I am the demo model of Ommatidia. I know colours, shapes, short words and small numbers."),
    ("What are you?", "I am the demo model of Ommatidia. I know colours, shapes, short words and small numbers."),
    ("What can you do?", "I can name, count and locate shapes in simple drawings and read short words."),
    ("What do you know?", "I can name, count and locate shapes in simple drawings and read short words."),
    ("Help", "I can name, count and locate shapes in simple drawings and read short words."),
    ("Thank you!", "You are welcome."),
    ("Thanks", "You are welcome."),
)
NO_IMAGE = "I see no picture. Please show me one."


# --- the shipped images
# --------------------------------------------------------------------------------------------------

SHIPPED: tuple[tuple[str, Scene, tuple[tuple[str, str], ...]], ...] = (
    (
        "shapes.png",
        Scene(
            320,
            256,
            "white",
            (
                Thing("circle", "red", 80, 76, 50),
                Thing("square", "blue", 228, 70, 50, 0.08),
                Thing("triangle", "green", 160, 186, 52, -0.05),
            ),
        ),
        (
            ("What colour is the circle?", "The circle is red."),
            ("What shape is the blue object?", "The blue object is a square."),
            ("Is there a green triangle?", "Yes, there is a green triangle."),
            ("How many objects are there?", "There are three objects."),
        ),
    ),
    (
        "stars.jpg",
        Scene(
            352,
            224,
            "light blue",
            (
                Thing("star", "yellow", 66, 66, 42, 0.1),
                Thing("star", "yellow", 268, 74, 48, -0.15),
                Thing("circle", "purple", 170, 148, 46),
            ),
        ),
        (
            ("How many objects are there?", "There are three objects."),
            ("What color is the circle?", "The circle is purple."),
            ("Is there a red star?", "No, there is no red star."),
        ),
    ),
    (
        "cross.png",
        Scene(256, 224, "white", (Thing("cross", "orange", 128, 112, 60),)),
        (
            ("What shape is this?", "It is a cross."),
            ("What colour is the background?", "The background is white."),
            ("Describe the picture.", "The picture shows an orange cross on a white background."),
        ),
    ),
)


def write_images(folder: Path) -> None:
    """Write the shipped images and questions.json; the same bytes every time for one version of
    Pillow."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for name, scene, questions in SHIPPED:
        image = draw(scene, np.random.default_rng(0), plain=True)
        image.save(folder / name, **({"quality": 92} if name.endswith(".jpg") else {"optimize": True}))
        entries += [{"image": name, "question": q, "answer": answer} for q, answer in questions]
    (folder / "questions.json").write_text(json.dumps(entries, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, metavar="DIR", help="write the shipped images and questions there")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="draw N random scenes and print questions")
    parser.add_argument("--out", type=Path, default=Path("."), metavar="DIR", help="where --show puts its images")
    parser.add_argument("--seed", type=int, default=1, help="seed of --show (default 1)")
    args = parser.parse_args()
    if args.images:
        write_images(args.images)
    rng = np.random.default_rng(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    for i in range(args.show):
        width, height = (int(v) for v in rng.integers(64, 321, 2))
        fonts, sizes = demo_text.SEEN_FONTS, (18, 64)
        scene = (
            random_scene(rng, width, height),
            demo_data.text_scene(rng, width, height, fonts, sizes, False),
            demo_data.label_scene(rng, width, height, fonts, sizes, False),
            demo_data.chart_scene(rng, width, height, fonts),
        )[i % 4]
        if scene is None:
            continue
        draw(scene, rng).save(args.out / f"scene{i}.png")
        for asked in ask(rng, [scene], 5):
            print(f"scene{i}.png  {careless(rng, asked.text)}  ->  {asked.answer}")


if __name__ == "__main__":
    main()
