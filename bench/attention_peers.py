#!/usr/bin/env python3
"""Times encoder attention of Ommatidia and of its peers on the same shapes, side by side in one
run.

Ours, PyTorch and zentorch get q and k contiguous and v as a strided view of a fused q/k/v, as a
vision tower has them, H heads of D, and the same segments; OpenVINO and onnxruntime get everything
contiguous in the order they like best. Rounds alternate between the programs, so that a slow minute
of the machine hits all of them; the best round counts, the median is printed next to it. GFLOP/s
count useful work: 4 * sum(length^2) * D * H.

    pip install torch==2.13.0 zentorch==2.13.0.2 onnxruntime openvino onnx numpy
    bench/attention_peers.py --omma build/release/omma --threads 2

A peer that is not installed, or that has no form for a case, is left out with a line in the table
that states why. The dense mask takes a byte for each pair of tokens before any score is computed;
it is left out where the tokens are more than DENSE_MASK_MAX_TOKENS. Ours runs in a process of its
own (`omma bench attention`); in each round every program runs as long, and at least five times.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from omma_program import add_omma_option

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

CASES = {
    "one segment of 4096, D 72": ([4096], 72),
    "one segment of 4096, D 80": ([4096], 80),
    "one segment of 4096, D 64": ([4096], 64),
    "one segment of 4096, D 128": ([4096], 128),
    "mix 2146 2072 1332 2072 925, D 72": ([2146, 2072, 1332, 2072, 925], 72),
    "256 windows of 64, D 80": ([64] * 256, 80),
    "64 windows of 64, D 80": ([64] * 64, 80),
}
DENSE_MASK_MAX_TOKENS = 9216  # a mask of 81 MiB
LEAST_RUNS = 5  # of a program in a round; omma bench attention has the same


class LeftOut(Exception):
    """Why a peer has no form for a case."""


def flops(segments: list[int], head_dim: int, n_heads: int) -> float:
    return 4.0 * sum(n * n for n in segments) * head_dim * n_heads


def run_omma(omma: str, segments: list[int], head_dim: int, n_heads: int, dtype: str, threads: int, seconds: float) -> dict:
    """One round of ours: its best and median in milliseconds, and the peak measured in the same
    process."""
    command = [omma, "bench", "attention", "--heads", str(n_heads), "--head-dim", str(head_dim), "--dtype", dtype, "--threads",
               str(threads), "--segments", ",".join(map(str, segments)), "--seconds", str(seconds), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def make_inputs(torch, segments: list[int], head_dim: int, n_heads: int, dtype):
    """q and k contiguous, v a view into a fused row, all [tokens, heads, head_dim]."""
    generator = torch.Generator().manual_seed(1)
    n = sum(segments)
    fused = torch.randn(n, 3, n_heads, head_dim, generator=generator).to(dtype)
    return fused[:, 0].contiguous(), fused[:, 1].contiguous(), fused[:, 2]


def torch_per_segment(torch, inputs, segments: list[int]) -> Callable[[], object]:
    """What vLLM and transformers do on CPUs: a loop over segments around
    scaled_dot_product_attention."""
    attend = torch.nn.functional.scaled_dot_product_attention

    def run() -> object:
        parts = (x.split(segments) for x in inputs)
        return torch.cat([attend(*(t.transpose(0, 1).unsqueeze(0) for t in triple))[0].transpose(0, 1) for triple in zip(*parts)])

    return run


def torch_dense_mask(torch, inputs, segments: list[int]) -> Callable[[], object]:
    """One call over all packed tokens with a block-diagonal boolean mask."""
    n = sum(segments)
    if len(segments) == 1:
        raise LeftOut("one segment needs no mask")
    if n > DENSE_MASK_MAX_TOKENS:
        raise LeftOut(f"{n:,} tokens, a mask of {n * n / 2**30:.2f} GiB alone; at most {DENSE_MASK_MAX_TOKENS:,} tokens")
    mask = torch.block_diag(*[torch.ones(k, k, dtype=torch.bool) for k in segments])
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in inputs)
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def zentorch_per_segment(torch, inputs, segments: list[int]) -> Callable[[], object]:
    import zentorch  # noqa: F401  (registers the operator)

    attend = torch.ops.zentorch.zentorch_sdpa

    def run() -> object:
        parts = (x.split(segments) for x in inputs)
        return torch.cat([attend(*(t.transpose(0, 1).unsqueeze(0) for t in triple))[0][0].transpose(0, 1) for triple in zip(*parts)])

    return run


def openvino_per_segment(torch, inputs, segments: list[int], threads: int, dtype: str) -> Callable[[], object]:
    """OpenVINO's ScaledDotProductAttention, compiled for the one length of the case."""
    if len(set(segments)) != 1:
        raise LeftOut("takes segments of one length")
    import openvino as ov
    from openvino import opset13 as ops

    n, heads, head_dim = segments[0], inputs[0].shape[1], inputs[0].shape[2]
    shape = [len(segments), heads, n, head_dim]
    kind = ov.Type.bf16 if dtype == "bf16" else ov.Type.f32
    parameters = [ops.parameter(shape, kind) for _ in range(3)]
    model = ov.Model([ops.scaled_dot_product_attention(*parameters)], parameters)
    compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": kind})
    request = compiled.create_infer_request()
    ordered = [x.reshape(len(segments), n, heads, head_dim).permute(0, 2, 1, 3).contiguous() for x in inputs]
    if dtype == "bf16":
        tensors = [ov.Tensor(x.view(torch.uint16).numpy(), ov.Shape(shape), kind) for x in ordered]
    else:
        tensors = [ov.Tensor(x.numpy(), shared_memory=True) for x in ordered]
    return lambda: request.infer(tensors, share_inputs=True, share_outputs=True)


def onnxruntime_per_segment(torch, inputs, segments: list[int], threads: int, dtype: str) -> Callable[[], object]:
    """onnxruntime's MultiHeadAttention, segments as batch."""
    if dtype != "f32" or len(set(segments)) != 1:
        raise LeftOut("takes f32 and segments of one length")
    import onnxruntime as ort
    from onnx import TensorProto, helper

    n, heads, head_dim = segments[0], inputs[0].shape[1], inputs[0].shape[2]
    shape = [len(segments), n, heads * head_dim]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("q", "k", "v", "out")]
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["out"], domain="com.microsoft", num_heads=heads)
    graph = helper.make_graph([node], "attention", values[:3], values[3:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {name: x.float().reshape(shape).contiguous().numpy() for name, x in zip("qkv", inputs)}
    return lambda: session.run(None, feed)


def time_calls(call: Callable[[], object], seconds: float) -> list[float]:
    """Milliseconds of each run, by the rule of `omma bench attention`: for that many seconds, and
    at least five."""
    times: list[float] = []
    while len(times) < LEAST_RUNS or sum(times) < seconds * 1e3:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def build_peers(
    segments: list[int], head_dim: int, n_heads: int, dtype: str, threads: int
) -> tuple[dict[str, Callable[[], object]], dict[str, str]]:
    """The peers that take the case, and of the others why not."""
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    inputs = make_inputs(torch, segments, head_dim, n_heads, torch.bfloat16 if dtype == "bf16" else torch.float32)
    makers: dict[str, Callable[[], Callable[[], object]]] = {
        "PyTorch per segment": lambda: torch_per_segment(torch, inputs, segments),
        "PyTorch dense mask": lambda: torch_dense_mask(torch, inputs, segments),
        "zentorch per segment": lambda: zentorch_per_segment(torch, inputs, segments),
        "OpenVINO": lambda: openvino_per_segment(torch, inputs, segments, threads, dtype),
        "onnxruntime": lambda: onnxruntime_per_segment(torch, inputs, segments, threads, dtype),
    }
    peers, left_out = {}, {}
    for name, make in makers.items():
        try:
            call = make()
            call()
            peers[name] = call
        except LeftOut as reason:
            left_out[name] = str(reason)
        except Exception as reason:  # a peer that is missing or refuses must not end the comparison
            left_out[name] = f"{type(reason).__name__}: {(str(reason).splitlines() or [''])[0][:100]}"
    return peers, left_out


def compare(arguments: argparse.Namespace, name: str, segments: list[int], head_dim: int) -> dict:
    peers, left_out = build_peers(segments, head_dim, arguments.heads, arguments.dtype, arguments.threads)
    times: dict[str, list[float]] = {peer: [] for peer in peers}
    ours = []
    for _ in range(arguments.rounds):
        ours.append(run_omma(arguments.omma, segments, head_dim, arguments.heads, arguments.dtype, arguments.threads, arguments.seconds))
        for peer, call in peers.items():
            times[peer] += time_calls(call, arguments.seconds)
    work = flops(segments, head_dim, arguments.heads)
    best = {"Ommatidia": min(r["ms_min"] for r in ours), **{peer: min(t) for peer, t in times.items()}}
    median = {"Ommatidia": statistics.median(r["ms_median"] for r in ours), **{p: statistics.median(t) for p, t in times.items()}}
    peak = max(r["peak_gflops"] for r in ours)
    print(f"\n{name}, {arguments.dtype}, {arguments.threads} thread{'' if arguments.threads == 1 else 's'}, peak {peak:.0f} GFLOP/s ({ours[0]['kernel']})")
    print(f"  {'':24}{'best ms':>10}{'median':>10}{'GFLOP/s':>10}{'of peak':>9}{'ours is':>10}")
    for program, ms in best.items():
        rate = work / ms * 1e-6
        print(f"  {program:24}{ms:10.1f}{median[program]:10.1f}{rate:10.0f}{rate / peak:9.2f}{ms / best['Ommatidia']:9.2f}x")
    for program, reason in left_out.items():
        print(f"  {program:24} left out: {reason}")
    return {"case": name, "dtype": arguments.dtype, "threads": arguments.threads, "peak_gflops": peak, "best_ms": best, "median_ms": median,
            "left_out": left_out}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_omma_option(parser)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="time for ours in each round")
    parser.add_argument("--case", action="append", help=f"only cases whose name contains this; all: {'; '.join(CASES)}")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    for part in arguments.case or []:
        if not any(part in name for name in CASES):
            parser.error(f"--case {part}: no case has this in its name; there are: {'; '.join(CASES)}")
    results = [compare(arguments, name, *case) for name, case in CASES.items()
               if not arguments.case or any(part in name for part in arguments.case)]
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump(results, out, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
