"""`omma info` and `omma verify`.

Run with: pytest tests/cli --omma build/release/omma
"""

import json
import shutil
import struct

import pytest

from omma_program import read_safetensors, refused


def test_info(omma, no_weights):
    info = omma.json("info", "--json")
    assert "scalar" in info["levels"] and info["f32_gflops"] > 0 and info["kernels"] and "model" not in info
    with_model = omma.json("info", "--json", "--model", no_weights)
    assert with_model["model"]["n_layers"] > 0 and with_model["model"]["memory"]["total_bytes"] > 0
    assert omma.json("info", "--json", no_weights)["model"] == with_model["model"]
    assert omma("info", no_weights, "--model", no_weights).returncode == 2
    done = omma("info", "--model", no_weights)
    assert done.returncode == 0 and b"Kernels" in done.stdout and b"Model" in done.stdout


def test_info_names_window_kernels(omma):
    for level in omma.json("info", "--json")["levels"]:
        kernels = {kernel["operation"]: kernel["kernel"] for kernel in omma.json("info", "--json", "--isa", level)["kernels"]}
        expected = "window_bf16_64_avx512_bf16" if level == "avx512_bf16" else None
        assert kernels.get("attention windows bf16") == expected
        assert "attention windows f32" not in kernels


def test_info_states_why_a_level_is_used(omma, monkeypatch):
    def why(*words):
        found = {finding["operation"]: finding["kernel"] for finding in omma.json("info", "--json", *words)["kernels"]}
        return found["cpu level"], found["cpu level, why"]

    monkeypatch.delenv("OMMA_ISA", raising=False)
    best, reason = why()
    assert "the highest there is" in reason or "this machine lacks" in reason
    assert "AMX" not in reason  # only the build with a model of it has a caveat
    assert why("--isa", "scalar") == ("scalar", f"forced by isa; the best here is {best}")
    monkeypatch.setenv("OMMA_ISA", "scalar")
    assert why() == ("scalar", f"forced by OMMA_ISA; the best here is {best}")
    assert b"forced by OMMA_ISA" in omma("info").stdout


def test_info_names_a_kernel_for_every_head_dimension(omma):
    kernels = {kernel["operation"]: kernel["kernel"] for kernel in omma.json("info", "--json")["kernels"]}
    for form, types, most in (("encoder", ("f32", "bf16", "f16"), 256), ("causal", ("f32", "bf16"), 256), ("decode", ("f32", "bf16"), 1024)):
        for dtype in types:
            ranges = [name.split("D ")[1].split("-") for name in kernels if name.startswith(f"attention {form} {dtype}, D ")]
            dims = [dim for first, last in ranges for dim in range(int(first), int(last) + 1)]
            assert dims == list(range(1, most + 1))
    assert "multiples of 8" in kernels["attention head dimensions D"]


def test_info_of_a_level(omma):
    assert omma.json("info", "--json", "--isa", "scalar", "--threads", "1")["threads"] == 1
    missing = {"avx2", "avx2_vnni", "neon"} - set(omma.json("info", "--json")["levels"])
    for level in missing:
        refused(omma("info", "--isa", level), 1, level)


def test_verify(omma, model):
    found = omma.json("verify", "--json")
    assert found["ok"] is True and found["kernels"] and "files" not in found
    found = omma.json("verify", "--json", "--model", model)
    assert found["ok"] is True and found["files"]


def test_verify_finds_a_broken_tensor(omma, model, tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(model, folder)
    weights = sorted(folder.glob("*.safetensors"))
    file = next((path for path in weights if path.name.startswith("model")), None)
    header, data = read_safetensors(file)
    name, entry = next((name, entry) for name, entry in header.items() if entry["dtype"] in ("F32", "BF16"))
    whole = bytearray(file.read_bytes())
    start = len(whole) - len(data) + entry["data_offsets"][0]
    size = 4 if entry["dtype"] == "F32" else 2
    whole[start : start + size] = b"\xff" * size
    file.write_bytes(whole)
    done = omma("verify", "--json", "--model", folder)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    found = json.loads(done.stdout)
    assert found["ok"] is False
    assert any(not check["ok"] and name in check["what"] + check["details"] for check in found["files"])


@pytest.mark.parametrize("broken", ["config.json", "model.safetensors", "nothing"])
def test_verify_of_what_cannot_be_opened(omma, model, tmp_path, broken):
    """JSON all the same, with the line of stderr as a finding."""
    folder = tmp_path / "broken"
    if broken != "nothing":
        shutil.copytree(model, folder)
        (folder / broken).write_bytes((folder / broken).read_bytes()[:90])
    done = omma("verify", "--json", folder)
    said = done.stderr.decode()
    assert done.returncode == 1 and said.count("\n") == 1
    found = json.loads(done.stdout)
    assert found["ok"] is False and all(check["ok"] for check in found["kernels"])
    assert [(check["ok"], check["what"]) for check in found["files"]] == [(False, str(folder))]
    assert said == f"omma: {found['files'][0]['details']}\n"
    refused(omma("verify", folder), 1, found["files"][0]["details"])


@pytest.mark.parametrize("change, said", [({"shape": [-1]}, "expected shape"), ({"dtype": "I16"}, "expected type")])
def test_verify_reports_a_wrong_tensor_once(omma, model, tmp_path, change, said):
    folder = tmp_path / "wrong"
    shutil.copytree(model, folder)
    file = next(path for path in sorted(folder.glob("*.safetensors")) if path.name.startswith("model"))
    header, data = read_safetensors(file)
    # The same bytes as numbers of the same size, or all in one row.
    name, entry = next((name, entry) for name, entry in header.items() if entry["dtype"] == "BF16" and len(entry["shape"]) > 1)
    entry.update(change)
    if entry["shape"] == [-1]:
        entry["shape"] = [(entry["data_offsets"][1] - entry["data_offsets"][0]) // 2]
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)
    done = omma("verify", "--json", "--model", folder)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    wrong = [check for check in json.loads(done.stdout)["files"] if not check["ok"]]
    assert [check["what"] for check in wrong] == [name] and said in wrong[0]["details"]


def test_verify_shows_names_without_what_terminals_obey(omma, model, tmp_path):
    folder = tmp_path / "named"
    shutil.copytree(model, folder)
    file = next(path for path in sorted(folder.glob("*.safetensors")) if path.name.startswith("model"))
    header, data = read_safetensors(file)
    name = next(name for name in header if name != "__metadata__")
    header["\x1b[2Jevil\x9b5m\u202etensor"] = header.pop(name)
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)
    done = omma("verify", "--model", folder)
    assert done.returncode == 1
    assert b" [2Jevil  5m   tensor" in done.stdout and b"\x1b" not in done.stdout and b"\xc2\x9b" not in done.stdout
