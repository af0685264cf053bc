#!/usr/bin/env bash
# Makes a virtual environment with the other systems (peers), and the models and texts that heed and the peers run on
# (~/.cache/heed-bench, 4 GB). Calibrating int8 for OpenVINO takes most of the time.
#   HEED_DATA=... bench/peers/setup.sh [FOLDER [TEXTS]]     default: build/peers, $HEED_DATA/classification/ag_news/test.csv
# TEXTS has at least 2,300 texts: lines, or rows of a CSV file as of AG News. Environment: HEED (build/release/heed).
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=${1:-build/peers}
if [ ! -x "$folder/bin/python" ]; then python3 -m venv "$folder"; fi
"$folder/bin/pip" install --quiet --requirement bench/peers/requirements.txt
"$folder/bin/python" bench/peers/prepare.py --heed "${HEED:-build/release/heed}" ${2:+--texts "$2"}
echo "Compare with: $folder/bin/python bench/peers/compare.py --list"
