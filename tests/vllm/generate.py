"""Greedy tokens from vLLM's engine, for a file of tasks: python generate.py TASKS.json ANSWERS.json

A task is {"model": folder, "cases": [{"prompt": text, "images": [files]}]}; its answer is a list of
tokens per case. A case may name its images by "uuids", and a task have an "ec_transfer_config":
where vLLM gets their embeddings. Whether the plugin takes part is up to VLLM_PLUGINS, which is why
this is a program and not a function."""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

# The engine in this process: one start of vLLM serves all tasks.
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

from PIL import Image  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402
from vllm.distributed import cleanup_dist_env_and_memory  # noqa: E402


def prompt_of(case: dict[str, Any]) -> dict[str, Any]:
    images = [Image.open(path).convert("RGB") for path in case["images"]]
    prompt = {"prompt": case["prompt"], "multi_modal_data": {"image": images}}
    return prompt | ({"multi_modal_uuids": {"image": case["uuids"]}} if "uuids" in case else {})


def answers_to(task: dict[str, Any]) -> list[list[int]]:
    model = LLM(
        task["model"], trust_remote_code=True, dtype="float32", enforce_eager=True,
        max_model_len=2048, max_num_batched_tokens=2048,
        limit_mm_per_prompt={"image": 4, "video": 0}, skip_mm_profiling=True,
        ec_transfer_config=task.get("ec_transfer_config"),
    )
    sampling = SamplingParams(temperature=0, max_tokens=24)
    # All at once, so that images of several requests are packed into one pass of the tower.
    outputs = model.generate([prompt_of(case) for case in task["cases"]], sampling, use_tqdm=False)
    tokens = [list(output.outputs[0].token_ids) for output in outputs]
    del model
    gc.collect()
    cleanup_dist_env_and_memory()
    return tokens


if __name__ == "__main__":
    tasks = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(json.dumps([answers_to(task) for task in tasks]), encoding="utf-8")
