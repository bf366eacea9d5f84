#!/usr/bin/env python3
"""Draw the demo model's training curve from its log.

    tools/demo_curve.py models/demo/training_log.csv models/demo/training.svg
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

# name in the image -> columns of the log, whose mean is drawn
LINES = {
    "shapes per patch": ("map_shape",),
    "characters per patch": ("map_character",),
    "colour, shape, relation": ("colour", "shape", "relation"),
    "count": ("count",),
    "words, numbers": ("word", "number"),
    "labels, charts": ("label", "chart"),
}
INKS = ("#888888", "#bbaa55", "#1f77b4", "#2ca02c", "#d62728", "#9467bd")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 760, 360, 50, 20, 40, 200


def points(rows: list[dict], columns: tuple[str, ...], hours: float) -> str:
    """The line as SVG coordinates; rows and logs may lack values."""
    result = []
    for row in rows:
        values = [float(row[column]) for column in columns if row.get(column)]
        if values:
            x = LEFT + float(row["seconds"]) / 3600 / hours * (WIDTH - LEFT - RIGHT)
            y = TOP + (1 - sum(values) / len(values)) * (HEIGHT - TOP - BOTTOM)
            result.append(f"{x:.1f},{y:.1f}")
    return " ".join(result)


def curve(rows: list[dict]) -> str:
    hours = float(rows[-1]["seconds"]) / 3600
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for percent in range(0, 101, 20):
        y = TOP + (1 - percent / 100) * (HEIGHT - TOP - BOTTOM)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    step = next(step for step in (0.25, 0.5, 1, 2, 5, 10, 1e9) if hours / step <= 10)
    for tick in range(int(hours / step) + 1):
        x = LEFT + tick * step / hours * (WIDTH - LEFT - RIGHT)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick * step:g} h</text>')
    for i, (name, columns) in enumerate(LINES.items()):
        line = points(rows, columns, hours)
        if not line:
            continue
        parts.append(f'<polyline points="{line}" fill="none" stroke="{INKS[i]}" stroke-width="2"/>')
        y = TOP + 12 + 20 * i
        parts.append(f'<path d="M{WIDTH - RIGHT + 12} {y}h18" stroke="{INKS[i]}" stroke-width="3"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 36}" y="{y + 4}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, help="training_log.csv")
    parser.add_argument("image", type=Path, help="the SVG file to write")
    args = parser.parse_args()
    with args.log.open(newline="") as file:
        args.image.write_text(curve(list(csv.DictReader(file))))


if __name__ == "__main__":
    main()
