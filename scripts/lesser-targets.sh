#!/usr/bin/env bash
# Runs the tests of kernels, ops and nn of a build once more for each instruction set that this processor has besides its best
# (HEED_TARGET), two at a time, and prints what each took.
# usage: scripts/lesser-targets.sh FOLDER      (the build folder, such as build/release)
set -euo pipefail
folder=$(realpath "${1:?usage: scripts/lesser-targets.sh FOLDER}")
cd "$folder"
# The names that HEED_TARGET takes here, best first. The first is what every other run uses.
targets=()
for target in amx avx512-vnni avx512 avx2-vnni avx2 portable neon-i8mm neon-dotprod neon; do
  if HEED_TARGET=$target ./heed --version >/dev/null 2>&1; then targets+=("$target"); fi
done
lesser=("${targets[@]:1}")
echo "lesser-targets: ${targets[0]} is the best; ${#lesser[@]} lesser: ${lesser[*]:-none}"

run_tests() {
  local log=lesser-$1-$2.log began=$SECONDS
  # Rates are measured, not computed: two programs at a time disturb them.
  if ! HEED_TARGET=$1 "./heed_$2_test" --gtest_filter=-Machine.NoProductIsFasterThanTheArithmeticRate >"$log" 2>&1; then
    grep -vE '^\[ +(OK|RUN) ' "$log" | tail -n 60
    echo "lesser-targets: $2 on $1: failed (all of it is in $folder/$log)"
    exit 255  # xargs starts no other
  fi
  printf 'lesser-targets: %-12s %-8s %4d tests passed, %3d s\n' "$1" "$2" "$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$log")" $((SECONDS - began))
}
export folder
export -f run_tests
for target in "${lesser[@]}"; do printf "$target %s\n" kernels ops nn; done | xargs -r -P 2 -L 1 bash -c 'run_tests "$@"' lesser
