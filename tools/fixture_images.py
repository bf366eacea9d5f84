"""Draws the images of the golden tests: odd sizes, gradients, shapes and noise, so that resampling
errors show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SHAPES_PER_IMAGE = 7


@dataclass(frozen=True)
class Drawing:
    """One drawn image; `noise` is the amplitude of the per-pixel noise in 8-bit units."""

    file: str
    width: int
    height: int
    seed: int
    noise: int


IMAGES = (
    Drawing("meadow_163x97.jpg", 163, 97, seed=1, noise=24),
    Drawing("harbour_301x211.jpg", 301, 211, seed=2, noise=16),
    Drawing("banner_150x40.png", 150, 40, seed=3, noise=30),
    Drawing("tower_33x200.png", 33, 200, seed=4, noise=30),
    Drawing("tile_64x64.png", 64, 64, seed=5, noise=40),
    Drawing("stamp_20x10.png", 20, 10, seed=6, noise=50),
)

# One row and one column of patches of 8, for the model that does not merge. The merging ones take a
# merge block's two at least: banner_150x40.png is 2 x 10 patches of 16 and of 14, tower_33x200.png
# 12 x 2 and 14 x 2, stamp_20x10.png 2 x 2 of Kimi-VL's.
THIN = (
    Drawing("ribbon_150x9.png", 150, 9, seed=8, noise=30),
    Drawing("pole_9x150.png", 9, 150, seed=9, noise=30),
)

CLIP = tuple(Drawing(f"clip_{index}_118x54.jpg", 118, 54, seed=7, noise=12) for index in range(5))


def draw(drawing: Drawing, shift: int = 0) -> Image.Image:
    """Two-colour gradient with a tilt of its own, random shapes moved by `shift`, then noise on
    every channel."""
    rng = np.random.default_rng(drawing.seed)
    width, height = drawing.width, drawing.height
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    tilt = rng.uniform(0.2, 0.8)
    mix = (tilt * x + (1 - tilt) * y)[:, :, None]
    first, second = rng.integers(0, 256, (2, 3))
    image = Image.fromarray(np.round(first * (1 - mix) + second * mix).astype(np.uint8))

    pen = ImageDraw.Draw(image)
    for index in range(SHAPES_PER_IMAGE):
        colour = tuple(int(c) for c in rng.integers(0, 256, 3))
        points = [(int(px * width) + shift, int(py * height)) for px, py in rng.uniform(0, 1, (3, 2))]
        if index % 2:
            pen.polygon(points, fill=colour)
        else:
            (left, top), (right, bottom) = points[:2]
            pen.ellipse((min(left, right), min(top, bottom), max(left, right), max(top, bottom)), fill=colour)

    noise = rng.integers(-drawing.noise, drawing.noise + 1, (height, width, 3))
    return Image.fromarray(np.clip(np.asarray(image, dtype=np.int64) + noise, 0, 255).astype(np.uint8))


def write_images(folder: Path) -> None:
    """Writes every image and the frames of the clip: JPEG as baseline 4:2:0, PNG as 8-bit RGB."""
    folder.mkdir(parents=True, exist_ok=True)
    moved = [(frame, 9 * index) for index, frame in enumerate(CLIP)]
    for drawing, shift in [(image, 0) for image in (*IMAGES, *THIN)] + moved:
        options = {"quality": 88, "subsampling": "4:2:0"} if drawing.file.endswith(".jpg") else {"optimize": True}
        draw(drawing, shift).save(folder / drawing.file, **options)
