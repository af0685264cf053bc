#!/usr/bin/env bash
# Runs heed over real published models and compares it with transformers. Downloads packages of PyPI that hold the models (1.6 GB),
# takes about half an hour, and updates the tables of docs/zoo.md. Run before a release.
#   scripts/zoo.sh FOLDER [MODEL...]      FOLDER keeps the models; HEED and PYTHON choose the command and the interpreter
# PYTHON needs torch, transformers, gguf and soundfile.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?usage: scripts/zoo.sh FOLDER [MODEL...]}
shift
python=${PYTHON:-build/peers/bin/python}
tables=$("$python" scripts/zoo.py --heed "${HEED:-build/release/heed}" --folder "$folder" "$@")
if [ $# -gt 0 ]; then printf '%s\n' "$tables"; exit; fi
page=docs/zoo.md
{
  sed '/^<!-- zoo -->$/q' "$page"
  printf '%s\n' "$tables"
  sed -n '/^<!-- zoo end -->$/,$p' "$page"
} >"$page.new"
mv "$page.new" "$page"
