#!/usr/bin/env python3
"""Pages with what was read of them, and their figures by OmniDocBench's own code.

    tools/make_score_pages.py --reference OmniDocBench > tests/data/scores/pages.json

--reference is a checkout of OmniDocBench at version 1.5 (dataset/, utils/, registry/); its code
needs Levenshtein, SciPy, pandas, BeautifulSoup, pylatexenc 3.0a30, apted 1.0.3 and lxml. The pages
are drawn from a seed: texts that were read in parts or together, with changes, in another order,
left out or made up; captions and headers; formulas alone and inside of texts; arrays; tables of
which some were not read; blocks that a page break cuts apart.
"""

import argparse
import json
import pathlib
import random
import string
import sys
import tempfile
import types

N_PAGES = 100
WORDS = ("the page of layout reading order text figure model table value result sum over under time long short and/then on/off "
         "größe naïve Δt 漢字 文書 データ данные 3.14 42 x_1 state-of-the-art n/a").split()
FORMULAS = (r"\alpha", r"x^{2}", r"x_{i}", r"\frac{a}{b}", r"\mathbf{x}", r"\mathcal{L}", r"\sqrt{y}", r"\log n", r"\sum_{i=1}^{n} i",
            r"\hat{a}", r"\tilde{n}", r"\mathrm{d}t", r"\mathbb{R}", r"\left( a \right)", r"\leq", r"\text{if}", r"\beta\gamma", r"\frac{1}{t}",
            r"\mathit{h}", r"\bar{z}", r"\operatorname{rank}", r"\unknown{q}", r"\mathbf{A}_{k}", r"a \cdot b", r"\theta'")
CAPTIONS = ("figure_caption", "table_caption", "header", "footer", "page_number", "page_footnote", "code_algorithm")
TEXTS = ("text_block", "text_block", "text_block", "title", "reference", "code_txt")


def sentence(rng, least, most):
    words = []
    for _ in range(rng.randint(least, most)):
        kind = rng.random()
        if kind < 0.06:
            words.append("$" + " ".join(rng.choices(FORMULAS, k=rng.randint(1, 3))) + "$")
        elif kind < 0.08:
            words.append(r"\(" + rng.choice(FORMULAS) + r"\)")
        elif kind < 0.4:
            words.append("".join(rng.choices(string.ascii_lowercase, k=rng.randint(1, 9))))
        else:
            words.append(rng.choice(WORDS))
    return " ".join(words)


def change(rng, text, share):
    """The text with a share of its letters removed, doubled or replaced, commands left alone."""
    out = []
    for i, character in enumerate(text):
        kind = rng.random()
        if kind > share or not character.isalpha() or "\\" in text[max(0, i - 16):i] or not text.isprintable():
            out.append(character)
        elif kind > share / 2:
            out.append(rng.choice(string.ascii_lowercase))
        elif kind > share / 4:
            out.append(character * 2)
    return "".join(out)


def formula(rng):
    lines = [" + ".join(rng.choices(FORMULAS, k=rng.randint(1, 5))) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    if len(lines) > 1:
        spec = rng.choice(("l", "c", "ll", "{l}"))
        return rf"\begin{{array}}{{{spec}}} " + r" \\ ".join(lines) + r" \end{array}"
    return lines[0] + rng.choice(("", ".", r" \tag{3}", r" \quad \text{for} n"))


def table(rng):
    def cell():
        tag = rng.choice(("td", "td", "td", "th"))
        spans = "".join(f' {name}="{rng.randint(2, 3)}"' for name in ("colspan", "rowspan") if rng.random() < 0.15)
        style = rng.choice(("", "", ' style="x:y"', " align='left'"))
        inner = rng.choice((sentence(rng, 1, 2), "12", "a &amp; b", "<b>x</b>", "½ ﬁ", "<sup>2</sup>3", "", "p<br>q"))
        return f"<{tag}{spans}{style}>{inner}</{tag}>"
    rows = ["<tr>" + "".join(cell() for _ in range(rng.randint(1, 4))) + "</tr>" for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.4:
        return f"<table><thead>{rows[0]}</thead><tbody>{''.join(rows[1:])}</tbody></table>"
    return "<table>" + rng.choice(("", "\n")).join(rows) + "</table>"


def piped(rng):
    """A table of lines with pipes."""
    columns = rng.randint(1, 4)

    def row():
        cells = (rng.choice((sentence(rng, 1, 2).replace("|", ""), "12", "", "a: b", "x---y")) for _ in range(columns))
        return "| " + " | ".join(cells) + " |"
    return "\n".join([row(), "|" + " --- |" * columns, *(row() for _ in range(rng.randint(0, 3)))])


def element(category, order, content, number):
    key = {"table": "html", "equation_isolated": "latex"}.get(category, "text")
    return {"category_type": category, "order": order, "anno_id": number, key: content}


def read_as(rng, category, content):
    """What a model makes of an element: some paragraphs."""
    kind = rng.random()
    share = rng.choice((0, 0, 0.02, 0.1, 0.3, 0.6))
    if category == "table":
        if kind < 0.1:
            return []
        if kind < 0.3:
            return [piped(rng)]
        lines = [content if kind < 0.5 else content.replace("<td>", "<td >", 1).replace("12", "13")]
        return lines + ([table(rng)] if kind > 0.85 else [])
    if category == "equation_isolated":
        if kind < 0.1:
            return []
        if kind < 0.2:
            return [f"where ${content}$ holds"]
        if kind < 0.3:
            return [sentence(rng, 3, 8)]
        left, right = rng.choice((("$$", "$$"), (r"\[", r"\]"), ("$$\n", "\n$$"), ("$", "$")))
        return [left + change(rng, content, share / 3) + right]
    if kind < 0.08:
        return []
    text = change(rng, content, share)
    if kind < 0.3 and " " in text:
        words = text.split(" ")
        cuts = sorted(rng.choices(range(1, len(words)), k=rng.choice((1, 1, 2))))
        return [part for part in (" ".join(words[i:j]) for i, j in zip([0, *cuts], [*cuts, len(words)], strict=True)) if part]
    return [rng.choice(("", "", "# ", "- ")) + text]


def make_page(seed):
    rng = random.Random(seed)
    elements, paragraphs, relations = [], [], []
    for order in range(1, rng.choice((2, 4, 6, 9, 12))):
        kind = rng.random()
        category = "table" if kind < 0.15 else "equation_isolated" if kind < 0.3 else rng.choice(CAPTIONS) if kind < 0.45 else rng.choice(TEXTS)
        content = (table(rng) if category == "table" else formula(rng) if category == "equation_isolated" else
                   sentence(rng, 1, 4) if category in (*CAPTIONS, "title") else sentence(rng, 4, 25))
        if category == "equation_isolated" and rng.random() < 0.5:
            content = f"$${content}$$"
        if category in ("header", "footer", "page_number") and rng.random() < 0.5:
            order = 0
        elements.append(element(category, order, content, len(elements)))
        paragraphs.append(read_as(rng, category, content))
        if category == "text_block" and rng.random() < 0.15:
            if elements[-2:][0]["category_type"] == "text_block" and len(elements) > 1:
                relations.append({"relation_type": "truncated", "source_anno_id": len(elements) - 2, "target_anno_id": len(elements) - 1})
    if rng.random() < 0.3:
        i = rng.randrange(len(paragraphs) or 1)
        paragraphs[i:i + 2] = reversed(paragraphs[i:i + 2])
    lines = [line for part in paragraphs for line in part]
    joined = []
    for line in lines:
        plain = joined and not any(mark in joined[-1] + line for mark in ("<table", "$$", r"\[", "|"))
        if plain and rng.random() < 0.12:
            joined[-1] += rng.choice((" ", "\n", "")) + line
        else:
            joined.append(line)
    if rng.random() < 0.05:
        joined.insert(rng.randrange(len(joined) + 1), piped(rng))
    if rng.random() < 0.2:
        joined.insert(rng.randrange(len(joined) + 1), rng.choice(("---", "![](images/a.png)", "***", "made up by the model", "```\ncode\n```")))
    markdown = rng.choice(("\n\n", "\n\n", "\n\n", "\n\n\n")).join(joined)
    rng.shuffle(elements)
    return markdown, {"page_info": {"image_path": f"{seed}.png"}, "layout_dets": elements, "extra": {"relation": relations}}


# ---- the reference ----


class Anything:
    """What only draws or logs."""

    def __getattr__(self, name):
        return self

    def __call__(self, *_, **__):
        return self


def load_reference(folder):
    """Its modules, without their packages' other members and without what they only import."""
    for name, members in {"func_timeout": {"FunctionTimedOut": TimeoutError, "func_timeout": lambda _, call, args: call(*args)},
                          "loguru": {"logger": Anything()}, "evaluate": {}, "matplotlib": {"pyplot": Anything(), "font_manager": Anything()},
                          "matplotlib.pyplot": {}, "matplotlib.font_manager": {"FontProperties": Anything()}}.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(members)
    for name in ("dataset", "metrics"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(folder / name)]
    sys.path.insert(0, str(folder))
    from dataset.end2end_dataset import End2EndDataset
    from metrics.table_metric import TEDS
    return End2EndDataset, TEDS


def figures_of(reference, markdown, truth):
    dataset_class, teds_class = reference
    import Levenshtein
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        # Another page has a text: only then formulas that were read as texts count.
        other = {"page_info": {"image_path": "other.png"}, "layout_dets": [element("text_block", 1, "a", 0)], "extra": {"relation": []}}
        (path / "truth.json").write_text(json.dumps([truth, other]))
        name = truth["page_info"]["image_path"][:-4]
        for stem, text in ((name, markdown), ("other", "a")):
            (path / f"output{stem}.md").write_text(text)
        data = {"ground_truth": {"data_path": path / "truth.json"}, "prediction": {"data_path": folder}}
        samples = dataset_class({"dataset": data}).samples

    def text_of(sample, key):
        return sample["norm_" + key] if sample.get("norm_" + key) else sample[key]
    figures = []
    for kind in ("text_block", "display_formula", "table", "reading_order"):
        pairs = [(text_of(sample, "pred"), text_of(sample, "gt")) for sample in samples[kind].samples if name in sample["img_id"]]
        length = sum(max(len(read), len(true)) for read, true in pairs)
        figures.append(sum(Levenshtein.distance(read, true) for read, true in pairs) / length if length else 0)
    tables = samples["table"].samples
    for structure_only in (False, True):
        teds = teds_class(structure_only=structure_only)
        figures.append(sum(teds.evaluate(sample["norm_pred"], sample["norm_gt"]) for sample in tables))
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", required=True, type=pathlib.Path)
    parser.add_argument("--pages", type=int, default=N_PAGES)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    reference = load_reference(arguments.reference)
    print("[")
    for i in range(arguments.seed, arguments.seed + arguments.pages):
        markdown, truth = make_page(i)
        page = {"kind": "page", "a": markdown, "b": truth, "figures": figures_of(reference, markdown, truth)}
        print(json.dumps(page, ensure_ascii=False), end="\n" if i == arguments.seed + arguments.pages - 1 else ",\n")
    print("]")


if __name__ == "__main__":
    main()
