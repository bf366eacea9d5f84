"""attn_implementation="ommatidia" in Hugging Face transformers: towers next to sdpa, what is left
to sdpa, compile and export."""

import logging

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import ommatidia.transformers as implementation  # noqa: E402
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen3VLConfig  # noqa: E402
from transformers import Qwen3VLForConditionalGeneration  # noqa: E402
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl  # noqa: E402

GRID = torch.tensor([[1, 8, 12], [2, 20, 14], [1, 2, 2]])
TEXT = dict(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, intermediate_size=96, vocab_size=128,
    max_position_embeddings=512, rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[4, 6, 6]),
)
TOKENS = dict(image_token_id=120, video_token_id=121, vision_start_token_id=122, vision_end_token_id=123)
MODELS = {
    "qwen2_5_vl": (
        Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLConfig,
        dict(depth=4, hidden_size=160, num_heads=2, intermediate_size=96, out_hidden_size=64, fullatt_block_indexes=[2]),
    ),
    "qwen3_vl": (
        Qwen3VLForConditionalGeneration, Qwen3VLConfig,
        dict(depth=3, hidden_size=128, num_heads=2, intermediate_size=96, out_hidden_size=64, num_position_embeddings=64,
             deepstack_visual_indexes=[1]),
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def registered(caplog):
    implementation.register()
    implementation._warn_of_fallback.cache_clear()
    caplog.set_level(logging.WARNING)


@pytest.fixture
def calls(monkeypatch):
    """The number of segments of each call of the operator."""
    seen = []

    def spy(q, k, v, cu_seqlens, scale):
        seen.append(None if cu_seqlens is None else len(cu_seqlens) - 1)
        return operator(q, k, v, cu_seqlens, scale)

    operator = implementation.encoder_attention
    monkeypatch.setattr(implementation, "encoder_attention", spy)
    return seen


def make(family, attention, dtype=torch.float32):
    model_class, config_class, vision = MODELS[family]
    torch.manual_seed(1)
    config = config_class(vision_config=vision, text_config=TEXT, **TOKENS)
    model = model_class._from_config(config, attn_implementation=attention, dtype=dtype).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    return model


def patches(tower, grid=GRID, dtype=torch.float32):
    n_patches, width = int(grid.prod(-1).sum()), 3 * 2 * tower.config.patch_size**2
    return torch.randn(n_patches, width, generator=torch.Generator().manual_seed(n_patches)).to(dtype)


def run(tower, dtype=torch.float32):
    with torch.no_grad():
        return tower(patches(tower, dtype=dtype), GRID).pooler_output.float()


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_same_tower_as_sdpa(family, dtype, tolerance, calls):
    found = run(make(family, "ommatidia", dtype).model.visual, dtype)
    # One call a layer, all images and temporal patches in it; windows of 4 x 4 tokens in all layers
    # but one.
    assert calls == ([15, 15, 4, 15] if family == "qwen2_5_vl" else [4, 4, 4])
    expected = run(make(family, "sdpa", dtype).model.visual, dtype)
    assert (found - expected).norm() <= tolerance * expected.norm() and expected.norm() > 0


@pytest.mark.parametrize("family", MODELS)
def test_same_tokens_as_sdpa(family, calls, caplog):
    grid = torch.tensor([[1, 4, 6]])
    prompt = torch.tensor([[5, 122, *[120] * 6, 123, 7, 8, 9]])
    answers = {}
    for attention in ("sdpa", "ommatidia"):
        model = make(family, attention)
        answers[attention] = model.generate(
            input_ids=prompt, attention_mask=torch.ones_like(prompt), mm_token_type_ids=(prompt == 120).int(),
            pixel_values=patches(model.model.visual, grid), image_grid_thw=grid, max_new_tokens=8, do_sample=False,
        ).tolist()  # fmt: skip
    assert answers["ommatidia"] == answers["sdpa"]
    assert calls and not caplog.messages  # the text model's layers are sdpa's by design


def test_for_the_tower_alone(calls):
    model = make("qwen3_vl", {"vision_config": "ommatidia", "text_config": "sdpa"})
    run(model.model.visual)
    assert calls == [4, 4, 4]


def test_other_implementations_are_asked_for_as_before():
    asked = modeling_qwen2_5_vl.is_flash_attention_requested
    implementation.register()
    assert modeling_qwen2_5_vl.is_flash_attention_requested is asked
    config = make("qwen2_5_vl", "sdpa").config
    assert not asked(config.vision_config)
    assert not asked(make("qwen2_5_vl", "ommatidia").config.text_config)
    assert asked(requested_attention_implementation="flash_attention_2") and not asked(requested_attention_implementation="sdpa")


class Module(torch.nn.Module):
    is_causal = False


def attend(q=None, mask=None, k=None, **named):
    q = torch.randn(1, 2, 30, 16, generator=torch.Generator().manual_seed(3)) if q is None else q
    return implementation.attention_forward(Module(), q, q if k is None else k, q, mask, **named)[0]


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (dict(q=torch.randn(1, 2, 30, 16, dtype=torch.float64)), "query is torch.float64"),
        (dict(position_bias=torch.zeros(1, 2, 30, 30)), "position_bias is given"),
        (dict(q=torch.randn(1, 2, 30, 16, requires_grad=True)), "gradients are asked for"),
        (dict(mask=torch.ones(1, 1, 30, 30, dtype=torch.bool)), None),
        (dict(is_causal=True), None),
    ],
)
def test_what_is_left_to_sdpa(named, message, calls, caplog):
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    q = named.get("q", torch.randn(1, 2, 30, 16, generator=torch.Generator().manual_seed(3)))
    others = {name: value for name, value in named.items() if name not in ("q", "mask")}
    expected = sdpa_attention_forward(Module(), q, q, q, named.get("mask"), **others)[0]
    for _ in range(2):
        assert torch.equal(attend(**named), expected)
    assert not calls and len(caplog.messages) == (message is not None)
    assert message is None or message in caplog.text


def test_segments_left_to_sdpa_do_not_see_each_other(calls, caplog):
    q = torch.randn(1, 2, 30, 16, dtype=torch.float64)
    borders = torch.tensor([0, 10, 30], dtype=torch.int32)
    both = attend(q, cu_seq_lens_q=borders, cu_seq_lens_k=borders)
    assert torch.equal(both[:, 10:], attend(q[:, :, 10:])) and not calls


@pytest.mark.parametrize("family", MODELS)
def test_a_tower_is_exported_with_one_operator_a_layer(family):
    from transformers.vision_utils import get_vision_cu_seqlens

    tower = make(family, "ommatidia").model.visual
    attention = tower.blocks[0].attn
    x = torch.randn(1, int(GRID.prod(-1).sum()), attention.dim if hasattr(attention, "dim") else tower.config.hidden_size)[0]
    borders = get_vision_cu_seqlens(GRID)
    angles = torch.randn(x.shape[0], x.shape[1] // 2, generator=torch.Generator().manual_seed(4))
    arguments = dict(cu_seqlens=borders, position_embeddings=(angles.cos(), angles.sin()))
    with torch.no_grad():
        program = torch.export.export(attention, (x,), arguments)
        compiled = torch.compile(attention, backend="aot_eager", fullgraph=True)
        expected = attention(x, **arguments)
        assert str(program.graph).count("torch.ops.ommatidia.encoder_attention.default") == 1
        assert torch.allclose(program.module()(x, **arguments), expected, atol=1e-6)
        assert torch.allclose(compiled(x, **arguments), expected, atol=1e-6)
