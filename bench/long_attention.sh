#!/usr/bin/env bash
# Measures time and memory of attention for one head of dimension 64, forward and forward + backward, for increasing lengths.
#   bench/long_attention.sh [LENGTH...]     default: 1024 to 65536, doubling
# Appends the reports to bench/long_attention.jsonl, then rewrites the table in docs/performance.md and the charts
# from all reports. Needs build/release configured with -DHEED_BENCH=ON (or BUILD=folder).
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build/release}
if [ $# -eq 0 ]; then set -- 1024 2048 4096 8192 16384 32768 65536; fi
for length in "$@"; do
  repeats=()
  if [ "$length" -ge 32768 ]; then repeats=(--repeats 1); fi
  for backward in '' --backward; do
    "$build/heed" bench attention --json --num-heads 1 --head-dim 64 --length "$length" $backward "${repeats[@]}" |
      tee -a bench/long_attention.jsonl
  done
done
"$build/long_attention" bench/long_attention.jsonl docs/performance.md docs/images
