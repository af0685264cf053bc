"""The names of values, and what notebooks do with logits."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

_ATTENTION = ("k", "v", "q", "z", "rot_k", "rot_q", "result", "pattern", "attn_scores")
_SHORT = {"attn": "pattern", "attn_logits": "attn_scores", "key": "k", "query": "q", "value": "v", "mlp_post": "post"}


def get_act_name(name: str, layer: int | str | None = None, layer_type: str | None = None) -> str:
    """The whole name of a short one: ("pattern", 3) is blocks.3.attn.hook_pattern. A whole name stays."""
    if "." in name or name.startswith("hook_"):
        return name
    short = _SHORT.get(name, name)
    if layer is None:
        return f"hook_{short}"
    part = "attn." if short in _ATTENTION else "mlp." if short in ("pre", "post") else ""
    return f"blocks.{layer}.{part}hook_{short}"


def get_device() -> torch.device:
    """Where heed computes."""
    return torch.device("cpu")


def to_numpy(values: Any) -> Any:
    """An array of NumPy."""
    return values.detach().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def lm_cross_entropy_loss(logits: torch.Tensor, tokens: torch.Tensor, per_token: bool = False) -> torch.Tensor:
    """The mean negative log-probability of each next token, or that of each, [B, T - 1]."""
    log_probs = logits[:, :-1].log_softmax(dim=-1).gather(-1, tokens[:, 1:, None])[..., 0]
    return -log_probs if per_token else -log_probs.mean()
