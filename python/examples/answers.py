"""Answers, streams, batches and objects from a model in this process; by default the demo model.

    python answers.py [MODEL] [IMAGE]"""

from __future__ import annotations

import sys
from pathlib import Path

from ommatidia import Answer, Model


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else None
    with Model(name) as model:
        print(repr(model))
        image = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(model.path) / "images" / "cross.png"

        answer = model.chat("What color is the cross?", image=image, temperature=0, logprobs=True)
        print(answer, [round(entry.logprob, 3) for entry in answer.logprobs or ()])

        messages = [{"role": "user", "content": [{"type": "image", "image": image}, "What color is the cross?"]}]
        for piece in model.chat(messages, stream=True, temperature=0):
            print(piece, end="", flush=True)
        print()

        questions = ["What color is the cross?", "How many shapes are there?"]
        answers: list[Answer[None]] = model.batch(
            [{"prompt": question, "image": image} for question in questions], temperature=0, max_tokens=20, use_tqdm=False
        )
        for question, found in zip(questions, answers, strict=True):
            print(question, found)

        corners = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 1000}, "minItems": 4, "maxItems": 4}
        box = {"type": "object", "properties": {"bbox_2d": corners, "label": {"type": "string"}}, "required": ["bbox_2d", "label"]}
        boxes = {"type": "array", "items": box, "maxItems": 5}
        for thing in model.chat("Where is the orange cross?", image=image, response_format=boxes, temperature=0).parsed:
            print(thing["label"], thing["bbox_2d"])  # thousandths of width and height


if __name__ == "__main__":
    main()
