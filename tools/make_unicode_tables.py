#!/usr/bin/env python3
"""Makes src/text/unicode_tables.c and tests/data/text/unicode.json: what the released tokenizers
know of Unicode, character by character.

    python3 tools/make_unicode_tables.py

Needs tokenizers, tiktoken, unicodedata2 and libpcre2-8. The two libraries are asked about every
code point, by patterns and by normalising, and must agree; PCRE2 and the newest Unicode
(unicodedata2) tell where a program that reads their tables would differ. The tables hold these
differences, so they stay right when PCRE2 and utf8proc get newer.
"""
import ctypes
import json
import pathlib
import random
import re

import tiktoken
import tokenizers
import unicodedata2
from tokenizers import Regex, normalizers, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn").split()
# Those of src/text/pattern.c. Younger characters of further scripts have no older one of their kind
# and length to stand for them.
SCRIPTS = "Han Hiragana Katakana Hangul Latin Greek Hebrew Thai Lao Khmer".split()
CHUNK = 65536
# Never assigned, in every version.
UNASSIGNED = {3: 0xFDD0, 4: 0x1FFFE}
ABOVE, OVERLAY = "\u0315", "\u0334"  # marks of a high and of a low combining class


def chunks():
    for start in range(0, len(POINTS), CHUNK):
        yield "".join(map(chr, POINTS[start:start + CHUNK]))


def of_tokenizers(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {ord(c) for text in chunks() for piece, _ in split.pre_tokenize_str(text) for c in piece}


def of_tiktoken(pattern):
    ranks = {bytes([i]): i for i in range(256)}
    encoding = tiktoken.Encoding("bytes", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return {ord(c) for text in chunks() for c in bytes(encoding.encode_ordinary(text)).decode()}


def of_pcre2(pattern):
    library = ctypes.CDLL("libpcre2-8.so.0")
    library.pcre2_compile_8.restype = library.pcre2_match_data_create_8.restype = ctypes.c_void_p
    reason, offset = ctypes.c_int(), ctypes.c_size_t()
    code = ctypes.c_void_p(library.pcre2_compile_8(pattern.encode(), ctypes.c_size_t(len(pattern)), 0xA0000, ctypes.byref(reason),
                                                   ctypes.byref(offset), None))
    data = ctypes.c_void_p(library.pcre2_match_data_create_8(1, None))
    match = library.pcre2_match_8
    match.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_void_p,
                      ctypes.c_void_p]
    texts = ((c, chr(c).encode()) for c in POINTS)
    return {c for c, text in texts if match(code, text, len(text), 0, 0, data, None) >= 0}


def official(pattern):
    found = of_tokenizers(pattern)
    if of_tiktoken(pattern) != found:
        raise SystemExit(f"tokenizers and tiktoken differ on {pattern}: one table is not enough")
    return found


def by_point(sets):
    """{name: points} to {point: name}; a point is in one set at most."""
    return {c: name for name, points in sets.items() for c in points}


def stand_ins(ours, scripts, theirs, their_scripts):
    """{point: stand-in}, for each point whose category or script PCRE2 or the newest Unicode has
    otherwise."""
    newest = {c: unicodedata2.category(chr(c)) for c in POINTS}
    size = lambda c: len(chr(c).encode())
    agreed = [c for c in POINTS if ours[c] == theirs[c] == newest[c] and scripts.get(c) == their_scripts.get(c)]
    known = set(agreed)
    kinds = {}
    for c in agreed:
        if c >= 0x80:
            kinds.setdefault((size(c), ours[c], scripts.get(c)), c)
    for n, c in UNASSIGNED.items():
        kinds[n, "Cn", None] = c
    return {c: kinds[size(c), ours[c], scripts.get(c)] for c in POINTS if c not in known}


def inert(nfc, nfd):
    """The points to which the newest Unicode gives a combining class or a composition, and the
    official library does not."""
    moves = lambda c: nfc("a" + ABOVE + chr(c) + OVERLAY) != "a" + ABOVE + chr(c) + OVERLAY
    composites = {c: [int(x, 16) for x in unicodedata2.decomposition(chr(c)).split()] for c in POINTS
                  if unicodedata2.decomposition(chr(c)) and not unicodedata2.decomposition(chr(c)).startswith("<")}
    unknown = {c for c in composites if nfd(chr(c)) == chr(c)}
    active = {part for c in composites if c not in unknown for part in composites[c] + [c]}
    found = {c for c in POINTS if unicodedata2.combining(chr(c)) and not moves(c)} - active
    for c in unknown:
        parts = [part for part in composites[c] if part not in active and (part in found or not unicodedata2.combining(chr(part)))]
        if not parts:
            raise SystemExit(f"U+{c:04X} cannot be kept from composing")
        found.update(parts + [c])
    return found, composites


def ranges(points, value=lambda c: None):
    """[first, last, value] of sorted points that follow one another and share the value."""
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1 and out[-1][2] == value(c):
            out[-1][1] = c
        else:
            out.append([c, c, value(c)])
    return out


def rows(items, width):
    lines, line = [], " "
    for item in items:
        if len(line) + len(item) + 2 > width:
            lines.append(line)
            line = " "
        line += f" {item},"
    return "\n".join(lines + [line])


def write_tables(path, renamed, idle, pages):
    path.write_text(f"""/* Made by tools/make_unicode_tables.py from tokenizers {tokenizers.__version__}, tiktoken {tiktoken.__version__} and Unicode \
{unicodedata2.unidata_version}. */
#include "text/unicode_tables.h"

/* clang-format off */
const struct ommai_unicode_stand_in ommai_unicode_stand_ins[] = {{
{rows(["{0x%X, 0x%X, 0x%X}" % tuple(r) for r in renamed], 120)}
}};
const size_t ommai_unicode_n_stand_ins = {len(renamed)};

const uint32_t ommai_unicode_stand_in_pages[] = {{
{rows(["0x%X" % word for word in pages], 120)}
}};
const uint32_t ommai_unicode_n_stand_in_pages = {32 * len(pages)};

const struct ommai_unicode_range ommai_unicode_inert[] = {{
{rows(["{0x%X, 0x%X}" % tuple(r[:2]) for r in idle], 120)}
}};
const size_t ommai_unicode_n_inert = {len(idle)};
""")


def page_bits(points):
    words = [0] * (max(points) // 256 // 32 + 1)
    for c in points:
        words[c // 256 // 32] |= 1 << (c // 256 % 32)
    return words


def normalisations(nfc, idle, composites):
    """Texts and their official form C: each point between two marks where that changes anything,
    compositions, random texts."""
    random.seed(16)
    hexadecimal = lambda text: text.encode().hex()
    between = []
    for c in POINTS:
        text = "a" + ABOVE + chr(c) + OVERLAY
        if nfc(text) != text:
            between.append([c, hexadecimal(nfc(text))])
    texts = ["".join(map(chr, parts)) for _, parts in sorted(composites.items()) if len(parts) == 2]
    young, old = sorted(idle), sorted({part for parts in composites.values() for part in parts} - idle)
    marks = [c for c in POINTS if unicodedata2.combining(chr(c))]
    for _ in range(400):
        pools = [random.choice([young, old, marks, [0x61, 0x65, 0x1100, 0xAC00]]) for _ in range(random.randint(2, 12))]
        texts.append("".join(chr(random.choice(pool)) for pool in pools))
    return between, [[hexadecimal(text), hexadecimal(nfc(text))] for text in texts]


def write_json(path, document):
    text = json.dumps(document, ensure_ascii=True, separators=(",", ":"))
    path.write_text(re.sub(r',"(?=[a-zA-Z]+":[\[{])', ',\n"', text) + "\n")


def main():
    patterns = {name: r"\p{%s}" % name for name in CATEGORIES + SCRIPTS}
    ours = {name: official(pattern) for name, pattern in patterns.items()}
    theirs = {name: of_pcre2(pattern if name in CATEGORIES else r"\p{sc:%s}" % name) for name, pattern in patterns.items()}
    categories, scripts = (by_point({name: ours[name] for name in names}) for names in (CATEGORIES, SCRIPTS))
    replaced = stand_ins(categories, scripts, *(by_point({n: theirs[n] for n in names}) for names in (CATEGORIES, SCRIPTS)))
    nfc, nfd = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
    idle, composites = inert(nfc, nfd)
    write_tables(ROOT / "src/text/unicode_tables.c", ranges(replaced, replaced.get), ranges(idle), page_bits(replaced))
    between, texts = normalisations(nfc, idle, composites)
    write_json(ROOT / "tests/data/text/unicode.json", {
        "made_with": f"tokenizers {tokenizers.__version__}, tiktoken {tiktoken.__version__}",
        "categories": [[first, name] for first, _, name in ranges(POINTS, categories.get)],
        "scripts": {name: [r[:2] for r in ranges(ours[name])] for name in SCRIPTS}, "nfcBetweenMarks": between, "nfc": texts})


if __name__ == "__main__":
    main()
