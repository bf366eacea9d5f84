"""Images for the demo model: simple drawings, made on the fly from a seed.

A scene is its description: flat shapes, words and numbers, shapes with labels, or a bar chart, on a
plain, patterned or noisy background. demo_questions.py reads questions and answers off it, so that
they can never disagree with the image.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

import demo_text
from demo_text import Text

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

MAX_OBJECTS = 6
TEXT_SIZES = (22, 46)  # of fonts, in pixels of the image as the model sees it
TEXT_CONTRAST = 80  # least difference of brightness, out of 255
STYLES = ("even", "noise", "fall", "stripes", "blotches")
UNSEEN_STYLES = ("checks", "waves")


@dataclass(frozen=True)
class Thing:
    """One drawn object; `radius` is that of the circle around it, in pixels."""

    shape: str
    colour: str
    x: float
    y: float
    radius: float
    angle: float = 0.0

    def box(self) -> tuple[float, float, float, float]:
        """The box around what is drawn, in pixels."""
        if self.shape == "circle":
            return self.x - self.radius, self.y - self.radius, self.x + self.radius, self.y + self.radius
        xs, ys = zip(*_outline(self, 1))
        return min(xs), min(ys), max(xs), max(ys)


@dataclass(frozen=True)
class Bar:
    """A bar of a chart: its corner boxes in pixels, the letter below it and the number above it."""

    colour: str
    corners: tuple[float, float, float, float]
    letter: str
    value: int

    def box(self) -> tuple[float, float, float, float]:
        return self.corners


@dataclass(frozen=True)
class Scene:
    width: int
    height: int
    background: str
    things: tuple[Thing, ...] = ()
    texts: tuple[Text, ...] = ()  # with things: texts[i] is the label under things[i]
    bars: tuple[Bar, ...] = ()


# --- scenes
# --------------------------------------------------------------------------------------------------


def _contrast(colour: str, background: str) -> float:
    weights = np.array([0.299, 0.587, 0.114])
    return abs(float(weights @ (np.array(COLOURS[colour]) - np.array(BACKGROUNDS[background][0]))))


def _choose(rng: np.random.Generator, options: list | tuple):
    return options[int(rng.integers(len(options)))]


def random_scene(rng: np.random.Generator, width: int, height: int, max_objects: int = MAX_OBJECTS) -> Scene:
    """Draw a scene's description.

    Half of the scenes use few shapes and colours: otherwise the answer to "How many ...?" would
    nearly always be zero or one, and counting would never be learnt.
    """
    background = str(rng.choice(list(BACKGROUNDS)))
    colours = [c for c in COLOURS if c not in BACKGROUNDS[background][1]]
    shapes = list(SHAPES)
    if rng.random() < 0.5:
        colours = list(rng.choice(colours, size=rng.integers(1, 4), replace=False))
        shapes = list(rng.choice(shapes, size=rng.integers(1, 3), replace=False))

    wanted = int(rng.integers(1, min(max_objects, width * height // 1024) + 1))
    side = min(width, height)
    # All objects together may cover about half of the image, but stay large enough to be seen
    # apart.
    largest = min(0.44 * side, math.sqrt(0.5 * width * height / (math.pi * wanted)))
    smallest = min(max(8.0, 0.45 * largest), largest)
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


def text_scene(
    rng: np.random.Generator,
    width: int,
    height: int,
    fonts: tuple[str, ...],
    sizes: tuple[int, int],
    held_out: bool,
    easy: bool = False,
) -> Scene | None:
    """A word or a number, now and then two of them one above the other. `held_out` words are ones
    that training does not show; `easy` is black on white."""
    background = "white" if easy else _choose(rng, list(BACKGROUNDS))
    colours = ["black"] if easy else [c for c in COLOURS if _contrast(c, background) > TEXT_CONTRAST]
    lines = 2 if height >= 96 and rng.random() < 0.25 else 1
    texts = []
    for line in range(lines):
        size = int(rng.integers(sizes[0], sizes[1] + 1))
        longest = int(np.clip(0.92 * width / (0.72 * size), 1, demo_text.LONGEST))
        shortest = min(longest, 1 if rng.random() < 0.15 else 3)
        if rng.random() < 0.35:
            string = demo_text.random_number(rng, min(shortest, 2), min(longest, 5))
        else:
            string = demo_text.random_word(rng, shortest, longest, held_out)
        band = height / lines
        text = demo_text.fitted(string, _choose(rng, colours), _choose(rng, fonts), size, 0.96 * width, 0.92 * band)
        if text is None:
            return None
        extent = text.extent()
        x = float(rng.uniform(1, max(width - extent[0] - 1, 1.01)))
        y = float(rng.uniform(1, max(band - extent[1] - 1, 1.01))) + line * band
        texts.append(dataclasses.replace(text, x=round(x), y=round(y)))
    return Scene(width, height, background, texts=tuple(texts))


def label_scene(
    rng: np.random.Generator, width: int, height: int, fonts: tuple[str, ...], sizes: tuple[int, int], held_out: bool
) -> Scene | None:
    """One to three shapes next to each other, no shape and no colour twice, each with a word or
    number below it."""
    background = _choose(rng, list(BACKGROUNDS))
    n = int(np.clip(width // 80, 1, 3))
    n = int(rng.integers(1, n + 1))
    shown = [c for c in COLOURS if c not in BACKGROUNDS[background][1]]
    legible = [c for c in COLOURS if _contrast(c, background) > TEXT_CONTRAST]
    colours, shapes = rng.permutation(shown)[:n], rng.permutation(SHAPES)[:n]
    name, size, cell = _choose(rng, fonts), int(rng.integers(sizes[0], min(sizes[1], 36) + 1)), width / n
    things, texts = [], []
    for i in range(n):
        longest = int(np.clip(0.85 * cell / (0.72 * size), 2, 5))
        number = rng.random() < 0.35
        string = demo_text.random_number(rng, 1, min(longest, 3)) if number else demo_text.random_word(
            rng, min(3, longest), longest, held_out)  # fmt: skip
        text = demo_text.fitted(string, _choose(rng, legible), name, size, 0.9 * cell, 0.4 * height)
        if text is None:
            return None
        extent = text.extent()
        top = height - extent[1] - float(rng.uniform(2, 6))
        radius = min(0.42 * cell, 0.46 * (top - 4)) * float(rng.uniform(0.75, 1))
        if radius < 9:
            return None
        x = (i + 0.5) * cell
        y = float(rng.uniform(radius + 1, max(top - radius - 3, radius + 1.01)))
        things.append(Thing(str(shapes[i]), str(colours[i]), x, y, radius, float(rng.uniform(-0.3, 0.3))))
        texts.append(dataclasses.replace(text, x=round(x - extent[0] / 2), y=round(top)))
    return Scene(width, height, background, tuple(things), tuple(texts))


def chart_scene(rng: np.random.Generator, width: int, height: int, fonts: tuple[str, ...]) -> Scene | None:
    """Two to five bars with different values, a letter below each and its value above it."""
    background = _choose(rng, ["white", "beige", "light blue", "white"])
    most = min(5, width // 44)
    if most < 2 or height < 150:
        return None
    n = int(rng.integers(2, most + 1))
    shown = [c for c in COLOURS if c not in BACKGROUNDS[background][1]]
    colours = rng.permutation(shown)[:n]
    start = int(rng.integers(0, 21)) if rng.random() < 0.5 else 0
    letters = [demo_text.LETTERS[start + i] for i in range(n)]
    values = [int(v) for v in rng.permutation(np.arange(1, 20))[:n] * int(_choose(rng, [1, 1, 2, 5]))]
    name, size, ink = _choose(rng, fonts), int(rng.integers(20, min(31, height // 7))), _choose(rng, ["black", "blue"])
    cell, foot, head = width / n, height - 1.35 * size, 1.3 * size
    if max(values) > 9 and cell < 1.5 * size:
        return None
    bars, texts = [], []
    for i in range(n):
        half = 0.5 * cell * float(rng.uniform(0.5, 0.75))
        x = (i + 0.5) * cell
        top = foot - max(values[i] / max(values) * (foot - head - 2), 4)
        bars.append(Bar(str(colours[i]), (x - half, top, x + half, foot), letters[i], values[i]))
        for string, below in ((letters[i], True), (str(values[i]), False)):
            text = Text(string, ink, name, size, 0, 0)
            extent = text.extent()
            y = foot + 0.25 * size if below else top - extent[1] - 3
            texts.append(dataclasses.replace(text, x=round(x - extent[0] / 2), y=round(y)))
    return Scene(width, height, background, texts=tuple(texts), bars=tuple(bars))


# --- drawing
# --------------------------------------------------------------------------------------------------


def _pattern(rng: np.random.Generator, style: str, width: int, height: int) -> np.ndarray:
    """What a style adds to the background's colour: [height, width, 1 or 3], within about -30 to
    30."""
    ys, xs = np.mgrid[0:height, 0:width].astype(np.float32)
    strength = float(rng.uniform(5, 24))
    if style == "fall":
        angle = rng.uniform(0, 2 * math.pi)
        slope = (xs * math.cos(angle) + ys * math.sin(angle)) / max(width, height)
        return (1.4 * strength * slope)[..., None]
    if style == "stripes":
        angle, period = rng.uniform(0, math.pi), rng.uniform(5, 40)
        wave = np.sin((xs * math.cos(angle) + ys * math.sin(angle)) * (2 * math.pi / period))
        return (0.7 * strength * np.sign(wave))[..., None]
    if style == "blotches":
        small = rng.normal(0, 0.6 * strength, (3 + height // 40, 3 + width // 40)).astype(np.float32)
        return np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))[..., None]
    if style == "checks":
        side = rng.uniform(6, 30)
        return (0.7 * strength * np.where((xs // side + ys // side) % 2 < 1, 1, -1))[..., None]
    if style == "waves":
        period = rng.uniform(10, 40)
        return (0.9 * strength * np.sin((xs + 6 * np.sin(ys / 9)) * (2 * math.pi / period)))[..., None]
    return np.zeros((1, 1, 1), np.float32)


def draw(
    scene: Scene, rng: np.random.Generator, plain: bool = False, styles: tuple[str, ...] = STYLES
) -> Image.Image:
    """Paint a scene. Unless `plain`, colours vary a little, and the background has one of the
    styles."""

    def jitter(colour: tuple[int, int, int]) -> tuple[int, int, int]:
        if plain:
            return colour
        return tuple(int(v) for v in np.clip(np.array(colour) + rng.integers(-14, 15, 3), 0, 255))

    width, height = scene.width, scene.height
    scale = 2 if plain or rng.random() < 0.6 else 1  # smooth or jagged edges
    base = jitter(BACKGROUNDS[scene.background][0])
    style = "even" if plain else _choose(rng, styles)
    if style in ("even", "noise"):
        image = Image.new("RGB", (width * scale, height * scale), base)
    else:
        ground = np.clip(np.array(base) + _pattern(rng, style, width, height), 0, 255).astype(np.uint8)
        image = Image.fromarray(ground)
        if scale > 1:
            image = image.resize((width * scale, height * scale), Image.Resampling.NEAREST)
    pen = ImageDraw.Draw(image)
    for thing in scene.things:
        fill = jitter(COLOURS[thing.colour])
        if thing.shape == "circle":
            pen.ellipse([v * scale for v in thing.box()], fill=fill)
        else:
            pen.polygon(_outline(thing, scale), fill=fill)
    for bar in scene.bars:
        pen.rectangle([v * scale for v in bar.corners], fill=jitter(COLOURS[bar.colour]))
    if scale > 1:
        image = image.reduce(scale)
    pen = ImageDraw.Draw(image)
    for text in scene.texts:
        face = demo_text.font(text.font, text.size)
        pen.text(text.origin(), text.string, font=face, fill=jitter(COLOURS[text.colour]))
    if plain or not (style == "noise" or rng.random() < 0.25):
        return image
    pixels = np.asarray(image).astype(np.int16)
    amplitude = int(rng.integers(2, 20))
    pixels += rng.integers(-amplitude, amplitude + 1, pixels.shape, dtype=np.int16)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
