"""The weights of a layer, copied out of the model whenever they are asked for."""
from __future__ import annotations

from typing import Any

import torch

import heed
from heed.integrations.transformer_lens.factored_matrix import FactoredMatrix


class _Weights:
    maps: dict[str, str] = {}  # W_NAME and b_NAME are of this map of heed

    def __init__(self, model: heed.Decoder, layer: int) -> None:
        self._model = model
        self._layer = layer

    def __getattr__(self, name: str) -> torch.Tensor:
        kind, _, map_name = name.partition("_")
        if kind not in ("W", "b") or map_name not in self.maps:
            raise AttributeError(f"{name}: expected W_ or b_ with one of {', '.join(self.maps)}")
        found = self._model._opened.layer_map(self._layer, self.maps[map_name])
        if found is None:
            raise AttributeError(f"{name}: layer {self._layer} has none")
        weight, bias = tensors(found)
        return self._weight(map_name, weight) if kind == "W" else self._bias(map_name, bias)

    def _weight(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        return weight.mT

    def _bias(self, name: str, bias: torch.Tensor) -> torch.Tensor:
        return bias


class MLP(_Weights):
    """W_in and W_gate [D, F], W_out [F, D], b_in and b_gate [F], b_out [D]."""
    maps = {"in": "up", "gate": "gate", "out": "down"}


class Attention(_Weights):
    """W_Q, W_K, W_V [H, D, d], W_O [H, d, D], b_Q, b_K, b_V [H, d], b_O [D]; keys and values that heads share, for each of them."""
    maps = {"Q": "q", "K": "k", "V": "v", "O": "out"}

    def __init__(self, model: heed.Decoder, layer: int, heads: int) -> None:
        super().__init__(model, layer)
        self._heads = heads

    def _weight(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        return weight.mT.reshape(self._heads, -1, len(weight)) if name == "O" else self._each_head(weight).mT

    def _bias(self, name: str, bias: torch.Tensor) -> torch.Tensor:
        return bias if name == "O" else self._each_head(bias)

    def _each_head(self, values: torch.Tensor) -> torch.Tensor:
        return values.repeat_interleave(self._heads // len(values), 0)

    @property
    def QK(self) -> FactoredMatrix:
        """W_Q W_K^T of each head, [H, D, D]: query times key before the scale."""
        return FactoredMatrix(self.W_Q, self.W_K.mT)

    @property
    def OV(self) -> FactoredMatrix:
        """W_V W_O of each head, [H, D, D]: what it writes of a token that it attends to."""
        return FactoredMatrix(self.W_V, self.W_O)


class Block:
    """The weights `attn` and `mlp` of one layer."""

    def __init__(self, model: heed.Decoder, layer: int, heads: int) -> None:
        self.attn = Attention(model, layer, heads)
        self.mlp = MLP(model, layer)


def tensors(found: tuple[Any, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight and its bias, zeros where there is none."""
    weight = torch.from_dlpack(found[0])
    return weight, weight.new_zeros(weight.shape[:-1]) if found[1] is None else torch.from_dlpack(found[1])
