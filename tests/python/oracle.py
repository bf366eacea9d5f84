"""Attention in float64 with plain NumPy, one segment and head at a time, and inputs for it."""

from __future__ import annotations

import numpy as np

# What a result may be off: by the rounding of its type and of the probabilities, in units of the
# weighted mean of |v|, and by the rounding of the scores, in units of the largest score. The oracle
# gets the rounded inputs.
TOLERANCE = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
SCORE_TOLERANCE = 2.0**-22


def oracle(q, k, v, cu_q, cu_k, scale, causal):
    """q [T, H, D], k [S, Hkv, D], v [S, Hkv, Dv] -> out [T, H, Dv] and how far a result may be from
    it."""
    out, bound = np.zeros((2, q.shape[0], q.shape[1], v.shape[2]))
    group = q.shape[1] // k.shape[1]
    for s in range(len(cu_q) - 1):
        rows, keys = slice(cu_q[s], cu_q[s + 1]), slice(cu_k[s], cu_k[s + 1])
        if rows.start == rows.stop or keys.start == keys.stop:
            continue
        for h in range(q.shape[1]):
            kh, vh = k[keys, h // group], v[keys, h // group]
            scores = scale * q[rows, h] @ kh.T
            if causal:
                scores[np.triu_indices(scores.shape[0], 1)] = -np.inf
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            out[rows, h] = weights @ vh
            largest = (np.abs(scale * q[rows, h]) @ np.abs(kh).T).max(axis=1, keepdims=True)
            bound[rows, h] = (weights @ np.abs(vh)) * (1 + largest * SCORE_TOLERANCE / TOLERANCE["float32"])
    return out, bound


def assert_attention(found, q, k, v, cu_q, cu_k=None, scale=None, causal=False, type_name=None):
    """Element by element: where the oracle has zeros, zeros are expected."""
    scale = 1.0 / np.sqrt(q.shape[2]) if scale is None else scale
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    expected, bound = oracle(q, k, v, cu_q, cu_q if cu_k is None else cu_k, scale, causal)
    tolerance = TOLERANCE[type_name or found.dtype.name]
    assert found.shape == expected.shape
    error = np.abs(np.asarray(found, np.float64) - expected)
    assert (error <= tolerance * bound).all(), f"worst error {np.max(error / np.maximum(bound, 1e-300)):.3g} of its bound"


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def normal(seed, *shape, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32).astype(dtype)
