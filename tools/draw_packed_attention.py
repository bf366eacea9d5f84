#!/usr/bin/env python3
"""Draws docs/images/packed-attention.svg: why packed segments need neither a mask nor padding.

    tools/draw_packed_attention.py > docs/images/packed-attention.svg
"""

PATCHES = [(3, 2), (2, 2), (4, 3)]  # patches across and down of three images
COLOURS = [("#4c78a8", "#a9c3de"), ("#e58606", "#f6cf98"), ("#54a24b", "#b5dab0")]
CELL = 10
LEFT = 30


def rectangle(x, y, width, height, fill, stroke="#ffffff"):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" stroke="{stroke}"/>'


def text(x, y, words, size=13, anchor="start", weight="normal"):
    return f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}">{words}</text>'


def arrow(x, y, to_x, to_y):
    return f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="#555" stroke-width="1.5" marker-end="url(#head)"/>'


def borders():
    """cu_seqlens: where each segment begins, and the end of the last."""
    ends = [0]
    for across, down in PATCHES:
        ends.append(ends[-1] + across * down)
    return ends


def draw_images(top):
    lines, x = [text(LEFT, top - 12, "Images of any size, cut into patches", weight="bold")], LEFT
    for (across, down), (dark, _) in zip(PATCHES, COLOURS):
        for row in range(down):
            lines += [rectangle(x + 22 * column, top + 22 * row, 22, 22, dark) for column in range(across)]
        x += 22 * across + 40
    return lines


def draw_packed_row(top):
    lines = [text(LEFT, top - 12, "Their tokens, laid end to end", weight="bold")]
    ends = borders()
    for segment, (dark, _) in enumerate(COLOURS):
        lines += [rectangle(LEFT + 16 * token, top, 16, 16, dark) for token in range(ends[segment], ends[segment + 1])]
    for end in ends:
        x = LEFT + 16 * end
        lines += [f'<line x1="{x}" y1="{top - 3}" x2="{x}" y2="{top + 22}" stroke="#222" stroke-width="1.5"/>',
                  text(x, top + 36, end, 12, "middle")]
    lines.append(text(LEFT + 16 * ends[-1] + 16, top + 36, "cu_seqlens", 12))
    return lines


def draw_scores(left, top, title, masked, notes):
    """The square of scores: queries down, keys across."""
    ends, lines = borders(), [text(left, top - 12, title, weight="bold")]
    size = CELL * ends[-1]
    if masked:
        lines.append(rectangle(left, top, size, size, "url(#stripes)", "#999"))
    else:
        lines.append(f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="none" stroke="#ccc" stroke-dasharray="3 3"/>')
    for segment, (dark, light) in enumerate(COLOURS):
        begin, end = ends[segment], ends[segment + 1]
        for row in range(begin, end):
            lines += [rectangle(left + CELL * column, top + CELL * row, CELL, CELL, light) for column in range(begin, end)]
        length = CELL * (end - begin)
        lines.append(f'<rect x="{left + CELL * begin}" y="{top + CELL * begin}" width="{length}" height="{length}" '
                     f'fill="none" stroke="{dark}" stroke-width="2"/>')
    return lines + [text(left, top + size + 18 + 17 * i, note, 12) for i, note in enumerate(notes)]


def main():
    style = ('<style>text{font-family:"DejaVu Sans",Helvetica,Arial,sans-serif;fill:#222}</style>'
             '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
             '<path d="M0,0 L7,3 L0,6 z" fill="#555"/></marker>'
             '<pattern id="stripes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
             '<rect width="6" height="6" fill="#eee"/><line x1="0" y1="0" x2="0" y2="6" stroke="#bbb" stroke-width="2"/></pattern></defs>')
    width, height = 740, 540
    body = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            'aria-label="Packed attention: only the blocks on the diagonal are computed">', style,
            rectangle(0, 0, width, height, "#ffffff")]
    body += draw_images(45) + [arrow(LEFT + 150, 118, LEFT + 150, 138)] + draw_packed_row(165)
    body += draw_scores(LEFT, 255, "With a dense mask", True,
                        ["Every score of every pair is computed, stored", "and then masked: 303,548 tokens need a mask", "of 86 GiB."])
    body += draw_scores(LEFT + 380, 255, "Packed segments", False,
                        [
                         "Each image attends to itself. Only its block", "exists, in tiles that stay in cache: no mask, no",
                         "padding, 17 MiB of memory for the same tokens."])
    body.append("</svg>")
    print("\n".join(body))


if __name__ == "__main__":
    main()
