#!/usr/bin/env bash
# Writes text on which attention heads learn to copy what followed before (recipes/induction.toml): lines of 10 to 30
# random letters, each written twice in a row.
set -euo pipefail
usage() { echo "usage: scripts/repeated-sequences.sh [LINES] [SEED] > FILE" >&2; exit 2; }
if [ $# -gt 2 ] || [[ "${1:-1}${2:-1}" =~ [^0-9] ]]; then usage; fi
awk -v lines="${1:-40000}" -v seed="${2:-1}" 'BEGIN {
  srand(seed)
  letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
  for (i = 0; i < lines; ++i) {
    length_ = 10 + int(21 * rand())
    line = ""
    for (t = 0; t < length_; ++t) line = line substr(letters, 1 + int(52 * rand()), 1)
    print line line
  }
}'
