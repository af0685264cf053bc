"""Names of values inside a model: heed's taps under the names of TransformerLens.

The values are those of TransformerLens without processing of weights (`fold_ln=False` and so on), in its order of axes.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def _same(value: Array) -> Array:
    return value


def _swap(value: Array) -> Array:
    """[B, H, T, d] to [B, T, H, d], and back."""
    return np.swapaxes(value, 1, 2)


@dataclass(frozen=True)
class Hook:
    """A name as the user gives it, the tap with its value, and the order of its axes, which is its own inverse."""
    name: str
    tap: str
    view: Callable[[Array], Array] = _same
    writable: bool = True


# In a block: the tap, and the order of axes.
_BLOCK: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "hook_resid_pre": ("in", _same),
    "hook_resid_mid": ("mid", _same),
    "hook_resid_post": ("out", _same),
    "hook_attn_out": ("self_attn.added", _same),
    "hook_mlp_out": ("feed_forward.added", _same),
    "attn.hook_q": ("self_attn.q", _swap),
    "attn.hook_k": ("self_attn.k", _swap),
    "attn.hook_rot_q": ("self_attn.q", _swap),
    "attn.hook_rot_k": ("self_attn.k", _swap),
    "attn.hook_v": ("self_attn.v", _swap),
    "attn.hook_attn_scores": ("self_attn.scores", _same),
    "attn.hook_pattern": ("self_attn.weights", _same),
    "attn.hook_z": ("self_attn.heads", _swap),
    "attn.hook_result": ("self_attn.contributions", _swap),
    "mlp.hook_post": ("feed_forward.inner", _same),
}
_WHOLE = {"hook_embed": "embed.tokens", "hook_pos_embed": "embed.positions"}
# What is computed for a listener alone and is large: only where it is asked for.
_ON_REQUEST = {"attn.hook_result"}


class Names:
    """The names of one model."""

    def __init__(self, stack: str, layers: int, rotary: bool) -> None:
        absent = ("attn.hook_q", "attn.hook_k") if rotary else ("attn.hook_rot_q", "attn.hook_rot_k")
        self._absent = {f"blocks.{layer}.{end}": end for layer in range(layers) for end in absent}
        self._hooks: dict[str, Hook] = {}
        for name, tap in _WHOLE.items():
            self._hooks[name] = Hook(name, f"{stack}.{tap}", writable=False)
        for layer in range(layers):
            for end, (tap, view) in _BLOCK.items():
                if end not in absent:
                    name = f"blocks.{layer}.{end}"
                    self._hooks[name] = Hook(name, f"{stack}.layers.{layer}.{tap}", view)

    def find(self, pattern: str) -> list[Hook]:
        """The hooks that a name means: one of TransformerLens' names, with `*` for any characters, or a pattern of taps."""
        expression = re.compile(".*".join(re.escape(part) for part in pattern.split("*")) + r"\Z")
        found = [hook for name, hook in self._hooks.items() if expression.match(name)]
        if not found and pattern in self._absent:
            raise ValueError(f"{pattern}: the model rotates queries and keys; after rotation they are "
                             f"{pattern.replace('hook_', 'hook_rot_')}" if "rot" not in pattern else
                             f"{pattern}: the model has no rotary positions ({pattern.replace('hook_rot_', 'hook_')})")
        return found or [Hook(pattern, pattern)]

    def all(self) -> list[str]:
        """The names that TransformerLens has, too."""
        return list(self._hooks)

    def usual(self) -> list[Hook]:
        """What run_with_cache() keeps without `names`."""
        return [hook for name, hook in self._hooks.items() if not any(name.endswith(end) for end in _ON_REQUEST)]


class ActivationCache(Mapping[str, Array]):
    """The values of one pass by name. `cache["pattern", 3]` is short for `cache["blocks.3.attn.hook_pattern"]`.

    A KeyError for what was not kept.

    >>> _, cache = heed.load("shakespeare").run_with_cache("ROMEO:")
    >>> cache["pattern", 3].shape, cache.stack_activation("resid_post").shape
    ((1, 6, 6, 6), (4, 1, 6, 192))
    """

    def __init__(self, values: dict[str, Array]) -> None:
        self._values = values

    def __getitem__(self, key: str | tuple[str, int]) -> Array:
        if isinstance(key, tuple):
            short, layer = key
            for part in ("attn.", "mlp.", ""):
                name = f"blocks.{layer}.{part}hook_{short}"
                if name in self._values:
                    return self._values[name]
            raise KeyError(key)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"ActivationCache({len(self._values)} values)"

    def stack_activation(self, short: str) -> Array:
        """The value of all layers, [layers, ...]. A KeyError for what was not kept."""
        layers: list[Array] = []
        while True:
            try:
                layers.append(self[short, len(layers)])
            except KeyError:
                break
        if not layers:
            raise KeyError(short)
        return np.stack(layers)
