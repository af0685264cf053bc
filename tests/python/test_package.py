"""The package as it is installed: what comes with it is found, and the command with it."""
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import heed
from heed._training import command

ALONE = {name: value for name, value in os.environ.items() if not name.startswith("HEED_")}
PACKAGE = Path(command()).parents[1]


def python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**ALONE, **environment})


def test_models_come_with_the_package():
    done = python("import heed; print(heed.load('shakespeare').config['model_type'])")
    assert (done.stdout, done.stderr) == ("gpt2\n", "")


def test_the_command_has_the_models_and_recipes_of_the_package():
    listed = subprocess.run([command(), "models"], capture_output=True, text=True, env=ALONE, check=True).stdout
    assert str(PACKAGE / "share/heed/models/shakespeare") in listed
    planned = subprocess.run([command(), "train", "reverse", "--dry-run"], capture_output=True, text=True, env=ALONE, check=True)
    assert "20000 pairs to train on" in planned.stdout + planned.stderr


def test_the_script_of_an_installed_package_starts_its_command():
    script = Path(sys.executable).parent / "heed"
    if PACKAGE.parent.name != "site-packages":
        pytest.skip("the package is not installed")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, env=ALONE, check=True)
    assert done.stdout.startswith(f"heed {heed.__version__}\n")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="AVX2 is of x86-64")
def test_import_warns_on_a_processor_without_avx2():
    emulator = shutil.which("qemu-x86_64-static") or shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("no emulator of processors (Debian: qemu-user)")
    code = "import heed; print(heed.load('shakespeare').generate('ROMEO:', max_new_tokens=1) is not None)"
    done = subprocess.run([emulator, "-cpu", "Nehalem", sys.executable, "-c", code], capture_output=True, text=True, env=ALONE)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert "RuntimeWarning: heed: this processor has no AVX2" in done.stderr
    assert python("import heed").stderr == ""


def test_numpy_is_imported_with_the_first_name_that_stands_on_it():
    done = python("import sys, heed; print('numpy' in sys.modules); heed.load; print('numpy' in sys.modules, 'load' in dir(heed))")
    assert (done.stdout, done.stderr) == ("False\nTrue True\n", "")


def test_the_package_has_its_names_and_no_others():
    with pytest.raises(AttributeError, match="module 'heed' has no attribute 'numpy'"):
        heed.numpy
    assert all(getattr(heed, name) is not None for name in heed.__all__)
