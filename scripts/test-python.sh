#!/usr/bin/env bash
# Builds the extension of the Python package beside the command, and runs its tests and the check of its types, in a virtual
# environment with what these need from PyPI.
#   scripts/test-python.sh [BUILD]      BUILD (build/release) is configured by `make build`
# PYTHON (python3) is at least 3.10, with headers. Ends with status 77, saying why, where Python or PyPI is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
python=${PYTHON:-python3}
skip() { echo "test-python: skipped: $*" >&2; exit 77; }

command -v "$python" >/dev/null || skip "no $python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "$python is older than 3.10"
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -e "$headers/Python.h" ] || skip "no Python.h (Debian: python3-dev)"
environment=$PWD/build/python-environment
[ -x "$environment/bin/python" ] || "$python" -m venv "$environment" || skip "no venv (Debian: python3-venv)"
"$environment/bin/pip" install --quiet --disable-pip-version-check \
  'nanobind>=3.1' 'nanobind-backend>=1.0' numpy pytest mypy || skip "PyPI gives no packages"

cmake -S . -B "$build" -DHEED_PYTHON=ON -DPython_EXECUTABLE="$environment/bin/python" --log-level=WARNING
cmake --build "$build" --parallel "$(scripts/build-jobs.sh)" --target heed_command heed_python_stub
package=$PWD/build/python-package
rm -rf "$package"
mkdir -p "$package"
cp -r python/heed "$package"
cmake --install "$build" --component python --prefix "$package" >/dev/null
MYPYPATH=$package "$environment/bin/python" -m mypy --config-file pyproject.toml "$package/heed"
PYTHONPATH=$package "$environment/bin/python" -m pytest -q tests/python
