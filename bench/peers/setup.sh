#!/usr/bin/env bash
# Makes a virtual environment with the other systems (peers), and the random models that heed and the peers run.
#   bench/peers/setup.sh [FOLDER]     default: build/peers
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=${1:-build/peers}
if [ ! -x "$folder/bin/python" ]; then python3 -m venv "$folder"; fi
"$folder/bin/pip" install --quiet --requirement bench/peers/requirements.txt
"$folder/bin/python" bench/peers/prepare.py
echo "Compare with: $folder/bin/python bench/peers/compare.py --list"
