"""A vision tower of libomma (include/omma/tower.h): normalised patches in, embeddings out."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Iterable, Mapping
from ctypes import c_size_t, c_void_p
from pathlib import Path
from typing import Any, Literal, NoReturn, cast, overload

import numpy as np

from . import _teams
from ._attention import Workspaces
from ._declarations import ATTENTION_FUNCTIONS, F32, OMMA_FUNCTIONS, Error, TowerInfo, TowerInput, TowerOptions, TowerTensor
from ._library import bind, check, integer
from ._media import ImageLike, is_single_image
from ._paths import find_model
from ._pixels import Patches, Processor
from ._tensors import TensorT, empty_f32, is_tensor, view_of

LIBRARY_PATH = Path(__file__).with_name("libomma.so")
LIBRARY_NAME = "libomma.so.1"  # where an installed one is found

_FUNCTIONS = {"omma_attention_layout": ATTENTION_FUNCTIONS["omma_attention_layout"], **OMMA_FUNCTIONS}
_TABLES = ("omma_attention_layout", "omma_layout")
_WEIGHTS = {"auto": 0, "float32": 1, "bfloat16": 2, "int8": 3}



@functools.cache
def _library() -> ctypes.CDLL:
    """libomma next to this package, or where the system's loader finds it. ImportError where there
    is none."""
    try:
        return bind(LIBRARY_PATH if LIBRARY_PATH.exists() else Path(LIBRARY_NAME), _FUNCTIONS, _TABLES)
    except ImportError as error:
        raise ImportError(
            f"{error}. Towers need libomma, the whole library: `make python` puts it into its tree, `pip install ./python` "
            "builds it where its packages are installed (tools/install_packages.sh build)"
        ) from error


_workspaces = Workspaces()


def _numbers(grid_thw: Any) -> np.ndarray[Any, Any]:
    """[n, 3] int64 of a list, an array or a tensor."""
    grid = np.asarray(grid_thw.cpu().numpy() if is_tensor(grid_thw) else grid_thw)
    if grid.ndim != 2 or grid.shape[1] != 3 or grid.dtype.kind not in "iu":
        raise ValueError(f"grid_thw: expected integers [n, 3], found {grid.dtype} {list(grid.shape)}")
    return grid.astype(np.int64)


def _tensor_list(tensors: Mapping[str, Any]) -> tuple[Any, list[object]]:
    """An array for the C interface, and what must live as long as it."""
    listed, kept = (TowerTensor * len(tensors))(), []
    for entry, (name, tensor) in zip(listed, tensors.items(), strict=True):
        whole: Any = tensor.contiguous() if is_tensor(tensor) else np.ascontiguousarray(tensor)
        view, spelled = view_of(name, whole.detach() if is_tensor(whole) else whole), name.encode()
        if not 1 <= len(view.layout.shape) <= 8:
            raise ValueError(f"{name}: expected 1 to 8 dimensions, found shape {list(view.layout.shape)}")
        entry.name, entry.type, entry.n_dims, entry.data = spelled, view.layout.dtype, len(view.layout.shape), view.address
        entry.shape[: entry.n_dims] = view.layout.shape
        kept += [whole, spelled]
    return listed, kept


class Tower:
    """The vision tower of a checkpoint of any family, with merger or projector.

        tower = ommatidia.Tower(directory, weights="bfloat16")
        [embeddings] = tower.encode(pixel_values, [[1, 64, 64]])

    All images and videos of a call run as one packed batch; each one's embeddings have the same
    bits as alone, on any number of threads."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        weights: Literal["auto", "float32", "bfloat16", "int8"] = "auto",
        *,
        tensors: Mapping[str, Any] | None = None,
        config_only: bool = False,
        threads: int | None = None,
    ) -> None:
        """Reads config.json of the Hugging Face checkpoint in `directory`, or of what else `Model`
        finds by a name ("demo"), and packs the tower's weights, once.

        weights: what linear layers compute in; "auto" is bfloat16 where the CPU has a fast path for
        it, else float32. tensors: the weights by their names in the checkpoint, NumPy arrays or
        PyTorch tensors, which may be given up afterwards. None: those of the directory.
        config_only: read config.json alone, which shows whether there is such a tower; encode
        raises ValueError then. threads: the most that `encode` may run on; None: the CPUs of this
        process.

        Raises ImportError without libomma, FileNotFoundError, ValueError, NotImplementedError or
        MemoryError with one line."""
        if weights not in _WEIGHTS:
            raise ValueError(f"weights: expected one of {', '.join(_WEIGHTS)}, found {weights!r}")
        self._handle: int | None = None
        self._directory, self._processor = os.fsencode(find_model(directory)), cast("Processor | None", None)
        self._lock = threading.Lock()
        self._library = _library()
        options, handle, error = TowerOptions(struct_size=ctypes.sizeof(TowerOptions), weights=_WEIGHTS[weights], config_only=config_only), c_void_p(), Error()
        options.n_threads = 0 if threads is None else integer("threads", threads)
        kept: list[object] = []
        if tensors is not None:
            options.tensors, kept = _tensor_list(tensors)
            options.n_tensors = len(tensors)
        check(self._library.omma_tower_open(self._directory, options, handle, error), error)
        del kept
        self._handle = handle.value
        self._info = TowerInfo()
        self._library.omma_tower_get_info(self._handle, self._info)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._library.omma_tower_close(self._handle)
            self._handle = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a tower is neither copied nor sent to another process: open it there")

    def __repr__(self) -> str:
        info = self.info()
        return (
            f"<ommatidia.Tower {os.fsdecode(self._directory)}: {info['model_type']}, {info['n_parameters'] / 1e6:,.0f} M parameters in "
            f"{info['depth']} layers, {info['weights']} weights ({info['isa']}), embeddings of width {info['width']}>"
        )

    def info(self) -> dict[str, Any]:
        """model_type, isa, weights, sizes and bytes of the tower."""
        values = {name: getattr(self._info, name) for name, *_ in TowerInfo._fields_}
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}

    def preprocess(
        self, images: ImageLike | Iterable[ImageLike], *, min_pixels: int | None = None, max_pixels: int | None = None
    ) -> Patches:
        """Resizes images and cuts them into normalised patches, with the bits of `omma preprocess`.

        images: paths, files or their bytes, uint8 pixels, PIL images, data: URLs, or a single one.
        min_pixels, max_pixels: limits of a resized image's area; None: the checkpoint's."""
        with self._lock:
            if self._processor is None:
                self._processor = Processor(self._library, self._directory)
        listed = [images] if isinstance(images, str) or is_single_image(images) else images
        if not isinstance(listed, Iterable):
            raise TypeError(f"images: expected images or a single one, found {type(listed).__name__}")
        return self._processor(listed, min_pixels, max_pixels)  # type: ignore[arg-type]

    @overload
    def encode(
        self, pixel_values: TensorT, grid_thw: Any, *, threads: int | None = None, team: _teams.TeamName = "own"
    ) -> list[TensorT]: ...
    @overload
    def encode(
        self, pixel_values: ImageLike | Iterable[ImageLike], *, threads: int | None = None, team: _teams.TeamName = "own"
    ) -> list[np.ndarray[Any, Any]]: ...
    def encode(
        self,
        pixel_values: Any,
        grid_thw: Any = None,
        *,
        threads: int | None = None,
        team: _teams.TeamName = "own",
    ) -> list[Any]:
        """The embeddings of images and videos, float32 [1 + n_deepstack, tokens, width] each.

        pixel_values: without grid_thw images, as `preprocess` takes them. With it
        [patches, patch_dim], or any shape of as many values, of all of them one after the other, as
        the checkpoint's processor gives them; NumPy array or PyTorch CPU tensor, contiguous,
        float32 or what the tower computes in. grid_thw: [n, 3], patches in time, rows and columns
        of each. threads, team: as in `attention`. Calls from several threads take turns."""
        if grid_thw is None:
            if (isinstance(pixel_values, np.ndarray) and pixel_values.dtype != np.uint8) or is_tensor(pixel_values):
                raise ValueError("grid_thw: expected with pixel_values; without it, give images")
            pixel_values, grid_thw = self.preprocess(pixel_values)
        grid, view = _numbers(grid_thw), view_of("pixel_values", pixel_values)
        self._check_patches(pixel_values, grid)
        merge, width = self._info.merge_size, self._info.width
        counts = grid.prod(axis=1)
        outputs = [empty_f32(pixel_values, (1 + self._info.n_deepstack, int(n) // merge**2, width)) for n in counts]
        inputs, address = (TowerInput * len(grid))(), view.address
        size = 4 if view.layout.dtype == F32 else 2
        for entry, thw, n_patches, output in zip(inputs, grid.tolist(), counts.tolist(), outputs, strict=True):
            entry.patches, entry.type, entry.output = address, view.layout.dtype, view_of("out", output).address
            entry.grid_thw[:] = thw
            address += n_patches * self._info.patch_dim * size
        if len(grid):
            with self._lock, _teams.lend(team, threads) as lent:
                self._run(inputs, lent)
        return outputs

    def _check_patches(self, pixel_values: Any, grid: np.ndarray[Any, Any]) -> None:
        contiguous = pixel_values.is_contiguous() if is_tensor(pixel_values) else pixel_values.flags.c_contiguous
        if not contiguous:
            raise ValueError("pixel_values: expected contiguous memory")
        if (grid < 1).any() or (grid > 1 << 20).any() or (grid[:, 1:] % self._info.merge_size).any():
            raise ValueError(f"grid_thw: expected rows and columns of positive multiples of {self._info.merge_size}")
        n_values = pixel_values.numel() if is_tensor(pixel_values) else pixel_values.size
        expected = int(grid.prod(axis=1).sum()) * self._info.patch_dim
        if n_values != expected:
            raise ValueError(f"pixel_values: expected {expected} values for these grids, found {n_values}")

    def _run(self, inputs: Any, lent: _teams.Lent) -> None:
        error, size, n = Error(), c_size_t(), len(inputs)
        check(self._library.omma_tower_workspace_size(self._handle, inputs, n, lent.n_workers, size, error), error)
        address, memory = _workspaces.lend(size.value)
        status = self._library.omma_tower_encode(self._handle, inputs, n, address, size, lent.address, error)
        del memory
        check(status, error)
