"""A checkpoint's image processor: files and pixels to the normalised patches of its tower."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import c_void_p
from typing import Any, NamedTuple

import numpy as np

from ._declarations import Error, ImageOptions, ImageSizes, ModelInfo, ModelOptions
from ._library import check, integer
from ._media import ImageLike, file_of


class Patches(NamedTuple):
    """What a tower takes: pixel_values [patches, patch_dim] of all images one after the other, and
    grid_thw [images, 3], patches in time, rows and columns of each."""

    pixel_values: np.ndarray[Any, np.dtype[np.float32]]
    grid_thw: np.ndarray[Any, np.dtype[np.int64]]


class Processor:
    """Reads the checkpoint's configuration once. Thread-safe."""

    def __init__(self, library: ctypes.CDLL, directory: bytes) -> None:
        self._library, self._model = library, c_void_p()
        # Family: prompts are not written here, so that no template is needed.
        options, error = ModelOptions(struct_size=ctypes.sizeof(ModelOptions), config_only=True, chat_template=1), Error()
        check(library.omma_model_open(directory, options, self._model, error), error)
        info = ModelInfo()
        library.omma_model_get_info(self._model, info)
        self._patch_dim = int(info.patch_dim)

    def __del__(self) -> None:
        self._library.omma_model_close(self._model)

    def _patches(self, image: ImageLike, limits: ImageOptions) -> tuple[np.ndarray[Any, np.dtype[np.float32]], list[int]]:
        library, decoded, sizes, error = self._library, c_void_p(), ImageSizes(), Error()
        content = file_of(image)
        try:
            check(library.omma_image_decode(content, len(content), None, decoded, error), error)
            width, height = library.omma_image_width(decoded), library.omma_image_height(decoded)
            check(library.omma_model_image_sizes(self._model, width, height, limits, sizes, error), error)
            values = np.empty((sizes.n_patches, self._patch_dim), np.float32)
            address = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            check(library.omma_preprocess(self._model, decoded, limits, address, values.size, error), error)
        finally:
            library.omma_image_destroy(decoded)
        return values, list(sizes.grid_thw)

    def __call__(self, images: Iterable[ImageLike], min_pixels: int | None, max_pixels: int | None) -> Patches:
        limits = ImageOptions(min_pixels=integer("min_pixels", min_pixels or 0), max_pixels=integer("max_pixels", max_pixels or 0))
        made = [self._patches(image, limits) for image in images]
        if not made:
            return Patches(np.empty((0, self._patch_dim), np.float32), np.empty((0, 3), np.int64))
        return Patches(np.concatenate([values for values, _ in made]), np.array([grid for _, grid in made], np.int64))
