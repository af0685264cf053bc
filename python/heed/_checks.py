"""Arguments of the wrong type are refused by their names, before the library sees them."""
from __future__ import annotations

import functools
import inspect
import os
from typing import Any, TypeVar

import numpy as np

Checked = TypeVar("Checked")

_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int, np.integer), "float": (int, float, np.integer, np.floating),
                                       "bool": (bool, np.bool_), "None": (type(None),), "Path": (os.PathLike,)}


def checked(function: Checked) -> Checked:
    """The function, or the class with its public methods, with a check of the arguments whose annotation is of plain types
    (`str`, `int | None`): another type is a TypeError that begins with the argument. Numbers of NumPy become Python's."""
    if inspect.isclass(function):
        for name, member in list(vars(function).items()):
            if inspect.isfunction(member) and (name[0] != "_" or name in ("__init__", "__call__")):
                setattr(function, name, checked(member))
        return function
    signature = inspect.signature(function)  # type: ignore[arg-type]
    plain = {name: set(one.annotation.split(" | ")) for name, one in signature.parameters.items() if isinstance(one.annotation, str)
             and set(one.annotation.split(" | ")) <= set(_KINDS) and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}

    @functools.wraps(function)  # type: ignore[arg-type]
    def call(*given: Any, **named: Any) -> Any:
        bound = signature.bind(*given, **named)
        for name, kinds in plain.items():
            if name not in bound.arguments:
                continue
            value = bound.arguments[name]
            if not isinstance(value, tuple(kind for one in kinds for kind in _KINDS[one])):
                expected = " or ".join(one for one in signature.parameters[name].annotation.split(" | "))
                raise TypeError(f"{name}: expected {expected}, got {type(value).__name__}")
            if isinstance(value, np.generic):
                bound.arguments[name] = value.item()
        return function(*bound.args, **bound.kwargs)  # type: ignore[operator]
    return call  # type: ignore[return-value]
