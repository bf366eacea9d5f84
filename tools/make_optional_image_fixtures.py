#!/usr/bin/env python3
"""Draws the TIFF, HEIC and AVIF images of tests/data/image/optional, formats whose libraries a
build may lack.

    python tools/make_optional_image_fixtures.py            (needs numpy, Pillow 11.3 or newer, pillow_heif)

Written: the files, the drawing after them as reference.png and reference_on_white.png (its
half-transparent form), and manifest.txt, a line each: file, reference, the largest mean difference
of a channel that a lossy codec may make (0: none).
"""

import io
import pathlib

import numpy as np
import pillow_heif
from PIL import Image, TiffImagePlugin

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "image" / "optional"
WIDTH, HEIGHT = 64, 48


def drawing():
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float64)
    planes = [128 + 90 * np.sin(x / (9 + 3 * c) + c) * np.cos(y / (8 + 2 * c)) for c in range(3)]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def saved(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def main():
    pillow_heif.register_heif_opener()
    OUT.mkdir(parents=True, exist_ok=True)
    rgb = drawing()
    alpha = np.full((HEIGHT, WIDTH, 1), 255, np.uint8)
    alpha[:, : WIDTH // 2] = 0  # all or nothing: premultiplied or not, the colours are the same
    on_white = np.where(alpha > 0, rgb, 255).astype(np.uint8)
    image, transparent = Image.fromarray(rgb), Image.fromarray(np.concatenate([rgb, alpha], -1))
    turned = Image.fromarray(np.rot90(rgb))  # orientation 6: turn clockwise to see it upright
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags[274] = 6
    files = {
        "reference.png": (saved(image, "PNG"), None, 0),
        "reference_on_white.png": (saved(Image.fromarray(on_white), "PNG"), None, 0),
        "plain.tiff": (saved(image, "TIFF"), "reference.png", 0),
        "lzw.tiff": (saved(image, "TIFF", compression="tiff_lzw"), "reference.png", 0),
        "deflate.tiff": (saved(image, "TIFF", compression="tiff_adobe_deflate"), "reference.png", 0),
        "alpha.tiff": (saved(transparent, "TIFF"), "reference_on_white.png", 0),
        "orientation_6.tiff": (saved(turned, "TIFF", tiffinfo=tags), "reference.png", 0),
        "photo.heic": (saved(image, "HEIF", quality=95), "reference.png", 4),
        "alpha.heic": (saved(transparent, "HEIF", quality=95), "reference_on_white.png", 4),
        "photo.avif": (saved(image, "AVIF", quality=95), "reference.png", 4),
    }
    lines = []
    for name, (data, reference, tolerance) in files.items():
        (OUT / name).write_bytes(data)
        if reference:
            lines.append(f"{name} {reference} {tolerance}\n")
    (OUT / "manifest.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
