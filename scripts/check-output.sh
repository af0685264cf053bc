#!/usr/bin/env bash
# Checks that a page shows what a program prints: the ```text blocks of the page, together, against the
# program's output; empty lines do not count.
#   scripts/check-output.sh PAGE PROGRAM [ARGUMENT...]
set -euo pipefail
if [ $# -lt 2 ]; then echo "usage: scripts/check-output.sh PAGE PROGRAM [ARGUMENT...]" >&2; exit 2; fi

page=$1
shift
printed=$("$@")
shown=$(awk '/^```/ { on = $0 == "```text"; next } on' "$page")
if ! diff <(grep -v '^$' <<<"$shown") <(grep -v '^$' <<<"$printed"); then
  echo "check-output: error: $page: expected the output of $1 in its text blocks, got another (< page, > program; correct the page)" >&2
  exit 1
fi
