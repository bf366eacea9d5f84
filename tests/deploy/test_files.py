"""Each file of deploy/ is read by the program that it is for, or checked against its schema; what
it names exists here."""

import base64
import json
import pathlib
import re
import subprocess

import pytest
import yaml
from proxy_process import COMMAND, environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES_VERSION = "1.31"
# What in the files is not a Kubernetes object, and which keys its specification may have.
CUSTOM_SPECS = {"PodMonitor": {"selector", "podMetricsEndpoints", "jobLabel"}, "PrometheusRule": {"groups"}, "InferencePool": {"selector", "targetPorts", "endpointPickerRef"},
                "ScaledObject": {"scaleTargetRef", "minReplicaCount", "maxReplicaCount", "pollingInterval", "fallback", "advanced", "triggers"}}
METRIC = re.compile(r'__name__="([^"]+)"|\b((?:vllm|omma):[a-z_]+|http_[a-z_]+|process_[a-z_]+)\b')
# Made by Prometheus, and by the rules.
MADE_ELSEWHERE = {"up"}


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def load(name):
    return yaml.safe_load((DEPLOY / name).read_text())


def kubernetes_files():
    return sorted(path.relative_to(DEPLOY).as_posix() for path in (DEPLOY / "kubernetes").rglob("*.yaml"))


def rules():
    return [rule for group in load("prometheus/ommatidia.rules.yml")["groups"] for rule in group["rules"]]


def dashboard_expressions():
    dashboard = json.loads((DEPLOY / "grafana" / "ommatidia.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def scaling_queries():
    """Those of KEDA's triggers."""
    return [trigger["metadata"]["query"] for trigger in load("kubernetes/keda.yaml")["spec"]["triggers"]]


def test_haproxy_takes_its_configuration(need):
    run(need("haproxy"), "-c", "-f", DEPLOY / "haproxy" / "haproxy.cfg")


def example_of(text):
    """The indented block of docs/serve.md that holds the text."""
    blocks = re.findall(r"(?:^(?:    .*)?\n)+", (ROOT / "docs" / "serve.md").read_text(), re.M)
    (block,) = [block for block in blocks if text in block]
    return re.sub("^    ", "", block, flags=re.M)


def test_nginx_takes_the_example_of_the_docs(need, tmp_path):
    path = tmp_path / "nginx.conf"
    path.write_text(f"pid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{ access_log off; server {{ listen 127.0.0.1:8080;\n{example_of('proxy_pass')}}} }}\n")
    run(need("nginx"), "-t", "-q", "-c", path)


def test_caddy_takes_the_example_of_the_docs(need, tmp_path):
    path = tmp_path / "Caddyfile"
    path.write_text(example_of("reverse_proxy"))
    adapted = subprocess.run([need("caddy"), "adapt", "--config", path, "--adapter", "caddyfile"], capture_output=True, text=True)
    assert adapted.returncode == 0, adapted.stderr
    assert '"flush_interval":-1' in adapted.stdout and '"read_timeout":1800000000000' in adapted.stdout


def test_every_file_is_read_by_a_test():
    """A file that is new in deploy/ gets its test here, or in the module next to this one."""
    sources = "".join(path.read_text() for path in pathlib.Path(__file__).parent.glob("test_*.py"))
    files = [path.relative_to(DEPLOY) for path in DEPLOY.rglob("*") if path.is_file() and path.name != "README.md"]
    untested = [str(path) for path in files if path.name not in sources and "kubernetes" not in path.parts]
    assert len(files) > 10 and untested == []


def test_the_readme_lists_every_file():
    text = (DEPLOY / "README.md").read_text()
    for path in DEPLOY.iterdir():
        assert path.name == "README.md" or f"({path.name}" in text, path


def test_prometheus_takes_its_files(need):
    promtool = need("promtool")
    run(promtool, "check", "config", DEPLOY / "prometheus" / "prometheus.yml")
    assert "SUCCESS" in run(promtool, "test", "rules", DEPLOY / "prometheus" / "ommatidia.rules.test.yml")


def test_the_rules_as_an_object_are_the_rules():
    assert load("kubernetes/prometheusrule.yaml")["spec"] == load("prometheus/ommatidia.rules.yml")


def test_alerts_are_bound_to_the_job_of_the_pod_monitor():
    """vLLM's metrics have the same names: only the job tells whose they are."""
    monitor, deployment = load("kubernetes/podmonitor.yaml")["spec"], load("kubernetes/deployment.yaml")
    job = deployment["spec"]["template"]["metadata"]["labels"][monitor["jobLabel"]]
    for rule in rules():
        selectors = re.findall(r"\{[^{}]*\}", rule["expr"])
        foreign = [text for text in selectors if "omma:" not in text]
        for matcher in [re.search(r'job=~"([^"]+)"', text) for text in foreign]:
            assert matcher and all(re.fullmatch(matcher[1], name) for name in (job, f"default/{job}")), rule
            assert not re.fullmatch(matcher[1], "vllm")


def test_the_autoscaler_reads_a_recorded_metric():
    metric = load("kubernetes/hpa.yaml")["spec"]["metrics"][0]["pods"]["metric"]["name"]
    text = (DEPLOY / "README.md").read_text()
    assert f"as: {metric}" in text
    assert re.search(r"seriesQuery: '([^']+)'", text)[1] in {rule.get("record") for rule in rules()}


def test_nothing_behind_a_proxy_is_limited_by_its_address():
    """docs/serve.md asks for it: all clients have the proxy's address."""
    container = load("kubernetes/deployment.yaml")["spec"]["template"]["spec"]["containers"][0]
    assert "--max-connections-per-address=0" in container["args"]
    proxy = (DEPLOY / "haproxy" / "haproxy.cfg").read_text()
    assert "--max-connections-per-address 0" in proxy and "sc0_conn_cur" in proxy
    servers = re.findall(r"^  server .*", proxy, re.M)
    assert servers and all("maxconn 1000" in server for server in servers)


def test_prometheus_takes_the_dashboards_expressions(need, tmp_path):
    expressions = [e.replace("$__rate_interval", "5m").replace("$instance", ".*") for e in dashboard_expressions() + scaling_queries()]
    assert not any("$" in expression for expression in expressions)
    rule_file = tmp_path / "rules.yml"
    recorded = [{"record": f"dashboard:{i}", "expr": expression} for i, expression in enumerate(expressions)]
    rule_file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    run(need("promtool"), "check", "rules", rule_file)


def test_every_metric_that_is_read_exists(start):
    server = start()
    image = base64.b64encode(next((ROOT / "models" / "demo" / "images").glob("*.png")).read_bytes()).decode()
    content = [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + image}}, {"type": "text", "text": "What is it?"}]
    assert server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 4}).status == 200
    served = set(re.findall(r"^([a-z_:]+)", server.get("/metrics").body.decode(), re.M))
    made = MADE_ELSEWHERE | {rule["record"] for rule in rules() if "record" in rule}
    read = set()
    for expression in [rule["expr"] for rule in rules()] + dashboard_expressions() + scaling_queries():
        read |= {a or b for a, b in METRIC.findall(expression)}
    assert len(read) > 15 and read - made <= served, read - made - served


@pytest.mark.parametrize("name", kubernetes_files())
def test_kubernetes_objects_follow_their_schema(name, request):
    try:
        import kubernetes_validate
    except ImportError:
        (pytest.fail if request.config.getoption("--full") else pytest.skip)("kubernetes-validate is not installed")
    data = load(name)
    if data["kind"] == "Kustomization":
        generated = [file for made in data.get("configMapGenerator", []) for file in made["files"]]
        assert all(((DEPLOY / name).parent / file).exists() for file in data["resources"] + generated)
    elif data["kind"] in CUSTOM_SPECS:
        assert set(data["spec"]) == CUSTOM_SPECS[data["kind"]]
    else:
        kubernetes_validate.validate(data, KUBERNETES_VERSION, strict=True)


def with_model_files():
    """The Deployment with the patch of model-files, a JSON Patch (RFC 6902)."""
    deployment = load("kubernetes/deployment.yaml")
    (patch,) = load("kubernetes/model-files/kustomization.yaml")["patches"]
    assert (patch["target"]["kind"], patch["target"]["name"]) == (deployment["kind"], deployment["metadata"]["name"])
    for step in yaml.safe_load(patch["patch"]):
        *way, last = step["path"].strip("/").split("/")
        place = deployment
        for key in way:
            place = place[key]
        if step["op"] == "add" and last == "-":
            place.append(step["value"])
        elif step["op"] == "add":
            assert last not in place
            place[last] = step["value"]
        else:
            assert step["op"] == "replace" and isinstance(place, list)
            place[int(last)] = step["value"]
    return deployment


def test_the_init_container_brings_what_the_server_reads():
    folder, deployment = load("kubernetes/model-files/kustomization.yaml"), with_model_files()
    pod = deployment["spec"]["template"]["spec"]
    (init,), (container,) = pod["initContainers"], pod["containers"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in init["volumeMounts"] + container["volumeMounts"]} == set(volumes)
    assert "emptyDir" in volumes["models"] and volumes["fetch-model"]["configMap"]["name"] == folder["configMapGenerator"][0]["name"]
    _, script, url, directory = init["command"]
    assert script == f"/fetch-model/{folder['configMapGenerator'][0]['files'][0]}" and url.startswith("https://")
    assert directory == container["args"][1]
    try:
        import kubernetes_validate
    except ImportError:
        return
    kubernetes_validate.validate(deployment, KUBERNETES_VERSION, strict=True)


def containers_of(data):
    spec = data["spec"]["template"]["spec"]
    return spec["containers"] + spec.get("initContainers", [])


def test_quotas_are_whole_cpus():
    """The same as request and limit; a lower quota would stop threads in the midst of a step."""
    for data in (with_model_files(), load("kubernetes/encoders/nodes.yaml")):
        for container in containers_of(data):
            resources = container["resources"]
            assert resources["requests"] == resources["limits"] and re.fullmatch("[1-9][0-9]*", resources["limits"]["cpu"])


def test_the_memory_is_what_the_program_estimates(request, tmp_path):
    """Of a model of this shape, of which config.json is enough, and the limits of what comes and
    goes."""
    (container,) = load("kubernetes/deployment.yaml")["spec"]["template"]["spec"]["containers"]
    (tmp_path / "config.json").write_text((ROOT / "tests" / "data" / "configs" / "qwen3-vl-2b.json").read_text())
    sizes = [arg for arg in container["args"] if re.match("--(max-model-len|max-num-seqs|kv-cache-memory-bytes)=", arg)]
    assert len(sizes) == 3
    cpus = container["resources"]["limits"]["cpu"]
    text = subprocess.run([request.config.getoption("--omma"), "plan", "--json", "--threads", cpus, *sizes, tmp_path, "1024x1024"],
                          capture_output=True, text=True, check=True).stdout
    memory = json.loads(text.splitlines()[-1])["memory"]
    decoding = 1536 << 20  # --max-decode-bytes, by default
    needed = memory["total_bytes"] + memory["encoder_cache_bytes"] + memory["known_image_bytes"] + decoding
    limit = int(re.fullmatch("([0-9]+)Gi", container["resources"]["limits"]["memory"])[1]) << 30
    assert 0.75 * limit < needed < limit
    assert int(with_model_files()["spec"]["template"]["spec"]["volumes"][0]["emptyDir"]["sizeLimit"][:-2]) << 30 > memory["weight_bytes"]


def test_replicas_follow_waiting_work():
    keda, hpa = load("kubernetes/keda.yaml")["spec"], load("kubernetes/hpa.yaml")["spec"]
    assert keda["scaleTargetRef"] == hpa["scaleTargetRef"]
    assert (keda["minReplicaCount"], keda["maxReplicaCount"]) == (hpa["minReplicas"], hpa["maxReplicas"])
    assert "vllm:num_requests_waiting" in scaling_queries()[0]
    assert "ommatidia:requests" in scaling_queries()[1] and "ommatidia:requests" in {rule.get("record") for rule in rules()}


def test_kubernetes_objects_fit_together():
    deployment = load("kubernetes/deployment.yaml")
    pod = deployment["spec"]["template"]
    labels, container = pod["metadata"]["labels"], pod["spec"]["containers"][0]
    assert deployment["spec"]["selector"]["matchLabels"] == labels == load("kubernetes/service.yaml")["spec"]["selector"]
    for name in ("podmonitor", "inferencepool"):
        assert load(f"kubernetes/{name}.yaml")["spec"]["selector"]["matchLabels"] == labels
    assert load("kubernetes/hpa.yaml")["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert load("kubernetes/inferencepool.yaml")["spec"]["targetPorts"] == [{"number": container["ports"][0]["containerPort"]}]
    seconds = sum(int(arg.split("=")[1]) for arg in container["args"] if arg.startswith("--shutdown-"))
    assert pod["spec"]["terminationGracePeriodSeconds"] > seconds


def test_objects_of_the_proxy_fit_together():
    nodes, proxy, service = (load(f"kubernetes/encoders/{name}.yaml") for name in ("nodes", "proxy", "nodes-service"))
    name, port = nodes["metadata"]["name"], nodes["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"]
    args = proxy["spec"]["template"]["spec"]["containers"][0]["args"]
    urls = [f"--encoder=http://{name}-{i}.{service['metadata']['name']}:{port}" for i in range(nodes["spec"]["replicas"])]
    assert [arg for arg in args if arg.startswith("--encoder=")] == urls and nodes["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["ports"][0]["port"] == port
    monitored = load("kubernetes/encoders/podmonitor.yaml")["spec"]["selector"]["matchExpressions"][0]["values"]
    for workload, front in ((nodes, service), (proxy, load("kubernetes/encoders/proxy-service.yaml"))):
        pod = workload["spec"]["template"]
        labels, arguments = pod["metadata"]["labels"], pod["spec"]["containers"][0]["args"]
        assert front["spec"]["selector"].items() <= labels.items() and labels["app.kubernetes.io/name"] in monitored
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
        seconds = sum(int(arg.split("=")[1]) for arg in arguments if arg.startswith("--shutdown-"))
        assert pod["spec"]["terminationGracePeriodSeconds"] > seconds


def test_options_of_the_proxy_exist():
    options = re.findall(r'"(--[a-z-]+)', (DEPLOY / "Containerfile.proxy").read_text())
    containers = load("kubernetes/encoders/proxy.yaml")["spec"]["template"]["spec"]["containers"]
    options += [arg.split("=")[0] for arg in containers[0]["args"]]
    options += re.findall(r" (--[a-z-]+)", re.search(r"^ExecStart=.*", (DEPLOY / "systemd" / "omma-encoder-proxy.service").read_text(), re.M)[0])
    variables = re.findall(r"OMMA_PROXY_[A-Z]+", (DEPLOY / "Containerfile.proxy").read_text())
    options += ["--" + name[11:].lower() for name in variables]
    text = subprocess.run([*COMMAND, "--help"], env=environment(), capture_output=True, text=True).stdout
    assert len(options) > 15 and set(options) <= set(re.findall(r"--[a-z-]+", text)), set(options) - set(re.findall(r"--[a-z-]+", text))


def test_options_and_paths_exist(request, start):
    help_text = run(request.config.getoption("--omma"), "serve", "--help")
    deployment = load("kubernetes/deployment.yaml")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    arguments = container["args"] + load("kubernetes/encoders/nodes.yaml")["spec"]["template"]["spec"]["containers"][0]["args"]
    options = [arg.split("=")[0] for arg in arguments if arg.startswith("--")]
    options += re.findall(r'"(--[a-z-]+)', (DEPLOY / "Containerfile").read_text())
    assert len(options) > 8 and all(option + " " in help_text or option + "\n" in help_text for option in options)
    server = start()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert server.get(container[probe]["httpGet"]["path"]).status == 200


def test_the_container_has_the_libraries_of_the_program(request, need):
    """The packages of each library that the program is linked with, where this is the Debian that
    the container is of."""
    text = (DEPLOY / "Containerfile").read_text()
    if 'VERSION_CODENAME=bookworm' not in pathlib.Path("/etc/os-release").read_text():
        pytest.skip("not the container's Debian")
    listed = set(re.sub(r"[\\\n]", " ", text.split("--no-install-recommends ca-certificates")[1].split("&&")[0]).split())
    needed = re.findall(r"\(NEEDED\).*\[([^\]]+)\]", run(need("readelf"), "-d", request.config.getoption("--omma")))
    for library in needed:
        owners = set(re.findall(r"^([^:,\s]+)", run(need("dpkg-query"), "-S", f"*/{library}"), re.M))
        assert owners & (listed | {"libc6", "libgcc-s1"}), f"{library} is of {owners}"
