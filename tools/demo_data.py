#!/usr/bin/env python3
"""Pictures and questions for the demo model: simple drawings, made on the fly from a seed.

A scene is one to six flat shapes on a plain or mildly noisy background. Everything that is asked about a scene is
read off its description, so that question and answer can never disagree with the picture.

    tools/demo_data.py --pictures models/demo/pictures    the shipped pictures and questions.json
    tools/demo_data.py --show 5 --out /tmp/scenes         a few random scenes, with their questions on stdout
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SHAPES = ("circle", "square", "triangle", "star", "cross")

COLOURS = {
    "red": (215, 35, 35),
    "green": (35, 155, 65),
    "blue": (40, 80, 220),
    "yellow": (248, 218, 30),
    "orange": (245, 135, 20),
    "purple": (130, 45, 170),
    "pink": (248, 135, 185),
    "brown": (125, 75, 40),
    "black": (18, 18, 18),
    "white": (250, 250, 250),
}

# name -> (colour, object colours that would hardly stand out on it)
BACKGROUNDS = {
    "white": ((250, 250, 250), {"white"}),
    "gray": ((165, 165, 165), set()),
    "black": ((15, 15, 15), {"black"}),
    "beige": ((240, 226, 196), {"white"}),
    "light blue": ((186, 218, 245), {"white"}),
}

NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
MAX_OBJECTS = 6
KINDS = ("colour", "shape", "count", "presence", "describe")


@dataclass(frozen=True)
class Thing:
    """One drawn object; `radius` is that of the circle around it, in pixels."""

    shape: str
    colour: str
    x: float
    y: float
    radius: float
    angle: float = 0.0


@dataclass(frozen=True)
class Scene:
    width: int
    height: int
    background: str
    things: tuple[Thing, ...]


@dataclass(frozen=True)
class Question:
    kind: str
    text: str
    answer: str


# --- scenes ---------------------------------------------------------------------------------------------------------


def random_scene(rng: np.random.Generator, width: int, height: int, max_objects: int = MAX_OBJECTS) -> Scene:
    """Draw a scene's description.

    Half of the scenes use few shapes and colours: otherwise the answer to "How many ...?" would nearly always be
    zero or one, and counting would never be learnt.
    """
    background = str(rng.choice(list(BACKGROUNDS)))
    colours = [c for c in COLOURS if c not in BACKGROUNDS[background][1]]
    shapes = list(SHAPES)
    if rng.random() < 0.5:
        colours = list(rng.choice(colours, size=rng.integers(1, 4), replace=False))
        shapes = list(rng.choice(shapes, size=rng.integers(1, 3), replace=False))

    wanted = int(rng.integers(1, max_objects + 1))
    side = min(width, height)
    # All objects together may cover about half of the picture, but stay large enough to be told apart.
    largest = min(0.44 * side, math.sqrt(0.5 * width * height / (math.pi * wanted)))
    smallest = min(max(7.0, 0.45 * largest), largest)
    things: list[Thing] = []
    for _ in range(wanted * 12):
        if len(things) == wanted:
            break
        radius = float(rng.uniform(smallest, largest))
        x = float(rng.uniform(radius + 1, width - radius - 1))
        y = float(rng.uniform(radius + 1, height - radius - 1))
        if all(math.hypot(x - t.x, y - t.y) > radius + t.radius + 1 for t in things):
            shape, colour = str(rng.choice(shapes)), str(rng.choice(colours))
            things.append(Thing(shape, colour, x, y, radius, float(rng.uniform(-0.3, 0.3))))
    return Scene(width, height, background, tuple(things))


def _outline(thing: Thing, scale: float) -> list[tuple[float, float]]:
    """Corner points of a polygonal shape, turned by the thing's angle."""
    radius = thing.radius * scale
    if thing.shape == "square":
        polar = [(radius, math.pi / 4 + k * math.pi / 2) for k in range(4)]
    elif thing.shape == "triangle":
        polar = [(radius, -math.pi / 2 + k * 2 * math.pi / 3) for k in range(3)]
    elif thing.shape == "star":
        polar = [(radius if k % 2 == 0 else 0.42 * radius, -math.pi / 2 + k * math.pi / 5) for k in range(10)]
    elif thing.shape == "cross":
        arm = 0.32  # half the width of an arm, as a part of its length
        corner, inner = math.atan(arm), arm * math.sqrt(2)
        reach = radius / math.hypot(1, arm)
        polar = []
        for k in range(4):
            turn = k * math.pi / 2
            polar += [
                (reach * math.hypot(1, arm), turn - corner),
                (reach * math.hypot(1, arm), turn + corner),
                (reach * inner, turn + math.pi / 4),
            ]
    else:
        raise ValueError(f"no outline for a {thing.shape}")
    x, y = thing.x * scale, thing.y * scale
    return [(x + r * math.cos(a + thing.angle), y + r * math.sin(a + thing.angle)) for r, a in polar]


def draw(scene: Scene, rng: np.random.Generator, plain: bool = False) -> Image.Image:
    """Paint a scene. Unless `plain`, colours vary a little, and half of the pictures get noise or a gradient."""

    def jitter(colour: tuple[int, int, int]) -> tuple[int, int, int]:
        if plain:
            return colour
        return tuple(int(v) for v in np.clip(np.array(colour) + rng.integers(-14, 15, 3), 0, 255))

    scale = 2 if plain or rng.random() < 0.6 else 1  # smooth or jagged edges
    image = Image.new(
        "RGB", (scene.width * scale, scene.height * scale), jitter(BACKGROUNDS[scene.background][0])
    )
    pen = ImageDraw.Draw(image)
    for thing in scene.things:
        fill = jitter(COLOURS[thing.colour])
        if thing.shape == "circle":
            x, y, r = thing.x * scale, thing.y * scale, thing.radius * scale
            pen.ellipse((x - r, y - r, x + r, y + r), fill=fill)
        else:
            pen.polygon(_outline(thing, scale), fill=fill)
    if scale > 1:
        image = image.reduce(scale)
    if plain or rng.random() < 0.5:
        return image

    pixels = np.asarray(image).astype(np.int16)
    amplitude = int(rng.integers(1, 16))
    pixels += rng.integers(-amplitude, amplitude + 1, pixels.shape, dtype=np.int16)
    if rng.random() < 0.4:
        fall = np.linspace(0, int(rng.integers(-30, 31)), scene.height).astype(np.int16)
        pixels += fall[:, None, None]
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


# --- language -------------------------------------------------------------------------------------------------------


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
    """One sentence naming everything, in the fixed order of SHAPES and COLOURS so that only one answer is right."""
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
    """Yes and no equally often; many a "no" has the right colour and the right shape, but on different objects."""
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

_QUESTIONS = {
    "colour": _colour_question,
    "shape": _shape_question,
    "count": _count_question,
    "presence": _presence_question,
    "describe": lambda rng, scene: Question("describe", _pick(rng, DESCRIBE), describe(scene)),
}


def random_question(rng: np.random.Generator, scene: Scene, kind: str) -> Question | None:
    """A question of that kind, or None where the scene has no unambiguous one."""
    return _QUESTIONS[kind](rng, scene)


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
    ("Who are you?", "I am the demo model of Ommatidia. I know colours, shapes and small numbers."),
    ("What are you?", "I am the demo model of Ommatidia. I know colours, shapes and small numbers."),
    ("What can you do?", "I can name colours and shapes in simple drawings and count up to six objects."),
    ("What do you know?", "I can name colours and shapes in simple drawings and count up to six objects."),
    ("Help", "I can name colours and shapes in simple drawings and count up to six objects."),
    ("Thank you!", "You are welcome."),
    ("Thanks", "You are welcome."),
)
NO_PICTURE = "I see no picture. Please show me one."


# --- the shipped pictures -------------------------------------------------------------------------------------------

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
            ("How many stars are there?", "There are two stars."),
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


def write_pictures(folder: Path) -> None:
    """Write the shipped pictures and questions.json; the same bytes every time for one version of Pillow."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for name, scene, questions in SHIPPED:
        image = draw(scene, np.random.default_rng(0), plain=True)
        image.save(folder / name, **({"quality": 92} if name.endswith(".jpg") else {"optimize": True}))
        entries += [{"picture": name, "question": q, "answer": answer} for q, answer in questions]
    (folder / "questions.json").write_text(json.dumps(entries, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="write the shipped pictures and questions there")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="draw N random scenes and print questions")
    parser.add_argument("--out", type=Path, default=Path("."), metavar="DIR", help="where --show puts its pictures")
    parser.add_argument("--seed", type=int, default=1, help="seed of --show (default 1)")
    args = parser.parse_args()
    if args.pictures:
        write_pictures(args.pictures)
    rng = np.random.default_rng(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    for i in range(args.show):
        scene = random_scene(rng, int(rng.integers(64, 321)), int(rng.integers(64, 321)))
        draw(scene, rng).save(args.out / f"scene{i}.png")
        for kind in KINDS:
            if question := random_question(rng, scene, kind):
                print(f"scene{i}.png  {careless(rng, question.text)}  ->  {question.answer}")


if __name__ == "__main__":
    main()
