"""Three images of different size in one call: each attends only to itself, and gets the bits it
would get alone."""

import numpy as np
import ommatidia

HEADS, HEAD_DIM = 16, 72
PATCHES = [1024, 64, 400]

rng = np.random.default_rng(0)
cu_seqlens = np.concatenate([[0], np.cumsum(PATCHES)]).astype(np.int32)
qkv = rng.standard_normal((cu_seqlens[-1], 3, HEADS, HEAD_DIM), dtype=np.float32)
q, k, v = qkv[:, 0], qkv[:, 1], qkv[:, 2]  # views into the fused rows; nothing is copied

out = ommatidia.attention(q, k, v, cu_seqlens)

for begin, end in zip(cu_seqlens[:-1], cu_seqlens[1:], strict=True):
    alone = ommatidia.attention(q[begin:end], k[begin:end], v[begin:end])
    print(f"{end - begin:5} patches: same bits alone: {np.array_equal(out[begin:end], alone)}")
print(f"CPU level {ommatidia.info()['isa']}, threads: {ommatidia.get_num_threads()}")
