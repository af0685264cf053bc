"""heed: transformers that run, train and show what every head attends to, on ordinary processors.

    import heed
    model = heed.load("all-MiniLM-L6-v2")
    vectors = model.encode(["A great film.", "A wonderful movie."])   # float32 [2, 384]

A model is a folder in Hugging Face layout, a GGUF file, or the name of one that is installed or in the Hugging Face
cache. Arrays are NumPy's; whatever has DLPack or the buffer protocol (PyTorch, JAX) is taken as it is.
"""
from typing import TYPE_CHECKING

from heed import _heed as _heed  # which warns of a slow processor

if TYPE_CHECKING:
    from heed._api import *
    from heed._api import __version__ as __version__
else:
    def __getattr__(name):
        """A name of _api, which is imported with the first of them: NumPy takes longer to import than all else."""
        from importlib import import_module
        api = import_module("heed._api")
        if name != "__all__" and name not in api.__all__:
            raise AttributeError(f"module 'heed' has no attribute {name!r}")
        globals()[name] = getattr(api, name)
        return globals()[name]

    def __dir__():
        return sorted(__getattr__("__all__"))
