"""The official Qwen classes and processors, run on a tiny checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import AutoProcessor
from transformers.image_utils import load_image
from transformers.vision_utils import get_vision_window_index

from fixture_configs import MODEL_CLASSES, QWEN2_FAMILIES
from fixture_stages import Recorder, Tensors, record_language, sample_rows

if TYPE_CHECKING:
    from fixture_models import ModelSpec


def window_order(visual: torch.nn.Module, grid_thw: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The order that a windowed tower takes the merged tokens in, and where its windows end,
    counted in patches."""
    index, ends = get_vision_window_index(grid_thw, visual.spatial_merge_size, visual.window_size, visual.patch_size)
    return index, ends[1:].long()


class QwenOfficial:
    """The official model in float32 and its processor, loaded from a checkpoint directory."""

    resize_options: dict[str, int] = {}  # what the image processor's resize takes besides

    def __init__(self, spec: ModelSpec, folder: Path, images: Path) -> None:
        self.images = images
        self.processor = AutoProcessor.from_pretrained(folder)
        self.model, loading = MODEL_CLASSES[spec.family].from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
        if any(loading.values()):
            raise RuntimeError(f"{folder.name}: the official class does not find its tensors: {loading}")
        self.model.eval()
        self.stamps_videos = spec.family not in QWEN2_FAMILIES  # a time before every pair of frames
        self.image_processor = type(self.processor.image_processor).__name__
        self.stops = self.model.generation_config.eos_token_id
        config = self.model.config
        self.forbidden = range(config.vision_start_token_id, config.video_token_id + 1)

    def grids(self, inputs: dict[str, torch.Tensor], kind: str) -> Any:
        """Of the images or videos: time, rows and columns of patches."""
        return inputs.get(f"{kind}_grid_thw", ())

    def prompt_text(self, case: Any) -> str:
        options = {"continue_final_message" if case.continued else "add_generation_prompt": True}
        return self.processor.apply_chat_template(case.messages, tokenize=False, **options)

    def inputs(self, case: Any, prompt: str | None = None) -> dict[str, torch.Tensor]:
        options: dict[str, Any] = {}
        if case.images:
            options["images"] = [load_image(str(self.images / file)) for file in case.images]
        if case.videos:
            options["videos"] = [self.frames(part["video"]) for part in case.videos]
            options["video_metadata"] = [self.metadata(part) for part in case.videos]
            options["do_sample_frames"] = False
            options["cap_pixels_per_frame"] = False
        return dict(self.processor(text=[prompt or self.prompt_text(case)], return_tensors="pt", **options))

    def unwrapped_ids(self, case: Any) -> list[int]:
        """The prompt's ids as processors before transformers 5.10 made them of a video: no start
        and end around it."""
        prompt = self.prompt_text(case).replace("<|vision_start|><|video_pad|><|vision_end|>", "<|video_pad|>")
        return self.inputs(case, prompt)["input_ids"][0].tolist()

    def frames(self, files: list[str]) -> torch.Tensor:
        frames = [np.asarray(load_image(str(self.images / file))) for file in files]
        return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)

    @staticmethod
    def metadata(part: dict[str, Any]) -> dict[str, Any]:
        n_frames = len(part["video"])
        return {"fps": part["fps"], "total_num_frames": n_frames, "frames_indices": list(range(n_frames))}

    def video_patches(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """A sample of the patches as the 8-bit values that they were before normalising; raises
        unless they were."""
        official = self.processor.video_processor
        patches = inputs["pixel_values_videos"]
        mean, std = (
            255 * torch.tensor(values).repeat_interleave(patches.shape[1] // 3)
            for values in (official.image_mean, official.image_std)
        )
        pixels = (patches * std + mean).round()
        if not torch.allclose((pixels - mean) / std, patches, rtol=0, atol=1e-6):
            raise RuntimeError("the frames were no 8-bit pixels after the official resize")
        return sample_rows(pixels.to(torch.uint8))

    def continued(self, inputs: dict[str, torch.Tensor], tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        """The inputs of one pass over prompt and answer."""
        ids = torch.cat([inputs["input_ids"], tokens[None]], dim=1)
        types = torch.nn.functional.pad(inputs["mm_token_type_ids"], (0, len(tokens)))
        return {**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": types}

    def answer_position(self, inputs: dict[str, torch.Tensor]) -> int:
        """Where generate puts the first token of an answer, in all three axes."""
        seen: list[list[int]] = []
        rotary = self.model.model.language_model.rotary_emb
        handle = rotary.register_forward_pre_hook(
            lambda _module, args, named: seen.append([*args, *named.values()][1][:, 0, -1].tolist()), with_kwargs=True)
        self.model.generate(**inputs, do_sample=False, min_new_tokens=2, max_new_tokens=2)
        handle.remove()
        _, answer = seen
        if len(set(answer)) != 1:
            raise RuntimeError(f"the first token of an answer is at {answer}")
        return answer[0]

    def decode(self, tokens: list[int]) -> str:
        return self.processor.tokenizer.decode(tokens, skip_special_tokens=True)

    def stored_preprocess(self, file: Path) -> Tensors:
        """8-bit pixels after the official resize, a sample of the patches, grid; raises unless one
        gives the other."""
        official = self.processor.image_processor
        image = load_image(str(file))
        result = official(image, return_tensors="pt")
        source = official.process_image(image, do_convert_rgb=True)
        factor = official.patch_size * official.merge_size
        pixels = official.resize(source[None], size=official.size, resample=official.resample, factor=factor,
                                 **self.resize_options)
        if pixels.dtype != torch.uint8:
            raise RuntimeError(f"{file.name}: the official resize gave {pixels.dtype}, not 8-bit pixels")
        mean, std = (255 * torch.tensor(values)[:, None, None] for values in (official.image_mean, official.image_std))
        replayed, _, _ = official.patchify(
            (pixels.float() - mean) / std,
            patch_size=official.patch_size,
            merge_size=official.merge_size,
            temporal_patch_size=official.temporal_patch_size,
        )
        if not torch.equal(replayed[0], result["pixel_values"]):
            raise RuntimeError(f"{file.name}: pixel_values differ from the normalised, patchified 8-bit pixels")
        return {
            "pixels_u8": pixels[0].permute(1, 2, 0).contiguous(),
            "pixel_values": sample_rows(result["pixel_values"]),
            "grid_thw": result["image_grid_thw"][0],
        }

    @contextmanager
    def recorded(self, inputs: dict[str, torch.Tensor], full: bool) -> Iterator[Tensors]:
        """Records one forward pass, the tower's rows in merge-block order."""
        recorder = Recorder()
        visual, language = self.model.model.visual, self.model.model.language_model
        def keep_rows(name: str) -> Callable[[torch.Tensor], None]:
            return lambda rows: recorder.keep(name)(unpermute(rows))

        # Images and videos go through the tower one after the other; of the two passes neither is
        # kept.
        mixed = "image_grid_thw" in inputs and "video_grid_thw" in inputs
        grid_thw = None if mixed else inputs.get("image_grid_thw", inputs.get("video_grid_thw"))
        unpermute: Callable[[torch.Tensor], torch.Tensor] = lambda rows: rows
        if hasattr(visual, "window_size") and grid_thw is not None:
            index, ends = window_order(visual, grid_thw)
            back = torch.argsort(index)
            recorder.stages |= {"vision.window_index": index, "vision.window_ends": ends}
            unpermute = lambda rows: rows.unflatten(0, (len(back), -1))[back].flatten(0, 1)
        if not mixed:
            recorder.on_output(visual, lambda output: recorder.keep("vision.merged")(output.pooler_output))
            for number, merger in enumerate(getattr(visual, "deepstack_merger_list", ())):
                recorder.on_output(merger, recorder.keep(f"vision.deepstack.{number}"))
        keep_positions = recorder.keep("language.position_ids", sampled=False)
        recorder.on_input(language.rotary_emb, 1, lambda ids: keep_positions(ids[:, 0]))
        if full:
            if "image_grid_thw" in inputs:
                self._record_entry(recorder, visual)
            recorder.on_input(visual.blocks[0], 0, keep_rows("vision.position_added"))
            for number, block in enumerate(visual.blocks):
                recorder.on_output(block, keep_rows(f"vision.block.{number}"))
            record_language(recorder, language)
        try:
            yield recorder.stages
        finally:
            recorder.close()

    @staticmethod
    def _record_entry(recorder: Recorder, visual: torch.nn.Module) -> None:
        def keep_rotary(output: tuple[torch.Tensor, torch.Tensor]) -> None:
            recorder.keep("vision.rotary_cos")(output[0])
            recorder.keep("vision.rotary_sin")(output[1])

        recorder.on_output(visual.patch_embed, recorder.keep("vision.patch_embed"))
        recorder.on_output(visual.rotary_pos_emb, keep_rotary)
