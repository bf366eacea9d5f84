"""The inputs of tests/data/vectors/cases.json and the model that they go through, for
tools/make_vector_fixtures.py and the tests."""

import json
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "vectors"
IMAGES = ROOT / "tests" / "golden" / "images"
GOLDEN = ROOT / "tests" / "golden" / "qwen3_vl_tied"


def make_model(directory: pathlib.Path, name: str = GOLDEN.name) -> pathlib.Path:
    """A copy of a golden checkpoint; "yes" and "no" are tokens in place of its last merges."""
    directory.mkdir(parents=True)
    for path in (GOLDEN.parent / name).iterdir():
        if path.name.startswith(("model", "config", "chat_", "generation", "preproc", "tokenizer", "video_")):
            shutil.copy(path, directory)
    path = directory / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocabulary, merges = tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
    joined = isinstance(merges[0], str)
    for pair, old in zip([("y", "e"), ("ye", "s"), ("n", "o")], list(merges[-3:])):
        left, right = old.split(" ") if joined else old
        vocabulary["".join(pair)] = vocabulary.pop(left + right)
        merges[merges.index(old)] = " ".join(pair) if joined else list(pair)
    path.write_text(json.dumps(tokenizer))
    return directory


def _image(name: str, scratch: pathlib.Path) -> str:
    """A file of the golden images; NAME@WxH is made larger, without mixing pixels."""
    if "@" not in name:
        return str(IMAGES / name)
    from PIL import Image

    base, size = name.split("@")
    width, height = (int(side) for side in size.split("x"))
    path = scratch / f"{base}.{size}.png"
    if not path.exists():
        Image.open(IMAGES / base).convert("RGB").resize((width, height), Image.NEAREST).save(path)
    return str(path)


def _item(item: dict, scratch: pathlib.Path) -> dict:
    item = dict(item)
    if "repeat" in item:
        word, count = item.pop("repeat")
        item["text"] = word * count
    for key in ("images", "video"):
        if key in item:
            item[key] = [_image(name, scratch) for name in item[key]]
    return item


def load(scratch: pathlib.Path) -> dict:
    """{"embed": [{text, images, video, instruction}], "score": [{query, document, instruction}]},
    with the paths of images and of frames."""
    cases = json.loads((DATA / "cases.json").read_text())
    pairs = [{**pair, **{side: _item(pair[side], scratch) for side in ("query", "document")}} for pair in cases["score"]]
    return {"embed": [_item(item, scratch) for item in cases["embed"]], "score": pairs}
