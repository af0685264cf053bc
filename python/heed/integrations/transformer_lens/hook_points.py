"""What hooks are told of the value that they get."""
from __future__ import annotations

from typing import Any


class HookPoint:
    """`name` of the value, its `layer()`, and `ctx`, a dict that stays from pass to pass until reset_hooks()."""

    def __init__(self, name: str, ctx: dict[str, Any]) -> None:
        self.name = name
        self.ctx = ctx

    def layer(self) -> int:
        """The number in `blocks.N.`"""
        return int(self.name.split(".")[1])
