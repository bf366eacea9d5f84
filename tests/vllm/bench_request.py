"""Times whole requests through vLLM's engine: a new image and a short question, to the first token.

python bench_request.py MODEL [--side PIXELS] [--repeats N] [--dtype bfloat16|float32]

MODEL is a folder with a checkpoint of Qwen3-VL. What takes part is said by the environment:
VLLM_PLUGINS=none, VLLM_PLUGINS=ommatidia, and with that OMMATIDIA_TOWER=1."""

from __future__ import annotations

import argparse
import os
import time

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402

PROMPT = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>What is this?<|im_end|>\n<|im_start|>assistant\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    args = parser.parse_args()
    model = LLM(
        args.model, dtype=args.dtype, enforce_eager=True, max_model_len=2048, max_num_batched_tokens=2048,
        limit_mm_per_prompt={"image": 1, "video": 0}, skip_mm_profiling=True,
    )  # fmt: skip
    sampling = SamplingParams(temperature=0, max_tokens=1)
    seconds = []
    for seed in range(args.repeats + 1):
        # The first, small one warms up; each is another image, for vLLM keeps what it has encoded.
        side = args.side if seed else 128
        pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
        started = time.perf_counter()
        model.generate([{"prompt": PROMPT, "multi_modal_data": {"image": Image.fromarray(pixels)}}], sampling, use_tqdm=False)
        seconds.append(time.perf_counter() - started)
    timed = sorted(seconds[1:])
    way = f"plugins {os.environ.get('VLLM_PLUGINS', 'all')}, tower {os.environ.get('OMMATIDIA_TOWER', '0')}"
    print(f"{way}: first token after {timed[len(timed) // 2]:.2f} s, median of {', '.join(f'{value:.2f}' for value in timed)}")


if __name__ == "__main__":
    main()
