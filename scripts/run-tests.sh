#!/usr/bin/env bash
# Runs the tests of a preset, and prints what was skipped and why behind ctest's summary:
#   scripts/run-tests.sh PRESET [OPTION OF CTEST...]
# The list is also in build/PRESET/skipped.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: scripts/run-tests.sh PRESET [OPTION OF CTEST...]}
shift
status=0
ctest --preset "$preset" "$@" || status=$?

# From the tests' output: GoogleTest prints `FILE:LINE: Skipped`, the reason and the test; a script prints `skipped: REASON`.
awk '
  /^[0-9]+\/[0-9]+ Testing: / { test = $3 }
  /: Skipped$/ { reason = ""; reads = 1; next }
  /^\[  SKIPPED \] .*\([0-9]+ ms\)$/ { print "  " $4 ": " reason; reads = 0 }
  /^skipped: / { print "  " test ": " substr($0, 10) }
  reads && NF { reason = reason (reason == "" ? "" : " ") $0 }
' "build/$preset/Testing/Temporary/LastTest.log" | sort -u >"build/$preset/skipped.txt"
if [ -s "build/$preset/skipped.txt" ]; then
  echo "Skipped:"
  cat "build/$preset/skipped.txt"
else
  echo "No test was skipped."
fi
exit "$status"
