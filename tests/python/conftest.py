import os
from pathlib import Path

import pytest

os.environ.setdefault("HEED_MODELS", str(Path(__file__).parents[2] / "models"))
FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="session")
def decoder():
    import heed
    return heed.load("shakespeare")


@pytest.fixture(scope="session")
def classifier():
    import heed
    return heed.load("reviews")


@pytest.fixture(scope="session")
def masked():
    import heed
    return heed.load("reviews-mlm")


@pytest.fixture(scope="session")
def translator():
    import heed
    return heed.load("en-fr")
