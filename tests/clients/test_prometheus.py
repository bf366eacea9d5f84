"""/metrics through the parser of prometheus_client."""

from prometheus_client.parser import text_string_to_metric_families


def test_families(server, answer):
    reply = server.get("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(reply.body.decode())}
    assert all(family.documentation and family.type != "unknown" for family in families.values()), families
    finished = [sample for sample in families["vllm:request_success"].samples if sample.value > 0]
    assert finished and all(sample.labels["model_name"] == "demo" for sample in finished)
    for family in families.values():
        if family.type != "histogram":
            continue
        buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
        assert buckets and any(sample.labels["le"] == "+Inf" for sample in buckets), family.name
