"""Each refusal, with its kind and the part of the message that names the fault. Nothing is written
before one."""

import numpy as np
import ommatidia
import pytest
from oracle import normal

Q = normal(0, 10, 4, 16)
Q4 = normal(0, 2, 5, 4, 16)
FUSED = normal(0, 2, 5, 64)
LONG = np.zeros((2, 1), np.float32)


def strided(x, shape, strides):
    return np.lib.stride_tricks.as_strided(x, shape, strides)


def frozen(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def case(error, match, *arguments, **settings):
    return pytest.param(error, match, arguments, settings, id=match)


@pytest.mark.parametrize(
    ("error", "match", "arguments", "settings"),
    [
        case(TypeError, "k: expected a NumPy array or a PyTorch tensor, found list", Q, [[1.0]], Q),
        case(TypeError, "q: a masked array", np.ma.masked_array(Q), Q, Q),
        case(ValueError, "q: expected float32, .* found float64", Q.astype(np.float64), Q, Q),
        case(ValueError, "q: expected float32, .* found uint16", Q.view(np.uint16), Q, Q),
        case(ValueError, "q: expected float32, .* found >f4", Q.astype(">f4"), Q, Q),
        case(ValueError, "v: float16, but q is float32", Q, Q, Q.astype(np.float16)),
        case(ValueError, "q: expected shape .*, found .10, 64.", Q.reshape(10, 64), Q, Q),
        case(ValueError, "q: expected shape .*, found .1, 2, 5, 4, 16.", Q4[None], Q4, Q4),
        case(ValueError, "q: expected shape .batch, tokens, heads . head_dim.", Q4, Q4, Q4, num_heads=4),
        case(ValueError, "k: rank 4, but q has 3", Q, Q[None], Q),
        case(ValueError, "k: batch 1, but q has 2", Q4, Q4[:1], Q4[:1]),
        case(ValueError, "v: batch 1, but q has 2", Q4, Q4, Q4[:1]),
        case(ValueError, "v: tokens 9, but k has 10", Q, Q, Q[:9]),
        case(ValueError, "v: expected 4 heads as stated, found 2", Q, Q, Q[:, :2]),
        case(ValueError, "k: expected 2 heads as stated, found 4", Q, Q, Q, num_kv_heads=2),
        case(ValueError, "k: head dimension 8, but q has 16", Q, Q[:, :, :8], Q),
        case(ValueError, "k: expected heads that divide those of q .4., found 3", Q, Q[:, :3], Q[:, :3]),
        case(ValueError, "k: expected at least 1 head", Q, Q[:, :0], Q[:, :0]),
        case(ValueError, "v: expected at least 1 head", Q, Q, Q[:, :, :0]),
        case(ValueError, "q: rows of 64 elements do not divide into 5 heads", FUSED, FUSED, FUSED, num_heads=5),
        case(ValueError, "q: rows of 64 elements do not divide into 0 heads", FUSED, FUSED, FUSED, num_heads=0),
        case(
            ValueError,
            "k: head dimension 20, but q has 16",
            FUSED,
            FUSED[:, :, :60],
            FUSED[:, :, :60],
            num_heads=4,
        ),
        case(NotImplementedError, "^q: head dimension: expected at most 256, found 257", *[normal(0, 3, 1, 257)] * 3),
        case(
            NotImplementedError,
            r"^q: head dimension: expected at most 256, found 1152 in shape .2, 5, 1152., taken as .* give num_heads$",
            *[normal(0, 2, 5, 1152)] * 3,
        ),
        case(ValueError, "k: head dimension 32, but q has 64; .* give num_heads$", FUSED, FUSED[:, :, :32], FUSED[:, :, :32]),
        case(ValueError, "divide those of q .5., found 3; .* give num_heads$", FUSED, FUSED[:, :3], FUSED[:, :3]),
        case(NotImplementedError, "^v: head dimension: expected at most 256, found 257", Q, Q, normal(0, 10, 4, 257)),
        case(ValueError, "^q: number of heads: expected at most 4096, found 2147", *[strided(LONG, (0, 2**33, 1), (0, 4, 4))] * 3),
        case(ValueError, "^q: number of tokens: expected at most 2147483648", *[strided(LONG, (2**32, 1, 1), (4, 4, 4))] * 3),
        case(
            ValueError,
            "v: last dimension not contiguous: expected a stride of 1, found 2",
            Q[:, :, :8],
            Q[:, :, :8],
            Q[:, :, ::2],
        ),
        case(
            ValueError,
            "k: irregular batch stride: expected 3 tokens . 64 = 192 elements, found 320",
            Q4[:, :3].copy(),
            Q4[:, :3],
            Q4[:, :3].copy(),
        ),
        case(ValueError, "k: the heads are one piece of memory repeated", Q, np.broadcast_to(Q[:, :1], Q.shape), Q),
        case(ValueError, "v: the tokens are one piece of memory repeated", Q, Q, np.broadcast_to(Q[:1], Q.shape)),
        case(ValueError, "v: the tokens are one piece of memory repeated", Q4, Q4, np.broadcast_to(Q4[:1, :1], Q4.shape)),
        case(
            ValueError, "q: elements that are not aligned", np.zeros(2561, np.uint8)[1:].view(np.float32).reshape(Q.shape), Q, Q
        ),
        case(ValueError, "cu_seqlens: expected int32 or int64, found float64", Q, Q, Q, [0.0, 10.0]),
        case(ValueError, "cu_seqlens: expected int32 or int64, found uint32", Q, Q, Q, np.array([0, 10], np.uint32)),
        case(ValueError, "cu_seqlens: expected one dimension of n_segments . 1 entries, found shape .0.", Q, Q, Q, []),
        case(ValueError, "cu_seqlens: expected one dimension .* found shape .1, 2.", Q, Q, Q, [[0, 10]]),
        case(ValueError, "cu_seqlens: expected one dimension .* found shape .0.", Q, Q, Q, np.empty(0, np.int32)),
        case(ValueError, r"cu_seqlens.0.: expected 0, found 1", Q, Q, Q, [1, 10]),
        case(ValueError, r"cu_seqlens.2.: expected at least the entry before, 5, found 4", Q, Q, Q, [0, 5, 4]),
        case(ValueError, r"cu_seqlens.1.: expected at most the 10 rows of q, found 11", Q, Q, Q, [0, 11]),
        case(ValueError, r"cu_seqlens.1.: expected at most the 10 rows", Q, Q, Q, [0, 2**62]),
        case(ValueError, r"cu_seqlens.1.: expected at most the 9 rows of k, found 10", Q, Q[:9], Q[:9], [0, 10]),
        case(ValueError, r"cu_seqlens_k.1.: expected at most the 9 rows of k", Q, Q[:9], Q[:9], [0, 10], cu_seqlens_k=[0, 10]),
        case(ValueError, "cu_seqlens_k: expected 2 entries as in cu_seqlens, found 3", Q, Q, Q, [0, 9], cu_seqlens_k=[0, 9, 9]),
        case(ValueError, "cu_seqlens_k: given without cu_seqlens", Q, Q, Q, cu_seqlens_k=[0, 9]),
        case(TypeError, "^scale: expected a number, found 'x'$", Q, Q, Q, scale="x"),
        case(TypeError, "^threads: expected an integer, found '2'$", Q, Q, Q, threads="2"),
        case(TypeError, "^num_heads: expected an integer, found '4'$", FUSED, FUSED, FUSED, num_heads="4"),
        case(TypeError, "^num_kv_heads: expected an integer, found 2.5$", FUSED, FUSED, FUSED, num_heads=4, num_kv_heads=2.5),
        case(ValueError, "scale: expected a finite number, found nan", Q, Q, Q, scale=float("nan")),
        case(ValueError, "scale: expected a finite number, found inf", Q, Q, Q, scale=1e39),
        case(ValueError, "scale: expected a number that is not 0", Q, Q, Q, scale=0.0),
        case(ValueError, "scale: expected a number that is not 0 in float32, found 1e-60", Q, Q, Q, scale=1e-60),
        case(ValueError, "k: expected as many tokens as q has .10. with causal, found 9", Q, Q[:9], Q[:9], causal=True),
        case(ValueError, "cu_seqlens_k: expected None with causal", Q, Q, Q, [0, 9], cu_seqlens_k=[0, 9], causal=True),
        case(NotImplementedError, "causal: expected float32 or bfloat16, but q is float16", *[Q.astype(np.float16)] * 3, causal=True),
        case(ValueError, "out: expected shape .10, 4, 16., found .9, 4, 16.", Q, Q, Q, out=np.empty_like(Q[:9])),
        case(ValueError, "out: float16, but q is float32", Q, Q, Q, out=np.empty(Q.shape, np.float16)),
        case(ValueError, "out: read-only", Q, Q, Q, out=frozen(Q)),
        case(ValueError, "out: its memory overlaps that of q", Q, Q.copy(), Q.copy(), out=Q),
        case(ValueError, "out: last dimension not contiguous", Q, Q, Q, out=np.empty((10, 4, 32), np.float32)[:, :, ::2]),
        case(ValueError, "out: the heads are one piece of memory", Q, Q, Q, out=strided(Q.copy(), Q.shape, (64, 0, 4))),
        case(ValueError, "threads: expected 1 to 1024, found 0", Q, Q, Q, threads=0),
        case(ValueError, "threads: expected 1 to 1024, found 1025", Q, Q, Q, threads=1025),
        case(TypeError, "integer", Q, Q, Q, threads=1.5),
        case(ValueError, "team: expected .* found 'mine'", Q, Q, Q, team="mine"),
    ],
)
def test_refused(error, match, arguments, settings):
    before = [x.tobytes() for x in (Q, Q4, FUSED)]
    with pytest.raises(error, match=match):
        ommatidia.attention(*arguments, **settings)
    assert [x.tobytes() for x in (Q, Q4, FUSED)] == before


def test_set_num_threads_refuses():
    for n in (0, -1, 1025):
        with pytest.raises(ValueError, match=f"threads: expected 1 to 1024, found {n}"):
            ommatidia.set_num_threads(n)
