#!/usr/bin/env python3
"""Records what mineru-vl-utils asks about pages and makes of scripted answers, for test_reading:
tests/data/reading/pages.json. Needs the packages of tests/requirements-clients.txt:

    build/venv-clients/bin/python tools/make_reading_fixtures.py [--pages N] [--first SEED] [--out FILE]

Pages are made by a formula (page_of), which the test repeats. Left out: images that lie in tables,
which the package paints over with random letters.
"""

import argparse
import json
import sys
import zlib
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "clients"))
from document_pages import answer  # noqa: E402


def page_of(seed):
    width, height = 200 + seed * 37 % 300, 180 + seed * 53 % 400
    data = bytearray()
    for y in range(height):
        for x in range(width):
            data += bytes((x * x * (seed % 7 + 1) + y * (x + 40 * c) + 31 * seed) >> 3 & 255 for c in range(3))
    return Image.frombytes("RGB", (width, height), bytes(data))


class Recorder:
    """In place of the package's HTTP client."""

    def __init__(self):
        self.requests = []

    def batch_predict(self, images, prompts, params, priority=None):
        import io
        texts = []
        for png, prompt, sampling in zip(images, prompts, params):
            image = Image.open(io.BytesIO(png))
            pixels = image.tobytes()
            text = answer(prompt, pixels)
            self.requests.append({"prompt": prompt, "width": image.width, "height": image.height, "crc": zlib.crc32(pixels), "answer": text,
                                  "presence_penalty": sampling.presence_penalty, "frequency_penalty": sampling.frequency_penalty,
                                  "no_repeat_ngram_size": sampling.no_repeat_ngram_size})
            texts.append(text)
        return texts

    def predict(self, image, prompt, params, priority=None):
        return self.batch_predict([image], [prompt], [params])[0]


def record(seed):
    from mineru_vl_utils import mineru_client
    from mineru_vl_utils.post_process import json2md
    client = object.__new__(mineru_client.MinerUClient)
    client.client, client.prompts, client.sampling_params = Recorder(), mineru_client.DEFAULT_PROMPTS, mineru_client.DEFAULT_SAMPLING_PARAMS
    client.helper = mineru_client.MinerUClientHelper("http-client", client.prompts, client.sampling_params, (1036, 1036), 28, 50, False, True, False,
                                                     False, False, False)
    blocks = client.two_step_extract(page_of(seed))
    return {"seed": seed, "requests": client.client.requests, "blocks": blocks, "markdown": json2md(blocks)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=8)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=ROOT / "tests/data/reading/pages.json")
    arguments = parser.parse_args()
    pages = [record(seed) for seed in range(arguments.first, arguments.first + arguments.pages)]
    arguments.out.write_text(json.dumps(pages, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
