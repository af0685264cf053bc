"""Analyses of what a model computes: arrays with named axes, and pictures of attention."""
from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed import _heed
from heed._models import Model


class Table:
    """A table of an analysis: `values` with the labels `rows` and `columns`."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.title: str = given["title"]
        self.rows: list[str] = given["rows"]
        self.columns: list[str] = given["columns"]
        self._cells: list[list[Any]] = given["values"]

    @property
    def values(self) -> NDArray[np.float64]:
        """The numbers, float64 [rows, columns]; NaN where a cell is none."""
        return np.array([[cell if isinstance(cell, float) else np.nan for cell in row] for row in self._cells], np.float64)

    @property
    def cells(self) -> list[list[Any]]:
        """The cells: numbers, and texts where a cell is none."""
        return self._cells

    def __getitem__(self, key: tuple[str, str]) -> Any:
        row, column = key
        return self._cells[self.rows.index(row)][self.columns.index(column)]

    def to_pandas(self) -> Any:
        """A pandas.DataFrame."""
        import pandas
        return pandas.DataFrame(self._cells, index=self.rows, columns=self.columns)

    def __repr__(self) -> str:
        return f"Table({self.title!r}, {len(self.rows)} rows, columns {', '.join(self.columns)})"


class Report:
    """What an analysis found. `found` is the JSON that the command prints, as dicts and lists; `tables` what it shows."""

    def __init__(self, report: _heed.Report) -> None:
        self._report = report

    @property
    def found(self) -> Any:
        return self._report.found

    @property
    def tables(self) -> list[Table]:
        return [Table(one) for one in self._report.tables]

    @property
    def table(self) -> Table:
        """The one that a figure shows."""
        return Table(self._report.shown)

    @property
    def warnings(self) -> list[str]:
        return self._report.warnings

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def save(self, path: str | Path) -> None:
        """Writes a figure (.svg, .pdf, .png), its numbers (.csv, .npz) or all that was found (.json)."""
        target = Path(path)
        content = self._report.json().encode() if target.suffix == ".json" else self._report.file(target.suffix)
        target.write_bytes(content)

    def __getitem__(self, name: str) -> Any:
        return self.found[name]

    def __str__(self) -> str:
        return self._report.text()

    def __repr__(self) -> str:
        return f"<heed.Report: {', '.join(repr(table.title) for table in self.tables)}>"

    def _repr_html_(self) -> str:
        return self._report.svg()


class Attention:
    """The attention of one text as a picture: the page of `heed attend` in Jupyter, text elsewhere."""

    def __init__(self, picture: _heed.AttentionPicture) -> None:
        self._picture = picture

    def html(self) -> str:
        """The interactive page, one self-contained document."""
        return self._picture.html()

    def show(self, height: int = 640) -> Any:
        """The page in a notebook."""
        from IPython.display import HTML
        return HTML(self._frame(height))  # type: ignore[no-untyped-call,unused-ignore]

    def save(self, path: str | Path) -> None:
        """Writes the page (.html), a figure (.svg, .png) or the numbers (.json)."""
        target = Path(path)
        forms: dict[str, Callable[[], bytes]] = {
            ".html": lambda: self._picture.html().encode(), ".svg": lambda: self._picture.svg().encode(),
            ".png": self._picture.png, ".json": lambda: self._picture.json().encode()}
        if target.suffix not in forms:
            raise ValueError(f"{path}: expected a name that ends in {', '.join(forms)}")
        target.write_bytes(forms[target.suffix]())

    def found(self) -> Any:
        """What `heed attend --json` prints."""
        return json.loads(self._picture.json())

    def _frame(self, height: int) -> str:
        page = html.escape(self._picture.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:{height}px;border:0"></iframe>'

    def _repr_html_(self) -> str:
        return self._frame(640)

    def __str__(self) -> str:
        return self._picture.text()


def _analyzed(model: Model) -> _heed.AnalyzedModel:
    if not hasattr(model, "_analyzed"):
        model._analyzed = _heed.AnalyzedModel(model._opened, model.name)  # type: ignore[attr-defined]
    return model._analyzed  # type: ignore[attr-defined]


def _list(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _bar(what: str) -> Any:
    """A progress bar, where tqdm is installed."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    bar = tqdm(desc=what, leave=False)

    def show(done: int, total: int, unit: str) -> None:
        bar.total, bar.unit = total, unit
        bar.update(done - bar.n)
        if done >= total:
            bar.close()
    return show


def lens(model: Model, text: str, *, target: str | None = None, top_k: int = 1) -> Report:
    """The prediction of each layer (the logit lens)."""
    return Report(_heed.lens(_analyzed(model), text, target, top_k))


def attribute(model: Model, texts: str | Sequence[str], *, token: str | None = None, other: str | None = None,
              metric: str | None = None, position: int | None = None, target: str | None = None) -> Report:
    """What each head and feed-forward network adds to the logit of `token`, or to its difference to that of `other`.

    For several texts means with standard errors.
    """
    return Report(_heed.attribute(_analyzed(model), _list(texts), target, _heed.Metric(metric, token, other, position)))


def saliency(model: Model, text: str, *, method: str = "gradient", token: str | None = None, other: str | None = None,
             metric: str | None = None, position: int | None = None, target: str | None = None) -> Report:
    """What each token of a text adds to a metric, by default to the logit of the prediction. method: gradient (times input),
    integrated (gradients) or occlusion."""
    return Report(_heed.saliency(_analyzed(model), text, target, _heed.Metric(metric, token, other, position), method,
                                 _bar("saliency")))


def heads(model: Model, texts: str | Sequence[str] | None = None, *, repeated: int | None = None, seed: int = 0, kind: str = "",
          sort: str = "", target: str | None = None) -> Report:
    """Measures of every head over texts: entropy, attention to the token before, to separators, ...; with `repeated`, over
    that many random tokens and their repetition, as a test of induction heads."""
    if repeated is not None:
        return Report(_heed.repeated_heads(_analyzed(model), repeated, seed))
    if texts is None:
        raise TypeError("heads: expected texts, or repeated=NUMBER")
    return Report(_heed.heads(_analyzed(model), _list(texts), target, kind, sort))


def ablate(model: Model, texts: str | Sequence[str], *, remove: str = "", replacement: str = "zero", token: str | None = None,
           other: str | None = None, metric: str | None = None, position: int | None = None, feed_forward: bool = False,
           target: str | None = None) -> Report:
    """Metrics without each head, or without those of `remove` ("5.1,6.0,3.ff") together. replacement: zero, mean or resample."""
    return Report(_heed.ablate(_analyzed(model), _list(texts), target, _heed.Metric(metric, token, other, position), remove,
                               replacement, feed_forward, _bar("ablate")))


def patch(model: Model, clean: str, corrupted: str, *, site: str | None = None, method: str = "passes",
          token: str | None = None, other: str | None = None, metric: str | None = None, position: int | None = None,
          target: str | None = None) -> Report:
    """The effect of the clean run's values in the corrupted one, at each layer and position. site: residual, attention,
    feed-forward or heads. method: passes, gradient (attribution patching) or both."""
    return Report(_heed.patch(_analyzed(model), clean, corrupted, target, _heed.Metric(metric, token, other, position), site,
                              method, _bar("patch")))


def circuits(model: Model, head: str | None = None) -> Report:
    """What the weights of heads allow them to do: compositions, copying; with `head` ("5.1") its tokens."""
    return Report(_heed.circuits(_analyzed(model), head, _bar("circuits")))


def attend(model: Model, text: str, *, pair: str | None = None, target: str | None = None, kind: str = "",
           layers: Sequence[int] | None = None, heads: Sequence[int] = ()) -> Attention:
    """The attention of a text (or an image or sound file): a page, a figure, numbers."""
    return Attention(_heed.attend(model._opened, model.name, text, pair, target, kind,
                                  None if layers is None else list(layers), list(heads)))


def doctor(model: Model | str, *, text: str = "") -> list[dict[str, Any]]:
    """The checks of `heed doctor`: dicts of name, status (ok, warning, failed, skipped), measurement, advice and values."""
    from heed._models import load
    opened = load(model, head=True) if isinstance(model, str) else model
    return _heed.doctor(opened._opened, text, None)


def line_chart(title: str, x: str, y: str, series: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """A small chart of lines as SVG: the points (xs, ys) of each series by its name, joined in their order."""
    return _heed.line_chart(title, x, y, [(name, (list(xs), list(ys))) for name, (xs, ys) in series.items()])
