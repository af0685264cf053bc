"""The docstrings: whatever is public has one, and their examples are true."""
import doctest
import importlib
import inspect

import pytest

import heed
from conftest import FIXTURES

MODULES = ["_analysis", "_checks", "_models", "_names", "_reports", "_speech", "_training"]


def public():
    for name in heed.__all__:
        thing = getattr(heed, name)
        yield name, thing
        if inspect.isclass(thing) and thing.__module__.startswith("heed."):
            yield from ((f"{name}.{member}", value) for member, value in vars(thing).items()
                        if member[0] != "_" and (callable(value) or isinstance(value, property)))


@pytest.mark.parametrize("name, thing", [one for one in public() if one[0] not in ("__version__",)])
def test_what_is_public_says_what_it_is(name, thing):
    assert inspect.getdoc(thing), name


SHOWN_ELSEWHERE = {"Model.num_parameters", "Model.attend", "Model.steered"}  # by their class, and by heed.attend() and heed.steer()


@pytest.mark.parametrize("name", [name for name, thing in public() if inspect.isfunction(thing) and name not in SHOWN_ELSEWHERE])
def test_functions_have_examples(name):
    owner, *member = name.split(".")
    thing = getattr(heed, owner)
    assert any(">>>" in (inspect.getdoc(one) or "") for one in (thing, *(getattr(thing, each) for each in member)))


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name, monkeypatch):
    monkeypatch.chdir(FIXTURES.parents[1])
    module = importlib.import_module(f"heed.{name}")
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    told = []
    for test in doctest.DocTestFinder().find(module, extraglobs={"heed": heed}):
        runner.run(test, out=told.append)
    assert not runner.summarize(verbose=False).failed, "".join(told)
