"""Runs the official code on a tiny checkpoint and records every stage of every case."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from fixture_dots import DotsOfficial
from fixture_draft import DraftHead, load_draft_head, run_draft_head
from fixture_glm import GlmOfficial
from fixture_kimi import KimiOfficial
from fixture_lighton import LightOnOfficial
from fixture_models import HYBRID_FAMILIES, ModelSpec, ImageForm, write_json
from fixture_images import CLIP, IMAGES
from fixture_paddle_official import PaddleOfficial
from fixture_qwen import QwenOfficial
from fixture_stages import ROW_STRIDE, Tensors, router_margins

Official = QwenOfficial | KimiOfficial
OFFICIAL = {
    "dots_ocr": DotsOfficial,
    "glm_ocr": GlmOfficial,
    "kimi_vl": KimiOfficial,
    "lighton_ocr": LightOnOfficial,
    "paddleocr_vl": PaddleOfficial,
}

NEW_TOKENS = 24
TOP = 5
MIN_DISTINCT = 8  # different tokens in an answer of full length
# between the two best logits of every greedy step, so that rounding cannot change a token
MIN_MARGIN = 1e-3
MIN_ROUTER_MARGIN = 2e-5  # between the last chosen and the first unchosen expert of every token
FULL_PIXEL_VALUES = ("stamp_20x10.png",)  # the others follow exactly from their 8-bit pixels
IMAGE_FOLDER = "images"


@dataclass(frozen=True)
class Case:
    """One request. `full` keeps the output of every block and layer; `continued`: the last message
    is the answer's beginning."""

    name: str
    messages: list[dict[str, Any]]
    full: bool = False
    continued: bool = False

    @property
    def images(self) -> list[str]:
        parts = (part for message in self.messages for part in message["content"] if isinstance(part, dict))
        return [part["image"] for part in parts if part["type"] == "image"]

    @property
    def videos(self) -> list[dict[str, Any]]:
        parts = (part for message in self.messages for part in message["content"] if isinstance(part, dict))
        return [part for part in parts if part["type"] == "video"]


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def image(file: str) -> dict[str, str]:
    return {"type": "image", "image": file}


def video(n_frames: int, fps: float) -> dict[str, Any]:
    """The clip, from its beginning again where it is too short."""
    return {"type": "video", "video": [CLIP[index % len(CLIP)].file for index in range(n_frames)], "fps": fps}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def assistant(value: str) -> dict[str, Any]:
    return {"role": "assistant", "content": value}


def make_cases(spec: ModelSpec) -> list[Case]:
    """The requests that a model answers; images of unlike sizes, text before, between and after
    them."""
    cases = [
        Case("one_image", [user(image("meadow_163x97.jpg"), text("What is in this picture?"))], full=True),
        Case(
            "two_images",
            [user(image("tower_33x200.png"), image("banner_150x40.png"), text("Which of the two is larger?"))],
        ),
        Case(
            "three_images",
            [
                user(
                    text("First: "),
                    image("stamp_20x10.png"),
                    text(" then "),
                    image("harbour_301x211.jpg"),
                    text("\nand last "),
                    image("tile_64x64.png"),
                    text(". Compare the images."),
                )
            ],
        ),
        Case("text_only", [{"role": "user", "content": "How many colours can you see, l'été au café? 12 or 34?"}]),
        Case(
            "system_and_turns",
            [
                {"role": "system", "content": "You answer in one short sentence."},
                user(image("banner_150x40.png"), text("Describe the image.")),
                assistant("A wide banner with 3 shapes."),
                user(text("And this one?\n\n"), image("tile_64x64.png")),
            ],
        ),
    ]
    if spec.family in HYBRID_FAMILIES:
        cases[3] = Case("text_only", [{"role": "user", "content": "What do x\u0301y, हिन्दी and ไทย have, l'e\u0301te\u0301? 12 or 34?"}])
    if spec.text.get("use_sliding_window") or spec.family in HYBRID_FAMILIES:
        story = " ".join(f"Line {line}: the {line % 7}th boat passes {line * 37 % 101} birds." for line in range(12))
        cases.append(Case("long_text", [user(text(story + " Which line has most birds?"))]))
    if spec.form.merge_size == 1:
        cases += [
            Case("one_patch_high", [user(image("ribbon_150x9.png"), text("Describe the image."))], full=True),
            Case("one_patch_wide", [user(text("Here: "), image("pole_9x150.png"), text("What is in this picture?"))]),
        ]
    if spec.stop_question is not None:
        cases.append(Case("ends_early", [user(image("stamp_20x10.png"), text(spec.stop_question))]))
    return [case for case in cases if not spec.case_names or case.name in spec.case_names]


def make_video_cases(spec: ModelSpec) -> list[Case]:
    """Requests with videos. Of 5 frames the last one counts twice.

    At 2.5 frames a second the temporal positions of Qwen2.5-VL go in unequal steps, and end where
    the columns end. The last three videos go on beyond them and beyond the text: the answer goes on
    after the text all the same.
    """
    if not spec.video:
        return []
    question = text("What moves here?")
    return [
        Case("video", [user(video(5, 2.5), question)], full=True),
        Case(
            "video_and_image",
            [user(text("First "), video(4, 3.0), text("then "), image("stamp_20x10.png"), question)],
        ),
        Case("long_video", [user(video(20, 2.0), question)]),
        Case(
            "two_videos_and_image",
            [user(video(3, 0.1), text(" and "), video(6, 0.25), image("stamp_20x10.png"), question)],
        ),
        Case("continued", [user(video(4, 0.05), question), assistant("The scene")], continued=True),
    ]


def write_preprocessed(official: Official, images: Path, files: list[str], out: Path) -> None:
    """Stores the preprocessing of some images in a file."""
    tensors: Tensors = {}
    for file in files:
        for key, value in official.stored_preprocess(images / file).items():
            if key != "pixel_values" or file in FULL_PIXEL_VALUES:
                tensors[f"image.{file}.{key}"] = value
    save_file(tensors, out)


def generate(official: Official, inputs: dict[str, torch.Tensor]) -> tuple[Tensors, torch.Tensor]:
    """Greedy tokens with their log probabilities, and the raw logits of every step."""
    output = official.model.generate(
        **inputs,
        do_sample=False,
        max_new_tokens=NEW_TOKENS,
        output_logits=True,
        return_dict_in_generate=True,
    )
    tokens = output.sequences[0, inputs["input_ids"].shape[1] :]
    logits = torch.cat(output.logits)
    logprobs = logits.log_softmax(-1)
    top = logprobs.topk(TOP)
    return {
        "generate.tokens": tokens,
        "generate.logprobs": logprobs.gather(1, tokens[:, None])[:, 0],
        "generate.top_ids": top.indices,
        "generate.top_logprobs": top.values,
    }, logits


def check_answer(case: Case, official: Official, inputs: dict[str, torch.Tensor], answer: Tensors,
                 logits: torch.Tensor) -> None:
    """Raises unless the answer is a usable golden: clear margins, text tokens only, and the wanted
    ending."""
    best = logits.topk(2).values
    margin = (best[:, 0] - best[:, 1]).min().item()
    if margin <= MIN_MARGIN:
        raise RuntimeError(f"{case.name}: smallest greedy margin {margin:.2e}; choose another seed")
    tokens = answer["generate.tokens"].tolist()
    if any(token in official.forbidden and token not in official.stops for token in tokens):
        raise RuntimeError(f"{case.name}: a token that is no text was generated; choose another seed")
    if len(tokens) == NEW_TOKENS and len(set(tokens)) < MIN_DISTINCT:
        raise RuntimeError(f"{case.name}: only {len(set(tokens))} different tokens; choose another seed")
    if (tokens[-1] in official.stops) != (case.name == "ends_early"):
        raise RuntimeError(f"{case.name}: finish reason is not the wanted one; choose another seed or stop question")
    whole = official.continued(inputs, answer["generate.tokens"])
    with router_margins(official.model) as margins:
        replay = official.model(**whole).logits[0, -len(tokens) - 1 : -1]
    if min(margins, default=1) <= MIN_ROUTER_MARGIN:
        raise RuntimeError(f"{case.name}: smallest router margin {min(margins):.2e}; choose another seed")
    if not torch.equal(replay.argmax(-1), answer["generate.tokens"]):
        raise RuntimeError(f"{case.name}: one forward pass over the whole answer disagrees with generate")


@torch.no_grad()
def run_case(official: Official, case: Case, folder: Path, head: DraftHead | None) -> dict[str, Any]:
    """Writes the case's tensors and returns its entry of the manifest."""
    inputs = official.inputs(case)
    with official.recorded(inputs, case.full) as tensors:
        logits = official.model(**inputs).logits[0, -1]
    input_ids = inputs["input_ids"][0]
    answer, step_logits = generate(official, inputs)
    check_answer(case, official, inputs, answer, step_logits)
    tensors |= answer
    if head:
        whole = official.continued(inputs, answer["generate.tokens"])
        tensors |= run_draft_head(head, official, whole, len(answer["generate.tokens"]))
    tensors["language.input_ids"] = input_ids
    tensors["language.rope_delta"] = torch.tensor([official.answer_position(inputs) - len(input_ids)])
    tensors["language.logits"] = logits
    for kind in ("image", "video"):
        for index, grid in enumerate(official.grids(inputs, kind)):
            tensors[f"{kind}.{index}.grid_thw"] = grid
    if case.videos and case.full:
        tensors["video.patches_u8"] = official.video_patches(inputs)
    tensors = {name: tensors[name].contiguous().clone() for name in sorted(tensors)}
    save_file(tensors, folder / f"{case.name}.safetensors")

    tokens = answer["generate.tokens"].tolist()
    entry = {
        "name": case.name,
        "tensors_file": f"{case.name}.safetensors",
        "messages": case.messages,
        "images": case.images,
        "prompt_text": official.prompt_text(case),
        "prompt_ids": input_ids.tolist(),
        "greedy_tokens": tokens,
        "decoded_text": official.decode(tokens),
        "finish_reason": "stop" if tokens[-1] in official.stops else "length",
    }
    if case.continued:
        entry["continue_final_message"] = True
    if case.videos:
        entry["videos"] = case.videos
    if case.videos and official.stamps_videos:
        entry["unwrapped_ids"] = official.unwrapped_ids(case)
    return entry


@torch.no_grad()
def check_images_matter(official: Official) -> None:
    """Raises unless every image gets an answer of its own to the same question."""
    answers = set()
    for drawn in IMAGES:
        case = Case("probe", [user(image(drawn.file), text("What is in this picture?"))])
        answer, _ = generate(official, official.inputs(case))
        answers.add(tuple(answer["generate.tokens"].tolist()))
    if len(answers) != len(IMAGES):
        raise RuntimeError(f"only {len(answers)} answers for {len(IMAGES)} images; choose another seed")


def image_tensors_name(form: ImageForm) -> str:
    """The file in the image folder with the official preprocessing of one form."""
    return f"preprocessed_{form.name}.safetensors"


def write_golden(spec: ModelSpec, folder: Path, images: Path, versions: dict[str, str]) -> None:
    """Writes golden.json, one safetensors file per case and, if not there yet, the preprocessing of
    their images."""
    official = OFFICIAL.get(spec.family, QwenOfficial)(spec, folder, images)
    check_images_matter(official)
    cases = make_cases(spec)
    image_tensors = images / image_tensors_name(spec.form)
    if not image_tensors.exists():
        files = sorted({file for case in cases for file in case.images})
        write_preprocessed(official, images, files, image_tensors)
    hybrid = spec.family in HYBRID_FAMILIES
    head = load_draft_head(spec, official.model.config.text_config, folder) if hybrid else None
    manifest = {
        "model": spec.name,
        "made_with": versions,
        "weights_dtype": str(spec.dtype).removeprefix("torch."),
        "compute_dtype": "float32",
        "attention": "eager",
        "image_processor": official.image_processor,
        "image_folder": f"../{IMAGE_FOLDER}",
        "image_tensors_file": f"../{IMAGE_FOLDER}/{image_tensors.name}",
        "max_new_tokens": NEW_TOKENS,
        "row_stride": ROW_STRIDE,
        "cases": [run_case(official, case, folder, head) for case in cases],
        "video_cases": [run_case(official, case, folder, head) for case in make_video_cases(spec)],
    }
    write_json(folder / "golden.json", manifest)
