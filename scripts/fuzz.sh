#!/usr/bin/env bash
# Runs the fuzzers of a build made with HEED_FUZZ, one on each processor: scripts/fuzz.sh FOLDER SECONDS [READER...]
# Inputs that reach new code are kept in FOLDER/corpus. An input that makes a reader fail is saved in FOLDER and reported.
set -euo pipefail
folder=$(cd "${1:?the build folder}" && pwd) seconds=${2:?seconds for each reader}
root=$(cd "$(dirname "$0")/.." && pwd)
shift 2
readers=("$@")
[ $# -gt 0 ] || for binary in "$folder"/fuzz_*; do [ -x "$binary" ] && readers+=("${binary##*/fuzz_}"); done

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=0}
export folder seconds root
fuzz() {
  local reader=$1 log=$folder/fuzz_$1.log
  mkdir -p "$folder/corpus/$reader"
  if ! (cd "$folder" && "./fuzz_$reader" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 \
        -malloc_limit_mb=256 -max_len=16384 -dict="$root/fuzz/words.dict" -artifact_prefix="$folder/$reader-" \
        -print_final_stats=1 "corpus/$reader" "$root/fuzz/corpus/$reader" >"$log" 2>&1); then
    tail -n 40 "$log"
    echo "fuzz: $reader: failed (the input is the file named above)"
    exit 255  # xargs starts no other
  fi
  printf 'fuzz: %-18s %9s executions\n' "$reader" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
}
export -f fuzz
printf '%s\n' "${readers[@]}" | xargs -P "$(nproc)" -n 1 bash -c 'fuzz "$1"' fuzz
