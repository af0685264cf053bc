#!/usr/bin/env bash
# Tests random models of every family: transformers makes them, heed runs and saves them, transformers loads them again.
# Updates the second table of docs/models.md; fails if a difference is too large.
#   scripts/reopen-in-transformers.sh [BUILD FOLDER] [PYTHON]
# PYTHON needs the packages of bench/peers/requirements.txt (bench/peers/setup.sh installs them).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
table=$("${2:-build/peers/bin/python}" scripts/reopen-in-transformers.py "$build/heed" "$build/save_again")
page=docs/models.md
{
  sed '/^<!-- reopened -->$/q' "$page"
  printf '%s\n' "$table"
  sed -n '/^<!-- reopened end -->$/,$p' "$page"
} >"$page.new"
mv "$page.new" "$page"
