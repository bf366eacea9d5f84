"""The official PaddleOCR-VL classes, run on a tiny checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PaddleOCRVLForConditionalGeneration, PaddleOCRVLProcessor, PreTrainedTokenizerFast
from transformers.models.paddleocr_vl.image_processing_paddleocr_vl import PaddleOCRVLImageProcessor

from fixture_paddle import ADDED_TOKENS, PIECES, added_id, official_config
from fixture_qwen import QwenOfficial
from fixture_stages import Recorder, Tensors, keep_raster, record_language

if TYPE_CHECKING:
    from fixture_models import ModelSpec


class PaddleOfficial(QwenOfficial):
    """The official model in float32 and its processor, loaded from a checkpoint directory."""

    stamps_videos = False
    # bytes alone are no text
    forbidden = (*range(len(PIECES)), *map(added_id, ADDED_TOKENS))

    def __init__(self, spec: ModelSpec, folder: Path, images: Path) -> None:
        self.spec, self.images = spec, images
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(folder / "tokenizer.json"), eos_token="</s>", pad_token="<unk>", cls_token="<|begin_of_sentence|>",
            extra_special_tokens={"image_token": "<|IMAGE_PLACEHOLDER|>"}, clean_up_tokenization_spaces=False,
        )
        template = (folder / "chat_template.jinja").read_text()
        self.processor = PaddleOCRVLProcessor(PaddleOCRVLImageProcessor.from_pretrained(folder), tokenizer, template)
        self.model, loading = PaddleOCRVLForConditionalGeneration.from_pretrained(
            folder, config=official_config(spec), dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
        if any(loading.values()):
            raise RuntimeError(f"{folder.name}: the official class does not find its tensors: {loading}")
        self.model.eval()
        self.image_processor = type(self.processor.image_processor).__name__
        self.stops = [self.model.generation_config.eos_token_id]

    def prompt_text(self, case: Any) -> str:
        """With contents as lists, as vLLM gives them to templates that read no strings."""
        messages = [
            message if isinstance(message["content"], list)
            else message | {"content": [{"type": "text", "text": message["content"]}]} for message in case.messages
        ]
        return self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    def stored_preprocess(self, file: Path) -> Tensors:
        """As the others', patches as rows."""
        stored = super().stored_preprocess(file)
        return stored | {"pixel_values": stored["pixel_values"].flatten(1)}

    @contextmanager
    def recorded(self, inputs: dict[str, torch.Tensor], full: bool) -> Iterator[Tensors]:
        """Records one forward pass, the tower's rows in merge-block order."""
        recorder = Recorder()
        tower, language = self.model.model.visual.vision_model, self.model.model.language_model
        recorder.on_output(self.model.model.projector, recorder.keep("vision.merged"))
        keep_positions = recorder.keep("language.position_ids", sampled=False)
        recorder.on_input(language.rotary_emb, 1, lambda ids: keep_positions(ids[:, 0]))
        if full:
            self._record_tower(recorder, tower, inputs["image_grid_thw"])
            record_language(recorder, language)
        try:
            yield recorder.stages
        finally:
            recorder.close()

    def _record_tower(self, recorder: Recorder, tower: torch.nn.Module, grids: torch.Tensor) -> None:
        keep = keep_raster(recorder, grids, self.spec.form.merge_size)

        def keep_rotary(tables: tuple[torch.Tensor, torch.Tensor]) -> None:
            keep("vision.rotary_cos")(tables[0])
            keep("vision.rotary_sin")(tables[1])

        recorder.on_output(tower.embeddings.patch_embedding, lambda rows: keep("vision.patch_embed")(rows.flatten(1)))
        recorder.on_output(tower.embeddings, keep("vision.position_added"))
        recorder.on_output(tower.encoder.rotary_pos_emb, keep_rotary)
        for index, block in enumerate(tower.encoder.layers):
            recorder.on_output(block, keep(f"vision.block.{index}"))
