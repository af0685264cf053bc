"""Arguments of the wrong type are refused by their names, before the library sees them."""
from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

Checked = TypeVar("Checked")

_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int, np.integer), "float": (int, float, np.integer, np.floating),
                                       "bool": (bool, np.bool_), "None": (type(None),), "Path": (os.PathLike,), "Message": (Mapping,)}


def _is(value: Any, kind: str) -> bool:
    if kind in _KINDS:
        return isinstance(value, _KINDS[kind])
    if kind == "Model":
        return any(one.__name__ == kind for one in type(value).__mro__)
    return hasattr(value, "__len__") and hasattr(value, "__iter__") and not isinstance(value, (str, bytes, Mapping))


def _check(name: str, value: Any, kinds: Sequence[str]) -> None:
    of = [kind for kind in kinds if _is(value, kind)]
    if not of:
        shown = " or ".join(kind.replace("Sequence[", "list of ").rstrip("]") for kind in kinds)
        raise TypeError(f"{name}: expected {shown}, got {type(value).__name__}")
    if of[0].startswith("Sequence["):
        for index, one in enumerate(value):
            if not _is(one, of[0][9:-1]):
                raise TypeError(f"{name}[{index}]: expected {of[0][9:-1]}, got {type(one).__name__}")


def pairs(name: str, given: Any, parts: str) -> list[Any]:
    """A list of pairs, whose two `parts` have names; a TypeError for others."""
    if not _is(given, "Sequence[]"):
        raise TypeError(f"{name}: expected a list of {parts}, got {type(given).__name__}")
    for index, one in enumerate(given):
        if not isinstance(one, (tuple, list)) or len(one) != 2:
            raise TypeError(f"{name}[{index}]: expected {parts}, got {one!r}")
    return list(given)


def checked(function: Checked) -> Checked:
    """The function, or the class with its public methods, with a check of the arguments whose annotation is of plain types
    (`str`, `int | None`, `Sequence[str]`): another type is a TypeError that begins with the argument. Numbers of NumPy become
    Python's."""
    if inspect.isclass(function):
        for name, member in list(vars(function).items()):
            if inspect.isfunction(member) and (name[0] != "_" or name in ("__init__", "__call__")):
                setattr(function, name, checked(member))
        return function
    signature = inspect.signature(function)  # type: ignore[arg-type]
    known = {*_KINDS, "Model", *(f"Sequence[{kind}]" for kind in _KINDS)}
    plain = {name: one.annotation.split(" | ") for name, one in signature.parameters.items() if isinstance(one.annotation, str)
             and set(one.annotation.split(" | ")) <= known and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}

    @functools.wraps(function)  # type: ignore[arg-type]
    def call(*given: Any, **named: Any) -> Any:
        bound = signature.bind(*given, **named)
        for name, kinds in plain.items():
            if name in bound.arguments:
                value = bound.arguments[name]
                _check(name, value, kinds)
                if isinstance(value, np.generic):
                    bound.arguments[name] = value.item()
        return function(*bound.args, **bound.kwargs)  # type: ignore[operator]
    return call  # type: ignore[return-value]
