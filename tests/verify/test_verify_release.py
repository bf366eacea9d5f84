"""tools/verify_release.py with torch and transformers: all families agree, and a weight that was
changed is found in the stage where it stands.

    make test-verify"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
IMAGES = [GOLDEN / "images" / name for name in ("meadow_163x97.jpg", "tile_64x64.png")]
# transformers has no class for dots.ocr.
MODELS = sorted(path.parent for path in GOLDEN.glob("*/golden.json") if not path.parent.name.startswith("dots_ocr"))
MODELS.append(ROOT / "models" / "demo")
CHANGES = (
    ("qwen3_vl_tied", "model.visual.blocks.2.mlp.linear_fc1.weight", "vision.block.2"),
    ("qwen3_vl_tied", "model.visual.merger.linear_fc2.weight", "vision.merged"),
    ("qwen3_vl_tied", "model.language_model.layers.1.mlp.up_proj.weight", "language.layer.1"),
    ("qwen2_5_vl_tied", "model.visual.blocks.1.attn.qkv.weight", "vision.block.1"),
    ("kimi_vl", "vision_tower.encoder.blocks.1.wo.weight", "vision.block.1"),
    ("kimi_vl", "language_model.lm_head.weight", "language.logits"),
    ("paddleocr_vl_saved", "model.projector.linear_2.weight", "vision.merged"),
    ("lighton_ocr_saved", "model.vision_encoder.transformer.layers.1.feed_forward.up_proj.weight", "vision.block.1"),
    ("glm_ocr_saved", "model.visual.merger.down_proj.weight", "vision.merged"),
)


def verify(model, folder, *words):
    report = folder / "report.json"
    command = [sys.executable, ROOT / "tools" / "verify_release.py", "--model", model, "--report", report, "--images", *IMAGES, *words]
    if build := os.environ.get("OMMA_BUILD"):
        command += ["--build", build]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode, json.loads(report.read_text()), done.stdout


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.name)
def test_all_stages_agree(model, tmp_path):
    status, report, said = verify(model, tmp_path)
    assert (status, report["first_difference"]) == (0, None), said
    stages = {row["stage"] for row in report["stages"]}
    assert {"prompt.ids", "vision.block.0", "vision.merged", "language.layer.0", "language.logits", "tokens"} <= stages
    assert "all stages agree" in said


@pytest.mark.parametrize("model", ("qwen3_vl_tied", "qwen2_5_vl_tied", "qwen2_vl_untied", "kimi_vl"))
def test_bf16_agrees_within_its_bounds(model, tmp_path):
    status, report, said = verify(GOLDEN / model, tmp_path, "--dtype", "bf16")
    stages = [row for row in report["stages"] if row["stage"].startswith(("prompt.", "image.", "vision."))]
    assert len(stages) > 10 and all(row["agrees"] for row in stages), said
    # Beyond that a router may choose another expert, and random weights give close calls.
    assert status == 0 or report["first_difference"].startswith(("language.", "tokens")), said


@pytest.mark.parametrize("name, tensor, stage", CHANGES)
def test_a_changed_weight_is_found_where_it_stands(name, tensor, stage, tmp_path):
    changed = tmp_path / name
    shutil.copytree(GOLDEN / name, changed)
    (file,) = changed.glob("model*.safetensors")
    weights = load_file(file)
    values = weights[tensor].flatten()
    values[values.numel() // 2] = 3.0
    file.unlink()
    save_file(weights, file, metadata={"format": "pt"})
    status, report, said = verify(changed, tmp_path, "--official-model", GOLDEN / name)
    assert status == 1 and report["first_difference"].startswith(f"{stage} of"), said
    assert f"the first difference is at {stage} of" in said
