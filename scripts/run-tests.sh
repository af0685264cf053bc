#!/usr/bin/env bash
# Runs the tests of a preset. Behind ctest's summary it prints what a failed test said, and which tests were skipped and why:
#   scripts/run-tests.sh PRESET [OPTION OF CTEST...]
# The list of the skipped ones is also in build/PRESET/skipped.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: scripts/run-tests.sh PRESET [OPTION OF CTEST...]}
shift
status=0
ctest --preset "$preset" "$@" || status=$?

# One of ctest's tests is many of GoogleTest's, which prints `FILE:LINE: Skipped`, the reason and the test; a script prints
# `skipped: REASON`.
log=build/$preset/Testing/Temporary/LastTest.log skipped=build/$preset/skipped.txt
if [ $status -ne 0 ]; then
  awk '
    /^\[ RUN      \] / { said = "" }
    { said = said $0 "\n" }
    /^\[  FAILED  \] .*\([0-9]+ ms\)$/ { printf "%s\n", said }
  ' "$log" | head -n 400
fi
awk '
  /^[0-9]+\/[0-9]+ Testing: / { test = $3 }
  /: Skipped$/ { reason = ""; reads = 1; next }
  /^\[  SKIPPED \] .*\([0-9]+ ms\)$/ { print "  " $4 ": " reason; reads = 0 }
  /^skipped: / { print "  " test ": " substr($0, 10) }
  reads && NF { reason = reason (reason == "" ? "" : " ") $0 }
' "$log" | sort -u >"$skipped"
if [ -s "$skipped" ]; then
  echo "Skipped:"
  cat "$skipped"
else
  echo "No test was skipped."
fi
exit "$status"
