"""deploy/kubernetes/model-files/fetch-model.sh against a web server here: what it brings, keeps,
continues and refuses."""

import hashlib
import http.server
import pathlib
import subprocess
import threading

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "model-files" / "fetch-model.sh"
FILES = {"config.json": b'{"model_type": "x"}', "model-00001.safetensors": bytes(range(256)) * 4096, "x.jinja": b"{{ 1 }}"}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        store = self.server.store
        name = self.path.removeprefix("/models/")
        store.asked.append((name, self.headers.get("Range"), self.headers.get("Authorization")))
        if name not in store.files:
            return self.send_error(404)
        body = store.files[name]
        begin = int(self.headers["Range"][6:].rstrip("-")) if self.headers.get("Range") else 0
        if begin > len(body):
            return self.send_error(416)
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(body) - begin))
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
        self.end_headers()
        self.wfile.write(body[begin:])

    def log_message(self, *_):
        pass


class Store:
    def __init__(self):
        self.files, self.asked = dict(FILES), []
        self.list_sums()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.store = self
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def list_sums(self):
        names = [name for name in self.files if name != "SHA256SUMS"]
        self.files["SHA256SUMS"] = "".join(f"{hashlib.sha256(self.files[name]).hexdigest()}  {name}\n" for name in names).encode()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}/models/"


@pytest.fixture
def store(need):
    for program in ("curl", "sha256sum"):
        need(program)
    made = Store()
    yield made
    made.server.shutdown()
    made.server.server_close()


def fetch(store, directory, **variables):
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **variables}
    return subprocess.run(["sh", SCRIPT, store.url, directory], capture_output=True, text=True, env=environment, timeout=120)


def test_all_files_come_once(store, tmp_path):
    directory = tmp_path / "models" / "x"
    done = fetch(store, directory)
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == store.files
    store.asked.clear()
    assert fetch(store, directory).returncode == 0
    assert [name for name, _, _ in store.asked] == ["SHA256SUMS"]


def test_a_file_that_broke_off_is_continued(store, tmp_path):
    (tmp_path / ".part-model-00001.safetensors").write_bytes(FILES["model-00001.safetensors"][:1000])
    assert fetch(store, tmp_path).returncode == 0
    assert ("model-00001.safetensors", "bytes=1000-", None) in store.asked
    assert (tmp_path / "model-00001.safetensors").read_bytes() == FILES["model-00001.safetensors"]


def test_a_part_of_another_file_is_given_up(store, tmp_path):
    (tmp_path / ".part-config.json").write_bytes(b"x" * 1000)
    done = fetch(store, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "config.json").read_bytes() == FILES["config.json"]


def test_a_file_that_changed_comes_anew(store, tmp_path):
    assert fetch(store, tmp_path).returncode == 0
    store.files["config.json"] = b"{}"
    store.list_sums()
    assert fetch(store, tmp_path).returncode == 0
    assert (tmp_path / "config.json").read_bytes() == b"{}"


def test_damage_names_from_elsewhere_and_what_is_missing(store, tmp_path):
    store.files = {"config.json": b"{}"}
    store.list_sums()
    store.files["config.json"] = b"[]"
    done = fetch(store, tmp_path)
    assert done.returncode == 1 and "config.json: not the file that SHA256SUMS has" in done.stderr
    assert not list(tmp_path.glob("config*")) and not (tmp_path / "SHA256SUMS").exists()
    for name in ("../evil", ".hidden", "/etc/passwd"):
        store.files = {"SHA256SUMS": f"{'0' * 64}  {name}\n".encode()}
        done = fetch(store, tmp_path)
        assert done.returncode == 1 and f"not the name of a file here: {name}" in done.stderr


def test_a_header_from_a_file(store, tmp_path):
    store.files = {"config.json": b"{}"}
    store.list_sums()
    (tmp_path / "header").write_text("Authorization: Bearer secret\n")
    done = fetch(store, tmp_path / "model", MODEL_HEADER_FILE=str(tmp_path / "header"))
    assert done.returncode == 0 and {key for _, _, key in store.asked} == {"Bearer secret"}
    assert "secret" not in done.stdout + done.stderr
