"""Vision-language models on CPUs: answers, vectors, vision towers, and packed attention for NumPy
and PyTorch.

    model = ommatidia.Model("qwen3-vl-2b")
    print(model.chat("What is it?", image="cat.jpg"))
    [embeddings] = ommatidia.Tower(directory).encode("cat.jpg")
    out = ommatidia.attention(q, k, v, cu_seqlens)

In attention the tokens of many images lie end to end, each image attends only to itself, and its
result does not depend by one bit on its neighbours, its place, the strides or the number of
threads."""

from ._answers import Answer, BadRequest, Logprob, Piece, Ranked, RequestError, RequestFailed, ToolCall, Usage
from ._attention import attention
from ._info import info, self_test
from ._model import AsyncStream, Model, Stream, max_sim
from ._segmentation import Segmentation
from ._teams import get_num_threads, set_num_threads
from ._tower import Tower

__version__ = "0.2.0"

__all__ = [
    "Answer",
    "AsyncStream",
    "BadRequest",
    "Logprob",
    "Model",
    "Piece",
    "Ranked",
    "RequestError",
    "RequestFailed",
    "Segmentation",
    "Stream",
    "ToolCall",
    "Tower",
    "Usage",
    "__version__",
    "attention",
    "get_num_threads",
    "info",
    "max_sim",
    "self_test",
    "set_num_threads",
]
