#!/usr/bin/env bash
# Runs the commands of guides as they are written, each page in a new folder, with the heed that is on the PATH: that of
# `make install`, or another one.
# - A block without a language is commands; in one with `$ `, the lines that begin so are, and the others what they print.
# - `<!-- not run: WHY -->` in the line before a block leaves it out, `<!-- long -->` makes each run of `heed train` in it two steps.
# - FOLDER has files that are there from the start, in place of downloads.
# usage: scripts/check-guides.sh [--given FOLDER] PAGE...
set -euo pipefail
given=
if [ "${1:-}" = --given ]; then given=$(realpath "${2:?}"); shift 2; fi
if [ $# = 0 ]; then echo "usage: scripts/check-guides.sh [--given FOLDER] PAGE..." >&2; exit 2; fi
command -v heed >/dev/null || { echo "check-guides: error: no heed on the PATH (make install, or PATH=build/release:\$PATH)" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The blocks of a page as a program of bash, which says where it ends.
commands_of() {
  echo 'set -eo pipefail; trap '\''echo "check-guides: error: $at: status $?" >&2'\'' ERR'
  awk -v page="$1" '
    function finish() { if (run) printf "at=%s:%d\n%s", page, begin, prompts ? typed : text }
    /^```/ && code { code = 0; finish(); next }
    /^```/ { code = 1; run = $0 == "```" && before !~ /^<!-- not run/; long = before == "<!-- long -->"
             begin = FNR; text = typed = ""; prompts = more = 0; next }
    code && long && /^heed train/ { $0 = $0 " --set train.steps=2 --set train.epochs=0" }
    code { text = text $0 "\n"
           if (more || /^\$ /) { line = $0; if (!more) sub(/^\$ /, "", line); typed = typed line "\n"; prompts = 1; more = line ~ /\\$/ }
           next }
    { before = $0 }' "$1"
}

failed=0 count=0
for page in "$@"; do
  count=$((count + 1))
  mkdir "$folder/$count"
  if [ -n "$given" ]; then cp -r "$given/." "$folder/$count"; fi
  commands_of "$page" >"$folder/$count.sh"
  if ! (cd "$folder/$count" && bash "$folder/$count.sh" >"$folder/$count.log" 2>&1 </dev/null); then
    tail -n 5 "$folder/$count.log" >&2
    failed=1
  fi
done
[ "$failed" = 0 ] && echo "check-guides: the commands of $* run"
exit "$failed"
