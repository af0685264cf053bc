"""Analyses of what a model computes, and pictures of attention."""
from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from heed import _heed
from heed._checks import checked, pairs
from heed._models import Model, _bar, _list, load
from heed._reports import (Report, Steering, of_ablate, of_attribute, of_circuits, of_lens, of_patch, of_saliency, records)


class Attention:
    """The attention of one text as a picture: the page of `heed attend` in Jupyter, text elsewhere.

    >>> picture = heed.attend(heed.load("shakespeare"), "ROMEO:", layers=[1], heads=[0])
    >>> print(str(picture).splitlines()[2])
    decoder self-attention, layer 1, head 0
    >>> picture.svg().startswith("<svg"), picture.html().startswith("<!DOCTYPE html>"), sorted(picture.found())
    (True, True, ['maps', 'title', 'tokens'])
    """

    def __init__(self, picture: _heed.AttentionPicture, title: str) -> None:
        self._picture = picture
        self._title = title

    def html(self) -> str:
        """The interactive page, one self-contained document."""
        return self._picture.html()

    def svg(self) -> str:
        """The figure, one self-contained picture."""
        return self._picture.svg()

    def show(self, height: int = 640) -> Any:
        """The page in a notebook: a widget whose `layer` and `head` are those that are shown, where anywidget is installed."""
        try:
            from heed.integrations.widget import AttentionWidget
        except ImportError:
            from IPython.display import HTML
            return HTML(self._frame(height))  # type: ignore[no-untyped-call,unused-ignore]
        return AttentionWidget(page=self.html(), height=height)

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
        return f'<div><iframe srcdoc="{page}" style="width:100%;height:{height}px;border:0"></iframe></div>'

    def _repr_html_(self) -> str:
        return self._frame(640)

    def __str__(self) -> str:
        return self._picture.text()

    def __repr__(self) -> str:
        return f"<heed.Attention: {self._title!r}>"


def _analyzed(model: Model) -> _heed.AnalyzedModel:
    if not hasattr(model, "_analyzed"):
        model._analyzed = _heed.AnalyzedModel(model._opened, model.name)  # type: ignore[attr-defined]
    return model._analyzed  # type: ignore[attr-defined]


@checked
def lens(model: Model, text: str, *, target: str | None = None, top_k: int = 1) -> Report:
    """The prediction of each layer (the logit lens): of the next token, of each masked one, or of the label of a file.

    arrays: `probability` float64, `token` (texts; `label` of a classifier) and `id` int64, each [layer, position], and
    [layer, position, rank] for top_k > 1. target: the text that an encoder-decoder writes. A heed.Error for a model without logits.

    >>> tokens = heed.lens(heed.load("shakespeare"), "ROMEO:").arrays["token"]
    >>> tokens.coords["layer"], tokens.values[-1, -1]
    (['embed', '0', '1', '2', '3'], '\\n')
    """
    return Report(_heed.lens(_analyzed(model), text, target, top_k), of_lens)


@checked
def attribute(model: Model, texts: str | Sequence[str], *, token: str | None = None, other: str | None = None,
              metric: str | None = None, position: int | None = None, target: str | None = None) -> Report:
    """What each head and feed-forward network adds to the logit of `token`, or to its difference to that of `other`.

    arrays: `self_attn` float64 [layer, head] (and `cross_attn`), `feed_forward` [layer], `embed` and `bias` []; for several texts
    means, with `self_attn_error` and others. The parts sum to report["logit"]. position: of the prediction, by default the last.
    A heed.Error for a text that is not one token.

    >>> report = heed.attribute(heed.load("shakespeare"), "ROMEO:", token="\\n")
    >>> total = sum(array.values.sum() for array in report.arrays.values())
    >>> report.array.dims, f"{total:.3f}", f"{report['logit']:.3f}"
    (('layer', 'head'), '13.127', '13.127')
    """
    return Report(_heed.attribute(_analyzed(model), _list(texts), target, _heed.Metric(metric, token, other, position)), of_attribute)


@checked
def saliency(model: Model, text: str, *, method: str = "gradient", token: str | None = None, other: str | None = None,
             metric: str | None = None, position: int | None = None, target: str | None = None,
             show_progress_bar: bool = True) -> Report:
    """What each token of a text adds to a metric, by default to the logit of the prediction.

    method: gradient (times input), integrated (gradients) or occlusion. arrays: `adds` float64 [output, position]; of an
    encoder-decoder `encoder_adds` and `decoder_adds`. A heed.Error for another method.

    >>> heed.saliency(heed.load("reviews"), "A great film.").array.coords["output"]
    ['positive']
    """
    with _bar("saliency", show_progress_bar) as progress:
        return Report(_heed.saliency(_analyzed(model), text, target, _heed.Metric(metric, token, other, position), method, progress),
                      of_saliency)


@checked
def heads(model: Model, texts: str | Sequence[str] | None = None, *, repeated: int | None = None, seed: int = 0, kind: str = "",
          sort: str = "", target: str | None = None) -> Report:
    """Measures of every head over texts; with `repeated`, over that many random tokens and their repetition, as a test of
    induction heads.

    arrays, float64 [layer, head]: `previous`, `duplicate` and `induction` (the weights of those tokens), `first`, `separator`,
    `entropy`, `distance`, `size`, and others. kind: encoder, decoder or cross. A TypeError without texts and repeated.

    >>> induction = heed.heads(heed.load("shakespeare"), repeated=20).arrays["induction"]
    >>> induction.shape, divmod(int(induction.values.argmax()), 6)
    ((4, 6), (1, 0))
    """
    if repeated is not None:
        return Report(_heed.repeated_heads(_analyzed(model), repeated, seed), records)
    if texts is None:
        raise TypeError("heads: expected texts, or repeated=NUMBER")
    return Report(_heed.heads(_analyzed(model), _list(texts), target, kind, sort), records)


@checked
def ablate(model: Model, texts: str | Sequence[str], *, remove: str = "", replacement: str = "zero", token: str | None = None,
           other: str | None = None, metric: str | None = None, position: int | None = None, feed_forward: bool = False,
           target: str | None = None, show_progress_bar: bool = True) -> Report:
    """Metrics without each head, or without those of `remove` ("5.1,6.0,3.ff") together.

    replacement: zero, mean or resample. metric: loss, logit, logit-diff, probability or kl. arrays, float64: `change` and `value`
    [metric, layer, head], with feed_forward=True `feed_forward_change` [metric, layer]. A heed.Error for another word.

    >>> change = heed.ablate(heed.load("shakespeare"), "ROMEO:", metric="loss", show_progress_bar=False).arrays["change"]
    >>> change.dims, change.shape
    (('metric', 'layer', 'head'), (1, 4, 6))
    """
    with _bar("ablate", show_progress_bar) as progress:
        return Report(_heed.ablate(_analyzed(model), _list(texts), target, _heed.Metric(metric, token, other, position), remove,
                                   replacement, feed_forward, progress), of_ablate)


@checked
def patch(model: Model, clean: str, corrupted: str, *, site: str | None = None, method: str = "passes",
          token: str | None = None, other: str | None = None, metric: str | None = None, position: int | None = None,
          target: str | None = None, show_progress_bar: bool = True) -> Report:
    """The effect of the clean run's values in the corrupted one: 0 changes nothing, 1 gives the clean run's metric.

    site: residual, attention, feed-forward or heads. method: passes, gradient (attribution patching) or both. arrays, float64:
    `effects` and `patched` [layer, position], of heads [layer, head]. A heed.Error for texts of different lengths.

    >>> found = heed.patch(heed.load("shakespeare"), "ROMEO:", "JULIE:", token="\\n", site="heads", show_progress_bar=False)
    >>> found.array
    NamedArray('effects', layer: 4, head: 6, float64)
    """
    with _bar("patch", show_progress_bar) as progress:
        return Report(_heed.patch(_analyzed(model), clean, corrupted, target, _heed.Metric(metric, token, other, position), site,
                                  method, progress), of_patch)


@checked
def circuits(model: Model, head: str | None = None, *, show_progress_bar: bool = True) -> Report:
    """What the weights of heads allow them to do: compositions, copying; with `head` ("5.1") its tokens.

    arrays, float64: `copying`, `offset` and `at_offset` [layer, head], the singular values `ov` and `qk` [layer, head, dimension].

    >>> heed.circuits(heed.load("shakespeare"), show_progress_bar=False).arrays["ov"].shape
    (4, 6, 32)
    """
    with _bar("circuits", show_progress_bar) as progress:
        return Report(_heed.circuits(_analyzed(model), head, progress), of_circuits)


@checked
def steer(model: Model, positive: str | Sequence[str], negative: str | Sequence[str], *, method: str = "mean",
          tokens: str = "last", show_progress_bar: bool = True) -> Steering:
    """The direction of the residual stream after each layer in which two sets of texts differ: a Steering.

    `model.steered()` adds it while the model computes; save() writes the file that `heed generate --steer` reads. method: mean
    (the difference of the means) or pca (of pairs). tokens: last, or mean over all. arrays: `vectors` float32 [layer, D],
    `length`, `stream` and `separated` float64 [layer]. A heed.Error for sets that do not differ, and for pca with sets of different
    sizes.

    >>> lm = heed.load("shakespeare")
    >>> steering = heed.steer(lm, ["O joy!", "What love!"], ["O woe!", "What pain!"], show_progress_bar=False)
    >>> steering.arrays["vectors"].shape
    (4, 192)
    >>> len(lm.steered(steering, 2.0, layers=(1, 3)).generate("ROMEO:", max_new_tokens=8))
    8
    """
    with _bar("steer", show_progress_bar) as progress:
        return Steering(_heed.steer(_analyzed(model), _list(positive), _list(negative), method, tokens, progress))


@checked
def attend(model: Model, text: str, *, pair: str | None = None, target: str | None = None, kind: str = "",
           layers: Sequence[int] | None = None, heads: Sequence[int] = ()) -> Attention:
    """The attention of a text (or an image or sound file): a page, a figure, numbers.

    pair: a second text of an encoder. target: what an encoder-decoder writes. kind: encoder, decoder or cross. Without layers and
    heads, all of them. A heed.Error for a layer, a head or a kind that the model does not have.

    >>> picture = heed.attend(heed.load("en-fr"), "The black cat drinks milk.", kind="cross", layers=[1], heads=[0])
    >>> picture
    <heed.Attention: 'The black cat drinks milk.'>
    """
    return Attention(_heed.attend(model._opened, model.name, text, pair, target, kind,
                                  None if layers is None else [int(layer) for layer in layers], [int(head) for head in heads]), text)


@checked
def doctor(model: Model | str, *, text: str = "") -> list[dict[str, Any]]:
    """The checks of `heed doctor`: dicts of name, status (ok, warning, failed, skipped), measurement, advice and values.

    >>> {check["status"] for check in heed.doctor("shakespeare")} <= {"ok", "warning", "skipped"}
    True
    """
    opened = load(model, head=True) if isinstance(model, str) else model
    return _heed.doctor(opened._opened, text, None)


@checked
def line_chart(title: str, x: str, y: str, series: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """A small chart of lines as SVG: the points (xs, ys) of each series by its name, joined in their order.

    >>> heed.line_chart("Loss", "step", "loss", {"train": ([0, 1, 2], [3.0, 2.0, 1.5])}).startswith("<svg")
    True
    """
    points = pairs("series", list(series.values()), "(xs, ys)")
    return _heed.line_chart(title, x, y, [(name, (list(xs), list(ys))) for name, (xs, ys) in zip(series, points)])
