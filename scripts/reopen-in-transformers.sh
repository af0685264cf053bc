#!/usr/bin/env bash
# Random models of every family, made by transformers, run and saved by heed, opened again in transformers: writes
# the second table of docs/models.md anew and fails where a difference is too large.
#   scripts/reopen-in-transformers.sh [BUILD FOLDER] [PYTHON]
# PYTHON has the packages of bench/peers/requirements.txt (bench/peers/setup.sh installs them).
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
