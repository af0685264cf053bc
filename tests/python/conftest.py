import os
import shutil
import subprocess
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[2] / "models"
FIXTURES = Path(__file__).parents[1] / "fixtures"
os.environ.setdefault("HEED_MODELS", str(MODELS))


def of_command(*arguments):
    from heed._training import command
    return subprocess.run([command(), *arguments], capture_output=True, text=True, check=True).stdout


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


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory):
    """A folder with the decoder and a chat template."""
    folder = tmp_path_factory.mktemp("models") / "chat"
    shutil.copytree(MODELS / "shakespeare", folder)
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}")
    return str(folder)
