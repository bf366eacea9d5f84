"""/metrics: the text form of Prometheus, histograms that add up, and the encoder's cache at
work."""

import pathlib
import re

import pytest

from images import data_url, png

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
NAMES = (
    "vllm:num_requests_running vllm:num_requests_waiting vllm:kv_cache_usage_perc vllm:prefix_cache_queries_total "
    "vllm:prefix_cache_hits_total vllm:mm_cache_queries_total vllm:mm_cache_hits_total vllm:num_preemptions_total "
    "vllm:prompt_tokens_total vllm:generation_tokens_total vllm:request_success_total vllm:time_to_first_token_seconds "
    "vllm:inter_token_latency_seconds vllm:request_time_per_output_token_seconds vllm:e2e_request_latency_seconds "
    "vllm:request_queue_time_seconds vllm:request_prefill_time_seconds vllm:request_decode_time_seconds "
    "vllm:request_prompt_tokens vllm:request_generation_tokens omma:encoder_seconds omma:preprocess_seconds "
    "omma:encoder_cache_bytes omma:encoder_cache_hits_total omma:encoder_cache_misses_total "
    "omma:pages_read_total omma:pages_failed_total omma:images_decoded_total omma:images_recalled_total omma:images_prepared_ahead_total omma:encoder_cache_evictions_total omma:encoder_images_total omma:encoder_patches_total omma:encoder_batch_images "
    "omma:encoding_store_hits_total omma:encoding_store_misses_total omma:encoding_store_not_finite_total omma:workspace_bytes http_requests_total http_request_duration_seconds http_request_duration_highr_seconds "
    "process_virtual_memory_bytes process_resident_memory_bytes process_start_time_seconds process_cpu_seconds_total "
    "process_open_fds process_max_fds "
    "vllm:cache_config_info vllm:spec_decode_num_drafts_total vllm:spec_decode_num_draft_tokens_total "
    "vllm:spec_decode_num_accepted_tokens_total omma:spec_decode_gain omma:snapshots omma:snapshots_used omma:snapshots_kept omma:snapshot_bytes omma:snapshot_hits_total omma:snapshot_evictions_total "
    "vllm:gpu_cache_usage_perc vllm:gpu_prefix_cache_queries_total vllm:gpu_prefix_cache_hits_total vllm:gpu_prefix_cache_hit_rate "
    "vllm:lora_requests_info omma:prefix_cache_pages omma:kv_event_batches_total omma:kv_events_lost_total omma:trace_spans_sent_total omma:trace_spans_dropped_total omma:grammar_bytes omma:grammars omma:cpus omma:cpu_nodes omma:default_threads "
    "omma:queued_bytes omma:max_num_seqs vllm:admission_rejections_total "
    "vllm:num_requests_waiting_by_reason vllm:engine_sleep_state vllm:prompt_tokens_cached_total vllm:prompt_tokens_by_source_total "
    "vllm:prompt_tokens_cached_by_source_total vllm:spec_decode_num_accepted_tokens_per_pos_total "
    "vllm:tool_call_parser_invocations_total vllm:request_inference_time_seconds vllm:request_prefill_kv_computed_tokens "
    "vllm:request_max_num_generation_tokens vllm:request_params_max_tokens vllm:request_params_n vllm:request_num_preemptions "
    "vllm:iteration_tokens_total omma:engine_up"
).split()
LINE = re.compile(r'^([a-z0-9_:]+)\{(?:engine="\d+",)?model_name="[^"]+"((?:,[a-z_]+="[^"]*")*)\} (\S+)$')
# Of the program and of its HTTP: without the engine's labels.
OTHER_LINE = re.compile(r'^((?:http|process)_[a-z_]+|omma:cpus|omma:cpu_nodes|omma:default_threads|vllm:lora_requests_info)(\{(?:[a-z_]+="[^"]*",?)+\})? (\S+)$')


def read(server):
    """All samples by name and further labels, of several engines their sums, and the types by name.
    Every line must be well formed."""
    reply = server.get("/metrics")
    assert reply.status == 200
    assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    samples, types = {}, {}
    for line in reply.body.decode().splitlines():
        if line.startswith("# TYPE "):
            types[line.split()[2]] = line.split()[3]
        elif not line.startswith("# HELP "):
            name, labels, value = (LINE.match(line) or OTHER_LINE.match(line)).groups()
            samples[name + (labels or "")] = samples.get(name + (labels or ""), 0) + float(value)
    return samples, types


def histogram(samples, name):
    """Bounds, cumulative counts, sum and count."""
    start = f'{name}_bucket,le="'
    buckets = [(float(key[len(start) : -1]), value) for key, value in samples.items() if key.startswith(start)]
    return buckets, samples[f"{name}_sum"], samples[f"{name}_count"]


def ask(server, parts, **fields):
    body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 4, "ignore_eos": True, **fields}
    reply = server.post("/v1/chat/completions", body)
    assert reply.status == 200, reply.body
    return reply.json


@pytest.mark.real_too
def test_every_name_is_there(server):
    _, types = read(server)
    assert set(types) == set(NAMES)
    assert types["vllm:time_to_first_token_seconds"] == "histogram"
    assert types["vllm:prompt_tokens_total"] == "counter"


@pytest.mark.real_too
def test_every_name_of_its_own_is_documented(server):
    """In docs/serve.md; and no page names one that is not there."""
    served = {name for name in read(server)[1] if name.startswith("omma:")}
    section = (DOCS / "serve.md").read_text().split("\n## Metrics\n")[1].split("\n## ")[0]
    assert set(re.findall(r"`(omma:[a-z_]+)`", section)) == served
    named = {name for page in DOCS.rglob("*.md") for name in re.findall(r"`(omma:[a-z_]+)", page.read_text())}
    assert named <= served


@pytest.mark.real_too
def test_histograms_count_requests(server):
    before, _ = read(server)
    for _ in range(3):
        ask(server, "four words and more")
    after, types = read(server)
    for name, more in (
        ("vllm:time_to_first_token_seconds", 3),
        ("vllm:inter_token_latency_seconds", 9),
        ("vllm:request_time_per_output_token_seconds", 3),
        ("vllm:e2e_request_latency_seconds", 3),
        ("vllm:request_generation_tokens", 3),
    ):
        assert after[name + "_count"] == before[name + "_count"] + more, name
    assert after["vllm:request_generation_tokens_sum"] == before["vllm:request_generation_tokens_sum"] + 12
    for name, kind in types.items():
        if kind != "histogram" or name.startswith("http_"):
            continue
        buckets, total, count = histogram(after, name)
        counts = [value for _, value in buckets]
        assert [bound for bound, _ in buckets] == sorted({bound for bound, _ in buckets})
        assert counts == sorted(counts) and counts[-1] == count, name
        assert buckets[-1][0] == float("inf") and total >= 0


@pytest.mark.real_only
def test_times_of_images_are_of_requests_that_have_some(server):
    names = ("omma:preprocess_seconds_count", "omma:encoder_seconds_count")
    before, _ = read(server)
    ask(server, "no image")
    ask(server, "no image", n=2)
    text, _ = read(server)
    assert [text[name] - before[name] for name in names] == [0, 0]
    ask(server, [{"type": "image_url", "image_url": {"url": data_url(png(64, 64))}}, {"type": "text", "text": "?"}], n=2)
    image, _ = read(server)
    assert [image[name] - text[name] for name in names] == [1, 1]


@pytest.mark.real_too
def test_length_and_abort_are_distinguished(server):
    before, _ = read(server)
    ask(server, "one two three four five six")
    after, _ = read(server)
    key = 'vllm:request_success_total,finished_reason="length"'
    assert after[key] == before[key] + 1


@pytest.mark.real_only
def test_an_image_seen_before_needs_no_encoder(start):
    server = start()
    parts = [{"type": "image_url", "image_url": {"url": data_url(png(64, 64))}}, {"type": "text", "text": "what?"}]
    first = ask(server, parts, temperature=0)
    one, _ = read(server)
    again = ask(server, parts, temperature=0)
    two, _ = read(server)
    assert first["choices"] == again["choices"]
    assert one["omma:encoder_images_total"] == two["omma:encoder_images_total"] == 1
    assert two["omma:encoder_cache_hits_total"] == 1 and two["vllm:mm_cache_hits_total"] == 1
    assert two["omma:encoder_cache_bytes"] > 0
    named = [{**parts[0], "uuid": "my image"}, parts[1]]
    assert ask(server, named, temperature=0)["choices"] == first["choices"]
    three, _ = read(server)
    assert three["omma:encoder_images_total"] == 2


def about(image, **fields):
    return [{"type": "image_url", "image_url": {"url": data_url(image)}, **fields}, {"type": "text", "text": "what?"}]


@pytest.mark.real_only
@pytest.mark.parametrize("trusted", [False, True])
def test_a_uuid_stands_for_an_image_only_where_it_is_trusted(start, trusted):
    """One client's name for its image does not affect another's."""
    mine, theirs = png(64, 64, 10), png(64, 64, 90)
    server = start(trust_media_uuids=True) if trusted else start()
    ask(server, about(theirs, uuid="cat-1"), temperature=0)
    one, _ = read(server)
    ask(server, about(mine, uuid="cat-1"), temperature=0)
    two, _ = read(server)
    assert two["omma:encoder_images_total"] - one["omma:encoder_images_total"] == (0 if trusted else 1)
    ask(server, about(mine, uuid="cat-1"), temperature=0)
    three, _ = read(server)
    assert three["omma:encoder_images_total"] == two["omma:encoder_images_total"]
