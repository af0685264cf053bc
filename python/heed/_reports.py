"""What analyses found: arrays with named axes, tables, and files."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed import _heed


class NamedArray:
    """An array whose axes have names: `values`, `dims` (one name an axis) and `coords` (the labels along an axis).

    NumPy takes it as an array, PyTorch and JAX by DLPack; neither copies.

    >>> a = heed.heads(heed.load("shakespeare"), repeated=20).arrays["induction"]
    >>> a.dims, a.shape, a.values.dtype
    (('layer', 'head'), (4, 6), dtype('float64'))
    >>> f"{float(a.sel(layer=1, head=0)):.2f}"
    '0.10'
    """

    def __init__(self, name: str, values: NDArray[Any], dims: Sequence[str], coords: Mapping[str, Sequence[Any]]) -> None:
        self.name = name
        self.values = values
        self.dims = tuple(dims)
        self.coords = {dim: list(coords[dim]) if dim in coords else list(range(size)) for dim, size in zip(self.dims, values.shape)}

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self.values.shape

    @property
    def dtype(self) -> Any:
        """The type of the numbers: float64, or object of texts."""
        return self.values.dtype

    def sel(self, **labels: Any) -> NamedArray:
        """The part at these labels, without their axes.

        A label that no axis has is a KeyError, one that occurs twice a ValueError; an axis of texts takes an index too.

        >>> heed.lens(heed.load("shakespeare"), "ROMEO:").arrays["token"].sel(layer="3", position=5).values.item()
        '\\n'
        """
        index: list[Any] = [slice(None)] * len(self.dims)
        for dim, label in labels.items():
            if dim not in self.coords:
                raise KeyError(f"{dim}: expected one of {', '.join(self.dims)}")
            places = [place for place, one in enumerate(self.coords[dim]) if one == label]
            if not places and isinstance(label, int) and isinstance(self.coords[dim][0], str):
                places = [label]
            if not places:
                raise KeyError(f"{dim}: no {label!r} among {self.coords[dim]}")
            if len(places) > 1:
                raise ValueError(f"{dim}: {label!r} is at {places} (give the index)")
            index[self.dims.index(dim)] = places[0]
        kept = [dim for dim in self.dims if dim not in labels]
        return NamedArray(self.name, np.asarray(self.values[tuple(index)]), kept, {dim: self.coords[dim] for dim in kept})

    def to_pandas(self) -> Any:
        """A pandas.Series of one axis, a DataFrame of two, a Series with an index of several levels of more."""
        import pandas
        if len(self.dims) == 1:
            return pandas.Series(self.values, pandas.Index(self.coords[self.dims[0]], name=self.dims[0]), name=self.name)
        if len(self.dims) == 2:
            rows, columns = (pandas.Index(self.coords[dim], name=dim) for dim in self.dims)
            return pandas.DataFrame(self.values, rows, columns)
        index = pandas.MultiIndex.from_product([self.coords[dim] for dim in self.dims], names=self.dims)
        return pandas.Series(self.values.reshape(-1), index, name=self.name)

    def __getitem__(self, key: Any) -> Any:
        return self.values[key]

    def __len__(self) -> int:
        return len(self.values)

    def __float__(self) -> float:
        return float(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self.values.copy() if copy and dtype is None else self.values.astype(dtype or self.dtype, copy=bool(copy))

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()

    def __repr__(self) -> str:
        axes = ", ".join(f"{dim}: {size}" for dim, size in zip(self.dims, self.shape))
        return f"NamedArray({self.name!r}, {axes}, {self.dtype})"


Arrays = dict[str, NamedArray]


def records(found: Sequence[Mapping[str, Any]], prefix: str = "") -> Arrays:
    """Of dicts with a layer and a head, or with a layer alone: an array of each member that is a number or a list of them."""
    axes = [axis for axis in ("layer", "head") if found and axis in found[0]]
    coords: dict[str, list[Any]] = {axis: sorted({one[axis] for one in found}) for axis in axes}
    arrays: Arrays = {}
    for member in dict.fromkeys(name for one in found for name in one if name not in axes):
        cells = {tuple(coords[axis].index(one[axis]) for axis in axes): np.asarray(one[member], np.float64)
                 for one in found if isinstance(one.get(member), (int, float, list))}
        if not cells:
            continue
        inner = next(iter(cells.values())).shape
        values = np.full([len(coords[axis]) for axis in axes] + list(inner), np.nan)
        for place, cell in cells.items():
            values[place] = cell
        dims = axes + ["dimension"] * len(inner)
        arrays[prefix + member] = NamedArray(prefix + member, values, dims, coords)
    return arrays


def of_attribute(found: Any) -> Arrays:
    """The logit, and its error where there are several texts, of heads, of feed-forward networks, and of other parts."""
    def only(part: Mapping[str, Any]) -> dict[str, Any]:
        return {name: part[name] for name in ("layer", "head", "logit", "error") if part.get(name) is not None}
    parts = found["parts"]
    arrays: Arrays = {}
    for name in dict.fromkeys(part["name"] for part in parts):
        mine = [part for part in parts if part["name"] == name]
        heads, layers = [part for part in mine if part["head"] is not None], [part for part in mine if part["head"] is None]
        for chosen, title in ((heads, name), (layers, f"{name}_bias" if heads else name)):
            for member, array in records([only(part) for part in chosen]).items():
                arrays[title if member == "logit" else f"{title}_{member}"] = array
    for name, array in arrays.items():
        array.name = name
    return dict(sorted(arrays.items(), key=lambda item: "head" not in item[1].dims))


def of_ablate(found: Any) -> Arrays:
    """[metric, layer, head] of heads, [metric, layer] of feed-forward networks."""
    arrays: Arrays = {}
    for part, prefix in ((None, ""), ("feed_forward", "feed_forward_")):
        each = [records([{name: value for name, value in one.items() if name != "part"} for one in metric["heads"]
                         if one.get("part") == part], prefix) for metric in found["metrics"]]
        names = [metric["metric"] for metric in found["metrics"]]
        for name, first in (each[0] if each else {}).items():
            values = np.stack([one[name].values for one in each])
            arrays[name] = NamedArray(name, values, ("metric", *first.dims), {"metric": names, **first.coords})
    return {name: arrays[name] for name in sorted(arrays, key=lambda name: (name != "change", "feed_forward" in name))}


def of_lens(found: Any) -> Arrays:
    """probability, token (label of a classifier) and id: [layer, position], with an axis rank where top_k is not 1."""
    layers = found["layers"]
    by_position = "positions" in layers[0]
    best = [layer["positions"] if by_position else [layer["labels"]] for layer in layers]
    coords: dict[str, Any] = {"layer": [layer["name"] for layer in layers], "position": found.get("tokens", [""])}
    arrays: Arrays = {}
    for member in ("probability", "token" if by_position else "label", "id"):
        kind: Any = {"probability": np.float64, "id": np.int64}.get(member, object)
        values = np.array([[[one[member] for one in each] for each in layer] for layer in best], kind)
        dims = ["layer", "position", "rank"]
        if values.shape[2] == 1:
            values, dims = values[:, :, 0], dims[:2]
        if not by_position:
            values, dims = values[:, 0], [dims[0], *dims[2:]]
        arrays[member] = NamedArray(member, values, dims, {dim: coords[dim] for dim in dims if dim in coords})
    return arrays


def of_saliency(found: Any) -> Arrays:
    """adds: [output, position]; of an encoder-decoder one array of each stack."""
    outputs = found["outputs"]
    arrays: Arrays = {}
    for index, stack in enumerate(outputs[0]["stacks"]):
        name = "adds" if len(outputs[0]["stacks"]) == 1 else f"{stack['stack']}_adds"
        values = np.array([output["stacks"][index]["adds"] for output in outputs], np.float64)
        arrays[name] = NamedArray(name, values, ("output", "position"),
                                  {"output": [output["name"] for output in outputs], "position": stack["tokens"]})
    return arrays


def of_patch(found: Any) -> Arrays:
    """effects, patched (the metric), and estimated with method="both": [layer, position], or [layer, head]."""
    across = "head" if found["site"] == "heads" else "position"
    coords = {"layer": found["layers"], **({"position": found["tokens"]} if across == "position" else {})}
    return {name: NamedArray(name, np.array(found[name], np.float64), ("layer", across), coords)
            for name in ("effects", "patched", "estimated") if name in found}


def of_circuits(found: Any) -> Arrays:
    """copying, offset, at_offset and others: [layer, head]; the singular values ov and qk: [layer, head, dimension]."""
    arrays = records(found["heads"])
    return {name: arrays[name] for name in sorted(arrays, key=lambda name: name != "copying")}


class Table:
    """A table of an analysis: `values` with the labels `rows` and `columns`.

    >>> table = heed.heads(heed.load("shakespeare"), repeated=20).table
    >>> len(table.rows), table.columns[:3]
    (24, ['previous', 'duplicate', 'induction'])
    """

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
    """What an analysis found: `arrays` with named axes, `tables` as the command shows them, and `found`, its JSON.

    In a notebook it is a figure, in a terminal its tables. report["name"] is a member of `found`.

    >>> report = heed.lens(heed.load("shakespeare"), "ROMEO:")
    >>> report.array
    NamedArray('probability', layer: 5, position: 6, float64)
    """

    def __init__(self, report: _heed.Report, shape: Callable[[Any], Arrays]) -> None:
        self._report = report
        self._shape = shape

    @property
    def found(self) -> Any:
        """What the command prints with --json, as dicts and lists."""
        return self._report.found

    @property
    def arrays(self) -> Arrays:
        """The numbers by their names; those that matter most are first."""
        return self._shape(self.found)

    @property
    def array(self) -> NamedArray:
        """The first of `arrays`. A ValueError where there is none."""
        arrays = self.arrays
        if not arrays:
            raise ValueError("array: the analysis found tables alone (see tables)")
        return next(iter(arrays.values()))

    @property
    def tables(self) -> list[Table]:
        """The tables that the command shows."""
        return [Table(one) for one in self._report.tables]

    @property
    def table(self) -> Table:
        """The one that a figure shows."""
        return Table(self._report.shown)

    @property
    def warnings(self) -> list[str]:
        """What to know about the numbers."""
        return self._report.warnings

    def to_pandas(self) -> Any:
        """`table` as a pandas.DataFrame; `arrays` have their own."""
        return self.table.to_pandas()

    def save(self, path: str | Path) -> None:
        """Writes a figure (.svg, .pdf, .png), its numbers (.csv, .npz) or all that was found (.json).

        Another ending is a heed.Error.
        """
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


class Steering(Report):
    """Vectors that steer a model: arrays["vectors"] float32 [layer, D], and their length, the length of the texts' stream and the
    share of texts that they separate, float64 [layer].

    >>> steering = heed.steer(heed.load("shakespeare"), ["O joy!"], ["O woe!"], method="pca", show_progress_bar=False)
    >>> bool(abs((steering.array.values ** 2).sum(1) - 1).max() < 1e-5)
    True
    """

    def __init__(self, steering: _heed.Steering) -> None:
        super().__init__(steering.report, self._arrays)
        self._steering = steering

    def _arrays(self, found: Any) -> Arrays:
        layers = [layer for layer, _ in self._steering.vectors]
        vectors = NamedArray("vectors", np.stack([vector for _, vector in self._steering.vectors]), ("layer", "dimension"),
                             {"layer": layers})
        return {"vectors": vectors, **records(found)}

    def save(self, path: str | Path) -> None:
        """Writes the vectors (.safetensors, or .gguf for a control vector of llama.cpp) as `heed steer` does, or as Report.save()."""
        if Path(path).suffix in (".safetensors", ".gguf"):
            self._steering.save(str(path))
        else:
            super().save(path)
