#!/usr/bin/env bash
# Builds the extension of the Python package beside the command, and runs its tests and the check of its types, in a virtual
# environment with what these need from PyPI.
#   scripts/test-python.sh [BUILD]      BUILD (build/release) is configured by `make build`
# PYTHON (python3) is at least 3.10, with headers. Ends with status 77, saying why, where Python or PyPI is missing; the reason is also in
# build/python-package/skipped.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
python=${PYTHON:-python3}
package=$PWD/build/python-package
rm -rf "$package"
mkdir -p "$package"
skip() { echo "  the Python package: $*" | tee "$package/skipped.txt" >&2; exit 77; }

command -v "$python" >/dev/null || skip "no $python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "$python is older than 3.10"
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -e "$headers/Python.h" ] || skip "no Python.h (Debian: libpython3-dev)"
environment=$PWD/build/python-environment
[ -x "$environment/bin/python" ] || "$python" -m venv --clear "$environment" || skip "no venv (Debian: python3-venv)"
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 \
  'nanobind>=3.1' 'nanobind-backend>=1.0' numpy pytest mypy || skip "PyPI gives no packages"

trap 'cmake -S . -B "$build" -DHEED_PYTHON=OFF --log-level=WARNING >/dev/null' EXIT  # whoever builds next needs no Python
cmake -S . -B "$build" -DHEED_PYTHON=ON -DPython_EXECUTABLE="$environment/bin/python" --log-level=WARNING
cmake --build "$build" --parallel "$(scripts/build-jobs.sh)" --target heed_command heed_python_stub
cp -r python/heed "$package"
cmake --install "$build" --component python --prefix "$package" >/dev/null
MYPYPATH=$package "$environment/bin/python" -m mypy --config-file pyproject.toml "$package/heed"
PYTHONPATH=$package "$environment/bin/python" scripts/python-reference.py --check
PYTHONPATH=$package "$environment/bin/python" -m pytest -q -rs tests/python
