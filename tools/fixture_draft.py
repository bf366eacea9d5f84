"""The draft head of the hybrid models (mtp.*), which transformers leaves out: random weights next
to a tiny checkpoint, and what they compute by transformers' own decoder layer, put together as
vLLM's qwen3_5_mtp.py does."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from transformers.models.qwen3_5 import modeling_qwen3_5 as dense
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as routed

from fixture_stages import Tensors

if TYPE_CHECKING:
    from fixture_models import ModelSpec

DRAFTS = 3  # one from the other, after the whole answer
SEED = 7000
FILE = "model-draft.safetensors"  # of checkpoints in shards


class DraftHead(torch.nn.Module):
    """[embedding of the next token, state after the final norm] -> the state from which lm_head
    drafts the token after it."""

    def __init__(self, spec: ModelSpec, text: Any) -> None:
        super().__init__()
        code, prefix = (routed, "Qwen3_5Moe") if spec.family.endswith("moe") else (dense, "Qwen3_5")
        config = copy.deepcopy(text)
        config.num_hidden_layers, config.layer_types = 1, ["full_attention"]
        config._attn_implementation = "eager"
        norm = getattr(code, f"{prefix}RMSNorm")
        self.pre_fc_norm_embedding = norm(text.hidden_size, eps=text.rms_norm_eps)
        self.pre_fc_norm_hidden = norm(text.hidden_size, eps=text.rms_norm_eps)
        self.fc = torch.nn.Linear(2 * text.hidden_size, text.hidden_size, bias=False)
        self.layers = torch.nn.ModuleList([getattr(code, f"{prefix}DecoderLayer")(config, 0)])
        self.norm = norm(text.hidden_size, eps=text.rms_norm_eps)

    def forward(self, embeddings: torch.Tensor, states: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Rows [n, hidden] of one sequence from its beginning; rotary: cosine and sine of their
        places."""
        n = len(embeddings)
        joined = torch.cat([self.pre_fc_norm_embedding(embeddings), self.pre_fc_norm_hidden(states)], dim=-1)
        mask = torch.full((n, n), torch.finfo(torch.float32).min).triu(1)[None, None]
        rows = self.layers[0](self.fc(joined)[None], position_embeddings=rotary, attention_mask=mask)
        return self.norm(rows[0] if isinstance(rows, tuple) else rows)[0]


def draw(head: DraftHead, spec: ModelSpec) -> None:
    """Weights by a seed of their own."""
    generator = torch.Generator().manual_seed(SEED + spec.seed)
    for name, parameter in sorted(head.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        parameter.data.copy_(0.15 * noise if "norm" in name else 1.3 * noise / parameter.shape[-1] ** 0.5)


def add_draft_head(spec: ModelSpec, config: Any, folder: Path) -> None:
    """Adds the tensors to a checkpoint that was just written."""
    head = DraftHead(spec, config.text_config)
    draw(head, spec)
    tensors = {f"mtp.{name}": value.to(spec.dtype) for name, value in head.state_dict().items()}
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        path = folder / "model.safetensors"
        save_file(load_file(path) | tensors, path, metadata={"format": "pt"})
        return
    save_file(tensors, folder / FILE, metadata={"format": "pt"})
    listed = json.loads(index.read_text())
    listed["weight_map"] |= {name: FILE for name in tensors}
    listed["metadata"]["total_parameters"] += sum(value.numel() for value in tensors.values())
    listed["metadata"]["total_size"] += sum(value.numel() * value.element_size() for value in tensors.values())
    index.write_text(json.dumps(listed, indent=2, sort_keys=True) + "\n")


def load_draft_head(spec: ModelSpec, text: Any, folder: Path) -> DraftHead:
    head = DraftHead(spec, text)
    path = folder / FILE if (folder / FILE).exists() else folder / "model.safetensors"
    tensors = {name: value for name, value in load_file(path).items() if name.startswith("mtp.")}
    head.load_state_dict({name.removeprefix("mtp."): value.float() for name, value in tensors.items()})
    return head.eval()


@torch.no_grad() def run_draft_head(head: DraftHead, official: Any, whole: dict[str, torch.Tensor],
n_answer: int) -> Tensors: """Of prompt and answer: draft.tokens [n_answer], the draft token after
each token of the answer; draft.states, of the first of them and the last; draft.chain, what is
drafted after the answer, each from the draft token before."""
    language, seen = official.model.model.language_model, {}
    taken = language.register_forward_pre_hook(lambda _module, _args, named: seen.update(named), with_kwargs=True)
    given = language.register_forward_hook(lambda _module, _args, output: seen.update(states=output.last_hidden_state))
    placed = language.rotary_emb.register_forward_pre_hook(
        lambda _module, args, named: seen.update(places=[*args, *named.values()][1]), with_kwargs=True)
    official.model(**whole)
    for handle in (taken, given, placed):
        handle.remove()
    embeddings, states, places = seen["inputs_embeds"][0, 1:], seen["states"][0, :-1], seen["places"][..., :-1]
    lm_head, embed = official.model.lm_head, language.embed_tokens
    rows = head(embeddings, states, language.rotary_emb(embeddings[None], places))
    tensors = {"draft.tokens": lm_head(rows[-n_answer:]).argmax(-1), "draft.states": rows[[-n_answer, -1]].clone()}
    chain = []
    for _ in range(DRAFTS):
        best = lm_head(rows[-1]).topk(2)
        if best.values[0] - best.values[1] < 1e-3:
            raise RuntimeError("draft tokens of the draft head are too close; choose another seed")
        chain.append(best.indices[0])
        embeddings = torch.cat([embeddings, embed(best.indices[:1])])
        states = torch.cat([states, rows[-1:]])
        places = torch.cat([places, places[..., -1:] + 1], dim=-1)
        rows = head(embeddings, states, language.rotary_emb(embeddings[None], places))
    return tensors | {"draft.chain": torch.stack(chain)}
