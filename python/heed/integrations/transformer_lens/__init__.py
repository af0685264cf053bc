"""Models of heed under the names of TransformerLens, for notebooks that were written for it: only their import changes.

    from heed.integrations.transformer_lens import HookedTransformer, utils
    model = HookedTransformer.from_pretrained("gpt2")
    logits, cache = model.run_with_cache("The cat sat")
    cache["pattern", 0]                                  # a tensor [1, H, T, T]
    model.W_Q[5, 1] @ model.W_K[5, 1].T                  # [D, D]; model.QK[5, 1] does not multiply it out

Values and weights are those of from_pretrained_no_processing(), as tensors of PyTorch without gradients; weights are copies. Not here:
gradients (bwd_hooks).
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Union

import numpy as np
import torch

import heed
from heed.integrations.transformer_lens import utils
from heed.integrations.transformer_lens.factored_matrix import FactoredMatrix
from heed.integrations.transformer_lens.hook_points import HookPoint
from heed.integrations.transformer_lens.weights import MLP, Attention, Block, tensors

__all__ = ["ActivationCache", "FactoredMatrix", "HookPoint", "HookedTransformer", "utils"]

Name = Union[str, Callable[[str], bool]]
Hook = tuple[Name, Callable[..., Any]]


class ActivationCache(Mapping[str, torch.Tensor]):
    """The values of a pass: cache["blocks.0.attn.hook_pattern"] is cache["pattern", 0], and cache["pattern", -1] that of the last layer."""

    def __init__(self, values: dict[str, torch.Tensor], layers: int, has_batch_dim: bool = True) -> None:
        self.cache_dict = values
        self.has_batch_dim = has_batch_dim
        self._layers = layers

    def __getitem__(self, key: Any) -> torch.Tensor:
        if isinstance(key, str) and key in self.cache_dict:
            return self.cache_dict[key]
        name, layer, *kind = (key, None) if isinstance(key, str) else (*key, None)[:3]
        if layer is not None and layer < 0:
            layer += self._layers
        return self.cache_dict[utils.get_act_name(name, layer, *kind)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.cache_dict)

    def __len__(self) -> int:
        return len(self.cache_dict)

    def __repr__(self) -> str:
        return f"ActivationCache with keys {list(self.cache_dict)}"

    def remove_batch_dim(self) -> ActivationCache:
        """The same of the only row."""
        if self.has_batch_dim:
            self.cache_dict = {name: value[0] for name, value in self.cache_dict.items()}
            self.has_batch_dim = False
        return self

    def stack_activation(self, activation_name: str, layer: int = -1, sublayer_type: str | None = None) -> torch.Tensor:
        """The values of all layers, or of those before `layer`."""
        return torch.stack([self[activation_name, one, sublayer_type] for one in range(layer if layer >= 0 else self._layers)])


class HookedTransformer:
    """A language model, called with texts or tokens [B, T].

    The weights of `blocks[i].attn` and `blocks[i].mlp` of all layers at once are the model's own attributes: W_Q [layer, H, D, d], W_in
    [layer, D, F], b_Q, ...; W_gate is None of a model without gates.
    """

    def __init__(self, model: heed.Decoder) -> None:
        self.model = model
        self.tokenizer = model.tokenizer
        config = model.config
        _, probe = model.run_with_cache({"input_ids": [[0]]}, names=["blocks.*.attn.hook_z", "blocks.0.hook_resid_pre"])
        heads, size = probe["z", 0].shape[2:]
        self.cfg = SimpleNamespace(
            n_layers=len(probe) - 1, n_heads=heads, d_head=size, d_model=probe["resid_pre", 0].shape[2], d_vocab=len(self.tokenizer),
            n_ctx=model._opened.max_positions, device=torch.device("cpu"), dtype=torch.float32, model_name=model.name,
            default_prepend_bos=self.tokenizer.bos_token_id is not None, original_architecture=(config.get("architectures") or [""])[0])
        self.blocks = [Block(model, layer, heads) for layer in range(self.cfg.n_layers)]
        self._added: list[tuple[str, Callable[..., Any]]] = []
        self._contexts: dict[str, dict[str, Any]] = {}

    @classmethod
    def from_pretrained(cls, model_name: str, device: Any = None, **ignored: Any) -> HookedTransformer:
        """Opens a model as heed.load(). Settings of the processing of weights have no effect, as there is none."""
        model = heed.load(model_name)
        if not isinstance(model, heed.Decoder):
            raise TypeError(f"from_pretrained: expected a language model, got {model!r}")
        return cls(model)

    from_pretrained_no_processing = from_pretrained

    # --- tokens
    def to_tokens(self, input: str | Sequence[str], prepend_bos: bool | None = None) -> torch.Tensor:
        """The ids of a text or of several, int64 [B, T], the shorter ones with padding behind."""
        begin = self.cfg.default_prepend_bos if prepend_bos is None else prepend_bos
        if begin and self.tokenizer.bos_token_id is None:
            raise ValueError("prepend_bos: the tokenizer has no token that begins a text")
        rows = [([self.tokenizer.bos_token_id] if begin else []) + list(self.tokenizer.encode(text, add_special_tokens=False).ids)
                for text in ([input] if isinstance(input, str) else input)]
        longest = max(len(row) for row in rows)
        return torch.tensor([row + [self._padding()] * (longest - len(row)) for row in rows], dtype=torch.int64)

    def _padding(self) -> int:
        for padding in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id):
            if padding is not None:
                return padding
        return 0

    def to_str_tokens(self, input: Any, prepend_bos: bool | None = None) -> Any:
        """The text of each token of a text or a row of tokens; of several, lists."""
        if not isinstance(input, str) and not (isinstance(input, (torch.Tensor, np.ndarray)) and input.squeeze().ndim <= 1):
            return [self.to_str_tokens(one, prepend_bos) for one in input]
        ids = self.to_tokens(input, prepend_bos)[0] if isinstance(input, str) else torch.as_tensor(input).reshape(-1)
        return [self.tokenizer.decode([int(one)], skip_special_tokens=False) for one in ids]

    def to_string(self, tokens: Any) -> Any:
        """The text of a row of tokens, or of each row."""
        ids = torch.as_tensor(tokens)
        if ids.ndim == 2:
            return [self.to_string(row) for row in ids]
        return self.tokenizer.decode([int(one) for one in ids.reshape(-1)], skip_special_tokens=False)

    def to_single_token(self, string: str) -> int:
        """The id of a text that is one token. A ValueError for any other."""
        ids = self.to_tokens(string, prepend_bos=False)[0]
        if len(ids) != 1:
            raise ValueError(f"to_single_token: expected one token, got {self.to_str_tokens(string, prepend_bos=False)}")
        return int(ids[0])

    def to_single_str_token(self, int_token: int) -> str:
        """The text of one id."""
        return self.to_str_tokens(torch.tensor([int_token]))[0]

    def get_token_position(self, single_token: str | int, input: Any, mode: str = "first", prepend_bos: bool | None = None) -> int:
        """Where a token is in a text or tokens, for the first or the last time."""
        wanted = self.to_single_token(single_token) if isinstance(single_token, str) else single_token
        ids = self._tokens(input, prepend_bos)[0].tolist()
        if wanted not in ids:
            raise ValueError(f"get_token_position: {single_token!r} is not in the tokens")
        return ids.index(wanted) if mode == "first" else len(ids) - 1 - ids[::-1].index(wanted)

    def _tokens(self, input: Any, prepend_bos: bool | None = None) -> torch.Tensor:
        if isinstance(input, str) or (isinstance(input, (list, tuple)) and input and isinstance(input[0], str)):
            return self.to_tokens(input, prepend_bos)
        ids = torch.as_tensor(input)
        return ids[None] if ids.ndim == 1 else ids

    # --- passes
    def forward(self, input: Any, return_type: str | None = "logits", loss_per_token: bool = False, prepend_bos: bool | None = None) -> Any:
        """One pass with the hooks that were added: logits float32 [B, T, V], loss, both, or None."""
        return self.run_with_hooks(input, return_type, loss_per_token=loss_per_token, prepend_bos=prepend_bos)

    __call__ = forward

    def run_with_hooks(self, input: Any, return_type: str | None = "logits", fwd_hooks: Sequence[Hook] = (), *, loss_per_token: bool = False,
                       prepend_bos: bool | None = None, reset_hooks_end: bool = True, clear_contexts: bool = False) -> Any:
        """A pass in which hooks, by names or by functions that choose names, read and replace values."""
        tokens = self._tokens(input, prepend_bos)
        logits = self.model.run_with_hooks({"input_ids": tokens}, fwd_hooks=[*self._added, *self._named(fwd_hooks)])
        if clear_contexts:
            self._contexts.clear()
        return self._result(torch.from_dlpack(logits), tokens, return_type, loss_per_token)

    def run_with_cache(self, input: Any, names_filter: Name | Sequence[str] | None = None, remove_batch_dim: bool = False,
                       return_type: str | None = "logits", stop_at_layer: int | None = None, return_cache_object: bool = True,
                       loss_per_token: bool = False, prepend_bos: bool | None = None, device: Any = None) -> tuple[Any, Any]:
        """A pass whose values are kept, all or those of names_filter. With stop_at_layer the residual stream before that layer is
        returned in the place of logits."""
        tokens = self._tokens(input, prepend_bos)
        kept: dict[str, torch.Tensor] = {}
        names = self._matching(names_filter)
        stream = None if stop_at_layer is None else self._stream_before(stop_at_layer)
        if self._added:
            def keep(value: Any, hook: Any) -> None:
                kept[hook.name] = torch.from_numpy(value.copy())
            logits = self.model.run_with_hooks({"input_ids": tokens}, fwd_hooks=[*self._added, *((name, keep) for name in {*names, *([stream] if stream else [])})])
        else:
            logits, cache = self.model.run_with_cache({"input_ids": tokens}, names=[*names, *([stream] if stream and stream not in names else [])])
            kept = {name: torch.from_dlpack(value) for name, value in cache.items()}
        first = kept[stream] if stream else self._result(torch.from_dlpack(logits), tokens, return_type, loss_per_token)
        found = ActivationCache({name: kept[name] for name in names}, self.cfg.n_layers)
        if remove_batch_dim:
            found.remove_batch_dim()
        return first, found if return_cache_object else found.cache_dict

    def _stream_before(self, layer: int) -> str:
        at = layer if layer >= 0 else layer + self.cfg.n_layers
        return f"blocks.{at}.hook_resid_pre" if at < self.cfg.n_layers else f"blocks.{at - 1}.hook_resid_post"

    def _result(self, logits: torch.Tensor, tokens: torch.Tensor, return_type: str | None, per_token: bool) -> Any:
        forms: dict[str | None, Callable[[], Any]] = {
            "logits": lambda: logits, "loss": lambda: self.loss_fn(logits, tokens, per_token=per_token),
            "both": lambda: (logits, self.loss_fn(logits, tokens, per_token=per_token)), None: lambda: None}
        if return_type not in forms:
            raise ValueError(f"return_type: expected logits, loss, both or None, got {return_type!r}")
        return forms[return_type]()

    def loss_fn(self, logits: torch.Tensor, tokens: torch.Tensor, attention_mask: Any = None, per_token: bool = False) -> torch.Tensor:
        """utils.lm_cross_entropy_loss()."""
        return utils.lm_cross_entropy_loss(logits, tokens, per_token)

    def generate(self, input: Any = "", max_new_tokens: int = 10, *, do_sample: bool = True, temperature: float = 1.0, top_k: int | None = None,
                 top_p: float | None = None, prepend_bos: bool | None = None, verbose: bool = True, **settings: Any) -> Any:
        """The prompt with what follows: a text of a text, tokens [1, T] of tokens. The hooks that were added are called at every step."""
        tokens = self._tokens(input, prepend_bos)
        more = {"top_k": top_k or 0, **({"top_p": top_p} if top_p is not None else {}), **settings}
        options = self.model.generation_options(max_new_tokens=max_new_tokens, do_sample=do_sample, temperature=temperature, **more)
        hooks = self.model._hooks(self._added)
        (_, found), = self.model._opened.generate_ids(tokens.tolist(), options, [], None, None, hooks, None)[0]
        whole = torch.tensor([tokens[0].tolist() + list(found.ids)])
        return self.tokenizer.decode(whole[0].tolist()) if isinstance(input, str) else whole

    # --- weights
    def __getattr__(self, name: str) -> Any:
        if name == "W_gate" and self.model._opened.layer_map(0, "gate") is None:
            return None
        part = next((part for part, kind in (("attn", Attention), ("mlp", MLP)) if name[:2] in ("W_", "b_") and name[2:] in kind.maps), None)
        if part is None:
            raise AttributeError(f"{name}: the model has none")
        return torch.stack([getattr(getattr(block, part), name) for block in self.blocks])

    @property
    def W_E(self) -> torch.Tensor:
        """The vectors of tokens, [V, D]."""
        return torch.from_dlpack(self.model._opened.token_vectors())

    @property
    def W_U(self) -> torch.Tensor:
        """The map to logits, [D, V]."""
        return tensors(self.model._opened.output_map())[0].mT

    @property
    def b_U(self) -> torch.Tensor:
        """Its bias, [V]."""
        return tensors(self.model._opened.output_map())[1]

    @cached_property
    def W_pos(self) -> torch.Tensor:
        """The vectors of positions, [n_ctx, D], of a model that adds them to those of tokens."""
        ids = np.zeros((1, self.cfg.n_ctx or 1), np.int64)
        kept = self.model._opened.forward({"input_ids": ids}, ["decoder.embed.positions"], [], [], False, False)[1]
        if not kept:
            raise AttributeError("W_pos")
        return torch.tensor(next(iter(kept.values()))[0])

    @property
    def QK(self) -> FactoredMatrix:
        """W_Q W_K^T of each head, [layer, H, D, D]."""
        return FactoredMatrix(self.W_Q, self.W_K.mT)

    @property
    def OV(self) -> FactoredMatrix:
        """W_V W_O of each head, [layer, H, D, D]."""
        return FactoredMatrix(self.W_V, self.W_O)

    # --- hooks
    def add_hook(self, name: Name, hook: Callable[..., Any], dir: str = "fwd", **ignored: Any) -> None:
        """Adds a hook to every pass until reset_hooks()."""
        if dir != "fwd":
            raise ValueError(f"dir: expected fwd, as there are no gradients, got {dir}")
        self._added += self._named([(name, hook)])

    def reset_hooks(self, **ignored: Any) -> None:
        """Removes the hooks that were added."""
        self._added = []
        self._contexts.clear()

    @contextmanager
    def hooks(self, fwd_hooks: Sequence[Hook] = (), **ignored: Any) -> Iterator[HookedTransformer]:
        """Within, every pass has these hooks."""
        before = list(self._added)
        self._added += self._named(fwd_hooks)
        try:
            yield self
        finally:
            self._added = before

    @property
    def hook_dict(self) -> dict[str, HookPoint]:
        """The points that may have hooks."""
        return {name: HookPoint(name, self._contexts.setdefault(name, {})) for name in self.model._names().all()}

    def _matching(self, names: Name | Sequence[str] | None) -> list[str]:
        known = self.model._names()
        if names is None:
            return [hook.name for hook in known.usual()]
        if callable(names):
            return [name for name in known.all() if names(name)]
        return [hook.name for name in ([names] if isinstance(names, str) else names) for hook in known.find(utils.get_act_name(name))]

    def _named(self, hooks: Sequence[Hook]) -> list[tuple[str, Callable[..., Any]]]:
        return [(name, self._listener(name, function)) for names, function in hooks for name in self._matching(names)]

    def _listener(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        point = HookPoint(name, self._contexts.setdefault(name, {}))

        def call(value: Any, hook: Any) -> Any:
            answer = function(torch.from_numpy(value), hook=point)
            return None if answer is None else answer.detach().numpy()
        return call
