"""Greedy answers of whole models in vLLM's engine: the same with the plugin, without it, and from
the official code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from checkpoints import weights_only, write_kimi_vl, write_qwen2_5_vl

QWEN3_VL = ("qwen3_vl_tied", "qwen3_vl_untied", "qwen3_vl_wide")
MADE_HERE = {"qwen2_5_vl": write_qwen2_5_vl, "kimi_vl": write_kimi_vl}
IMAGES = ("meadow_163x97.jpg", "harbour_301x211.jpg", "tower_33x200.png", "tile_64x64.png")
PROMPT = "<|im_start|>user\n{}What is in this picture?<|im_end|>\n<|im_start|>assistant\n"
PLACEHOLDER = "<|vision_start|><|image_pad|><|vision_end|>"


def golden_task(golden: Path, name: str, folder: Path) -> tuple[dict[str, Any], list[list[int]]]:
    """A stored checkpoint's cases with images, and what the official code answered."""
    stored = json.loads((golden / name / "golden.json").read_text(encoding="utf-8"))
    cases = [case for case in stored["cases"] if case["images"]]
    task = {
        "model": str(weights_only(golden / name, folder / name)),
        "cases": [
            {"prompt": case["prompt_text"], "images": [str(golden / "images" / name) for name in case["images"]]}
            for case in cases
        ],
    }
    return task, [case["greedy_tokens"] for case in cases]


def made_task(golden: Path, name: str, folder: Path) -> dict[str, Any]:
    MADE_HERE[name](folder / name, golden / "qwen3_vl_tied")
    shown = [[name] for name in IMAGES] + [list(IMAGES[:3])]
    return {
        "model": str(folder / name),
        "cases": [
            {"prompt": PROMPT.format(PLACEHOLDER * len(names)), "images": [str(golden / "images" / name) for name in names]}
            for names in shown
        ],
    }


def generate(
    tasks: list[dict[str, Any]], folder: Path, plugins: str, tower: str = "0"
) -> tuple[dict[str, list[list[int]]], str]:
    """Answers by model, and what vLLM said."""
    tasks_file, answers_file = folder / "tasks.json", folder / f"answers-{plugins}-{tower}.json"
    tasks_file.write_text(json.dumps(tasks), encoding="utf-8")
    program = Path(__file__).with_name("generate.py")
    environment = os.environ | {
        "VLLM_PLUGINS": plugins, "OMMATIDIA_TOWER": tower, "VLLM_CACHE_ROOT": str(folder / f"cache-{plugins}-{tower}")
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(program), str(tasks_file), str(answers_file)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    answers = json.loads(answers_file.read_text(encoding="utf-8"))
    return {Path(task["model"]).name: answer for task, answer in zip(tasks, answers)}, done.stdout


class Answers:
    """Every model's answers from one run of vLLM without the plugin, one with it, and one with its
    towers."""

    def __init__(self, golden: Path, folder: Path) -> None:
        stored = {name: golden_task(golden, name, folder) for name in QWEN3_VL}
        tasks = [task for task, _ in stored.values()] + [made_task(golden, name, folder) for name in MADE_HERE]
        self.official = {name: answers for name, (_, answers) in stored.items()}
        self.alone, self.log_alone = generate(tasks, folder, "none")
        self.with_plugin, self.log_with_plugin = generate(tasks, folder, "ommatidia")
        self.with_towers, self.log_with_towers = generate(tasks, folder, "ommatidia", tower="1")


@pytest.fixture(scope="module")
def answers(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return Answers(golden, tmp_path_factory.mktemp("tokens"))


@pytest.mark.parametrize("name", (*QWEN3_VL, *MADE_HERE))
def test_same_tokens_as_without_the_plugin(answers: Answers, name: str) -> None:
    assert answers.with_plugin[name] == answers.alone[name]


@pytest.mark.parametrize("name", (*QWEN3_VL, *MADE_HERE))
def test_same_tokens_with_towers_of_libomma(answers: Answers, name: str) -> None:
    assert answers.with_towers[name] == answers.alone[name]


@pytest.mark.parametrize("name", QWEN3_VL)
def test_same_tokens_as_the_official_code(answers: Answers, name: str) -> None:
    assert answers.with_plugin[name] == answers.official[name]


@pytest.mark.parametrize("name", (*QWEN3_VL, *MADE_HERE))
def test_the_answers_depend_on_the_image(answers: Answers, name: str) -> None:
    """Otherwise the tests above would show nothing."""
    distinct = {tuple(tokens) for tokens in answers.with_plugin[name]}
    assert len(distinct) == len(answers.with_plugin[name])


def test_the_plugin_logs_that_it_is_active(answers: Answers) -> None:
    assert "Ommatidia" not in answers.log_alone
    active = [line.partition("is active: ")[2] for line in answers.log_with_plugin.splitlines() if "is active" in line]
    # The towers' heads, in the order of the models; Kimi-VL's are of 72 too.
    for line, heads in zip(active, (72, 32, 20, 80), strict=True):
        assert line.startswith(f"encoder attention in float32, heads of {heads}, kernel tile_f32_")


def test_the_plugin_logs_which_towers_are_replaced(answers: Answers) -> None:
    """Not the Kimi-VL made here: its language model has no experts, which libomma's reader of
    config.json wants."""
    lines = answers.log_with_towers.splitlines()
    active = [line.partition("is active: ")[2] for line in lines if "is active: vision tower" in line]
    for line, family in zip(active, (*["qwen3_vl"] * len(QWEN3_VL), "qwen2_5_vl"), strict=True):
        assert line.startswith(f"vision tower of {family} in f32, ") and line.endswith("on PyTorch's OpenMP threads")
    [left] = [line for line in lines if "leaves the vision tower to vLLM" in line]
    assert "kimi_vl" in left and left.endswith('key "n_routed_experts" is missing')
