"""ommatidia.attention on NumPy arrays against float64: forms, strides, segmentations, outputs."""

import numpy as np
import ommatidia
import pytest
from oracle import assert_attention, normal, same_bits

BORDERS = [0, 3, 3, 64, 65, 193]


def batch_borders(b, s):
    return [i * s for i in range(b + 1)]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("head_dim", [1, 16, 64, 72, 80, 128, 256])
def test_packed(dtype, head_dim):
    q, k, v = (normal(seed, 193, 2, head_dim, dtype=dtype) for seed in range(3))
    out = ommatidia.attention(q, k, v, np.array(BORDERS, np.int32))
    assert out.dtype == dtype and out.flags.c_contiguous
    assert_attention(out, q, k, v, BORDERS)


@pytest.mark.parametrize("kv_heads", [6, 3, 2, 1])
def test_grouped_heads(kv_heads):
    q, k, v = normal(0, 193, 6, 40), normal(1, 193, kv_heads, 40), normal(2, 193, kv_heads, 40)
    assert_attention(ommatidia.attention(q, k, v, BORDERS), q, k, v, BORDERS)


def test_four_dimensions_with_other_keys_and_dimensions():
    q, k, v = normal(0, 3, 17, 4, 24), normal(1, 3, 70, 2, 24), normal(2, 3, 70, 2, 40)
    out = ommatidia.attention(q, k, v)
    assert out.shape == (3, 17, 4, 40)
    flat = (x.reshape(-1, *x.shape[2:]) for x in (q, k, v))
    assert_attention(out.reshape(-1, 4, 40), *flat, batch_borders(3, 17), batch_borders(3, 70))


def test_fused_form_is_the_same_as_the_other():
    q, k, v = normal(0, 2, 30, 4 * 24), normal(1, 2, 30, 2 * 24), normal(2, 2, 30, 2 * 24)
    out = ommatidia.attention(q, k, v, num_heads=4)
    assert out.shape == q.shape
    apart = ommatidia.attention(q.reshape(2, 30, 4, 24), k.reshape(2, 30, 2, 24), v.reshape(2, 30, 2, 24))
    assert same_bits(out, apart.reshape(q.shape))
    assert same_bits(out, ommatidia.attention(q, k, v, num_heads=4, num_kv_heads=2))
    wide = ommatidia.attention(q, k, np.concatenate([v, v], axis=2), num_heads=4)
    assert wide.shape == (2, 30, 4 * 48)


def test_a_segmentation_is_as_good_as_its_array():
    q, k, v = (normal(seed, 193, 2, 40) for seed in range(3))
    expected = ommatidia.attention(q, k, v, BORDERS)
    for array in (BORDERS, np.array(BORDERS, np.int32), np.array(BORDERS, np.int64)):
        assert same_bits(ommatidia.attention(q, k, v, ommatidia.Segmentation(array)), expected)
    cross = ommatidia.attention(q, k[:100], v[:100], BORDERS, cu_seqlens_k=ommatidia.Segmentation([0, 1, 1, 50, 60, 100]))
    assert same_bits(cross, ommatidia.attention(q, k[:100], v[:100], BORDERS, cu_seqlens_k=[0, 1, 1, 50, 60, 100]))


def test_a_segmentation_does_not_change_with_its_array():
    q = normal(0, 193, 2, 40)
    array = np.array(BORDERS)
    segmentation = ommatidia.Segmentation(array)
    array[1:] = 193
    assert same_bits(ommatidia.attention(q, q, q, segmentation), ommatidia.attention(q, q, q, BORDERS))
    with pytest.raises(AttributeError):
        segmentation.content = b""


@pytest.mark.parametrize("wrong", [[0.0, 1.0], [[0, 1]], np.array([0, 1], np.int16), []])
def test_no_segmentation(wrong):
    with pytest.raises(ValueError, match="cu_seqlens: expected"):
        ommatidia.Segmentation(wrong)


def test_packed_without_borders_is_one_segment():
    q, k = normal(0, 20, 2, 16), normal(1, 33, 2, 16)
    assert_attention(ommatidia.attention(q, k, k), q, k, k, [0, 20], [0, 33])


def test_borders_run_over_the_flattened_batch():
    q = normal(0, 2, 20, 2, 16)
    out = ommatidia.attention(q, q, q, [0, 15, 25, 40])
    flat = q.reshape(40, 2, 16)
    assert_attention(out.reshape(40, 2, 16), flat, flat, flat, [0, 15, 25, 40])


def test_cross_form_with_segments_without_keys():
    q, k = normal(0, 10, 2, 16), normal(1, 90, 2, 16)
    cu_q, cu_k = [0, 2, 4, 4, 10], [0, 70, 70, 80, 90]
    out = ommatidia.attention(q, k, k, np.array(cu_q, np.int32), cu_seqlens_k=np.array(cu_k, np.int64))
    assert_attention(out, q, k, k, cu_q, cu_k)
    assert not out[2:4].any()


@pytest.mark.parametrize("borders", [None, [0, 4], [0, 0, 4]])
def test_no_keys_at_all(borders):
    q, k = normal(0, 1, 4, 2, 16), normal(1, 1, 0, 2, 16)
    if borders is None:
        assert not ommatidia.attention(q, k, k).any()
        assert not ommatidia.attention(np.concatenate([q, q]), np.concatenate([k, k]), np.concatenate([k, k])).any()
    else:
        with pytest.raises(ValueError, match="cu_seqlens: expected no rows of keys"):
            ommatidia.attention(q, k, k, borders)
        assert not ommatidia.attention(q, k, k, borders, cu_seqlens_k=[0] * len(borders)).any()


@pytest.mark.parametrize("shape", [(0, 2, 16), (0, 5, 2, 16), (3, 0, 2, 16)])
def test_no_queries(shape):
    q = np.empty(shape, np.float32)
    assert ommatidia.attention(q, q, q).shape == shape


def test_no_segment_and_tail_are_zero():
    q = normal(0, 9, 2, 16)
    out = np.full_like(q, np.nan)
    assert ommatidia.attention(q, q, q, [0], out=out) is out and not out.any()
    out = ommatidia.attention(q, q, q, [0, 5], out=np.full_like(q, np.nan))
    assert not out[5:].any() and same_bits(out[:5], ommatidia.attention(q[:5], q[:5], q[:5]))


def test_thousands_of_empty_segments_and_one_long():
    q = normal(0, 700, 2, 32)
    borders = [0] * 1000 + [600] + [600] * 5000 + [601, 700] + [700] * 3000
    assert_attention(ommatidia.attention(q, q, q, borders), q, q, q, [0, 600, 601, 700])


def test_neighbours_do_not_matter():
    q, k, v = (normal(seed, 200, 2, 72) for seed in range(3))
    alone = ommatidia.attention(q[70:150], k[70:150], v[70:150])
    for x in (q, k, v):
        x[:70] = x[150:] = np.nan
    assert same_bits(ommatidia.attention(q, k, v, [0, 70, 150, 200])[70:150], alone)


@pytest.mark.parametrize("scale", [0.05, -1.0, 3])
def test_scale(scale):
    q, k, v = (normal(seed, 50, 2, 16) for seed in range(3))
    assert_attention(ommatidia.attention(q, k, v, scale=scale), q, k, v, [0, 50], scale=scale)


def test_large_logits_stay_finite():
    q = normal(0, 100, 1, 64, dtype=np.float16) * np.float16(200)
    assert np.isfinite(ommatidia.attention(q, q, q)).all()


def test_causal():
    q, k, v = normal(0, 193, 4, 32), normal(1, 193, 2, 32), normal(2, 193, 2, 32)
    assert_attention(ommatidia.attention(q, k, v, BORDERS, causal=True), q, k, v, BORDERS, causal=True)
    assert_attention(ommatidia.attention(q, k, v, causal=True), q, k, v, [0, 193], causal=True)


def test_max_seqlen_is_not_trusted():
    q = normal(0, 193, 2, 16)
    assert same_bits(ommatidia.attention(q, q, q, BORDERS, 1), ommatidia.attention(q, q, q, BORDERS, 10**9))


def test_strides_are_read_in_place():
    fused = normal(0, 193, 3, 4, 72)
    q, k, v = fused[:, 0], fused[:, 1], fused[:, 2]
    expected = ommatidia.attention(*(np.ascontiguousarray(x) for x in (q, k, v)), BORDERS)
    assert same_bits(ommatidia.attention(q, k, v, BORDERS), expected)
    head_first = np.ascontiguousarray(v.transpose(1, 0, 2)).transpose(1, 0, 2)
    assert same_bits(ommatidia.attention(q, k, head_first, BORDERS), expected)
    backwards = np.ascontiguousarray(v[::-1, ::-1])[::-1, ::-1]
    assert backwards.strides[0] < 0 and same_bits(ommatidia.attention(q, k, backwards, BORDERS), expected)
    out = np.full((193, 5, 80), 7, np.float32)
    target = out[:, :4, :72]
    assert ommatidia.attention(q, k, v, BORDERS, out=target) is target
    assert same_bits(target, expected) and (out[:, 4] == 7).all() and (out[:, :, 72:] == 7).all()
    rows = normal(1, 2, 30, 3 * 4 * 8)
    parts = [rows[:, :, i * 32 : (i + 1) * 32] for i in range(3)]
    assert same_bits(ommatidia.attention(*parts, num_heads=4), ommatidia.attention(*(x.copy() for x in parts), num_heads=4))


def test_one_element_dimensions_may_have_any_stride():
    base = normal(0, 4, 6, 8)
    q = np.lib.stride_tricks.as_strided(base, (1, 6, 1, 8), (0, 32, 0, 4))
    assert same_bits(ommatidia.attention(q, q, q), ommatidia.attention(q.copy(), q.copy(), q.copy()))
    q = base[:, :1].reshape(4, 1, 1, 8)
    assert same_bits(ommatidia.attention(q, q, q), base[:, :1].reshape(4, 1, 1, 8))


@pytest.mark.parametrize("out_form", ["given", "made"])
def test_inputs_are_not_changed(out_form):
    q, k, v = (normal(seed, 60, 2, 16) for seed in range(3))
    before = [x.tobytes() for x in (q, k, v)]
    for x in (q, k, v):
        x.flags.writeable = False
    ommatidia.attention(q, k, v, out=np.empty_like(q) if out_form == "given" else None)
    assert [x.tobytes() for x in (q, k, v)] == before


def test_bfloat16_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    q, k, v = (normal(seed, 193, 2, 80, dtype=ml_dtypes.bfloat16) for seed in range(3))
    out = ommatidia.attention(q, k, v, BORDERS)
    assert out.dtype == ml_dtypes.bfloat16
    assert_attention(out, q, k, v, BORDERS)
