#!/usr/bin/env bash
# Checks that every source has a test: src/MODULE/NAME.cpp needs tests/MODULE/NAME_test.cpp, or a line in
# tests/sources.txt that names tests which exist. Lines that match no source without such a test are errors, and so is a
# test program that no CMakeLists.txt builds.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

errors=0
complain() { echo "check-tests: error: $1" >&2; errors=$((errors + 1)); }

declare -A covered=()
number=0
while IFS= read -r line; do
  number=$((number + 1))
  [[ "$line" == '#'* || -z "$line" ]] && continue
  read -ra tests <<<"${line#*:}"
  [ ${#tests[@]} -gt 0 ] || complain "tests/sources.txt:$number: no test named (SOURCES: TESTS)"
  for test in "${tests[@]}"; do
    [ -f "tests/$test" ] || complain "tests/sources.txt:$number: tests/$test: not found (correct the line)"
  done
  set -f; read -ra globs <<<"${line%%:*}"; set +f
  for glob in "${globs[@]}"; do
    mapfile -t sources < <(compgen -G "src/$glob" || true)
    [ ${#sources[@]} -gt 0 ] || complain "tests/sources.txt:$number: src/$glob: not found (remove it)"
    for source in "${sources[@]}"; do covered[$source]=1; done
  done
done <tests/sources.txt

count=0
while IFS= read -r source; do
  count=$((count + 1))
  module=${source#src/} module=${module%%/*} name=$(basename "$source" .cpp)
  if [ ! -f "tests/$module/${name}_test.cpp" ] && [ -z "${covered[$source]:-}" ]; then
    complain "$source: no test (write tests/$module/${name}_test.cpp, or name its test in tests/sources.txt)"
  fi
done < <(find src -name '*.cpp' | sort)

while IFS= read -r test; do
  grep -qwE "$(basename "$test")|GLOB .* \*_test\.cpp" "$(dirname "$test")/CMakeLists.txt" ||
    complain "$test: not built (add it to $(dirname "$test")/CMakeLists.txt)"
done < <(find tests -name '*_test.cpp' | sort)

if [ $errors -gt 0 ]; then exit 1; fi
echo "check-tests: $count sources have a test"
