"""/metrics against the list of vLLM's metrics (tests/data/vllm/metrics.json): each of them is
served with its type, labels and bounds, or docs/metrics.md says why it is not. And what those count
that are made for vLLM's dashboards alone."""

import fnmatch
import json
import pathlib
import re

import pytest
from test_metrics import ask, read
from waiting import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
VLLM = json.loads((ROOT / "tests" / "data" / "vllm" / "metrics.json").read_text())
PAGE = (ROOT / "docs" / "metrics.md").read_text()
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def left_out():
    """Patterns of the page's table, each with a reason."""
    rows = [line.split("|")[1:3] for line in PAGE.split("## Not served")[1].splitlines() if line.startswith("| `")]
    assert all(reason.strip() for _, reason in rows)
    return [pattern for names, _ in rows for pattern in re.findall(r"`([^`]+)`", names)]


def served(server):
    """Type, names of labels and bounds of buckets by name."""
    found, name = {}, ""
    for line in server.get("/metrics").body.decode().splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            found[name] = {"type": line.split()[3], "labels": set(), "bounds": []}
        elif not line.startswith("#"):
            labels = dict(LABEL.findall(line))
            bound = labels.pop("le", "")
            found[name]["labels"] |= set(labels)
            if "_bucket{" in line:
                found[name]["bounds"].append(float(bound))
    return found


def bounds_of(family, max_model_len):
    if family != "request_tokens":
        return VLLM["buckets"][family]
    return [m * 10**e for e in range(20) for m in (1, 2, 5) if m * 10**e <= max_model_len]


@pytest.mark.real_too
def test_every_metric_of_vllm_is_served_or_explained(server):
    here, patterns = served(server), left_out()
    limit = server.get("/v1/models").json["data"][0]["max_model_len"]
    assert len(VLLM["metrics"]) > 100
    for name, metric in VLLM["metrics"].items():
        explained = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        assert (name in here) != explained, f"{name}: neither served nor in docs/metrics.md, or both"
        if explained:
            continue
        assert here[name]["type"] == metric["type"], name
        if "labels" in metric:
            assert here[name]["labels"] == set(metric["labels"]), name
        if "buckets" in metric:
            assert here[name]["bounds"] == [*bounds_of(metric["buckets"], limit), float("inf")], name


def test_no_explanation_is_left_over():
    for pattern in left_out():
        assert fnmatch.filter(VLLM["metrics"], pattern), pattern


def test_the_page_names_the_version():
    assert f"vLLM {'.'.join(VLLM['vllm'].split('.')[:2])} " in PAGE


def change(before, after, name):
    return after[name] - before[name]


@pytest.mark.real_too
def test_what_requests_ask_for(server):
    before, _ = read(server)
    ask(server, "four words and more", n=3, max_tokens=4)
    after, _ = read(server)
    for name, count, total in (
        ("vllm:request_params_n", 1, 3),
        ("vllm:request_max_num_generation_tokens", 1, 4),
        ("vllm:request_params_max_tokens", 3, 12),
        ("vllm:request_num_preemptions", 3, 0),
    ):
        assert (change(before, after, f"{name}_count"), change(before, after, f"{name}_sum")) == (count, total), name


@pytest.mark.real_too
def test_a_request_without_max_tokens_asks_for_the_rest_of_the_context(server):
    limit = server.get("/v1/models").json["data"][0]["max_model_len"]
    before, _ = read(server)
    usage = ask(server, "two words", max_tokens=None, ignore_eos=False, stop_token_ids=list(range(64)))["usage"]
    after, _ = read(server)
    assert change(before, after, "vllm:request_params_max_tokens_sum") == limit - usage["prompt_tokens"]


@pytest.mark.real_only
def test_prompt_tokens_by_where_they_come_from(start):
    server = start()
    question = "the same question again and again, " * 12
    cold = ask(server, question)["usage"]
    warm = ask(server, question)["usage"]
    samples, _ = read(server)
    n, cached = cold["prompt_tokens"], samples["vllm:prompt_tokens_cached_total"]
    assert n == warm["prompt_tokens"] and 64 <= cached < n and cached % 64 == 0
    source = 'vllm:prompt_tokens_by_source_total,source="%s"'
    assert samples[source % "local_cache_hit"] == cached and samples[source % "local_compute"] == 2 * n - cached
    assert samples['vllm:prompt_tokens_cached_by_source_total,source="device"'] == samples["vllm:prefix_cache_hits_total"] == cached
    assert samples["vllm:request_prefill_kv_computed_tokens_sum"] == 2 * n - cached


@pytest.mark.real_only
def test_steps_have_all_computed_and_generated_tokens(start):
    server = start()
    usage = ask(server, "some words", max_tokens=9)["usage"]
    wait_for(lambda: read(server)[0]["vllm:iteration_tokens_total_sum"] == usage["prompt_tokens"] + 9, "all tokens in steps")
    samples, _ = read(server)
    # the prompt with the first token, and a token each
    assert samples["vllm:iteration_tokens_total_count"] == 9
    assert samples['vllm:iteration_tokens_total_bucket,le="1"'] == 8
    parts = ("queue", "inference", "prefill", "decode")
    times = {part: samples[f"vllm:request_{part}_time_seconds_sum"] for part in parts}
    assert times["inference"] == pytest.approx(times["prefill"] + times["decode"])
    assert 0 < times["inference"] <= samples["vllm:e2e_request_latency_seconds_sum"]


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("stream", [False, True])
def test_looks_for_tool_calls(start, stream):
    server = start(enable_auto_tool_choice=True, tool_call_parser="hermes")
    said = '<tool_call> {"name": "look", "arguments": {"at": 1}} </tool_call>'
    key = 'vllm:tool_call_parser_invocations_total,mode="%s",outcome="%s",request_type="chat_completions"'
    mode = "streaming" if stream else "non_streaming"
    body = {"messages": [{"role": "user", "content": said}], "tools": [TOOL], "stream": stream, "max_tokens": 200}
    assert server.post("/v1/chat/completions", body).status == 200
    samples, _ = read(server)
    assert samples[key % (mode, "tool_call")] >= 1
    assert sum(v for k, v in samples.items() if k.startswith("vllm:tool_call_parser") and mode not in k.split(",")[1]) == 0
    if not stream:
        assert samples[key % (mode, "tool_call")] == 1 and samples[key % (mode, "no_tool_call")] == 0
