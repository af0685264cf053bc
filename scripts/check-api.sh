#!/usr/bin/env bash
# Checks the public headers under a root (default: this tree):
# - heed/heed.h does not lead to a costly header of the standard library (filesystem, iostream, threads, ...);
# - each of its includes is followed by names, and the header behind the include declares them;
# - docs/api.md names every folder of public headers;
# - a program of the front door in examples/ has at most 15 lines.
set -euo pipefail
if [ $# -gt 1 ] || [[ "${1:-}" == -* ]]; then echo "usage: scripts/check-api.sh [ROOT]" >&2; exit 2; fi
cd "${1:-$(dirname "$0")/..}"

costly='filesystem|iostream|fstream|sstream|iomanip|regex|thread|mutex|condition_variable|future|deque|chrono|random|algorithm|ranges'
errors=0
complain() { echo "check-api: error: $1" >&2; errors=$((errors + 1)); }

# The public headers that a header leads to, itself included.
todo=(heed/heed.h)
declare -A reached=()
while [ ${#todo[@]} -gt 0 ]; do
  header=${todo[0]}
  todo=("${todo[@]:1}")
  if [ -n "${reached[$header]:-}" ]; then continue; fi
  reached[$header]=1
  if line=$(grep -nE "^#include <($costly)>" "include/$header"); then
    complain "include/$header:${line%%:*}: ${line#*:} (heed/heed.h leads here; declare forward what it is needed for)"
  fi
  mapfile -t -O ${#todo[@]} todo < <(sed -nE 's/^#include "(heed\/[^"]*)".*/\1/p' "include/$header")
done

while read -r include names; do
  if [ -z "$names" ]; then complain "include/heed/heed.h: $include: expected names behind it (// load, LoadedModel)"; fi
  files="include/$include"
  if [ "$include" = heed/ops.h ]; then files="include/heed/ops/*.h"; fi
  for name in ${names//,/ }; do
    # shellcheck disable=SC2086
    grep -qwE "$name" $files || complain "include/heed/heed.h: $name not found in $include"
  done
done < <(sed -nE 's,^#include "([^"]*)"[ ]*(//)?[ ]*,\1 ,p' include/heed/heed.h)

for folder in include/heed/*/; do
  folder=${folder#include/}
  grep -qF "\`$folder\`" docs/api.md || complain "docs/api.md: $folder not found in it (add it to the table of layers)"
done

for program in generate translate embed classify fill attention_of_heads ablation; do
  lines=$(wc -l < "examples/$program.cpp")
  if [ "$lines" -gt 15 ]; then complain "examples/$program.cpp: expected at most 15 lines, got $lines"; fi
done

if [ $errors -gt 0 ]; then exit 1; fi
echo "check-api: heed/heed.h leads to ${#reached[@]} public headers, and says what they hold"
