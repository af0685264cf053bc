#!/usr/bin/env bash
# Checks that every tracked C++ file is formatted as by clang-format (version 14); --fix formats them.
set -euo pipefail
cd "$(dirname "$0")/.."

fix=no
case "${1:-}" in
  '') ;;
  --fix) fix=yes ;;
  *) echo "usage: scripts/check-format.sh [--fix]" >&2; exit 2 ;;
esac

formatter=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$formatter" ]; then
  echo "check-format: error: no clang-format (run scripts/install-deps.sh --ci)" >&2
  exit 1
fi
version=$("$formatter" --version | sed 's/.*version \([0-9]*\).*/\1/')
if [ "$version" != 14 ]; then
  echo "check-format: this is clang-format $version; heed is formatted with 14, and the two may differ" >&2
fi

list_files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z -- '*.h' '*.cpp'
  else
    find include src tests bench examples \( -name '*.h' -o -name '*.cpp' \) -print0
  fi
}
mapfile -d '' -t candidates < <(list_files)
files=()
for file in "${candidates[@]}"; do
  if [ -f "$file" ]; then files+=("$file"); fi  # tracked, but deleted in this tree
done
if [ ${#files[@]} -eq 0 ]; then
  echo "check-format: error: no C++ files found in $PWD" >&2
  exit 1
fi

in_parallel() { printf '%s\0' "${files[@]}" | xargs -0 -n 8 -P "$(nproc)" "$@"; }
if [ $fix = yes ]; then
  in_parallel "$formatter" --style=file -i
else
  # Each batch's findings are printed at once, as file:line, so that batches do not mix.
  # shellcheck disable=SC2016
  in_parallel bash -c '
    formatter=$1; shift
    findings=$("$formatter" --style=file --dry-run -Werror "$@" 2>&1) && exit 0
    grep -o "^[^ :]*:[0-9]*:[0-9]*: error.*" <<<"$findings" | sed "s/:[0-9]*: error.*/: not as clang-format writes it/" | uniq >&2
    exit 1' batch "$formatter" || {
    echo "check-format: error: run make format, and commit what it changes" >&2
    exit 1
  }
fi
echo "check-format: ${#files[@]} files are formatted"
