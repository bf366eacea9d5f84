"""An encoder node: images in, embeddings out, as vLLM's encoder instances do it; everything else is
refused with one error."""

import json
import os
import pathlib
import re
import struct
import subprocess

import pytest

from images import image_part, png, text_part
from server_process import ServerProcess, check_output, make_command
from test_metrics import read
from waiting import wait_for

pytestmark = pytest.mark.real_only
NAME = "encoder_cache.safetensors"


def connector(folder, **changes):
    config = {"ec_connector": "ECExampleConnector", "ec_role": "ec_producer",
              "ec_connector_extra_config": {"shared_storage_path": str(folder)}}
    return json.dumps({**config, **changes})


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return tmp_path_factory.mktemp("encodings") / "made-by-the-server"


@pytest.fixture(scope="module")
def node(request, kind, files):
    process = ServerProcess(make_command(request.config, kind, {"ec_transfer_config": connector(files), "dtype": "f32"}))
    yield process
    process.stop()
    check_output(process)


def ask(server, *parts, **fields):
    return server.chat(list(parts), **{"max_tokens": 1, **fields})


def split_file(data):
    """Header and values of a safetensors file."""
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + size]), data[8 + size:]


def test_images_are_encoded_and_published(node, files):
    reply = ask(node, text_part("look"), image_part(png(64, 96), uuid="first"), image_part(png(32, 32, 5), uuid="second"),
                image_part(png(64, 96), uuid="first"))
    assert reply.status == 200, reply.body
    (choice,) = reply.json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "stop")
    assert reply.json["usage"]["completion_tokens"] == 0 and reply.json["usage"]["prompt_tokens"] > 1
    params = reply.json["ec_transfer_params"]
    assert {key: entry["item_indices"] for key, entry in params.items()} == {"first": [0, 2], "second": [1]}
    assert {entry["modality"] for entry in params.values()} == {"image"}
    for key, entry in params.items():
        grid = entry["metadata"]["image_grid_thw"]
        data = node.get(f"/v1/encodings/{key}").body
        header, values = split_file(data)
        assert header["__metadata__"]["image_grid_thw"] == ",".join(map(str, grid))
        assert header["__metadata__"]["numeric_mode"] == "f32" and len(header["__metadata__"]["fingerprint"]) == 64
        rows, width = header["ec_cache"]["shape"]
        assert header["ec_cache"]["dtype"] == "F32" and header["ec_cache"]["data_offsets"] == [0, len(values)]
        assert len(values) == 4 * rows * width and rows * 4 == grid[0] * grid[1] * grid[2]
        assert (files / key / "encoder_cache.safetensors").read_bytes() == data
    assert read(node)[0]["omma:encoder_images_total"] >= 2


def test_files_are_what_the_program_encodes(node, files, omma, model, tmp_path):
    image, output = tmp_path / "image.png", tmp_path / "out.safetensors"
    image.write_bytes(png(96, 64, 9))
    assert ask(node, image_part(png(96, 64, 9), uuid="bits")).status == 200
    command = [omma, "encode", "--model", model, "--dtype", "f32", str(image), "--output", str(output)]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    header, values = split_file(output.read_bytes())
    header.pop("__metadata__", None)
    names = sorted(name for name in header if header[name]["dtype"] == "F32" and "deepstack" not in name)
    names += sorted(name for name in header if "deepstack" in name)
    _, published = split_file((files / "bits" / "encoder_cache.safetensors").read_bytes())
    tensors = []
    for name in names:
        begin, end = header[name]["data_offsets"]
        size = 4 * header[name]["shape"][1]
        tensors.append([values[at:at + size] for at in range(begin, end, size)])
    assert published == b"".join(row for token in zip(*tensors) for row in token)


@pytest.mark.parametrize("parts, fields, param", [
    ([text_part("hello")], {}, "messages"),
    ([image_part()], {}, "uuid"),
    ([image_part(uuid="../../etc")], {}, "uuid"),
    ([image_part(uuid="a" * 129)], {}, "uuid"),
    ([image_part(uuid="a")], {"max_tokens": 2}, "max_tokens"),
    ([image_part(uuid="a")], {"stream": True}, "stream"),
])
def test_what_is_no_encoding_is_refused(node, files, parts, fields, param):
    reply = ask(node, *parts, **fields)
    assert (reply.status, reply.error["param"]) == (400, param), reply.body
    assert not (files / "a").exists()


@pytest.mark.parametrize("path, body", [
    ("/v1/completions", {"prompt": "hello"}), ("/v1/responses", {"input": "hello"}),
    ("/v1/messages", {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 1, "model": "test-model"}),
])
def test_other_endpoints_do_not_generate(node, path, body):
    reply = node.post(path, body)
    assert reply.status == 400 and b"--mm-encoder-only" in reply.body


def test_the_rest_of_the_server_is_there(node):
    assert node.get("/health").status == 200
    (model,) = node.get("/v1/models").json["data"]
    assert model["id"] == "test-model" and re.fullmatch("[0-9a-f]{64}", model["encoder"]["fingerprint"])
    assert (model["encoder"]["numeric_mode"], model["encoder"]["dtype"]) == ("f32", "F32")
    assert node.get("/").status == 404
    assert read(node)[0]["vllm:kv_cache_usage_perc"] == 0
    for key in ("nobody", "..", "%2e%2e%2fetc%2fpasswd", "a" * 4000):
        assert node.get(f"/v1/encodings/{key}").status == 404
    said = node.read_output()
    assert "no language weights, no keys and values" in said and "encoder node: vision tower of" in said


def test_what_is_kept_is_bounded_and_needs_the_key(start):
    server = start(mm_encoder_only=True, encodings_bytes="10K", dtype="f32", api_key="s3cret")
    headers = {"Authorization": "Bearer s3cret"}

    def status_of(key):
        return server.get(f"/v1/encodings/{key}", headers=headers).status

    for n in range(40):  # how many fit depends on the model
        part = image_part(png(64, 64, n), uuid=f"image-{n}")
        assert server.chat([part], headers=headers, max_tokens=1).status == 200
        if n > 1 and status_of("image-0") == 404:
            break
    assert [status_of("image-0"), status_of(f"image-{n}")] == [404, 200]
    assert server.get(f"/v1/encodings/image-{n}").status == 401
    assert server.get("/health").status == 200


def test_no_encodings_without_the_option(server):
    reply = server.get("/v1/encodings/any")
    assert reply.status == 404 and "--mm-encoder-only" in reply.error["message"]


def test_a_full_disk_is_an_error_of_the_request(request, kind, tmp_path):
    command = make_command(request.config, kind, {"ec_transfer_config": connector(tmp_path), "dtype": "f32"})
    # A file that may not grow fails as a full disk does. Its signal is ignored, as a server started
    # by systemd may have it.
    wrapped = ["sh", "-c", 'trap "" XFSZ; ulimit -f 4; exec "$@"', "sh", *command]
    process = ServerProcess(wrapped)
    try:
        assert ask(process, image_part(png(128, 128), uuid="big")).status == 500
        assert ask(process, image_part(png(128, 128), uuid="big")).status == 500
        assert process.get("/health").status == 200
        assert process.get("/v1/encodings/big").status == 404
        assert os.listdir(tmp_path) == []
        wait_for(lambda: process.read_output().count("the embeddings of big cannot be written") == 2, "a line of each")
    finally:
        process.stop()
    check_output(process)


def test_a_link_is_not_written_through(start, tmp_path):
    outside, files = tmp_path / "outside", tmp_path / "files"
    outside.mkdir()
    files.mkdir()
    (files / "folder").symlink_to(outside)
    (files / "nowhere").symlink_to(tmp_path / "nowhere")
    (files / "file").mkdir()
    (files / "file" / NAME).symlink_to(outside / "target")
    (files / "taken").write_text("mine")
    server = start(ec_transfer_config=connector(files))
    for key in ("folder", "nowhere", "taken"):
        assert ask(server, image_part(png(32, 32), uuid=key)).status == 500
    assert ask(server, image_part(png(32, 32), uuid="file")).status == 200
    assert os.listdir(outside) == [] and not (tmp_path / "nowhere").exists()
    assert (files / "taken").read_text() == "mine" and not (files / "file" / NAME).is_symlink()
    assert sorted(os.listdir(files)) == ["file", "folder", "nowhere", "taken"]
    wait_for(lambda: server.read_output().count("is a link or no folder") == 3, "a line of each")


def test_the_disk_has_a_budget(start, tmp_path):
    """The oldest go, also those of an earlier run, and nothing else."""
    first = start(ec_transfer_config=connector(tmp_path))
    assert ask(first, image_part(png(64, 64), uuid="probe")).status == 200
    size = (tmp_path / "probe" / NAME).stat().st_size
    os.utime(tmp_path / "probe" / NAME, (1, 1))
    other = tmp_path / "else"
    other.mkdir()
    (other / "notes").write_bytes(b"x" * 100 * size)
    (tmp_path / ".0123456789abcdef.part").write_bytes(b"x")
    os.utime(tmp_path / ".0123456789abcdef.part", (1, 1))
    (tmp_path / ".fedcba9876543210.part").write_bytes(b"x")
    server = start(ec_transfer_config=connector(tmp_path), encodings_files_bytes=5 * size + 10)

    def kept():
        return sorted(path.parent.name for path in tmp_path.glob(f"*/{NAME}"))

    for n in range(12):
        assert ask(server, image_part(png(64, 64, n), uuid=f"image-{n:02}")).status == 200
        assert len(kept()) <= 5 and f"image-{n:02}" in kept()
    assert len(kept()) >= 4 and kept() == [f"image-{n:02}" for n in range(12 - len(kept()), 12)]
    # No empty folders; the part that nobody finished is gone, the new one is not.
    assert sorted(os.listdir(tmp_path)) == sorted([*kept(), "else", ".fedcba9876543210.part"])
    small = start(ec_transfer_config=connector(tmp_path), encodings_files_bytes=size // 2)
    assert ask(small, image_part(png(64, 64, 12), uuid="large")).status == 500
    assert (other / "notes").exists() and "large" not in os.listdir(tmp_path)


def test_the_documented_clean_up_leaves_nothing(start, tmp_path):
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "encoder-node.md").read_text()
    (command,) = re.findall(r"^    (find DIR .*)$", page, re.M)
    server = start(ec_transfer_config=connector(tmp_path))
    for key in ("old", "new"):
        assert ask(server, image_part(png(32, 32), uuid=key)).status == 200
    os.utime(tmp_path / "old" / NAME, (1, 1))
    subprocess.run(command.replace("DIR", str(tmp_path)), shell=True, check=True)
    assert os.listdir(tmp_path) == ["new"] and (tmp_path / "new" / NAME).exists()
    assert ask(server, image_part(png(32, 32), uuid="old")).status == 200 and (tmp_path / "old" / NAME).exists()


@pytest.mark.parametrize("changes, reason", [
    ({"ec_role": "ec_consumer"}, "ec_role"), ({"ec_connector": "ECMooncakeConnector"}, "ec_connector"),
    ({"ec_connector_extra_config": {}}, "shared_storage_path"), ({"else": 1}, 'unknown key "else"'),
    ({"ec_connector_extra_config": {"shared_storage_path": "/proc/no/where"}}, "shared_storage_path: /proc/no/where"),
])
def test_a_wrong_configuration_is_reported(omma, model, changes, reason):
    command = [omma, "serve", model, "--port", "0", "--ec-transfer-config", connector("/tmp", **changes)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and reason in done.stderr.splitlines()[-1]
