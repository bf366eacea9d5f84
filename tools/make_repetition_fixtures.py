#!/usr/bin/env python3
"""Writes tests/data/repetition/answers.txt: what others' code says of 2,000 token lists.

Banned tokens are those of the logits processor of mineru-vl-utils (2.0.7), ends those of vLLM
(0.32.0, v1/core/sched/utils.py). Both must be importable:

    python3 tools/make_repetition_fixtures.py [--check]

A line is: seed, length, vocabulary, ngram size, a hash of the bans after each token; and
max_pattern_size, min_pattern_size, min_count, the length at which the answer ends (0: it does not).
tests/unit/test_repetition.c makes the same lists again from the seeds."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from mineru_vl_utils.logits_processor.vllm_v1_no_repeat_ngram import VllmV1NoRepeatNGramLogitsProcessor
from vllm.sampling_params import RepetitionDetectionParams, SamplingParams
from vllm.v1.core.sched.utils import check_sequence_repetition
from vllm.v1.sample.logits_processor.interface import BatchUpdate

OUT = Path(__file__).resolve().parents[1] / "tests" / "data" / "repetition" / "answers.txt"
N_LISTS = 2000
MASK = (1 << 64) - 1


class Random:
    """SplitMix64."""

    def __init__(self, seed: int):
        self.state = seed

    def below(self, n: int) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % n


def next_token(random: Random, tokens: list[int], vocab: int, banned: list[int]) -> int:
    """Often an earlier token again; a banned one now and then, as a grammar forces it."""
    token = random.below(vocab)
    back = random.below(12) + 1
    if random.below(3) and back < len(tokens):
        token = tokens[-back]
    if random.below(8):
        for _ in range(vocab):
            if token not in banned:
                break
            token = (token + 1) % vocab
    return token


def bans_of(processor: VllmV1NoRepeatNGramLogitsProcessor, vocab: int) -> list[int]:
    logits = processor.apply(torch.zeros(1, vocab))
    return torch.isinf(logits[0]).nonzero().flatten().tolist()


def line_of(seed: int) -> str:
    random = Random(seed)
    length, vocab, size = random.below(90) + 10, random.below(9) + 2, random.below(6) + 2
    low, more, count = random.below(4), random.below(6), random.below(3) + 2
    detection = RepetitionDetectionParams(max_pattern_size=low + more, min_pattern_size=low, min_count=count)
    processor = VllmV1NoRepeatNGramLogitsProcessor(None, torch.device("cpu"), False)
    tokens: list[int] = []
    params = SamplingParams(extra_args={"no_repeat_ngram_size": size})
    processor.update_state(BatchUpdate(1, [], [(0, params, None, tokens)], []))
    digest, end, banned = 0xCBF29CE484222325, 0, []
    for step in range(1, length + 1):
        tokens.append(next_token(random, tokens, vocab, banned))
        banned = bans_of(processor, vocab)
        for value in (step, *banned, vocab):
            digest = ((digest ^ value) * 0x100000001B3) & MASK
        if not end and check_sequence_repetition(tokens, detection):
            end = step
    return f"{seed} {length} {vocab} {size} {digest} {low + more} {low} {count} {end}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    text = "".join(line_of(seed) for seed in range(1, N_LISTS + 1))
    if not options.check:
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.write_text(text)
    elif OUT.read_text() != text:
        raise SystemExit(f"{OUT} is not what would be written")


if __name__ == "__main__":
    main()
