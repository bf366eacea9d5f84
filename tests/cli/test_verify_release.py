"""tools/verify_release.py as far as it goes without torch: arguments, omma's side, comparison of
tokens, the report. `make test-verify` runs all of it."""

import argparse
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "verify_release.py"


@pytest.fixture(scope="module")
def tool():
    sys.path.insert(0, str(TOOL.parent))
    import verify_release

    yield verify_release
    sys.path.remove(str(TOOL.parent))


@pytest.fixture(scope="module")
def build(request):
    folder = pathlib.Path(request.config.getoption("--omma")).resolve().parent
    if not (folder / "tests" / "omma_stages").exists():
        pytest.skip("a build without omma_stages")
    return folder


@pytest.fixture
def options(build, model, images):
    return argparse.Namespace(
        build=build, model=pathlib.Path(model), images=[images / "stamp_20x10.png"], prompt="What is this?", dtype="f32", tokens=5, rows=7
    )


def run(*words):
    done = subprocess.run([sys.executable, TOOL, *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_help_names_the_page():
    status, text, _ = run("--help")
    assert status == 0 and "docs/verified.md" in text and (ROOT / "docs" / "verified.md").is_file()


@pytest.mark.parametrize("words, reason", [
    (["--model", "/none"], "verify_release: /none/config.json: "),
    (["--model", "MODEL", "--build", "/none"], "verify_release: /none/omma is missing: make TESTS=ON"),
    (["--model", "MODEL", "--build", "BUILD", "--images", "/none.png"], "verify_release: /none.png: no such image"),
    (["--model", "MODEL", "--tokens", "0"], "expected a positive number"),
    ([], "--model"),
])
def test_what_cannot_run_is_one_line(words, reason, model, build):
    places = {"MODEL": model, "BUILD": build}
    status, _, said = run(*(places.get(word, word) for word in words))
    assert status == 2 and reason in said.splitlines()[-1] and "Traceback" not in said


def test_other_families_are_named(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    status, _, said = run("--model", tmp_path)
    assert status == 2 and "model_type llama, expected one of qwen2_vl" in said


def test_memory_is_stated_and_missing_memory_refused(tool, capsys):
    tool.check_memory(10**6, "bf16", False)
    assert "0.00 billion parameters in bf16: some 4.3 GB" in capsys.readouterr().out
    with pytest.raises(tool.CannotRun, match="not enough memory"):
        tool.check_memory(10**13, "f32", False)
    tool.check_memory(10**13, "f32", True)


def test_omma_s_stages_are_complete(tool, options):
    config = json.loads((options.model / "config.json").read_text())
    ours = tool.run_omma(options, options.images[0])
    stages = ours["stages"]
    for name, count in (("vision.block", config["vision_config"]["depth"]), ("language.layer", config["text_config"]["num_hidden_layers"])):
        assert [key for key in stages if key.startswith(name)] == [f"{name}.{i}" for i in range(count)]
    assert {"prompt.ids", "image.grid_thw", "image.pixel_values", "vision.position_added", "vision.merged", "language.logits"} <= stages.keys()
    for n_rows, width, data in stages.values():
        assert len(data) % (4 * width) == 0 and len(data) // (4 * width) <= min(n_rows, 7)
    assert 1 <= len(ours["tokens"]) <= 5


def test_tokens_agree_to_a_close_call(tool):
    def compare(ours, theirs, margins, dtype="f32"):
        return tool.compare_tokens("a", ours, theirs, margins, dtype)

    assert compare([1, 2], [1, 2], [9, 9]).agrees
    assert not compare([1, 3], [1, 2], [9, 9]).agrees and "the first 1 of 2" in compare([1, 3], [1, 2], [9, 9]).note
    assert compare([1, 3], [1, 2], [9, 1e-4]).agrees and not compare([1, 3], [1, 2], [9, 1e-2]).agrees
    assert compare([1, 3], [1, 2], [9, 1e-2], "bf16").agrees
    assert not compare([1], [1, 2], [9, 9]).agrees


def test_a_report_names_what_it_is_of(tool, options, capsys):
    rows = [tool.Row("a", "prompt.ids", 0, None, 0, True, "3 values"), tool.Row("a", "vision.block.0", 2.0, 3.0, 1e-3, False)]
    tool.print_table(rows)
    assert "DIFFERS" in capsys.readouterr().out
    report = tool.make_report(options, "qwen3_vl", rows, {"torch": "0"}, {"a": {"text": "words"}})
    assert json.loads(json.dumps(report))["first_difference"] == "vision.block.0 of a" and report["agrees"] is False
    assert report["model"]["family"] == "qwen3_vl" and len(report["model"]["sha256_of_samples"]) == 64
    assert report["omma"].startswith("omma ") and report["images"].keys() == {"stamp_20x10.png"} and len(report["stages"]) == 2
