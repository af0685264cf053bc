#!/usr/bin/env bash
# Updates the table of modules in docs/architecture.md from src/modules.txt; with --check, compares them instead.
set -euo pipefail
cd "$(dirname "$0")/.."

page=docs/architecture.md
updated=$(
  sed '/^<!-- modules -->$/q' "$page"
  awk -F ' *[|] *' '
    BEGIN { print "| module | may include, besides itself | what it holds |\n|---|---|---|" }
    /^[a-z]/ {
      for (n = split($3, list, " "); n > 0; --n)
        if (sub(/[+]$/, "", list[n])) list[n] = list[n] " and all it may include"
      includes = ""
      for (i = 1; i in list; ++i) includes = includes (i > 1 ? ", " : "") list[i]
      printf "| `%s` | %s | %s%s |\n", $1, includes, $4, $2 == "command" ? ". Not in libheed" : ""
    }' src/modules.txt
  sed -n '/^<!-- end of modules -->$/,$p' "$page"
)
if [ "${1:-}" != --check ]; then
  printf '%s\n' "$updated" >"$page"
elif ! diff -u --label "$page" --label src/modules.txt "$page" <(printf '%s\n' "$updated"); then
  echo "modules-table: error: $page and src/modules.txt differ (run scripts/modules-table.sh)" >&2
  exit 1
fi
