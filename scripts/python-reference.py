#!/usr/bin/env python3
"""Writes docs/python-reference.md: what the docstrings of the Python package say.
  scripts/python-reference.py             writes the page
  scripts/python-reference.py --check     fails if the page differs
The package is imported, so it must be built or installed; scripts/test-python.sh checks the page."""
import inspect
import sys
from pathlib import Path

import heed
import heed.integrations

PAGE = Path(__file__).parent.parent / "docs" / "python-reference.md"
GROUPS = {
    "Models": ["load", "Model", "Decoder", "Encoder", "EncoderDecoder", "CrossEncoder", "Whisper", "Translation", "TranscriptionInfo",
               "ActivationCache", "Tokenizer", "GenerationOptions"],
    "Analyses": ["lens", "attribute", "saliency", "heads", "ablate", "patch", "circuits", "steer", "attend", "doctor", "line_chart"],
    "What analyses return": ["Report", "NamedArray", "Table", "Steering", "Attention"],
    "Training and files": ["train", "convert"],
    "The process": ["threads", "set_threads", "Error", "Canceled"],
}
HEAD = """# Reference of the Python package

This page has every public function and class of `import heed`, for who looks up what one takes and returns ([the guide](python.md)). It is made from the docstrings, whose
examples the tests run with the models of this repository (`HEED_MODELS=models`):
```
scripts/python-reference.py
```
"""


def signature(function):
    """As the source has it, without self."""
    given, shown = inspect.signature(function), []
    for one in given.parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not any(part.startswith("*") for part in shown):
            shown.append("*")
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        default = "" if one.default is one.empty else f" = {one.default!r}"
        shown.append(f"{star}{one.name}: {one.annotation}{default}")
    result = "" if given.return_annotation in (given.empty, "None") else f" -> {given.return_annotation}"
    return f"({', '.join(shown)}){result}"


def text(thing):
    """The docstring, its examples as blocks of Python."""
    lines, shown, inside = (inspect.getdoc(thing) or "").splitlines(), [], False
    for line in lines:
        begins = line.startswith(">>> ")
        if begins and not inside:
            shown.append("```pycon")
        if inside and not line.strip():
            shown.append("```")
            inside = False
        inside = inside or begins
        shown.append(line)
    return "\n".join(shown + (["```"] if inside else []))


def of_extension(thing):
    """A line for each member of a class of the extension; the signature is the first line of its docstring."""
    lines = []
    for name, value in vars(thing).items():
        if not name.startswith("_"):
            first, *rest = (inspect.getdoc(value) or "").split("\n", 1)
            shown = first.removeprefix(name).replace("(self) -> ", ": ") if "(self) ->" in first else first.removeprefix(name).replace("self, ", "")
            lines.append(f"- `{name}{shown.replace('heed._heed.', '').replace('collections.abc.', '')}`" + (f": {rest[0].strip()}" if rest else ""))
    return "\n".join(lines)


def section(name):
    thing = getattr(heed, name)
    if not inspect.isclass(thing):
        doc = text(thing)
        if not hasattr(thing, "__wrapped__") and not inspect.isfunction(thing):
            first, rest = doc.split("\n", 1)
            return f"### `heed.{name}`\n```python\nheed.{first}\n```\n{rest.strip()}"
        return f"### `heed.{name}`\n```python\nheed.{name}{signature(thing)}\n```\n{doc}"
    parents = [base.__name__ for base in thing.__bases__ if base.__name__ in heed.__all__]
    parts = [f"### `heed.{name}`\n" + (f"A `{parents[0]}`. " if parents else "") + text(thing)]
    if thing.__module__ == "heed._heed":
        return "\n\n".join([*parts, of_extension(thing)]).rstrip()
    for member, value in vars(thing).items():
        if member.startswith("_"):
            continue
        if isinstance(value, property):
            parts.append(f"#### `{name}.{member}`\n{text(value)}")
        elif inspect.isfunction(value):
            parts.append(f"#### `{name}.{member}`\n```python\n{member}{signature(value)}\n```\n{text(value)}")
    return "\n\n".join(parts)


def page():
    listed = [name for names in GROUPS.values() for name in names]
    missing = sorted(set(heed.__all__) - set(listed) - {"__version__"})
    if missing:
        sys.exit(f"python-reference: error: in no group of this script: {', '.join(missing)}")
    parts = [HEAD]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n" + "\n\n".join(section(name) for name in names))
    intro, imports = inspect.getdoc(heed.integrations).split("\n\n")
    parts.append(f"## Integrations\n{intro}\n```python\n{inspect.cleandoc(imports)}\n```")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main():
    made = page()
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != made:
            sys.exit(f"python-reference: error: {PAGE} differs from the docstrings (run scripts/python-reference.py)")
    elif sys.argv[1:]:
        sys.exit("usage: scripts/python-reference.py [--check]")
    else:
        PAGE.write_text(made)


main()
