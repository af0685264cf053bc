"""Training by a recipe, and the command that comes with the package."""
from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from heed import _heed
from heed._checks import checked


@checked
def train(recipe: str | Path, output: str | Path, *, init: str | None = None, resume: bool = False,
          on_step: Callable[[dict[str, Any]], Any] | None = None,
          on_evaluation: Callable[[int, dict[str, float], bool], Any] | None = None,
          on_message: Callable[[str], Any] | None = None, **settings: Any) -> dict[str, Any]:
    """Trains by a recipe (a TOML file), and writes the model, checkpoints and log to `output`.

    settings are keys of the recipe with `__` for the dot: train__lr=3e-4, data__train="my.txt". init: a model to start from.
    on_step gets a dict of step, total, epoch, loss, lr and seconds_left; on_evaluation the step, the scores, and whether they
    are the best so far. Returns steps, epochs, seconds, evaluation and test. Ctrl-C ends the run with a checkpoint, from which
    resume=True goes on. A heed.Error for a recipe or a setting that is wrong names it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     heed.train("recipes/text.toml", folder, data__train="README.md", train__steps=2)["steps"]
    2
    """
    return _heed.train(str(recipe), str(output), [f"{key.replace('__', '.')}={_toml(value)}" for key, value in settings.items()],
                       init, resume, on_step, on_evaluation, on_message)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(f'"{one}"' if isinstance(one, str) else str(one) for one in value) + "]"
    return str(value)


def command() -> str:
    """The path of the command `heed` of this package."""
    return str(Path(_heed.__file__).parent / "bin" / "heed")


@checked
def convert(model: str | Path, output: str | Path, **options: Any) -> None:
    """`heed convert`: writes a model in another form. options are those of the command: bits=4, type="q8_0", dtype="bf16",
    adapter="DIR", method="gptq", calibrate="FILE". A heed.Error with the command's message.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     heed.convert("shakespeare", f"{folder}/small", dtype="bf16")
    ...     heed.load(f"{folder}/small").tasks[0]
    'continue text'
    """
    arguments = [command(), "convert", str(model), "--output", str(output), "--quiet"]
    for name, value in options.items():
        arguments += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != 0:
        raise _heed.Error(done.stderr.removeprefix("heed: error: ").strip())
