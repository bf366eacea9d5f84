"""The definitions once more, in NumPy, from the client's own detailed output."""

import math

import numpy as np

NAMES = {
    "ttft": ("TTFT", "Time to First Token"),
    "tpot": ("TPOT", "Time per Output Token (excl. 1st token)"),
    "itl": ("ITL", "Inter-token Latency"),
    "e2el": ("E2EL", "End-to-end Latency"),
    "client_queue_time": ("Client Queue Time", "Client-side Queueing"),
    "e2el_including_client_queue": ("E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency"),
}


def compute(result, percentiles=(99.0,), goodput=None):
    """The figures of a result with details, as a dict with the result's keys."""
    good = [i for i, text in enumerate(result["errors"]) if not text]
    ttft = [result["ttfts"][i] for i in good]
    itl = [gap for i in good for gap in result["itls"][i]]
    e2el = [result["latencies"][i] for i in good]
    outputs = [result["output_lens"][i] for i in good]
    tpot_all = [(e - t) / (n - 1) if n > 1 else 0.0 for e, t, n in zip(e2el, ttft, outputs)]
    queue = [result["queue_times"][i] for i in good]
    values = {"ttft": ttft, "tpot": [v for v, n in zip(tpot_all, outputs) if n > 1], "itl": itl, "e2el": e2el,
              "client_queue_time": queue, "e2el_including_client_queue": [e + q for e, q in zip(e2el, queue)]}
    duration, inputs = result["duration"], [result["input_lens"][i] for i in good]
    out = {
        "completed": len(good),
        "failed": len(result["errors"]) - len(good),
        "total_input_tokens": sum(inputs),
        "total_output_tokens": sum(outputs),
        "request_throughput": len(good) / duration,
        "output_throughput": sum(outputs) / duration,
        "total_token_throughput": (sum(inputs) + sum(outputs)) / duration,
        "request_goodput": None,
    }
    if goodput:
        seconds = {key: value / 1000 for key, value in goodput.items()}
        met = [all(value <= seconds[key] for key, value in (("ttft", t), ("tpot", p), ("e2el", e)) if key in seconds)
               for t, p, e in zip(ttft, tpot_all, e2el)]
        out["request_goodput"] = sum(met) / duration
    out.update(peaks(result, good))
    for name, numbers in values.items():
        numbers = np.array(numbers or [0.0]) * 1.0
        out[f"mean_{name}_ms"] = np.mean(numbers) * 1000
        out[f"median_{name}_ms"] = np.median(numbers) * 1000
        out[f"std_{name}_ms"] = np.std(numbers) * 1000
        for p in percentiles:
            out[f"p{word(p)}_{name}_ms"] = np.percentile(numbers, p) * 1000
    return out


def peaks(result, good):
    if not good:
        return {"max_output_tokens_per_s": 0.0, "max_concurrent_requests": 0}
    starts = [result["start_times"][i] for i in good]
    ends = [result["start_times"][i] + result["latencies"][i] for i in good]
    first = min(starts)
    size = int(np.ceil(max(ends) - first)) + 1
    tokens, active = np.zeros(size), np.zeros(size)
    for i, start, end in zip(good, starts, ends):
        for moment in start + result["ttfts"][i] + np.concatenate([[0.0], np.cumsum(result["itls"][i])]):
            tokens[int(moment - first)] += 1
        active[int(start - first) : int(end - first) + 1] += 1
    return {"max_output_tokens_per_s": tokens.max(), "max_concurrent_requests": int(active.max())}


def word(percentile):
    return str(int(percentile)) if int(percentile) == percentile else str(percentile)


def table(result, figures, metrics=("ttft", "tpot", "itl"), percentiles=(99.0,), concurrency=None, rate=math.inf, goodput=False):
    """The table as Python prints it."""
    rows = ["{s:{c}^{n}}".format(s=" Serving Benchmark Result ", n=50, c="=")]

    def row(name, value, form="{:<10.2f}"):
        rows.append("{:<40} ".format(name) + form.format(value))

    row("Successful requests:", figures["completed"], "{:<10}")
    row("Failed requests:", figures["failed"], "{:<10}")
    if concurrency is not None:
        row("Maximum request concurrency:", concurrency, "{:<10}")
    if rate != math.inf:
        row("Request rate configured (RPS):", rate)
    row("Benchmark duration (s):", result["duration"])
    row("Total input tokens:", figures["total_input_tokens"], "{:<10}")
    row("Total generated tokens:", figures["total_output_tokens"], "{:<10}")
    row("Request throughput (req/s):", figures["request_throughput"])
    if goodput:
        row("Request goodput (req/s):", figures["request_goodput"])
    row("Output token throughput (tok/s):", figures["output_throughput"])
    row("Peak output token throughput (tok/s):", figures["max_output_tokens_per_s"])
    row("Peak concurrent requests:", figures["max_concurrent_requests"])
    row("Total token throughput (tok/s):", figures["total_token_throughput"])
    for name in metrics:
        label, title = NAMES[name]
        rows.append("{s:{c}^{n}}".format(s=title, n=50, c="-"))
        row(f"Mean {label} (ms):", figures[f"mean_{name}_ms"])
        row(f"Median {label} (ms):", figures[f"median_{name}_ms"])
        for p in percentiles:
            row(f"P{word(p)} {label} (ms):", figures[f"p{word(p)}_{name}_ms"])
    rows.append("=" * 50)
    return "\n".join(rows) + "\n"
